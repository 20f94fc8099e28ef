//! Opens files as a set: separates parts from other files and other sets, and locates all segments.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use packfs_blocks::ReadAt;
use packfs_blocks::io::ObservedReads;
use packfs_blocks::name::display;

use super::map::{ABSENT, SegmentMap, SegmentNumber, SegmentPlace};
use super::stripe::ParityStripe;
use super::{AvailablePart, Set};
use crate::format::{ALIGN, SegmentKind};
use crate::part::{
    PartFooter, PartSuperblock, ScanStep, SegmentHead, SegmentScan, StructureFlaw, find_footer, read_index,
};
use crate::{Error, Result};

type PartSources = Vec<(PathBuf, Arc<dyn ReadAt>)>;

/// Returns the superblock of the set, from the first part with a valid one.
pub(super) fn common(sources: &PartSources) -> Result<PartSuperblock> {
    let mut first: Option<(&PathBuf, PartSuperblock)> = None;
    let mut flaw: Option<(&PathBuf, &dyn ReadAt, StructureFlaw)> = None;
    for (path, source) in sources {
        match (superblock(path, source.as_ref())?, &first) {
            (Ok(found), None) => first = Some((path, found)),
            (Ok(found), Some((other, of))) if !found.is_of_the_set_of(of) => {
                return Err(Error::unsuitable(path, format!("belongs to another dump than {}", display(other))));
            }
            // Of the set, but without a word of its own to add.
            (Ok(_), Some(_)) => {}
            // A damaged superblock matters only if no other part has a sound one: they differ in the
            // part's own numbers alone.
            (Err(bad), _) => flaw = flaw.or(Some((path, source.as_ref(), bad))),
        }
    }
    match (first, flaw) {
        (Some((_, superblock)), _) => Ok(superblock),
        (None, Some((path, source, flaw))) => Err(no_part(path, source, flaw)),
        (None, None) => Err(Error::option("parts", 0, "at least one is needed")),
    }
}

fn superblock(path: &PathBuf, source: &dyn ReadAt) -> Result<std::result::Result<PartSuperblock, StructureFlaw>> {
    let mut bytes = [0; ALIGN];
    match source.read_at(&mut bytes, 0) {
        Ok(len) => Ok(PartSuperblock::parse(&bytes[..len])),
        Err(error) => StructureFlaw::unreadable("superblock", error).map(Err).map_err(Error::io("cannot read", path)),
    }
}

/// Returns the error of a file that nothing proves to be a part.
fn no_part(path: &PathBuf, source: &dyn ReadAt, flaw: StructureFlaw) -> Error {
    match source.read_at(&mut [0; ALIGN], 0) {
        Ok(_) => flaw.at(path, 0),
        // The disk is to blame rather than its contents.
        Err(error) => Error::io("cannot read", path)(error),
    }
}

/// Returns the parts by number, without duplicates.
pub(super) fn parts(sources: PartSources, common: &PartSuperblock) -> Result<Vec<AvailablePart>> {
    let mut parts = Vec::new();
    for (path, source) in sources {
        parts.push(match superblock(&path, source.as_ref())? {
            Ok(superblock) => part(path, source, superblock)?,
            Err(flaw) => headless(path, source, common, flaw)?,
        });
    }
    // Parts of unknown number come last. They are never duplicates of each other as far as anybody can tell.
    parts.sort_by_key(|part| part.number.unwrap_or(u16::MAX));
    for pair in parts.windows(2) {
        if let (Some(number), true) = (pair[0].number, pair[0].number == pair[1].number) {
            let why =
                format!("is part {} of the dump, as {} is; name each part once", number + 1, display(&pair[0].path));
            return Err(Error::unsuitable(&pair[1].path, why));
        }
    }
    Ok(parts)
}

