//! QuickLZ 1.5 level 1 by the Rust crate of that name. The original in C is GPL and faster, so the results show the
//! density of the format and the speed of this crate only.
//!
//! The crate allocates a buffer for every result, which is included in the time.

use packfs_codec::{Decoder, Encoder, Error, Result};
use quicklz::{CompressionLevel, compress, decompress};

pub(super) struct QuickLzEncoder;

impl Encoder for QuickLzEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let packed = compress(src, CompressionLevel::Lvl1);
        let Some(dst) = dst.get_mut(..packed.len()) else { return Ok(None) };
        dst.copy_from_slice(&packed);
        Ok(Some(packed.len()))
    }
}

pub(super) struct QuickLzDecoder;

impl Decoder for QuickLzDecoder {
    fn decode(&mut self, mut src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let corrupt = |why: String| Error::Corrupt { codec: "quicklz", why };
        let room = u32::try_from(dst.len()).unwrap_or(u32::MAX);
        let block = decompress(&mut src, room).map_err(|error| corrupt(error.to_string()))?;
        let dst = dst.get_mut(..block.len()).ok_or_else(|| corrupt("longer than its block".into()))?;
        dst.copy_from_slice(&block);
        Ok(block.len())
    }
}
