//! QuickLZ 1.5 level 1 through the crate of that name, written in Rust. The original in C is under the GPL and was
//! the faster of the two; what is measured here is the format's density, and the speed of this code.
//!
//! The crate gives every result a buffer of its own, which is part of the time measured.

use packfs_codec::{Decoder, Encoder, Error, Result};
use quicklz::{CompressionLevel, compress, decompress};

pub(super) struct QuickLz;

impl Encoder for QuickLz {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let packed = compress(src, CompressionLevel::Lvl1);
        let Some(dst) = dst.get_mut(..packed.len()) else { return Ok(None) };
        dst.copy_from_slice(&packed);
        Ok(Some(packed.len()))
    }
}

pub(super) struct UnquickLz;

impl Decoder for UnquickLz {
    fn decode(&mut self, mut src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let corrupt = |why: String| Error::Corrupt { codec: "quicklz", why };
        let room = u32::try_from(dst.len()).unwrap_or(u32::MAX);
        let block = decompress(&mut src, room).map_err(|error| corrupt(error.to_string()))?;
        let dst = dst.get_mut(..block.len()).ok_or_else(|| corrupt("longer than its block".into()))?;
        dst.copy_from_slice(&block);
        Ok(block.len())
    }
}
