//! Extents of a dump, stretch by stretch, from the records alone: a restore leaves some as holes,
//! and an exporter can skip them.

use std::collections::VecDeque;

use super::{ReadScratch, Set};
use crate::part::{StretchStorage, fill};

/// Content of a stretch of the dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentContent {
    /// Bytes that are stored.
    Data,
    /// These bytes, repeated from the first on.
    Fill([u8; 8]),
    /// Bytes that cannot be read.
    Lost,
}

/// A stretch of the dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpExtent {
    /// First byte.
    pub start: u64,
    /// End of the stretch.
    pub end: u64,
    /// Content.
    pub content: ExtentContent,
}

/// The extents of a dump in order, without gaps; made by [`Set::extents`].
#[derive(Debug)]
pub struct DumpExtents<'s> {
    set: &'s Set,
    /// Everything before it has been examined.
    at: u64,
    scratch: ReadScratch,
    /// Examined and not returned yet.
    ahead: VecDeque<DumpExtent>,
}

impl Set {
    /// Returns the extents of the dump from its start to its end. Reads header and records of each
    /// segment but no data, so damage to data is not noticed.
    pub fn extents(&self) -> DumpExtents<'_> {
        self.extents_from(0)
    }

    /// As [`Set::extents`], from byte `offset` on.
    pub fn extents_from(&self, offset: u64) -> DumpExtents<'_> {
        DumpExtents { set: self, at: offset, scratch: ReadScratch::default(), ahead: VecDeque::new() }
    }
}

impl DumpExtent {
    /// Returns true if `next`, which begins where this ends, continues it.
    fn goes_on_with(&self, next: &DumpExtent) -> bool {
        match (self.content, next.content) {
            (ExtentContent::Fill(one), ExtentContent::Fill(other)) => turned(one, self.end - self.start) == other,
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

impl DumpExtents<'_> {
    /// Examines the next segment.
    fn look(&mut self) {
        let set = self.set;
        let at = self.at;
        let lost_to = set.origins(at).map(|(number, _)| set.map.get(number).end).chain(set.map.next_start(at)).min();
        let scratch = &mut self.scratch;
        let opened = set.origins(at).find_map(|(number, origin)| set.open_segment(number, origin, scratch).ok());
        let Some(opened) = opened else {
            let end = lost_to.unwrap_or(set.size).min(set.size);
            self.ahead.push_back(DumpExtent { start: at, end, content: ExtentContent::Lost });
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
                StretchStorage::Fill(pattern) => ExtentContent::Fill(turned(pattern, start - stretch.range.start)),
                _ => ExtentContent::Data,
            };
            self.ahead.push_back(DumpExtent { start, end, content });
            self.at = end;
        }
    }
}

impl Iterator for DumpExtents<'_> {
    type Item = DumpExtent;

    fn next(&mut self) -> Option<DumpExtent> {
        let mut extent: Option<DumpExtent> = None;
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
