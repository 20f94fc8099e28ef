//! Reads bytes of the dump from any segment that contains and verifies them: first one in a part,
//! then one in a stripe.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::ReadAt;

use super::map::{ABSENT, DAMAGED, HOPELESS, RESTORED, SOUND, SegmentNumber, SegmentPlace};
use super::{LostRange, Set};
use crate::format::{self, PAGE, SegmentKind};
use crate::part::{
    ChunkDecoder, DumpStretch, ParsedSegment, StretchStorage, StructureFlaw, fill, payload_is_sound, read_segment,
};
use crate::{Error, Result};

/// Number of payload bytes read at once when a segment is read in order.
const READ_AHEAD_LEN: usize = 512 << 10;

/// Source of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentOrigin {
    Part,
    Stripe,
}

/// Bytes of a stretch of the dump, as passed on.
#[derive(Debug)]
pub(crate) enum DumpBytes<'a> {
    /// These bytes.
    Data(&'a [u8]),
    /// Number of bytes that repeat the eight of the pattern; `skip` of these came before the first.
    Fill { pattern: [u8; 8], skip: u64, len: u64 },
}

impl DumpBytes<'_> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            DumpBytes::Data(bytes) => bytes.len() as u64,
            DumpBytes::Fill { len, .. } => *len,
        }
    }
}

/// Receives stretches of the dump with their offsets.
pub(crate) type TakeBytes<'t> = dyn FnMut(u64, DumpBytes<'_>) -> Result<()> + 't;

/// Per-thread state of a reader: a decoder and buffers.
#[derive(Debug, Default)]
pub(crate) struct ReadScratch {
    decoder: Option<ChunkDecoder>,
    /// True if chunks go through the cache of the set, as they will be needed again.
    cached: bool,
    /// The segment used last.
    opened: Option<Arc<OpenedSegment>>,
    head: Vec<u8>,
    chunk: Vec<u8>,
    stored: StoredPayload,
}

/// A data segment that is being read.
#[derive(Debug)]
pub(super) struct OpenedSegment {
    pub(super) number: SegmentNumber,
    pub(super) origin: SegmentOrigin,
    pub(super) segment: ParsedSegment,
    /// All its bytes, if they are in memory.
    pub(super) bytes: Option<Arc<[u8]>>,
}

/// Payload bytes of a segment that were read at once.
#[derive(Debug, Default)]
struct StoredPayload {
    of: Option<(SegmentNumber, SegmentOrigin)>,
    at: usize,
    bytes: Vec<u8>,
}

impl OpenedSegment {
    pub(super) fn stretches(&self) -> &[DumpStretch] {
        &self.segment.stretches
    }
}

/// Reason why a stretch was not passed on.
enum WalkStop {
    /// The receiver failed.
    Taker(Error),
    /// The bytes are missing or damaged.
    Source(Error),
}

type WalkResult = std::result::Result<(), WalkStop>;

/// State of reading one segment.
pub(super) struct SegmentRun<'r> {
    pub(super) opened: &'r OpenedSegment,
    /// The requested range of the dump.
    pub(super) wanted: Range<u64>,
    /// True if chunks may be read from elsewhere in the dump.
    pub(super) same: bool,
}

impl Set {
    /// Passes on the bytes of `range` in order. Bytes that no part contains, or that do not verify
    /// and that no stripe restores, are left out; their ranges are returned.
    pub(crate) fn walk(
        &self,
        range: Range<u64>,
        scratch: &mut ReadScratch,
        take: &mut TakeBytes<'_>,
    ) -> Result<Vec<LostRange>> {
        let mut lost = Vec::new();
        let mut at = range.start;
        while at < range.end {
            match self.step(at..range.end, scratch, true, take)? {
                Ok(reached) => at = reached,
                Err(missing) => {
                    at = missing.end;
                    LostRange::push(&mut lost, missing);
                }
            }
        }
        Ok(lost)
    }

