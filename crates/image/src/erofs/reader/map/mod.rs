//! Maps of inodes to the bytes of their files: the one place that knows all forms of maps in the
//! format. An [`ExtentMap`] is opened on an inode; an [`ExtentWalk`] over it returns its extents in order, from
//! any byte on, and reads only the index entries needed.

mod check;
mod chunks;
mod clusters;
mod compact;
mod encoded;
mod full;
mod header;
mod window;

use self::chunks::ChunkTable;
use self::clusters::{ClusterIndex, ExtentCoding, ExtentSpan};
use self::encoded::{EncodedIndex, ExtentRecord, RecordCursor};
use self::header::IndexFeatures;
use self::window::IndexWindow;
use crate::Result;
use crate::erofs::format::{Advise, CLUSTER_MAX, EXTENT_MAX, Layout, MapHeader, algorithm, encoded_extent};

pub(super) use self::check::AnnouncedFeatures;
pub(super) use self::window::IndexBytes;

/// Name of the index in messages.
const INDEX: &str = "cluster index";
/// Length and alignment of the header of an index.
const HEADER_LEN: u64 = size_of::<MapHeader>() as u64;

/// Facts about the inode that a map needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct MappedInode {
    /// Length of the file.
    pub(super) size: u64,
    pub(super) layout: Layout,
    /// First block of plain data; none if the file is a hole.
    pub(super) start_block: Option<u64>,
    /// Chunk format.
    pub(super) chunk_format: u16,
    /// Offset after inode and xattrs.
    pub(super) payload: u64,
    /// log2 of the image's block size.
    pub(super) block_bits: u8,
}

/// The map of one file.
#[derive(Debug)]
pub(super) struct ExtentMap {
    size: u64,
    block_bits: u8,
    /// End of the inode, for messages.
    place: u64,
    form: MapForm,
}

#[derive(Debug)]
enum MapForm {
    /// Consecutive blocks, and the data that follows the inode.
    Plain {
        start: Option<u64>,
        tail: Option<StoredBytes>,
    },
    Chunks(ChunkTable),
    /// The whole file is in the packed inode.
    Fragment(u64),
    Clusters(IndexFeatures, ClusterIndex),
    Encoded(IndexFeatures, EncodedIndex),
}

/// A piece of a file: `len` bytes from `logical` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappedExtent {
    pub(super) logical: u64,
    pub(super) len: u64,
    pub(super) data: PieceStorage,
}

/// Storage of a piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceStorage {
    /// Zeros that are not stored.
    Hole,
    /// Bytes of the packed inode, from this offset on.
    Fragment(u64),
    /// Uncompressed bytes; those of a rotated cluster begin at its end.
    Plain { stored: StoredBytes, rotated: bool },
    /// A compressed stream; a partial extent is only the beginning of its decoded data.
    Packed { stored: StoredBytes, algorithm: u8, partial: bool },
}

/// Bytes of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StoredBytes {
    pub(super) place: StoredPosition,
    pub(super) len: u64,
}

/// Position of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum StoredPosition {
    /// In the common address space of all devices.
    Image(u64),
    /// On the device of this number.
    Device(u16, u64),
    /// After the inode, in the same space as the inode.
    Meta(u64),
}

impl StoredPosition {
    /// Returns the offset, in whatever space, for messages.
    pub(super) fn byte(self) -> u64 {
        match self {
            StoredPosition::Image(byte) | StoredPosition::Device(_, byte) | StoredPosition::Meta(byte) => byte,
        }
    }

    /// Returns the position `bytes` later.
    pub(super) fn skip(self, bytes: u64) -> StoredPosition {
        match self {
            StoredPosition::Image(byte) => StoredPosition::Image(byte.saturating_add(bytes)),
            StoredPosition::Device(device, byte) => StoredPosition::Device(device, byte.saturating_add(bytes)),
            StoredPosition::Meta(byte) => StoredPosition::Meta(byte.saturating_add(bytes)),
        }
    }
}

impl ExtentMap {
    /// Opens the map of an inode whose metadata is in `source`.
    pub(super) fn open(source: &dyn IndexBytes, facts: &MappedInode) -> Result<ExtentMap> {
        let MappedInode { size, block_bits, .. } = *facts;
        let form = match facts.layout {
            Layout::Plain => MapForm::Plain { start: facts.start_block, tail: None },
            Layout::Inline => MapForm::Plain { start: facts.start_block, tail: inline_tail(source, facts)? },
            Layout::Chunks => MapForm::Chunks(ChunkTable::new(facts)),
            Layout::CompressedFull | Layout::CompressedCompact => header::open(source, facts)?,
        };
        Ok(ExtentMap { size, block_bits, place: facts.payload, form })
    }

