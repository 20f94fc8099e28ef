//! The structures of a part as checked types: the layer between raw bytes and everything that reads
//! or writes dumps.
//!
//! This module never writes files and trusts no input: parsed structures are consistent in
//! themselves. Whether the bytes of a chunk are intact is known only once [`ChunkDecoder`] or a
//! payload's sum has verified them.

mod chunk;
mod flaw;
mod parse;
mod scan;
mod seal;
mod superblock;
mod trailer;

pub use chunk::{ChunkDecoder, fill};
pub use flaw::Flaw;
pub use parse::{Lengths, Segment, Shard, Stretch, What};
pub use scan::{Found, Scan, payload_is_sound, read_segment};
pub use seal::{Head, RecordBytes, seal, seal_payload, sealed_len};
pub use superblock::Super;
pub use trailer::{Foot, SegmentEntry, find_footer, read_index};
