//! Finds the segments of a part from its front, without an index, for parts that were cut off.

use std::io;
use std::ops::Range;

use packfs_blocks::ReadAt;

use super::flaw::StructureFlaw;
use super::parse::{ParsedSegment, SegmentLengths};
use super::superblock::PartSuperblock;
use crate::format::{ALIGN, sum};

/// Number of bytes examined at once if there is no segment, so that a damaged area takes few reads.
const STRIDE_LEN: usize = 1 << 18;

/// Result of a step of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanStep {
    /// A segment with consistent header and records; its payload is not verified.
    Segment {
        /// Offset in the part.
        position: u64,
        /// Its contents.
        segment: ParsedSegment,
    },
    /// Bytes of the part that belong to no segment, or that the system cannot read.
    Gap(Range<u64>),
}

/// Iterates over the consecutive segments of a part.
#[derive(Debug)]
pub struct SegmentScan<'a> {
    source: &'a dyn ReadAt,
    superblock: &'a PartSuperblock,
    range: Range<u64>,
    bytes: Vec<u8>,
    /// Number of bytes skipped the last time because they cannot be read; 0 if something was read since.
    unread: u64,
    /// Segment found after a gap, not returned yet.
    next: Option<(u64, ParsedSegment)>,
}

impl<'a> SegmentScan<'a> {
    /// Scans `range` of the part, which begins at a multiple of [`ALIGN`].
    pub fn new(source: &'a dyn ReadAt, superblock: &'a PartSuperblock, range: Range<u64>) -> Self {
        let range = range.start..range.end.min(source.len());
        SegmentScan { source, superblock, range, bytes: Vec::new(), unread: 0, next: None }
    }

    /// Scans the whole part after its superblock.
    pub fn whole(source: &'a dyn ReadAt, superblock: &'a PartSuperblock) -> Self {
        SegmentScan::new(source, superblock, ALIGN as u64..u64::MAX)
    }

    fn step(&mut self) -> io::Result<Option<ScanStep>> {
        if let Some((position, segment)) = self.next.take() {
            return Ok(Some(ScanStep::Segment { position, segment }));
        }
        let begin = self.range.start;
        while self.range.start < self.range.end {
            let position = self.range.start;
            let read = read_segment(self.source, self.superblock, position, &mut self.bytes)
                .or_else(|error| StructureFlaw::unreadable("segment", error).map(Err))?;
            if let Ok(segment) = read
                && position.saturating_add(segment.len()) <= self.range.end
            {
                self.range.start = position + segment.len();
                self.unread = 0;
                if begin == position {
                    return Ok(Some(ScanStep::Segment { position, segment }));
                }
                self.next = Some((position, segment));
                return Ok(Some(ScanStep::Gap(begin..position)));
            }
            self.skip(position)?;
        }
        Ok((begin < self.range.end).then_some(ScanStep::Gap(begin..self.range.end)))
    }

    /// Continues at the next offset after `position` at which a segment may begin.
    fn skip(&mut self, position: u64) -> io::Result<()> {
        // Segments begin at multiples of ALIGN, so nothing in between is looked at.
        let from = position.saturating_add(ALIGN as u64);
        self.bytes.resize(STRIDE_LEN, 0);
        let got = match self.source.read_at(&mut self.bytes, from) {
            Ok(got) => got,
            Err(error) => {
                StructureFlaw::unreadable("segment", error)?;
                // Twice as far each time: each read of a dying disk may take seconds.
                self.unread = self.unread.saturating_mul(2).max(STRIDE_LEN as u64);
                self.range.start = from.saturating_add(self.unread).min(self.range.end.max(from));
                return Ok(());
            }
        };
        self.unread = 0;
        let pages = self.bytes[..got].chunks(ALIGN);
        let quiet = pages.take_while(|page| SegmentLengths::peek(page, &self.superblock.set).is_none()).count();
        self.range.start = from.saturating_add((quiet * ALIGN) as u64).min(self.range.end.max(from));
        Ok(())
    }
}

impl Iterator for SegmentScan<'_> {
    type Item = io::Result<ScanStep>;

    fn next(&mut self) -> Option<io::Result<ScanStep>> {
        self.step().transpose()
    }
}

/// Reads header and records of the segment at `position`; `bytes` is scratch. Returns `Ok(Err(..))`
/// if there is none.
pub fn read_segment(
    source: &dyn ReadAt,
    superblock: &PartSuperblock,
    position: u64,
    bytes: &mut Vec<u8>,
) -> io::Result<Result<ParsedSegment, StructureFlaw>> {
    bytes.resize(ALIGN, 0);
    let got = source.read_at(bytes, position)?;
    bytes.truncate(got);
    let Some(lengths) = SegmentLengths::peek(bytes, &superblock.set) else {
        return Ok(Err(StructureFlaw::new("segment", "not a segment of this set")));
    };
    // No memory is allocated for bytes that the part does not have.
    if position.saturating_add(lengths.whole as u64) > source.len() {
        return Ok(Err(StructureFlaw::new("segment", "it is cut off")));
    }
    if lengths.head > bytes.len() {
        bytes.resize(lengths.head, 0);
        source.read_exact_at(bytes, position)?;
    }
    Ok(ParsedSegment::parse(bytes, &superblock.set, superblock.chunk))
}

/// Reads the payload of a segment into `bytes` and returns true if it is intact.
pub fn payload_is_sound(
    source: &dyn ReadAt,
    position: u64,
    segment: &ParsedSegment,
    bytes: &mut Vec<u8>,
) -> io::Result<bool> {
    let len = segment.payload as usize;
    bytes.resize(len, 0);
    let got = source.read_at(bytes, position.saturating_add(segment.head_len.into()))?;
    Ok(got == len && sum(bytes) == segment.payload_sum)
}

#[cfg(test)]
mod tests;
