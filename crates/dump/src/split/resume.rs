//! Takes over the parts of an interrupted run: scans them, verifies them from the last checkpoint on.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use packfs_blocks::ReadAt;
use packfs_blocks::io::FileAt;

use super::open::OpenedPart;
use super::part::PartTarget;
use super::report::ChunkBytes;
use crate::format::{ALIGN, MAGIC, PAGE, SEGMENT_MAX, SegmentKind};
use crate::part::{
    ParsedSegment, PartSuperblock, ScanStep, SegmentEntry, SegmentScan, StretchStorage, find_footer, payload_is_sound,
};
use crate::{Error, Result};

/// File systems, volume managers and RAID have their signature within this many bytes; the farthest is that of
/// Btrfs, at 64 KiB.
const BLANK_LEN: usize = 1 << 20;

/// Results of earlier runs.
#[derive(Debug)]
pub(super) struct ResumedSet {
    /// The superblock, as its first part has it.
    pub(super) superblock: PartSuperblock,
    /// State of each part, in the order of the given paths.
    pub(super) parts: Vec<PartStart>,
    /// Ranges of the dump that are already stored, in order and disjoint.
    pub(super) covered: Vec<Range<u64>>,
    /// Statistics of their chunks.
    pub(super) chunks: ChunkBytes,
    /// First unused stripe number.
    pub(super) next_stripe: u64,
    /// True if all parts have their trailer and say that the set is complete.
    pub(super) finished: bool,
}

/// State of an existing part.
#[derive(Debug, Clone)]
pub(super) struct PartStart {
    /// Its number.
    pub(super) number: u16,
    /// Offset at which to continue; 0 for one without a superblock.
    pub(super) position: u64,
    pub(super) index: Vec<SegmentEntry>,
}

/// Examines the parts. `wanted` is the superblock that a new set would have. Returns `None` if no part was begun.
pub(super) fn examine(opened: &[OpenedPart], wanted: &PartSuperblock) -> Result<Option<ResumedSet>> {
    let mut found = Vec::new();
    for part in opened {
        found.push(begun(part)?);
    }
    let Some(superblock) = found.iter().flatten().next().map(|(superblock, _)| superblock.clone()) else {
        return Ok(None);
    };
    same_work(&superblock, wanted)?;
    let numbers = number(opened, &found, &superblock)?;
    let mut parts = Vec::new();
    let mut finished = true;
    let mut stripes = FoundStripes::default();
    for ((part, found), number) in opened.iter().zip(&found).zip(numbers) {
        let mut position = 0;
        let mut kept = Vec::new();
        match found {
            Some((superblock, source)) => {
                let foot = find_footer(source, superblock).map_err(Error::io("cannot read", &part.path))?;
                // What a device has behind its index was given up with a failed run, and no reader looks at it.
                let to = foot.as_ref().map_or(u64::MAX, |(_, foot)| foot.index);
                (position, kept) = scan(part, superblock, source, to)?;
                finished &= foot.is_some_and(|(_, foot)| foot.complete);
            }
            None => finished = false,
        }
        stripes.add(number, &kept);
        let index = kept.into_iter().map(|(entry, _)| entry).collect();
        parts.push(PartStart { number, position, index });
    }
    let (covered, chunks) = stripes.covered(superblock.parity);
    Ok(Some(ResumedSet { superblock, parts, covered, chunks, next_stripe: stripes.next, finished }))
}

/// Returns the superblock of a part, if it was begun.
fn begun(part: &OpenedPart) -> Result<Option<(PartSuperblock, FileAt)>> {
    if part.sink == PartTarget::Pipe {
        let why = "data sent through a pipe cannot be read back; only files and devices can be resumed";
        return Err(Error::unsuitable(&part.path, why));
    }
    let source = FileAt::open(&part.path, 0).map_err(Error::io("cannot open", &part.path))?;
    let mut bytes = vec![0; ALIGN];
    let got = source.read_at(&mut bytes, 0).map_err(Error::io("cannot read", &part.path))?;
    // A file that was created and never written to; but somebody else's short file must not be overwritten.
    let magic = got.min(MAGIC.len());
    if got < ALIGN && bytes[..magic] == MAGIC[..magic] {
        return Ok(None);
    }
    // A device has its length from the start.
    if part.sink == PartTarget::Device && is_blank(&source).map_err(Error::io("cannot read", &part.path))? {
        return Ok(None);
    }
    bytes.truncate(got);
    let superblock = PartSuperblock::parse(&bytes).map_err(|flaw| flaw.at(&part.path, 0))?;
    Ok(Some((superblock, source)))
}

/// Returns true if a device begins with so many zeros that no file system or similar user can be on it.
fn is_blank(source: &FileAt) -> io::Result<bool> {
    let mut bytes = vec![0; BLANK_LEN];
    let got = source.read_at(&mut bytes, 0)?;
    Ok(bytes[..got].iter().all(|byte| *byte == 0))
}