fn part(path: PathBuf, source: Arc<dyn ReadAt>, superblock: PartSuperblock) -> Result<AvailablePart> {
    let foot = find_footer(source.as_ref(), &superblock).map_err(Error::io("cannot read", &path))?;
    let foot = foot.map(|(_, foot)| foot);
    let number = Some(superblock.part);
    Ok(AvailablePart::new(path, source, number, superblock, None, foot))
}

/// Opens a file without a valid superblock: it is still a part if it has a footer or any segment of the set.
fn headless(
    path: PathBuf,
    source: Arc<dyn ReadAt>,
    common: &PartSuperblock,
    flaw: StructureFlaw,
) -> Result<AvailablePart> {
    let reading = Error::io("cannot read", path.clone());
    let mut found: Option<(PartSuperblock, PartFooter)> = None;
    let mut first = None;
    let mut look = || -> std::io::Result<()> {
        // A footer is bound to its part by number, and the number is lost with the superblock: so try them
        // all.
        for number in 0..common.parts {
            let guess = PartSuperblock { part: number, footer: None, ..common.clone() };
            if let Some((_, foot)) = find_footer(source.as_ref(), &guess)? {
                found = Some((guess, foot));
                return Ok(());
            }
        }
        // A part that was cut off has no footer. Its segments name the set, though not the part.
        first = SegmentScan::whole(source.as_ref(), common)
            // Gaps are what is scanned over, so only a segment proves anything.
            .find(|found| !matches!(found, Ok(ScanStep::Gap(_))))
            .transpose()?;
        Ok(())
    };
    look().map_err(reading)?;
    let (number, superblock, foot) = match (found, first) {
        (Some((superblock, foot)), _) => (Some(superblock.part), superblock, Some(foot)),
        (None, Some(_)) => (None, PartSuperblock { footer: None, ..common.clone() }, None),
        (None, None) => return Err(no_part(&path, source.as_ref(), flaw)),
    };
    Ok(AvailablePart::new(path, source, number, superblock, Some(flaw.why), foot))
}

/// Locates all segments.
pub(super) fn map(mut parts: Vec<AvailablePart>) -> Result<(Vec<AvailablePart>, SegmentMap)> {
    let mut data = Vec::new();
    let mut parity = Vec::new();
    for (at, part) in (0..).zip(&mut parts) {
        part.segments(|position, len, head| {
            let place = SegmentPlace {
                start: head.start,
                end: head.end,
                position,
                stripe: head.stripe,
                len,
                part: at,
                shard: head.shard,
                data: head.data,
                parity: head.parity,
            };
            match head.kind {
                SegmentKind::Data => data.push(place),
                SegmentKind::Parity => parity.push(place),
                _ => {}
            }
        })?;
    }
    countable(&data)?;
    Ok((parts, SegmentMap::new(data, parity)))
}

fn countable(data: &[SegmentPlace]) -> Result<()> {
    match SegmentNumber::try_from(data.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Unsupported(format!("{} segments in one dump", data.len()))),
    }
}

impl AvailablePart {
    fn new(
        path: PathBuf,
        bytes: Arc<dyn ReadAt>,
        number: Option<u16>,
        superblock: PartSuperblock,
        flaw: Option<String>,
        foot: Option<PartFooter>,
    ) -> Self {
        let read_bytes = Arc::<AtomicU64>::default();
        let source = ObservedReads::counting(bytes, Arc::clone(&read_bytes));
        AvailablePart { path, source, read_bytes, number, superblock, flaw, foot, scanned: None }
    }

