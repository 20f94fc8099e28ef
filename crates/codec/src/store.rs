//! No compression: an encoder that never fits into a shorter `dst`, and a decoder that copies.

use crate::{Decoder, Encoder, Error, Result};

/// Stores bytes as they are.
pub(crate) struct UncompressedCodec;

impl Encoder for UncompressedCodec {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let Some(dst) = dst.get_mut(..src.len()) else { return Ok(None) };
        dst.copy_from_slice(src);
        Ok(Some(src.len()))
    }
}

impl Decoder for UncompressedCodec {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let dst = dst.get_mut(..src.len()).ok_or_else(|| Error::corrupt("none", "longer than the block"))?;
        dst.copy_from_slice(src);
        Ok(src.len())
    }
}