    /// Returns the end of the inode's index, or of the inode if it has none.
    pub(super) fn index_end(&self) -> u64 {
        match &self.form {
            MapForm::Plain { .. } => self.place,
            MapForm::Chunks(chunks) => chunks.end(),
            MapForm::Fragment(_) => self.place.next_multiple_of(HEADER_LEN) + HEADER_LEN,
            MapForm::Clusters(_, clusters) => clusters.end(),
            MapForm::Encoded(_, encoded) => encoded.end(),
        }
    }

    /// Returns the extents, starting with the one that holds byte `offset`.
    pub(super) fn walk<'m>(&'m self, source: &'m dyn IndexBytes, offset: u64) -> ExtentWalk<'m> {
        let (structure, end) = match &self.form {
            MapForm::Plain { .. } | MapForm::Fragment(_) => (INDEX, 0),
            MapForm::Chunks(chunks) => ("chunk index", chunks.end()),
            MapForm::Clusters(_, clusters) => (INDEX, clusters.end()),
            MapForm::Encoded(_, encoded) => ("extent record", encoded.end()),
        };
        ExtentWalk {
            map: self,
            window: IndexWindow::new(source, structure, end),
            cursor: RecordCursor::default(),
            at: offset,
        }
    }

    fn plain(&self, start: Option<u64>, tail: Option<StoredBytes>, offset: u64) -> MappedExtent {
        let whole = self.size - tail.map_or(0, |tail| tail.len);
        match (tail, start) {
            (Some(stored), _) if offset >= whole => {
                MappedExtent { logical: whole, len: stored.len, data: PieceStorage::Plain { stored, rotated: false } }
            }
            (_, None) => MappedExtent { logical: 0, len: whole, data: PieceStorage::Hole },
            (_, Some(block)) => {
                let byte = block.saturating_mul(1 << self.block_bits);
                let stored = StoredBytes { place: StoredPosition::Image(byte), len: whole };
                MappedExtent { logical: 0, len: whole, data: PieceStorage::Plain { stored, rotated: false } }
            }
        }
    }

    /// Completes an extent from an index with the data of the header.
    fn of_clusters(
        &self,
        header: &IndexFeatures,
        clusters: &ClusterIndex,
        window: &IndexWindow<'_>,
        span: ExtentSpan,
    ) -> Result<MappedExtent> {
        let ExtentSpan { head, start: logical, end, blocks, entry } = span;
        let len = end - logical;
        let last = end >= self.size;
        let stored = match header.inline {
            Some(inline) if last => {
                let at = clusters.end();
                // As Linux refuses it ("invalid tail-packing pclustersize").
                if (at % (1 << self.block_bits)).saturating_add(inline) > 1 << self.block_bits {
                    return Err(window.error(at, format!("an inline cluster of {inline} bytes crosses a block")));
                }
                StoredBytes { place: StoredPosition::Meta(at), len: inline }
            }
            _ if last && header.advise.contains(Advise::FRAGMENT) => {
                // A fragment has no block, so its field has the high bits. A pack has no such field.
                let high =
                    if matches!(clusters.form, clusters::ClusterIndexForm::Full(_)) { head.block << 32 } else { 0 };
                return Ok(MappedExtent { logical, len, data: PieceStorage::Fragment(high | u64::from(header.low)) });
            }
            // Fragments too may have a count of 0 blocks.
            _ if head.hole || blocks == 0 => return Ok(MappedExtent { logical, len, data: PieceStorage::Hole }),
            _ => {
                let place = StoredPosition::Image(head.block.saturating_mul(1 << self.block_bits));
                StoredBytes { place, len: blocks.saturating_mul(1 << self.block_bits) }
            }
        };
        let data = match head.kind {
            ExtentCoding::Plain => PieceStorage::Plain { stored, rotated: header.advise.contains(Advise::INTERLACED) },
            ExtentCoding::First => {
                PieceStorage::Packed { stored, algorithm: header.algorithms & 15, partial: head.partial }
            }
            ExtentCoding::Second => {
                PieceStorage::Packed { stored, algorithm: header.algorithms >> 4, partial: head.partial }
            }
        };
        self.checked(MappedExtent { logical, len, data }, window, entry)
    }