/// Refuses to continue with another input or other settings.
fn same_work(found: &PartSuperblock, wanted: &PartSuperblock) -> Result<()> {
    let differs = |what: &str, found: String, wanted: String| {
        Err(Error::NotResumable(format!("the parts were begun with {what} {found}, but now it is {wanted}")))
    };
    if (found.size, found.input) != (wanted.size, wanted.input) {
        let why = "the input is not the one that the parts were begun with, or has changed since";
        return Err(Error::NotResumable(why.to_owned()));
    }
    if found.parts != wanted.parts {
        return differs("this number of parts:", found.parts.to_string(), wanted.parts.to_string());
    }
    if found.parity != wanted.parity {
        return differs("parity", found.parity.to_string(), wanted.parity.to_string());
    }
    if found.chunk != wanted.chunk {
        return differs("chunks of", found.chunk.to_string(), wanted.chunk.to_string());
    }
    if found.codec != wanted.codec {
        return differs("codec", found.codec.to_string(), wanted.codec.to_string());
    }
    Ok(())
}

/// Returns the numbers of the parts; those not begun get the unused numbers.
fn number(
    opened: &[OpenedPart],
    found: &[Option<(PartSuperblock, FileAt)>],
    first: &PartSuperblock,
) -> Result<Vec<u16>> {
    let mut free: Vec<u16> = (0..first.parts).rev().collect();
    for (part, found) in opened.iter().zip(found) {
        let Some((superblock, _)) = found else { continue };
        if !superblock.is_of_the_set_of(first) {
            return Err(Error::unsuitable(&part.path, "a part of another set"));
        }
        let Some(at) = free.iter().position(|number| *number == superblock.part) else {
            let why = format!("a copy of part {}, which is already given", superblock.part);
            return Err(Error::unsuitable(&part.path, why));
        };
        free.remove(at);
    }
    let number = |found: &Option<(PartSuperblock, FileAt)>| match found {
        Some((superblock, _)) => Some(superblock.part),
        None => free.pop(),
    };
    Ok(found.iter().filter_map(number).collect())
}

/// Returns the good segments of a part before byte `to` with the types of their chunks, and the end of the last one.
fn scan(
    part: &OpenedPart,
    superblock: &PartSuperblock,
    source: &FileAt,
    to: u64,
) -> Result<(u64, Vec<(SegmentEntry, ChunkBytes)>)> {
    let io = |error| Error::io("cannot read", &part.path)(error);
    let mut segments = Vec::new();
    let mut position = ALIGN as u64;
    // On a device, the area far after the last segment is not searched.
    while let Some((at, mut segment)) = next(source, superblock, position..to).map_err(io)? {
        position = at + segment.len();
        let chunks = chunks(source, at, &segment).map_err(io)?;
        // Only lengths and sums are needed from here on: the records of a terabyte take hundreds of megabytes.
        segment.stretches = Vec::new();
        segment.shards = Vec::new();
        segments.push((at, segment, chunks));
    }
    // Everything before the last checkpoint was flushed before that was written, so it needs no verification.
    let safe = segments.iter().rposition(|(_, segment, _)| segment.head.kind == SegmentKind::Checkpoint).unwrap_or(0);
    let mut end = ALIGN as u64;
    let mut kept = Vec::new();
    let mut bytes = Vec::new();
    for (n, (position, segment, chunks)) in segments.iter().enumerate() {
        // An index belongs to a trailer, which is written anew.
        if segment.head.kind == SegmentKind::Index {
            continue;
        }
        if n >= safe && !payload_is_sound(source, *position, segment, &mut bytes).map_err(io)? {
            // Nothing behind it is kept: a checkpoint written later would vouch for it.
            break;
        }
        end = position + segment.len();
        let len = u32::try_from(segment.len()).unwrap_or(SEGMENT_MAX);
        kept.push((SegmentEntry { position: *position, len, head: segment.head }, *chunks));
    }
    Ok((end, kept))
}

/// Returns the types of the chunks of a segment.
fn chunks(source: &FileAt, position: u64, segment: &ParsedSegment) -> std::io::Result<ChunkBytes> {
    let mut chunks = ChunkBytes::default();
    match segment.head.kind {
        SegmentKind::Data => chunks.segment_bytes = segment.len(),
        SegmentKind::Parity => chunks.parity_bytes = segment.len(),
        _ => {}
    }
    let mut map = Vec::new();
    for stretch in &segment.stretches {
        let len = stretch.range.end - stretch.range.start;
        match &stretch.what {
            StretchStorage::Fill(_) => chunks.fill_bytes += len,
            StretchStorage::Same { .. } => chunks.same_bytes += len,
            StretchStorage::Stored { payload, coded, squeezed } => {
                map.clear();
                if *squeezed {
                    map.resize(usize::try_from(len).unwrap_or(usize::MAX).div_ceil(PAGE).div_ceil(8), 0);
                    let at = position + u64::from(segment.head_len) + u64::from(payload.start);
                    // A truncated map is damage, which is reported when the chunk is read.
                    let _ = source.read_at(&mut map, at)?;
                }
                chunks.add_stored(len, *coded, &map);
            }
        }
    }
    Ok(chunks)
}