    /// Passes on the bytes that one segment provides from the beginning of `range`, and returns
    /// where they end; or returns the lost range.
    fn step(
        &self,
        range: Range<u64>,
        scratch: &mut ReadScratch,
        same: bool,
        take: &mut TakeBytes<'_>,
    ) -> Result<std::result::Result<u64, LostRange>> {
        let at = range.start;
        // What no segment contains is lost up to the next one that begins.
        let mut end = self.map.next_start(at).unwrap_or(range.end).min(range.end);
        let mut failed = None;
        // A later source is a second chance: the same bytes may be in another segment, or be restored.
        for (number, origin) in self.origins(at) {
            let place = self.map.get(number);
            let opened = match self.open_segment(number, origin, scratch) {
                Ok(opened) => opened,
                Err(error) => {
                    end = end.min(place.end);
                    failed.get_or_insert(error);
                    continue;
                }
            };
            let run = SegmentRun { opened: &opened, wanted: at..range.end.min(place.end), same };
            let mut reached = at;
            let ran = self.run(&run, scratch, &mut |offset, bytes| {
                let len = bytes.len();
                take(offset, bytes)?;
                reached = offset + len;
                Ok(())
            });
            match ran {
                Err(WalkStop::Taker(error)) => return Err(error),
                // Something was passed on, so go on from there, and find again who has what comes after it.
                _ if reached > at => return Ok(Ok(reached)),
                Ok(()) => {}
                Err(WalkStop::Source(error)) => {
                    // Another segment may contain the bytes after the stretch that failed.
                    let stretches = &opened.segment.stretches;
                    end =
                        end.min(stretches.get(stretch_at(stretches, at)).map_or(place.end, |failed| failed.range.end));
                    // The first source is the best one, so its error explains most.
                    failed.get_or_insert(error);
                }
            }
        }
        let why = match failed {
            Some(Error::Lost { why, .. }) => why,
            Some(error) => error.to_string(),
            None => self.why_missing(),
        };
        Ok(Err(LostRange { start: at, end, why }))
    }

