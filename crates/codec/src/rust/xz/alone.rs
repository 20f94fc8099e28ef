//! LZMA without LZMA2: legacy .lzma streams of SquashFS, and MicroLZMA as EROFS stores it.

use super::lzma::{DecodingStop, LzmaDecoder, OutputWindow, OverlongCopy, RangeDecoder};
use super::{DICT_MAX, DICT_TOO_LARGE, StreamResult, TOO_LONG, TOO_SHORT, take};
use crate::{DecodedStream, Decoder, Error, Result};

const NAME: &str = "lzma";
/// The decoded length of a stream that ends with a marker instead.
const UNKNOWN_LEN: u64 = u64::MAX;
/// Dictionaries are never smaller, whatever a header says.
const DICT_MIN: u32 = 4096;
/// The largest dictionary that EROFS can declare.
const MICRO_DICT_MAX: u32 = 8 << 20;

/// A decoder of .lzma streams.
#[derive(Default)]
pub(crate) struct RustLzmaDecoder {
    lzma: LzmaDecoder,
}

impl RustLzmaDecoder {
    fn stream(&mut self, src: &[u8], dst: &mut [u8]) -> StreamResult<DecodedStream> {
        let mut rest = src;
        let [properties] = take(&mut rest)?;
        let dict_len = u32::from_le_bytes(take(&mut rest)?);
        let decoded_len = u64::from_le_bytes(take(&mut rest)?);
        if dict_len > DICT_MAX {
            return Err(DICT_TOO_LARGE);
        }
        self.lzma.start(properties)?;
        let mut range = RangeDecoder::new(rest)?;
        let end = match decoded_len {
            UNKNOWN_LEN => dst.len(),
            len => usize::try_from(len).map_err(|_| TOO_LONG)?,
        };
        let mut out = OutputWindow::new(dst, 0, dict_len.max(DICT_MIN));
        let stop = self.lzma.decode(&mut range, &mut out, end, OverlongCopy::Refuse)?;
        if stop == DecodingStop::Marker && decoded_len != UNKNOWN_LEN {
            return Err("the end marker comes too early");
        }
        let is_at_end = range.end();
        // Where the length is known, a marker may follow but need not.
        if stop == DecodingStop::Full && (decoded_len == UNKNOWN_LEN || !is_at_end) {
            self.lzma.expect_marker(&mut range, &out)?;
        }
        if !range.end() {
            return Err("the stream does not end where it should");
        }
        Ok(DecodedStream { taken: src.len() - range.rest().len(), len: out.at })
    }
}

impl Decoder for RustLzmaDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.stream(src, dst).map_err(corrupt)?.of_all(NAME, src)
    }
}

/// A decoder of MicroLZMA: raw LZMA without an end marker. Its first byte, which would always be zero, holds the inverted
/// properties instead.
pub(crate) struct RustMicroLzmaDecoder {
    lzma: LzmaDecoder,
    dict_max: u32,
}

impl RustMicroLzmaDecoder {
    /// Makes a decoder of clusters that need no dictionary beyond `dict_max` bytes.
    pub(crate) fn new(dict_max: u32) -> Self {
        RustMicroLzmaDecoder { lzma: LzmaDecoder::default(), dict_max: dict_max.clamp(DICT_MIN, MICRO_DICT_MAX) }
    }

    fn fill<'s>(&mut self, src: &'s [u8], dst: &mut [u8], overlong: OverlongCopy) -> StreamResult<RangeDecoder<'s>> {
        let (inverted, rest) = src.split_first().ok_or(TOO_SHORT)?;
        self.lzma.start(!inverted)?;
        let mut range = RangeDecoder::without_first(rest)?;
        let end = dst.len();
        let mut out = OutputWindow::new(dst, 0, self.dict_max);
        match self.lzma.decode(&mut range, &mut out, end, overlong)? {
            DecodingStop::Full => Ok(range),
            DecodingStop::Marker => Err("an end marker, which clusters do not have"),
        }
    }

    fn whole(&mut self, src: &[u8], dst: &mut [u8]) -> StreamResult<()> {
        let mut range = self.fill(src, dst, OverlongCopy::Refuse)?;
        if !range.end() || !range.rest().is_empty() {
            return Err("the stream does not end where it should");
        }
        Ok(())
    }
}

impl Decoder for RustMicroLzmaDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.whole(src, dst).map_err(corrupt)?;
        Ok(dst.len())
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        self.fill(src, dst, OverlongCopy::Cut).map_err(corrupt).map(drop)
    }
}

fn corrupt(why: &str) -> Error {
    Error::corrupt(NAME, why)
}