fn next(
    source: &FileAt,
    superblock: &PartSuperblock,
    range: Range<u64>,
) -> std::io::Result<Option<(u64, ParsedSegment)>> {
    // Far enough to pass one segment that is torn.
    let to = range.start.saturating_add(2 * u64::from(SEGMENT_MAX));
    for found in SegmentScan::new(source, superblock, range.start..to.min(range.end)) {
        if let ScanStep::Segment { position, segment } = found? {
            return Ok(Some((position, segment)));
        }
    }
    Ok(None)
}

/// Stripes by number: their segments in all parts.
#[derive(Debug, Default)]
struct FoundStripes {
    found: HashMap<u64, FoundStripe>,
    next: u64,
}

#[derive(Debug, Default)]
struct FoundStripe {
    shards: u128,
    /// Parts that have some of them, one bit each.
    parts: u128,
    /// Number of its segments, and how many of them are parity.
    wanted: u16,
    parity: u16,
    ranges: Vec<Range<u64>>,
    chunks: ChunkBytes,
}

impl FoundStripe {
    /// Returns true if any `parity` parts may be lost. A run whose parts failed may have left too little parity, or two
    /// segments in one part.
    fn is_protected(&self, parity: u16) -> bool {
        let is_whole = self.shards.count_ones() == u32::from(self.wanted);
        is_whole && self.parts.count_ones() >= u32::from(self.wanted) && self.parity >= parity
    }
}

impl FoundStripes {
    /// Adds the segments of part number `part`.
    fn add(&mut self, part: u16, kept: &[(SegmentEntry, ChunkBytes)]) {
        for (SegmentEntry { head, .. }, chunks) in kept {
            if !matches!(head.kind, SegmentKind::Data | SegmentKind::Parity) {
                continue;
            }
            self.next = self.next.max(head.stripe.saturating_add(1));
            let stripe = self.found.entry(head.stripe).or_default();
            // In a damaged part the number may be anything.
            stripe.shards |= 1u128.checked_shl(head.shard.into()).unwrap_or(0);
            stripe.parts |= 1u128.checked_shl(part.into()).unwrap_or(0);
            stripe.wanted = head.data + head.parity;
            stripe.parity = head.parity;
            stripe.chunks += *chunks;
            if head.kind == SegmentKind::Data {
                stripe.ranges.push(head.start..head.end);
            }
        }
    }

    /// Returns the ranges covered by complete stripes that protect from the loss of `parity` parts, and their contents.
    /// Other stripes lack the requested protection, and are written again.
    fn covered(&self, parity: u16) -> (Vec<Range<u64>>, ChunkBytes) {
        let whole = self.found.values().filter(|stripe| stripe.is_protected(parity));
        let mut ranges = Vec::new();
        let mut chunks = ChunkBytes::default();
        for stripe in whole {
            ranges.extend(stripe.ranges.iter().cloned());
            chunks += stripe.chunks;
        }
        ranges.sort_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        (merged, chunks)
    }
}

/// Returns the ranges of `0..size` without `covered`, which is in order and disjoint.
pub(super) fn missing(covered: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    let mut at = 0;
    let mut missing = Vec::new();
    for range in covered.iter().chain([&(size..size)]) {
        if at < range.start.min(size) {
            missing.push(at..range.start.min(size));
        }
        at = at.max(range.end);
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::SegmentHead;

    fn entry(stripe: u64, shard: u16, range: Range<u64>) -> (SegmentEntry, ChunkBytes) {
        let kind = if shard < 2 { SegmentKind::Data } else { SegmentKind::Parity };
        let head = SegmentHead { kind, stripe, shard, data: 2, parity: 1, start: range.start, end: range.end };
        let raw_bytes = if shard < 2 { range.end - range.start } else { 0 };
        (SegmentEntry { position: 4096, len: 4096, head }, ChunkBytes { raw_bytes, ..ChunkBytes::default() })
    }

    #[test]
    fn only_whole_and_protected_stripes_count() {
        let mut stripes = FoundStripes::default();
        // Stripe 1 lacks a segment, and two of stripe 3 are in one part.
        stripes.add(0, &[entry(0, 0, 0..10), entry(1, 1, 30..40), entry(2, 0, 40..50), entry(3, 0, 60..70)]);
        stripes.add(1, &[entry(0, 1, 10..20), entry(1, 2, 20..40), entry(2, 1, 50..60)]);
        stripes.add(2, &[entry(0, 2, 0..20), entry(2, 2, 40..60), entry(3, 1, 70..80), entry(3, 2, 60..80)]);
        assert_eq!(stripes.covered(1), (vec![0..20, 40..60], ChunkBytes { raw_bytes: 40, ..ChunkBytes::default() }));
        assert_eq!(stripes.covered(2), (Vec::new(), ChunkBytes::default()));
        assert_eq!(stripes.next, 4);
    }

    #[test]
    fn missing_ranges_are_those_not_covered() {
        assert_eq!(missing(&[], 10).first(), Some(&(0..10)));
        assert_eq!(missing(&[], 0), Vec::<Range<u64>>::new());
        assert_eq!(missing(&[2..4, 6..20], 10), [0..2, 4..6]);
        assert_eq!(missing(&[0..4, 5..10], 12), [4..5, 10..12]);
    }
}