    /// Returns the sources of byte `at`, the most promising first.
    pub(super) fn origins(&self, at: u64) -> impl Iterator<Item = (SegmentNumber, SegmentOrigin)> + '_ {
        // What is in a part is read at once; a stripe costs reading all its other segments.
        let parts = self.map.at(at).filter(|n| self.map.get(*n).part != ABSENT);
        let stripes = self.map.at(at).filter(|n| self.map.get(*n).parity > 0 && !self.map.is(*n, HOPELESS));
        parts.map(|n| (n, SegmentOrigin::Part)).chain(stripes.map(|n| (n, SegmentOrigin::Stripe)))
    }

    /// Reads header and records of a data segment.
    pub(super) fn open_segment(
        &self,
        number: SegmentNumber,
        origin: SegmentOrigin,
        scratch: &mut ReadScratch,
    ) -> Result<Arc<OpenedSegment>> {
        // Most reads go on in the segment of the read before.
        if let Some(opened) = scratch.opened.as_ref().filter(|last| (last.number, last.origin) == (number, origin)) {
            return Ok(Arc::clone(opened));
        }
        let place = self.map.get(number);
        let (segment, bytes) = match origin {
            SegmentOrigin::Part => {
                let read = self.read_head_with(&place, SegmentKind::Data, &mut scratch.head);
                // So that its stripe is asked without this segment as one of its sources.
                (read.inspect_err(|_| self.map.mark(number, DAMAGED))?, None)
            }
            SegmentOrigin::Stripe => {
                let restored = self.restored(number).and_then(|bytes| {
                    let segment = ParsedSegment::parse(&bytes, &self.superblock.set, self.superblock.chunk);
                    let segment = segment.and_then(|segment| agrees(segment, &place, SegmentKind::Data));
                    Ok((segment.map_err(|flaw| flaw.why)?, Some(bytes)))
                });
                let restored = restored.map_err(|why| {
                    // Otherwise each further read of its range would restore the whole stripe again, in vain.
                    self.map.mark(number, HOPELESS);
                    Error::Lost { start: place.start, end: place.end, why }
                })?;
                self.map.mark(number, RESTORED);
                restored
            }
        };
        let opened = Arc::new(OpenedSegment { number, origin, segment, bytes });
        scratch.opened = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Reads header and records of a segment in a part.
    pub(super) fn read_head(&self, place: &SegmentPlace, kind: SegmentKind) -> Result<ParsedSegment> {
        self.read_head_with(place, kind, &mut Vec::new())
    }

    fn read_head_with(&self, place: &SegmentPlace, kind: SegmentKind, bytes: &mut Vec<u8>) -> Result<ParsedSegment> {
        let part = &self.parts[usize::from(place.part)];
        let read = read_segment(&part.source, &self.superblock, place.position, bytes);
        let read = read.map_err(Error::io("cannot read", &part.path))?;
        read.and_then(|segment| agrees(segment, place, kind)).map_err(|flaw| flaw.at(&part.path, place.position))
    }

    fn run(&self, run: &SegmentRun<'_>, scratch: &mut ReadScratch, take: &mut TakeBytes<'_>) -> WalkResult {
        let stretches = &run.opened.segment.stretches;
        let first = stretch_at(stretches, run.wanted.start);
        for (index, stretch) in stretches.iter().enumerate().skip(first) {
            if stretch.range.start >= run.wanted.end {
                break;
            }
            self.stretch(run, index, stretch, scratch, take)?;
        }
        Ok(())
    }

    /// Passes on the requested bytes of one stretch.
    fn stretch(
        &self,
        run: &SegmentRun<'_>,
        index: usize,
        stretch: &DumpStretch,
        scratch: &mut ReadScratch,
        take: &mut TakeBytes<'_>,
    ) -> WalkResult {
        let begin = stretch.range.start;
        let start = begin.max(run.wanted.start);
        let end = stretch.range.end.min(run.wanted.end);
        // Without a buffer: a fill may be longer than memory.
        if let StretchStorage::Fill(pattern) = stretch.what {
            return take(start, DumpBytes::Fill { pattern, skip: start - begin, len: end - start })
                .map_err(WalkStop::Taker);
        }
        // Checked when it was parsed: at most a chunk.
        let len = distance(begin, stretch.range.end);
        let wanted = distance(begin, start)..distance(begin, end);
        if scratch.cached && matches!(stretch.what, StretchStorage::Stored { .. }) {
            // Records are numbered within a segment, and there are fewer of them than fit 32 bits.
            let key = (run.opened.number, u32::try_from(index).unwrap_or(u32::MAX));
            let chunk = self.chunks.get(key, || {
                let mut chunk = vec![0; len];
                self.chunk(run, stretch, scratch, &mut chunk).map(|()| chunk.into())
            });
            return take(start, DumpBytes::Data(&chunk.map_err(WalkStop::Source)?[wanted])).map_err(WalkStop::Taker);
        }
        let mut chunk = std::mem::take(&mut scratch.chunk);
        chunk.resize(len, 0);
        let read = self.chunk(run, stretch, scratch, &mut chunk).map_err(WalkStop::Source);
        let taken = read.and_then(|()| {
            let taken = match &stretch.what {
                // Only where all pages of the chunk are wanted: then its own bitmap says which of them are
                // zeros.
                StretchStorage::Stored { payload, squeezed: true, .. } if wanted == (0..len) => {
                    spread(begin, &chunk, scratch.stored.slice(payload), take)
                }
                _ => take(start, DumpBytes::Data(&chunk[wanted])),
            };
            taken.map_err(WalkStop::Taker)
        });
        scratch.chunk = chunk;
        taken
    }

    /// Fills `chunk`, which is as long as the stretch, and verifies it.
    pub(super) fn chunk(
        &self,
        run: &SegmentRun<'_>,
        stretch: &DumpStretch,
        scratch: &mut ReadScratch,
        chunk: &mut [u8],
    ) -> Result<()> {
        // Chunks that references ask for are scattered, so what follows them is not worth reading.
        let ahead = if scratch.cached { 0 } else { READ_AHEAD_LEN };
        let read = match &stretch.what {
            StretchStorage::Fill(pattern) => {
                fill(*pattern, 0, chunk);
                return Ok(());
            }
            StretchStorage::Same { payload } => {
                let stored = scratch.stored.read(self, run, payload, ahead);
                let read = stored.and_then(|stored| self.same(run, stretch, stored, chunk));
                // A reference can fail through no fault of its own segment, so that is not marked damaged
                // unread.
                return read.inspect_err(|_| self.doubt(run.opened));
            }
            StretchStorage::Stored { payload, coded, squeezed } => {
                if scratch.decoder.is_none() {
                    scratch.decoder = Some(ChunkDecoder::new(self.superblock.codec.codec())?);
                }
                let stored = scratch.stored.read(self, run, payload, ahead);
                let at = u64::from(run.opened.segment.head_len) + u64::from(payload.start);
                stored.and_then(|stored| match &mut scratch.decoder {
                    Some(decoder) => decoder
                        .decode(stored, *coded, *squeezed, stretch.sum, chunk)
                        .map_err(|why| self.flawed(run, "chunk", at, why)),
                    None => Ok(()),
                })
            }
        };
        if read.is_err() && run.opened.origin == SegmentOrigin::Part {
            self.map.mark(run.opened.number, DAMAGED);
        }
        read
    }

    /// Records that a reference failed: because of its own defect, which its stripe can repair, or
    /// one of its target.
    fn doubt(&self, opened: &OpenedSegment) {
        let number = opened.number;
        let place = self.map.get(opened.number);
        // Already decided. Checking it again would read the whole payload for every reference that fails.
        if opened.origin == SegmentOrigin::Stripe || self.map.is(number, DAMAGED) || self.map.is(number, SOUND) {
            return;
        }
        let source = &self.parts[usize::from(place.part)].source;
        let sound = payload_is_sound(source, place.position, &opened.segment, &mut Vec::new());
        self.map.mark(number, if sound.is_ok_and(|sound| sound) { SOUND } else { DAMAGED });
    }

    /// Makes an error about byte `at` of a segment.
    fn flawed(&self, run: &SegmentRun<'_>, structure: &'static str, at: u64, why: String) -> Error {
        let place = self.map.get(run.opened.number);
        match (run.opened.origin, self.parts.get(usize::from(place.part))) {
            (SegmentOrigin::Part, Some(part)) => StructureFlaw::new(structure, why).at(&part.path, place.position + at),
            _ => Error::Lost { start: place.start, end: place.end, why },
        }
    }

    /// Reads a chunk that equals earlier bytes of the dump.
    fn same(&self, run: &SegmentRun<'_>, stretch: &DumpStretch, stored: &[u8], chunk: &mut [u8]) -> Result<()> {
        let lost = |why: String| Error::Lost { start: stretch.range.start, end: stretch.range.end, why };
        // The writer refers only to stored chunks. Following chains would let a crafted set recurse without
        // end.
        if !run.same {
            return Err(lost("it refers to bytes that are a reference themselves".into()));
        }
        // Its target is checked with the rest, as its payload is now at hand.
        let reference = DumpStretch { what: StretchStorage::Same { payload: 0..8 }, ..stretch.clone() };
        let target = reference.target(stored).map_err(|flaw| lost(flaw.why))?;
        // A reader state of its own: that of the caller holds the reference that is being read.
        self.with_scratch(|scratch| self.fill(target, chunk, scratch, false))?;
        match format::sum(chunk) == stretch.sum {
            true => Ok(()),
            false => Err(lost(format!("it refers to byte {target}, and its checksum does not match"))),
        }
    }

    /// Fills `buf` with the bytes at `offset`; unless `same`, none of them may be a reference.
    fn fill(&self, offset: u64, buf: &mut [u8], scratch: &mut ReadScratch, same: bool) -> Result<()> {
        let end = offset.saturating_add(buf.len() as u64);
        let mut at = offset;
        while at < end {
            let step = self.step(at..end, scratch, same, &mut |from, bytes| {
                let buf = &mut buf[distance(offset, from)..];
                match bytes {
                    DumpBytes::Data(bytes) => buf[..bytes.len()].copy_from_slice(bytes),
                    DumpBytes::Fill { pattern, skip, len } => fill(pattern, skip, &mut buf[..distance(0, len)]),
                }
                Ok(())
            })?;
            at = step.map_err(|lost| Error::Lost { start: lost.start, end: lost.end, why: lost.why })?;
        }
        Ok(())
    }

    /// Lends a reader state whose chunks are cached.
    fn with_scratch<T>(&self, work: impl FnOnce(&mut ReadScratch) -> T) -> T {
        self.scratch.lend(|| ReadScratch { cached: true, ..ReadScratch::default() }, work)
    }

    /// Fills `buf` with bytes of a segment's payload.
    fn payload(&self, opened: &OpenedSegment, from: usize, buf: &mut [u8]) -> Result<()> {
        let place = self.map.get(opened.number);
        let from = opened.segment.head_len as usize + from;
        let Some(bytes) = &opened.bytes else {
            let part = &self.parts[usize::from(place.part)];
            let read = part.source.read_exact_at(buf, place.position + from as u64);
            return read.map_err(Error::io("cannot read", &part.path));
        };
        let lost =
            || Error::Lost { start: place.start, end: place.end, why: "its stripe restores too few bytes".into() };
        buf.copy_from_slice(bytes.get(from..from + buf.len()).ok_or_else(lost)?);
        Ok(())
    }
}

