//! Decompression with zlib-rs, with and without zlib's frame. It can stop early, which libdeflate
//! cannot, so every build uses it for the beginnings of deflate streams.

use zlib_rs::{InflateFlush, Status};

use crate::{DecodedStream, Decoder, Error, Result};

/// log2 of deflate's window.
const WINDOW_BITS: u8 = 15;

/// A decoder of zlib streams or of raw deflate.
pub(crate) struct ZlibRsDecoder {
    state: zlib_rs::Inflate,
    framed: bool,
    codec: &'static str,
}

impl ZlibRsDecoder {
    /// Makes a decoder for zlib streams; checks their checksum.
    pub(crate) fn zlib() -> Self {
        ZlibRsDecoder::new("gzip", true)
    }

    /// Makes a decoder for deflate without a frame.
    pub(crate) fn raw() -> Self {
        ZlibRsDecoder::new("deflate", false)
    }

    fn new(codec: &'static str, framed: bool) -> Self {
        ZlibRsDecoder { state: zlib_rs::Inflate::new(framed, WINDOW_BITS), framed, codec }
    }

    /// Continues decoding from `src` into `dst` until one of them is used up or the stream ends.
    /// Returns the unused part of both, and true at the end of the stream.
    fn step<'s, 'd>(
        &mut self,
        src: &'s [u8],
        dst: &'d mut [u8],
        flush: InflateFlush,
    ) -> Result<(&'s [u8], &'d mut [u8], bool)> {
        let read = self.state.total_in();
        let written = self.state.total_out();
        let status = self.state.decompress(src, dst, flush);
        let read = usize::try_from(self.state.total_in() - read).unwrap_or(usize::MAX);
        let written = usize::try_from(self.state.total_out() - written).unwrap_or(usize::MAX);
        match status {
            Ok(status) => Ok((&src[read..], &mut dst[written..], status == Status::StreamEnd)),
            Err(_) => Err(Error::corrupt(self.codec, "the stream is damaged or not of this format")),
        }
    }
}

impl Decoder for ZlibRsDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.decode_stream(src, dst)?.of_all(self.codec, src)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        self.state.reset(self.framed);
        let read = src.len();
        let room = dst.len();
        let (src, dst, end) = self.step(src, dst, InflateFlush::Finish)?;
        let why = match (end, dst.is_empty()) {
            (true, _) => return Ok(DecodedStream { taken: read - src.len(), len: room - dst.len() }),
            (false, true) => "decodes to more than the expected length",
            (false, false) => "ends too early",
        };
        Err(Error::corrupt(self.codec, why))
    }

    fn decode_prefix(&mut self, mut src: &[u8], mut dst: &mut [u8]) -> Result<()> {
        self.state.reset(self.framed);
        while !dst.is_empty() {
            let before = (src.len(), dst.len());
            let end;
            (src, dst, end) = self.step(src, dst, InflateFlush::NoFlush)?;
            if !dst.is_empty() && (end || before == (src.len(), dst.len())) {
                return Err(Error::corrupt(self.codec, "ends too early"));
            }
        }
        Ok(())
    }
}
