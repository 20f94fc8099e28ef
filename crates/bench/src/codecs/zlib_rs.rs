//! zlib streams by zlib-rs.

use packfs_codec::{Decoder, Encoder, Error, Result};
use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateFlush, Status};

const NAME: &str = "zlib-rs";
const WINDOW_BITS: u8 = 15;

pub(super) struct ZlibRsEncoder(Deflate);

impl ZlibRsEncoder {
    pub(super) fn new(level: u8) -> Self {
        ZlibRsEncoder(Deflate::new(i32::from(level), true, WINDOW_BITS))
    }
}

impl Encoder for ZlibRsEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        self.0.reset();
        match self.0.compress(src, dst, DeflateFlush::Finish) {
            Ok(Status::StreamEnd) => Ok(usize::try_from(self.0.total_out()).ok()),
            Ok(Status::Ok | Status::BufError) => Ok(None),
            Err(error) => Err(Error::Library { codec: NAME, why: error.as_str().into() }),
        }
    }
}

pub(super) struct ZlibRsDecoder(Inflate);

impl ZlibRsDecoder {
    pub(super) fn new() -> Self {
        ZlibRsDecoder(Inflate::new(true, WINDOW_BITS))
    }
}

impl Decoder for ZlibRsDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let corrupt = |why: &str| Error::Corrupt { codec: NAME, why: why.into() };
        self.0.reset(true);
        match self.0.decompress(src, dst, InflateFlush::Finish) {
            Ok(Status::StreamEnd) if self.0.total_in() == src.len() as u64 => {
                usize::try_from(self.0.total_out()).map_err(|_| corrupt("too long"))
            }
            Ok(Status::StreamEnd) => Err(corrupt("bytes after the stream")),
            Ok(Status::Ok | Status::BufError) => Err(corrupt("longer than its block, or cut off")),
            Err(error) => Err(corrupt(error.as_str())),
        }
    }
}