    /// Completes an extent from a record with the data of the header.
    fn of_record(
        &self,
        header: &IndexFeatures,
        encoded: &EncodedIndex,
        window: &IndexWindow<'_>,
        record: ExtentRecord,
    ) -> Result<MappedExtent> {
        let ExtentRecord { start: logical, end, word, physical, last, entry } = record;
        let len = end - logical;
        if last && header.advise.contains(Advise::FRAGMENT) {
            // A fragment has no position, so its field has the high bits. Records of 4 bytes have no such field.
            let high = if encoded.record_len() == encoded::RecordLen::Four { 0 } else { physical << 32 };
            return Ok(MappedExtent { logical, len, data: PieceStorage::Fragment(high | u64::from(word)) });
        }
        let stored =
            StoredBytes { place: StoredPosition::Image(physical), len: (word & encoded_extent::LEN_MASK).into() };
        let data = match (stored.len, word >> encoded_extent::FORMAT_SHIFT) {
            (0, _) => PieceStorage::Hole,
            (_, 0) => {
                // Linux takes an uncompressed extent for rotated only if its position and length are whole
                // blocks.
                let aligned = (physical | stored.len).is_multiple_of(1 << self.block_bits);
                PieceStorage::Plain { stored, rotated: aligned && header.advise.contains(Advise::INTERLACED) }
            }
            (_, format) => {
                let algorithm = u8::try_from(format - 1).unwrap_or(u8::MAX);
                PieceStorage::Packed { stored, algorithm, partial: word & encoded_extent::PARTIAL != 0 }
            }
        };
        self.checked(MappedExtent { logical, len, data }, window, entry)
    }

    /// Refuses extents that no decoder should be given. `entry` is the offset of their entry in the index.
    fn checked(&self, extent: MappedExtent, window: &IndexWindow<'_>, entry: u64) -> Result<MappedExtent> {
        let MappedExtent { logical, len, data } = extent;
        let why = match data {
            PieceStorage::Hole | PieceStorage::Fragment(_) => return Ok(extent),
            PieceStorage::Plain { stored, rotated } if stored.len < len || stored.len > CLUSTER_MAX => {
                let rotated = if rotated { "rotated " } else { "" };
                format!("stored uncompressed in {} {rotated}bytes", stored.len)
            }
            PieceStorage::Plain { stored, rotated: true } if stored.len % (1 << self.block_bits) != 0 => {
                format!("rotated in {} bytes, which are not whole blocks", stored.len)
            }
            PieceStorage::Packed { stored, .. } if stored.len > CLUSTER_MAX => {
                format!("in a cluster of {} bytes; the most is {CLUSTER_MAX}", stored.len)
            }
            PieceStorage::Packed { .. } if len > EXTENT_MAX => format!("compressed as one; the most is {EXTENT_MAX}"),
            PieceStorage::Packed { algorithm, .. } if algorithm >= algorithm::COUNT => {
                format!("by the unknown algorithm {algorithm}")
            }
            _ => return Ok(extent),
        };
        Err(window.error(entry, format!("{len} bytes at offset {logical}: {why}")))
    }
}

/// Returns the bytes after the last whole block, which follow the inode.
fn inline_tail(source: &dyn IndexBytes, facts: &MappedInode) -> Result<Option<StoredBytes>> {
    let block = 1 << facts.block_bits;
    // If the file is whole blocks, Linux takes the last one to be the one after the inode.
    let len = match facts.size % block {
        0 if facts.size > 0 => block,
        len => len,
    };
    if len > block - facts.payload % block {
        let why = format!("{len} bytes after the inode cross a block");
        return Err(source.error("inline data", facts.payload, why));
    }
    Ok((len > 0).then_some(StoredBytes { place: StoredPosition::Meta(facts.payload), len }))
}

/// Iterates over the extents of a file.
pub(super) struct ExtentWalk<'m> {
    map: &'m ExtentMap,
    window: IndexWindow<'m>,
    cursor: RecordCursor,
    at: u64,
}

impl ExtentWalk<'_> {
    /// Returns the next extent, `None` after the last. The first may begin before the requested byte.
    pub(super) fn next(&mut self) -> Result<Option<MappedExtent>> {
        let ExtentWalk { map, window, cursor, at } = self;
        if *at >= map.size {
            return Ok(None);
        }
        let extent = match &map.form {
            MapForm::Plain { start, tail } => map.plain(*start, *tail, *at),
            MapForm::Chunks(chunks) => chunks.find(window, *at)?,
            MapForm::Fragment(offset) => {
                MappedExtent { logical: 0, len: map.size, data: PieceStorage::Fragment(*offset) }
            }
            MapForm::Clusters(header, clusters) => {
                let span = clusters.find(window, *at)?;
                map.of_clusters(header, clusters, window, span)?
            }
            MapForm::Encoded(header, encoded) => {
                let record = encoded.find(window, cursor, *at)?;
                map.of_record(header, encoded, window, record)?
            }
        };
        *at = extent.logical.saturating_add(extent.len);
        Ok(Some(extent))
    }
}

#[cfg(test)]
pub(super) mod tests;
