//! The trailer of a finished part: its index and its footer with the manifest.

use std::io;

use packfs_blocks::ReadAt;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use super::flaw::StructureFlaw;
use super::scan::{payload_is_sound, read_segment};
use super::seal::SegmentHead;
use super::superblock::PartSuperblock;
use crate::format::{
    ALIGN, FOOTER_MAGIC, Footer, IndexEntry, PARTS_MAX, PartEntry, PartState, SEGMENT_MAX, SegmentKind, UNKNOWN, sum,
};

/// The footer of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartFooter {
    /// True if the set contains the whole input.
    pub complete: bool,
    /// Length of the dump in bytes.
    pub size: u64,
    /// Offset of the first index segment.
    pub index: u64,
    /// Number of consecutive index segments.
    pub indexes: u64,
    /// The parts of the set, by number.
    pub manifest: Vec<ManifestEntry>,
}

/// Entry of a footer about one part of the set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ManifestEntry {
    /// State of the part, if it is known.
    pub state: Option<PartState>,
    /// Number of its data and parity segments.
    pub segments: u64,
    /// Number of bytes before its index.
    pub len: u64,
}

impl PartFooter {
    /// Reads and checks a footer of the part with this superblock.
    pub fn parse(bytes: &[u8], superblock: &PartSuperblock) -> Result<Self, StructureFlaw> {
        let flaw = |why: &str| StructureFlaw::new("footer", why);
        let (raw, _) = Footer::ref_from_prefix(bytes).map_err(|_| flaw("it is cut off"))?;
        if raw.magic != FOOTER_MAGIC {
            return Err(flaw("there is no footer"));
        }
        if sum(&raw.as_bytes()[..ALIGN - 8]) != raw.sum.get() {
            return Err(flaw("its checksum does not match"));
        }
        // A file or device that was used before may still end with the footer of an earlier dump.
        if raw.set != superblock.set || raw.part.get() != superblock.part {
            return Err(flaw("it belongs to another part"));
        }
        if raw.size.get() == UNKNOWN || !raw.index.get().is_multiple_of(ALIGN as u64) {
            return Err(flaw("its values are invalid"));
        }
        let state = |state: u16| match state {
            1 => Some(PartState::Complete),
            2 => Some(PartState::Retired),
            _ => None,
        };
        let entry = |part: &PartEntry| ManifestEntry {
            state: state(part.state.get()),
            segments: part.segments.get(),
            len: part.len.get(),
        };
        let entries = raw.parts.iter().take(usize::from(superblock.parts));
        Ok(PartFooter {
            complete: raw.complete.get() == 1,
            size: raw.size.get(),
            index: raw.index.get(),
            indexes: raw.indexes.get(),
            manifest: entries.map(entry).collect(),
        })
    }

    /// Encodes it, for the end of the part with this superblock.
    pub fn to_raw(&self, superblock: &PartSuperblock) -> Footer {
        let none = PartEntry { state: 0.into(), reserved: [0; 6], segments: 0.into(), len: 0.into() };
        let mut parts = [none; PARTS_MAX];
        for (slot, entry) in parts.iter_mut().zip(&self.manifest) {
            slot.state = entry.state.map_or(0, |state| state as u16).into();
            slot.segments = entry.segments.into();
            slot.len = entry.len.into();
        }
        let mut raw = Footer {
            magic: FOOTER_MAGIC,
            set: superblock.set,
            part: superblock.part.into(),
            complete: U16::new(u16::from(self.complete)),
            reserved: 0.into(),
            size: self.size.into(),
            index: self.index.into(),
            indexes: self.indexes.into(),
            parts,
            reserved2: [0; 960],
            sum: 0.into(),
        };
        raw.sum = sum(&raw.as_bytes()[..ALIGN - 8]).into();
        raw
    }
}

/// Index entry of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Offset in the part, a multiple of [`ALIGN`].
    pub position: u64,
    /// Length, a multiple of [`ALIGN`], at most [`SEGMENT_MAX`].
    pub len: u32,
    /// As in its header.
    pub head: SegmentHead,
}

