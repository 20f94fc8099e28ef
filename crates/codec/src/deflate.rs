//! Raw deflate streams, as EROFS stores them: made and read whole by libdeflate. Their beginnings are
//! read by zlib, as libdeflate cannot stop early.

use libdeflater::{CompressionLvl, Compressor};
use zlib_rs::{InflateFlush, Status};

use crate::inflate::{Frame, Inflate};
use crate::{Decoder, Encoder, Error, Result};

const NAME: &str = "deflate";
/// log2 of deflate's window.
const WINDOW_BITS: u8 = 15;

struct Deflate(Compressor);

/// An encoder.
pub(crate) fn encoder(level: u8) -> Result<Box<dyn Encoder>> {
    let level = CompressionLvl::new(i32::from(level))
        .map_err(|_| Error::Library { codec: NAME, why: format!("no level {level}") })?;
    Ok(Box::new(Deflate(Compressor::new(level))))
}

impl Encoder for Deflate {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        // Its only error is that the result does not fit.
        let Ok(len) = self.0.deflate_compress(src, dst) else { return Ok(None) };
        if let Some(first @ 0) = dst[..len].first_mut() {
            // EROFS skips zeros before a stream. The only first byte of zero is that of a stored block with
            // others after it, and of its bits the upper five mean nothing.
            *first = 1 << 3;
        }
        Ok(Some(len))
    }
}

struct Undeflate {
    whole: Inflate,
    start: zlib_rs::Inflate,
}

/// A decoder of clusters.
pub(crate) fn cluster_decoder() -> Result<Box<dyn Decoder>> {
    let whole = Inflate::new(NAME, Frame::Raw)?;
    Ok(Box::new(Undeflate { whole, start: zlib_rs::Inflate::new(false, WINDOW_BITS) }))
}

/// A decoder of blocks.
pub(crate) fn decoder() -> Result<Box<dyn Decoder>> {
    cluster_decoder()
}

impl Decoder for Undeflate {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.whole.decode(src, dst)
    }

    fn decode_prefix(&mut self, mut src: &[u8], mut dst: &mut [u8]) -> Result<()> {
        self.start.reset(false);
        while !dst.is_empty() {
            let (read, written) = (self.start.total_in(), self.start.total_out());
            let status = self.start.decompress(src, dst, InflateFlush::NoFlush);
            let read = usize::try_from(self.start.total_in() - read).unwrap_or(usize::MAX);
            let written = usize::try_from(self.start.total_out() - written).unwrap_or(usize::MAX);
            (src, dst) = (&src[read..], &mut dst[written..]);
            match status {
                Ok(Status::Ok) if read + written > 0 => {}
                Ok(_) if dst.is_empty() => {}
                Ok(_) => return Err(Error::corrupt(NAME, "ends too early")),
                Err(_) => return Err(Error::corrupt(NAME, "not a deflate stream, or a damaged one")),
            }
        }
        Ok(())
    }
}
