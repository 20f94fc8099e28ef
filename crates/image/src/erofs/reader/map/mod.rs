//! Maps of inodes to the bytes of their files: the one place that knows all forms of maps in the
//! format. A [`Map`] is opened on an inode; a [`Walk`] over it returns its extents in order, from
//! any byte on, and reads only the index entries needed.

mod check;
mod chunks;
mod clusters;
mod compact;
mod encoded;
mod full;
mod header;
mod window;

use self::chunks::Chunks;
use self::clusters::{Clusters, Coding, Span};
use self::encoded::{Cursor, Encoded, Record};
use self::header::Header;
use self::window::Window;
use crate::Result;
use crate::erofs::format::{Advise, CLUSTER_MAX, EXTENT_MAX, Layout, MapHeader, algorithm, encoded_extent};

pub(super) use self::check::Announced;
pub(super) use self::window::Bytes;

/// Name of the index in messages.
const INDEX: &str = "cluster index";
/// Length and alignment of the header of an index.
const HEADER_LEN: u64 = size_of::<MapHeader>() as u64;

/// Facts about the inode that a map needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
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
pub(super) struct Map {
    size: u64,
    block_bits: u8,
    /// End of the inode, for messages.
    place: u64,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Consecutive blocks, and the data that follows the inode.
    Plain {
        start: Option<u64>,
        tail: Option<Stored>,
    },
    Chunks(Chunks),
    /// The whole file is in the packed inode.
    Fragment(u64),
    Clusters(Header, Clusters),
    Encoded(Header, Encoded),
}

/// A piece of a file: `len` bytes from `logical` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappedExtent {
    pub(super) logical: u64,
    pub(super) len: u64,
    pub(super) data: Data,
}

/// Storage of a piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// Zeros that are not stored.
    Hole,
    /// Bytes of the packed inode, from this offset on.
    Fragment(u64),
    /// Uncompressed bytes; those of a rotated cluster begin at its end.
    Plain { stored: Stored, rotated: bool },
    /// A compressed stream; a partial extent is only the beginning of its decoded data.
    Packed { stored: Stored, algorithm: u8, partial: bool },
}

/// Bytes of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stored {
    pub(super) place: Where,
    pub(super) len: u64,
}

/// Position of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Where {
    /// In the common address space of all devices.
    Image(u64),
    /// On the device of this number.
    Device(u16, u64),
    /// After the inode, in the same space as the inode.
    Meta(u64),
}

impl Where {
    /// Returns the offset, in whatever space, for messages.
    pub(super) fn byte(self) -> u64 {
        match self {
            Where::Image(byte) | Where::Device(_, byte) | Where::Meta(byte) => byte,
        }
    }

    /// Returns the position `bytes` later.
    pub(super) fn skip(self, bytes: u64) -> Where {
        match self {
            Where::Image(byte) => Where::Image(byte.saturating_add(bytes)),
            Where::Device(device, byte) => Where::Device(device, byte.saturating_add(bytes)),
            Where::Meta(byte) => Where::Meta(byte.saturating_add(bytes)),
        }
    }
}

impl Map {
    /// Opens the map of an inode whose metadata is in `source`.
    pub(super) fn open(source: &dyn Bytes, facts: &Facts) -> Result<Map> {
        let Facts { size, block_bits, .. } = *facts;
        let form = match facts.layout {
            Layout::Plain => Form::Plain { start: facts.start_block, tail: None },
            Layout::Inline => Form::Plain { start: facts.start_block, tail: inline_tail(source, facts)? },
            Layout::Chunks => Form::Chunks(Chunks::new(facts)),
            Layout::CompressedFull | Layout::CompressedCompact => header::open(source, facts)?,
        };
        Ok(Map { size, block_bits, place: facts.payload, form })
    }

    /// Returns the end of the inode's index, or of the inode if it has none.
    pub(super) fn index_end(&self) -> u64 {
        match &self.form {
            Form::Plain { .. } => self.place,
            Form::Chunks(chunks) => chunks.end(),
            Form::Fragment(_) => self.place.next_multiple_of(HEADER_LEN) + HEADER_LEN,
            Form::Clusters(_, clusters) => clusters.end(),
            Form::Encoded(_, encoded) => encoded.end(),
        }
    }

    /// Returns the extents, starting with the one that holds byte `offset`.
    pub(super) fn walk<'m>(&'m self, source: &'m dyn Bytes, offset: u64) -> Walk<'m> {
        let (structure, end) = match &self.form {
            Form::Plain { .. } | Form::Fragment(_) => (INDEX, 0),
            Form::Chunks(chunks) => ("chunk index", chunks.end()),
            Form::Clusters(_, clusters) => (INDEX, clusters.end()),
            Form::Encoded(_, encoded) => ("extent record", encoded.end()),
        };
        Walk { map: self, window: Window::new(source, structure, end), cursor: Cursor::default(), at: offset }
    }

    fn plain(&self, start: Option<u64>, tail: Option<Stored>, offset: u64) -> MappedExtent {
        let whole = self.size - tail.map_or(0, |tail| tail.len);
        match (tail, start) {
            (Some(stored), _) if offset >= whole => {
                MappedExtent { logical: whole, len: stored.len, data: Data::Plain { stored, rotated: false } }
            }
            (_, None) => MappedExtent { logical: 0, len: whole, data: Data::Hole },
            (_, Some(block)) => {
                let byte = block.saturating_mul(1 << self.block_bits);
                let stored = Stored { place: Where::Image(byte), len: whole };
                MappedExtent { logical: 0, len: whole, data: Data::Plain { stored, rotated: false } }
            }
        }
    }

