//! Snappy blocks in their raw format: the length of the block, then literals and copies.

use snap::raw::{self, max_compress_len};

use crate::{Decoder, Encoder, Error, Result};

const NAME: &str = "snappy";

/// An encoder. The library requires room for the worst case, so a result that may not fit goes to a buffer first.
pub(crate) struct SnappyEncoder {
    encoder: raw::Encoder,
    spare: Vec<u8>,
}

impl SnappyEncoder {
    pub(crate) fn new() -> Self {
        SnappyEncoder { encoder: raw::Encoder::new(), spare: Vec::new() }
    }
}

impl Encoder for SnappyEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let worst = max_compress_len(src.len());
        if dst.len() >= worst {
            return self.encoder.compress(src, dst).map(Some).map_err(library);
        }
        if self.spare.len() < worst {
            self.spare.resize(worst, 0);
        }
        let len = self.encoder.compress(src, &mut self.spare).map_err(library)?;
        let Some(dst) = dst.get_mut(..len) else { return Ok(None) };
        dst.copy_from_slice(&self.spare[..len]);
        Ok(Some(len))
    }
}

/// A decoder. The stream states the length of the block and must end exactly there.
#[derive(Default)]
pub(crate) struct SnappyDecoder(raw::Decoder);

impl Decoder for SnappyDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.0.decompress(src, dst).map_err(|error| Error::corrupt(NAME, error.to_string()))
    }
}

/// Converts an encoder error; the only one is a block of more than 4 GiB.
fn library(error: snap::Error) -> Error {
    Error::Library { codec: NAME, why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length 14, a literal of 4, then 10 bytes from 4 back, following the format's description.
    #[test]
    fn a_block_written_by_hand_is_read() {
        let stream = [&[14, 3 << 2][..], b"wiki", &[1 | (10 - 4) << 2, 4]].concat();
        let mut block = [0; 14];
        assert_eq!(SnappyDecoder::default().decode(&stream, &mut block), Ok(14));
        assert_eq!(&block, b"wikiwikiwikiwi");
        // A length that is not the block's, and copies from before its beginning and with distance 0.
        for (at, byte) in [(0, 15), (0, 13), (7, 5), (7, 0)] {
            let mut damaged = stream.clone();
            damaged[at] = byte;
            let error = SnappyDecoder::default().decode(&damaged, &mut [0; 20]).unwrap_err();
            assert!(matches!(error, Error::Corrupt { codec: NAME, .. }), "{error}");
        }
        assert!(SnappyDecoder::default().decode(&[], &mut [0; 20]).is_err());
    }
}