    /// Calls `found` with offset, length and head of each segment: from the index, or by scanning.
    fn segments(&mut self, mut found: impl FnMut(u64, u32, SegmentHead)) -> Result<()> {
        let reading = |error| Error::io("cannot read", &self.path)(error);
        let to = match &self.foot {
            // Up to the end of the file: nothing says where the segments of this part stop.
            None => {
                self.scanned = Some("it has no footer: the part is not finished, or was cut off".into());
                u64::MAX
            }
            Some(foot) => match read_index(&self.source, &self.superblock, foot)
                .or_else(|error| StructureFlaw::unreadable("index", error).map(Err))
                .map_err(reading)?
            {
                Ok(entries) => {
                    entries.iter().for_each(|entry| found(entry.position, entry.len, entry.head));
                    return Ok(());
                }
                Err(flaw) => {
                    self.scanned = Some(format!("its {} is damaged: {}", flaw.structure, flaw.why));
                    // The footer verifies, so segments end where it says that the index begins.
                    foot.index
                }
            },
        };
        // The first block is the superblock's, sound or not.
        for step in SegmentScan::new(&self.source, &self.superblock, ALIGN as u64..to) {
            // Gaps are left to `check`, which reports them: here only what can be read counts.
            if let ScanStep::Segment { position, segment } = step.map_err(reading)? {
                found(position, u32::try_from(segment.len()).unwrap_or(u32::MAX), segment.head);
            }
        }
        Ok(())
    }
}

/// Returns the length of the dump, and the reason why it may be longer.
pub(super) fn size(
    superblock: &PartSuperblock,
    parts: &[AvailablePart],
    map: &SegmentMap,
) -> (u64, Option<&'static str>) {
    let feet = || parts.iter().filter_map(|part| part.foot.as_ref());
    let reached = || map.data().iter().map(|place| place.end).max().unwrap_or(0);
    // A complete footer was written last and knows best.
    if let Some(size) = feet().filter(|foot| foot.complete).map(|foot| foot.size).max() {
        return (size, None);
    }
    if let Some(size) = superblock.size {
        return (size, None);
    }
    match feet().map(|foot| foot.size).max() {
        // A part that was retired early knows less than the segments of the others show.
        Some(size) => (size.max(reached()), Some("writing ended before the end of the input")),
        None => (reached(), Some("no available part is finished, so the end of the dump is unknown")),
    }
}

impl Set {
    /// Adds the segments that are only in their stripes: those that available parity segments know
    /// of, and that no available part contains.
    pub(super) fn add_missing(&mut self) -> Result<()> {
        let mut missing = Vec::new();
        for parity in self.map.parity().chunk_by(|a, b| a.stripe == b.stripe) {
            let shards = parity.chunk_by(|a, b| a.shard == b.shard).count();
            let at_hand = self.map.stripe(parity[0].stripe);
            // All parity segments of a stripe describe it alike, so any of them will do.
            let place = parity[0];
            let has = |shard: u16| at_hand.iter().any(|n| self.map.get(*n).shard == shard);
            let gone: Vec<u16> = (0..place.data).filter(|shard| !has(*shard)).collect();
            // More are gone than its parity can restore.
            if gone.is_empty() || gone.len() > shards {
                continue;
            }
            // Without its records it restores nothing, and its bytes are lost as if it were missing.
            let Ok(stripe) = ParityStripe::read(self, place.stripe) else { continue };
            for shard in gone {
                // A shard without bytes of the dump only fills up the stripe.
                let Some(of) = stripe.shards().get(usize::from(shard)).filter(|of| of.start < of.end) else { continue };
                missing.push(SegmentPlace {
                    start: of.start,
                    end: of.end,
                    len: of.len,
                    part: ABSENT,
                    shard,
                    position: 0,
                    // Everything that belongs to the stripe is the same for all its segments.
                    ..place
                });
            }
        }
        // The common case: the map need not be sorted again.
        if missing.is_empty() {
            return Ok(());
        }
        let map = std::mem::take(&mut self.map);
        let (mut data, parity) = map.into_places();
        data.append(&mut missing);
        countable(&data)?;
        self.map = SegmentMap::new(data, parity);
        // If the end is unknown, restored segments may lie after everything that was found so far.
        if self.open_end.is_some() {
            self.size = self.size.max(self.map.data().iter().map(|place| place.end).max().unwrap_or(0));
        }
        Ok(())
    }
}
