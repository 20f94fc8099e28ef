//! Finding the segments of a part from its front, without an index: what is left of a part that was cut off.

use std::io;
use std::ops::Range;

use packfs_blocks::ReadAt;

use super::flaw::Flaw;
use super::parse::{Lengths, Segment};
use super::superblock::Super;
use crate::format::{ALIGN, sum};

/// Bytes looked at together where no segment is.
const STRIDE: usize = 1 << 18;

/// What a scan comes upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A segment whose header and records hold together; nothing is said of its payload.
    Segment {
        /// Byte of the part.
        position: u64,
        /// What it says.
        segment: Segment,
    },
    /// Bytes of the part that are no segment.
    Gap(Range<u64>),
}

/// A walk over the segments of a part, one behind the other.
#[derive(Debug)]
pub struct Scan<'a> {
    source: &'a dyn ReadAt,
    superblock: &'a Super,
    range: Range<u64>,
    bytes: Vec<u8>,
    /// Met behind a gap, and still to be given.
    next: Option<(u64, Segment)>,
}

impl<'a> Scan<'a> {
    /// Walks over `range` of the part, which begins with a multiple of [`ALIGN`].
    pub fn new(source: &'a dyn ReadAt, superblock: &'a Super, range: Range<u64>) -> Self {
        let range = range.start..range.end.min(source.len());
        Scan { source, superblock, range, bytes: Vec::new(), next: None }
    }

    /// Walks over all of the part behind its superblock.
    pub fn whole(source: &'a dyn ReadAt, superblock: &'a Super) -> Self {
        Scan::new(source, superblock, ALIGN as u64..u64::MAX)
    }

    fn step(&mut self) -> io::Result<Option<Found>> {
        if let Some((position, segment)) = self.next.take() {
            return Ok(Some(Found::Segment { position, segment }));
        }
        let begin = self.range.start;
        while self.range.start < self.range.end {
            let position = self.range.start;
            if let Ok(segment) = read_segment(self.source, self.superblock, position, &mut self.bytes)?
                && position.saturating_add(segment.len()) <= self.range.end
            {
                self.range.start = position + segment.len();
                if begin == position {
                    return Ok(Some(Found::Segment { position, segment }));
                }
                self.next = Some((position, segment));
                return Ok(Some(Found::Gap(begin..position)));
            }
            self.skip(position)?;
        }
        Ok((begin < self.range.end).then_some(Found::Gap(begin..self.range.end)))
    }

    /// Goes on at the next place behind `position` where a segment may begin.
    fn skip(&mut self, position: u64) -> io::Result<()> {
        let from = position.saturating_add(ALIGN as u64);
        self.bytes.resize(STRIDE, 0);
        let got = self.source.read_at(&mut self.bytes, from)?;
        let pages = self.bytes[..got].chunks(ALIGN);
        let quiet = pages.take_while(|page| Lengths::peek(page, &self.superblock.set).is_none()).count();
        self.range.start = from.saturating_add((quiet * ALIGN) as u64).min(self.range.end.max(from));
        Ok(())
    }
}

impl Iterator for Scan<'_> {
    type Item = io::Result<Found>;

    fn next(&mut self) -> Option<io::Result<Found>> {
        self.step().transpose()
    }
}

/// Reads header and records of the segment at `position`; `bytes` is scratch. `Ok(Err(..))` when there is none.
pub fn read_segment(
    source: &dyn ReadAt,
    superblock: &Super,
    position: u64,
    bytes: &mut Vec<u8>,
) -> io::Result<Result<Segment, Flaw>> {
    bytes.resize(ALIGN, 0);
    let got = source.read_at(bytes, position)?;
    bytes.truncate(got);
    let Some(lengths) = Lengths::peek(bytes, &superblock.set) else {
        return Ok(Err(Flaw::new("segment", "there is none of this set")));
    };
    // What the part does not have is not made room for.
    if position.saturating_add(lengths.whole as u64) > source.len() {
        return Ok(Err(Flaw::new("segment", "it is cut off")));
    }
    if lengths.head > bytes.len() {
        bytes.resize(lengths.head, 0);
        source.read_exact_at(bytes, position)?;
    }
    Ok(Segment::parse(bytes, &superblock.set, superblock.chunk))
}

/// Reads the payload of a segment into `bytes` and says whether it is what it was.
pub fn payload_is_sound(
    source: &dyn ReadAt,
    position: u64,
    segment: &Segment,
    bytes: &mut Vec<u8>,
) -> io::Result<bool> {
    let len = segment.payload as usize;
    bytes.resize(len, 0);
    let got = source.read_at(bytes, position.saturating_add(segment.head_len.into()))?;
    Ok(got == len && sum(bytes) == segment.payload_sum)
}

#[cfg(test)]
mod tests;