/// Checks that the header agrees with the map.
fn agrees(
    segment: ParsedSegment,
    place: &SegmentPlace,
    kind: SegmentKind,
) -> std::result::Result<ParsedSegment, StructureFlaw> {
    let head = &segment.head;
    // So that a valid segment of another place is not taken for this one.
    let same = head.kind == kind
        && (head.start, head.end) == (place.start, place.end)
        && (head.stripe, head.shard) == (place.stripe, place.shard)
        && segment.len() == u64::from(place.len);
    match same {
        true => Ok(segment),
        false => Err(StructureFlaw::new("segment", "it is not the one in the index or its stripe")),
    }
}

/// Returns the stretch of a segment that contains byte `at`, which is in the segment.
fn stretch_at(stretches: &[DumpStretch], at: u64) -> usize {
    stretches.partition_point(|stretch| stretch.range.end <= at)
}

/// Returns the distance of two bytes in one buffer.
fn distance(from: u64, to: u64) -> usize {
    // Too large for a buffer is caught by indexing, where nothing so large exists.
    usize::try_from(to - from).unwrap_or(usize::MAX)
}

/// Passes on a squeezed chunk as stored pages and zeros.
fn spread(begin: u64, chunk: &[u8], map: &[u8], take: &mut TakeBytes<'_>) -> Result<()> {
    let is_there = |page: usize| map.get(page / 8).is_some_and(|bits| bits >> (page % 8) & 1 == 1);
    let pages = chunk.len().div_ceil(PAGE);
    let mut page = 0;
    while page < pages {
        let there = is_there(page);
        // Runs of pages, so that the receiver gets few long stretches.
        let run = (page..pages).take_while(|page| is_there(*page) == there).count();
        let bytes = page * PAGE..chunk.len().min((page + run) * PAGE);
        let at = begin + bytes.start as u64;
        let len = bytes.len() as u64;
        match there {
            true => take(at, DumpBytes::Data(&chunk[bytes]))?,
            false => take(at, DumpBytes::Fill { pattern: [0; 8], skip: 0, len })?,
        }
        page += run;
    }
    Ok(())
}

