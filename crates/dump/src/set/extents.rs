//! Extents of a dump, stretch by stretch, from the records alone: a restore leaves some as holes,
//! and an exporter can skip them.

use std::collections::VecDeque;

use super::{Scratch, Set};
use crate::part::{What, fill};

/// Content of a stretch of the dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Bytes that are stored.
    Data,
    /// These bytes, repeated from the first on.
    Fill([u8; 8]),
    /// Bytes that cannot be read.
    Lost,
}

/// A stretch of the dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub start: u64,
    /// End of the stretch.
    pub end: u64,
    /// Content.
    pub content: Content,
}

/// The extents of a dump in order, without gaps; made by [`Set::extents`].
#[derive(Debug)]
pub struct Extents<'s> {
    set: &'s Set,
    /// Everything before it has been examined.
    at: u64,
    scratch: Scratch,
    /// Examined and not returned yet.
    ahead: VecDeque<Extent>,
}

impl Set {
    /// Returns the extents of the dump from its start to its end. Reads header and records of each
    /// segment but no data, so damage to data is not noticed.
    pub fn extents(&self) -> Extents<'_> {
        self.extents_from(0)
    }

    /// As [`Set::extents`], from byte `offset` on.
    pub fn extents_from(&self, offset: u64) -> Extents<'_> {
        Extents { set: self, at: offset, scratch: Scratch::default(), ahead: VecDeque::new() }
    }
}

impl Extent {
    /// Returns true if `next`, which begins where this ends, continues it.
    fn goes_on_with(&self, next: &Extent) -> bool {
        match (self.content, next.content) {
            (Content::Fill(one), Content::Fill(other)) => turned(one, self.end - self.start) == other,
            (one, other) => one == other,
        }
    }
}

/// Rotates a pattern by `skip` bytes.
fn turned(pattern: [u8; 8], skip: u64) -> [u8; 8] {
    let mut turned = [0; 8];
    fill(pattern, skip, &mut turned);
    turned
}

impl Extents<'_> {
    /// Examines the next segment.
    fn look(&mut self) {
        let set = self.set;
        let at = self.at;
        let lost_to = set.origins(at).map(|(number, _)| set.map.get(number).end).chain(set.map.next_start(at)).min();
        let scratch = &mut self.scratch;
        let opened = set.origins(at).find_map(|(number, origin)| set.open_segment(number, origin, scratch).ok());
        let Some(opened) = opened else {
            let end = lost_to.unwrap_or(set.size).min(set.size);
            self.ahead.push_back(Extent { start: at, end, content: Content::Lost });
            self.at = end;
            return;
        };
        for stretch in opened.stretches().iter().filter(|stretch| stretch.range.end > at) {
            let start = stretch.range.start.max(at);
            let end = stretch.range.end.min(set.size);
            if start >= end {
                break;
            }
            let content = match stretch.what {
                What::Fill(pattern) => Content::Fill(turned(pattern, start - stretch.range.start)),
                _ => Content::Data,
            };
            self.ahead.push_back(Extent { start, end, content });
            self.at = end;
        }
    }
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let mut extent: Option<Extent> = None;
        loop {
            if self.ahead.is_empty() && self.at < self.set.size {
                self.look();
            }
            match (&mut extent, self.ahead.front()) {
                (Some(extent), Some(next)) if extent.goes_on_with(next) => extent.end = next.end,
                (None, Some(next)) => extent = Some(*next),
                _ => return extent,
            }
            self.ahead.pop_front();
        }
    }
}
