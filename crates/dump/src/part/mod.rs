//! The structures of a part as checked types: between raw bytes and everything that reads or writes dumps.
//!
//! Nothing here writes files, and nothing trusts: what is parsed holds together in itself. That the bytes of a chunk
//! are what they were is known when [`ChunkDecoder`] or a payload's sum has said so.

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
pub use seal::{Head, Piece, seal, seal_payload, sealed_len};
pub use superblock::Super;
pub use trailer::{Entry, Foot, find_footer, read_index};