impl StoredPayload {
    /// Returns the bytes `range` of a segment's payload, read together with up to `ahead` bytes from there on.
    fn read(&mut self, set: &Set, run: &SegmentRun<'_>, range: &Range<u32>, ahead: usize) -> Result<&[u8]> {
        let start = range.start as usize;
        let end = range.end as usize;
        let of = (run.opened.number, run.opened.origin);
        let known = self.of == Some(of);
        if !known || start < self.at || end > self.at + self.bytes.len() {
            // As much as pays in order, but never less than the chunk, and never beyond the payload.
            let until = (run.opened.segment.payload as usize).min(start + ahead).max(end);
            // If reading fails, the buffer belongs to no segment.
            self.of = None;
            self.bytes.resize(until - start, 0);
            self.at = start;
            set.payload(run.opened, start, &mut self.bytes)?;
            self.of = Some(of);
        }
        Ok(self.slice(range))
    }

    /// Returns bytes of a range that was read before.
    fn slice(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize - self.at..range.end as usize - self.at]
    }
}

impl ReadAt for Set {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let read = self.with_scratch(|scratch| self.fill(offset, &mut buf[..len], scratch, true));
        read.map(|()| len).map_err(io::Error::other)
    }

    fn len(&self) -> u64 {
        self.size
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.parts.iter().try_for_each(|part| part.source.check_unchanged())
    }
}
