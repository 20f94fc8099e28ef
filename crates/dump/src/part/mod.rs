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
pub use flaw::StructureFlaw;
pub use parse::{DumpStretch, ParsedSegment, SegmentLengths, StretchStorage, StripeShard};
pub use scan::{ScanStep, SegmentScan, payload_is_sound, read_segment};
pub use seal::{RecordBytes, SegmentHead, seal, seal_payload, sealed_len};
pub use superblock::PartSuperblock;
pub use trailer::{ManifestEntry, PartFooter, SegmentEntry, find_footer, read_index};