impl SegmentEntry {
    /// Encodes it.
    pub fn to_raw(&self) -> IndexEntry {
        IndexEntry {
            position: self.position.into(),
            len: self.len.into(),
            kind: (self.head.kind as u16).into(),
            shard: self.head.shard.into(),
            start: self.head.start.into(),
            end: self.head.end.into(),
            stripe: self.head.stripe.into(),
            data: self.head.data.into(),
            parity: self.head.parity.into(),
            reserved: 0.into(),
        }
    }

    /// Checks an entry after the one that ends at byte `from`, in a part whose index begins at `to`.
    fn parse(raw: &IndexEntry, from: u64, to: u64) -> Option<Self> {
        let position = raw.position.get();
        let len = raw.len.get();
        let kind = match raw.kind.get() {
            1 => SegmentKind::Data,
            2 => SegmentKind::Parity,
            3 => SegmentKind::Checkpoint,
            _ => return None,
        };
        // In order and without overlap, so that no bytes of the part count twice.
        let aligned = position.is_multiple_of(ALIGN as u64) && (len as usize).is_multiple_of(ALIGN);
        let inside = position >= from && position.checked_add(len.into()).is_some_and(|end| end <= to);
        let data = raw.data.get();
        let parity = raw.parity.get();
        let ordered = raw.start.get() <= raw.end.get() && usize::from(data) + usize::from(parity) <= PARTS_MAX;
        (aligned && inside && ordered && len > 0 && len <= SEGMENT_MAX).then_some(SegmentEntry {
            position,
            len,
            head: SegmentHead {
                kind,
                stripe: raw.stripe.get(),
                shard: raw.shard.get(),
                data,
                parity,
                start: raw.start.get(),
                end: raw.end.get(),
            },
        })
    }
}

/// Returns the footer of a part and its offset: the one in the superblock, or the last bytes.
pub fn find_footer(source: &dyn ReadAt, superblock: &PartSuperblock) -> io::Result<Option<(u64, PartFooter)>> {
    let mut bytes = vec![0; ALIGN];
    let last = source.len().checked_sub(ALIGN as u64);
    // The one in the superblock first: the last bytes of a device do not belong to the part.
    for position in superblock.footer.into_iter().chain(last) {
        match source.read_at(&mut bytes, position) {
            Ok(ALIGN) => {}
            Ok(_) => continue,
            Err(error) => {
                StructureFlaw::unreadable("footer", error)?;
                continue;
            }
        }
        if let Ok(foot) = PartFooter::parse(&bytes, superblock)
            && foot.index <= position
        {
            return Ok(Some((position, foot)));
        }
    }
    Ok(None)
}

/// Reads the index that the footer points to. Returns `Ok(Err(..))` if it is not consistent; the
/// part must then be scanned.
pub fn read_index(
    source: &dyn ReadAt,
    superblock: &PartSuperblock,
    foot: &PartFooter,
) -> io::Result<Result<Vec<SegmentEntry>, StructureFlaw>> {
    let flaw = |why: &str| Ok(Err(StructureFlaw::new("index", why)));
    let mut entries = Vec::new();
    let mut position = foot.index;
    let mut from = ALIGN as u64;
    let mut bytes = Vec::new();
    // Bounded by the segments that are really there, whatever the footer says.
    for _ in 0..foot.indexes {
        let segment = match read_segment(source, superblock, position, &mut bytes)? {
            Ok(segment) if segment.head.kind == SegmentKind::Index => segment,
            _ => return flaw("a segment of it is missing"),
        };
        if !payload_is_sound(source, position, &segment, &mut bytes)? {
            return flaw("the checksum of a segment of it does not match");
        }
        let Ok(raw) = <[IndexEntry]>::ref_from_bytes(&bytes) else { return flaw("an entry is cut off") };
        for raw in raw {
            let Some(entry) = SegmentEntry::parse(raw, from, foot.index) else { return flaw("an entry is invalid") };
            from = entry.position + u64::from(entry.len);
            entries.push(entry);
        }
        position += segment.len();
    }
    Ok(Ok(entries))
}