    /// Completes an extent from an index with the data of the header.
    fn of_clusters(
        &self,
        header: &Header,
        clusters: &Clusters,
        window: &Window<'_>,
        span: Span,
    ) -> Result<MappedExtent> {
        let Span { head, start: logical, end, blocks, entry } = span;
        let len = end - logical;
        let last = end >= self.size;
        let stored = match header.inline {
            Some(inline) if last => {
                let at = clusters.end();
                if (at % (1 << self.block_bits)).saturating_add(inline) > 1 << self.block_bits {
                    return Err(window.error(at, format!("an inline cluster of {inline} bytes crosses a block")));
                }
                Stored { place: Where::Meta(at), len: inline }
            }
            _ if last && header.advise.contains(Advise::FRAGMENT) => {
                let high = if matches!(clusters.form, clusters::Form::Full(_)) { head.block << 32 } else { 0 };
                return Ok(MappedExtent { logical, len, data: Data::Fragment(high | u64::from(header.low)) });
            }
            // Fragments too may have a count of 0 blocks.
            _ if head.hole || blocks == 0 => return Ok(MappedExtent { logical, len, data: Data::Hole }),
            _ => {
                let place = Where::Image(head.block.saturating_mul(1 << self.block_bits));
                Stored { place, len: blocks.saturating_mul(1 << self.block_bits) }
            }
        };
        let data = match head.kind {
            Coding::Plain => Data::Plain { stored, rotated: header.advise.contains(Advise::INTERLACED) },
            Coding::First => Data::Packed { stored, algorithm: header.algorithms & 15, partial: head.partial },
            Coding::Second => Data::Packed { stored, algorithm: header.algorithms >> 4, partial: head.partial },
        };
        self.checked(MappedExtent { logical, len, data }, window, entry)
    }

    /// Completes an extent from a record with the data of the header.
    fn of_record(
        &self,
        header: &Header,
        encoded: &Encoded,
        window: &Window<'_>,
        record: Record,
    ) -> Result<MappedExtent> {
        let Record { start: logical, end, word, physical, last, entry } = record;
        let len = end - logical;
        if last && header.advise.contains(Advise::FRAGMENT) {
            let high = if encoded.record_len() == encoded::RecordLen::Four { 0 } else { physical << 32 };
            return Ok(MappedExtent { logical, len, data: Data::Fragment(high | u64::from(word)) });
        }
        let stored = Stored { place: Where::Image(physical), len: (word & encoded_extent::LEN_MASK).into() };
        let data = match (stored.len, word >> encoded_extent::FORMAT_SHIFT) {
            (0, _) => Data::Hole,
            (_, 0) => {
                let aligned = (physical | stored.len).is_multiple_of(1 << self.block_bits);
                Data::Plain { stored, rotated: aligned && header.advise.contains(Advise::INTERLACED) }
            }
            (_, format) => {
                let algorithm = u8::try_from(format - 1).unwrap_or(u8::MAX);
                Data::Packed { stored, algorithm, partial: word & encoded_extent::PARTIAL != 0 }
            }
        };
        self.checked(MappedExtent { logical, len, data }, window, entry)
    }

    /// Refuses extents that no decoder should be given. `entry` is the offset of their entry in the index.
    fn checked(&self, extent: MappedExtent, window: &Window<'_>, entry: u64) -> Result<MappedExtent> {
        let MappedExtent { logical, len, data } = extent;
        let why = match data {
            Data::Hole | Data::Fragment(_) => return Ok(extent),
            Data::Plain { stored, rotated } if stored.len < len || stored.len > CLUSTER_MAX => {
                let rotated = if rotated { "rotated " } else { "" };
                format!("stored uncompressed in {} {rotated}bytes", stored.len)
            }
            Data::Plain { stored, rotated: true } if stored.len % (1 << self.block_bits) != 0 => {
                format!("rotated in {} bytes, which are not whole blocks", stored.len)
            }
            Data::Packed { stored, .. } if stored.len > CLUSTER_MAX => {
                format!("in a cluster of {} bytes; the most is {CLUSTER_MAX}", stored.len)
            }
            Data::Packed { .. } if len > EXTENT_MAX => format!("compressed as one; the most is {EXTENT_MAX}"),
            Data::Packed { algorithm, .. } if algorithm >= algorithm::COUNT => {
                format!("by the unknown algorithm {algorithm}")
            }
            _ => return Ok(extent),
        };
        Err(window.error(entry, format!("{len} bytes at offset {logical}: {why}")))
    }
}

/// Returns the bytes after the last whole block, which follow the inode.
fn inline_tail(source: &dyn Bytes, facts: &Facts) -> Result<Option<Stored>> {
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
    Ok((len > 0).then_some(Stored { place: Where::Meta(facts.payload), len }))
}

/// Iterates over the extents of a file.
pub(super) struct Walk<'m> {
    map: &'m Map,
    window: Window<'m>,
    cursor: Cursor,
    at: u64,
}

impl Walk<'_> {
    /// Returns the next extent, `None` after the last. The first may begin before the requested byte.
    pub(super) fn next(&mut self) -> Result<Option<MappedExtent>> {
        let Walk { map, window, cursor, at } = self;
        if *at >= map.size {
            return Ok(None);
        }
        let extent = match &map.form {
            Form::Plain { start, tail } => map.plain(*start, *tail, *at),
            Form::Chunks(chunks) => chunks.find(window, *at)?,
            Form::Fragment(offset) => MappedExtent { logical: 0, len: map.size, data: Data::Fragment(*offset) },
            Form::Clusters(header, clusters) => {
                let span = clusters.find(window, *at)?;
                map.of_clusters(header, clusters, window, span)?
            }
            Form::Encoded(header, encoded) => {
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
