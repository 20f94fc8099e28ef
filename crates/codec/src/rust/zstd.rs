//! Decompression of zstd frames with ruzstd.
//!
//! A frame is decoded block by block until it ends or enough bytes are decoded. The window it
//! declares is replaced by one for the requested bytes, so that a frame cannot decide how much
//! memory is used.

use std::io::Read;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::{DecodedStream, Decoder, Error, Result};

const NAME: &str = "zstd";
/// Length of the part of a frame's header that is read here: magic, descriptor, window.
const HEAD_LEN: usize = 6;
/// Descriptor flag of frames that declare no window because their content is the window.
const SINGLE_SEGMENT: u8 = 1 << 5;
/// log2 of the smallest window, which a header stores as 0.
const WINDOW_LOG_MIN: u32 = 10;
/// log2 of the longest block. libzstd accepts blocks longer than the window, so no window is smaller here.
const BLOCK_LOG: u32 = 17;
/// The largest window that EROFS can declare. A single-segment frame may be longer than the part that is wanted.
const PREFIX_WINDOW: usize = 1 << 20;
/// The same window as a header stores it.
const PREFIX_WINDOW_BYTE: u8 = (20 - 10) << 3;
/// An empty raw block that is the last one, and room for a checksum: ends a frame once enough is decoded.
const END: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// The decoder; its tables are reused from frame to frame.
#[derive(Default)]
pub(crate) struct RustZstdDecoder {
    frame: FrameDecoder,
}

impl RustZstdDecoder {
    /// Decodes blocks of the frame at the beginning of `src` until it ends or has given `enough`
    /// bytes, with a window for `len` bytes. Returns true if the frame ended.
    fn blocks(&mut self, src: &[u8], len: usize, enough: usize) -> Result<bool> {
        let mut head = [0; HEAD_LEN];
        let head = &mut head[..src.len().min(HEAD_LEN)];
        head.copy_from_slice(&src[..head.len()]);
        let log = len.max(1).next_power_of_two().ilog2().max(BLOCK_LOG);
        if let [_, _, _, _, descriptor, window] = head
            && *descriptor & SINGLE_SEGMENT == 0
        {
            *window = u8::try_from((log - WINDOW_LOG_MIN) << 3).unwrap_or(u8::MAX);
        }
        let mut from = (&*head).chain(&src[head.len()..]);
        self.frame.set_max_window_size(1 << log);
        self.frame.reset(&mut from).map_err(corrupt)?;
        self.frame.decode_blocks(&mut from, BlockDecodingStrategy::UptoBytes(enough)).map_err(corrupt)
    }

    /// Moves decoded bytes to `dst`; returns their number.
    fn collect(&mut self, dst: &mut [u8]) -> Result<usize> {
        let mut len = 0;
        while len < dst.len() {
            match self.frame.read(&mut dst[len..]).map_err(corrupt)? {
                0 => break,
                more => len += more,
            }
        }
        Ok(len)
    }
}

impl Decoder for RustZstdDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.decode_stream(src, dst)?.of_all(NAME, src)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        if !self.blocks(src, dst.len(), dst.len() + 1)? {
            return Err(Error::corrupt(NAME, "decodes to more than the expected length"));
        }
        let taken = usize::try_from(self.frame.bytes_read_from_source()).unwrap_or(usize::MAX).min(src.len());
        let len = self.collect(dst)?;
        if self.frame.can_collect() > 0 {
            return Err(Error::corrupt(NAME, "decodes to more than the expected length"));
        }
        match self.frame.get_checksum_from_data() {
            Some(sum) if self.frame.get_calculated_checksum() != Some(sum) => {
                Err(Error::corrupt(NAME, "the checksum does not match"))
            }
            _ => Ok(DecodedStream { taken, len }),
        }
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        if dst.is_empty() {
            return Ok(());
        }
        if matches!(src, [_, _, _, _, descriptor, window, ..]
            if descriptor & SINGLE_SEGMENT == 0 && *window > PREFIX_WINDOW_BYTE)
        {
            return Err(Error::corrupt(NAME, "the window is larger than EROFS can declare"));
        }
        if !self.blocks(src, dst.len().max(PREFIX_WINDOW), dst.len())? {
            // The library holds back one window of data until the frame ends.
            self.frame.decode_blocks(&END[..], BlockDecodingStrategy::All).map_err(corrupt)?;
        }
        if self.collect(dst)? == dst.len() { Ok(()) } else { Err(Error::corrupt(NAME, "ends too early")) }
    }
}

fn corrupt(error: impl std::fmt::Display) -> Error {
    Error::corrupt(NAME, error.to_string())
}
