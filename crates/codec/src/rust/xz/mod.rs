//! xz and LZMA streams, decoded in Rust: what an image may contain, with the same verdicts as liblzma but for checks and
//! filters that no image has.
//!
//! The blocks of images are decoded as a whole, so everything is decoded in place: LZMA into the destination, which is its
//! dictionary, then filters over that. Nothing else is allocated than the model of a stream, which is kept.
//!
//! Source: the xz file format 1.2.1.

mod alone;
mod chunks;
mod filters;
mod integrity;
mod lzma;

pub(crate) use alone::{RustLzmaDecoder, RustMicroLzmaDecoder};

use self::filters::MachineCodeFilter;
use self::integrity::{IntegrityCheck, crc32};
use self::lzma::{LzmaDecoder, OutputWindow};
use crate::{DecodedStream, Decoder, Error, Result};

const NAME: &str = "xz";
const MAGIC: [u8; 6] = *b"\xfd7zXZ\0";
const FOOTER_MAGIC: [u8; 2] = *b"YZ";
/// Length of a checksum of headers.
const CRC_LEN: usize = 4;
/// Identifier of the last filter of every block.
const LZMA2: u64 = 0x21;
/// Flags of a block header: number of filters less 1, reserved bits, presence of the two lengths.
const FILTERS: u8 = 0x03;
const RESERVED: u8 = 0x3c;
const HAS_ENCODED_LEN: u8 = 0x40;
const HAS_DECODED_LEN: u8 = 0x80;
/// Code of the largest dictionary that the format knows.
const DICT_CODE_MAX: u8 = 40;

/// The largest dictionary accepted, as by the decoder that uses liblzma. It takes no memory here, but a stream should not be
/// readable in some builds only.
const DICT_MAX: u32 = 64 << 20;

/// Reason to refuse a stream.
type DamageReason = &'static str;
/// Result of decoding a part of a stream.
type StreamResult<T> = std::result::Result<T, DamageReason>;

const TOO_SHORT: DamageReason = "ends too early";
const TOO_LONG: DamageReason = "decodes to more than the expected length";
const DICT_TOO_LARGE: DamageReason = "the dictionary is larger than 64 MiB";
const WRONG_CHECKSUM: DamageReason = "a checksum does not match";
const INVALID_NUMBER: DamageReason = "a number that is not stored as it should be";
const UNSUPPORTED: DamageReason = "unsupported flags or options";

/// A decoder of xz streams.
#[derive(Default)]
pub(crate) struct RustXzDecoder {
    lzma: LzmaDecoder,
    /// The blocks of the present stream.
    blocks: Vec<BlockLens>,
}

/// Lengths of a block, as the index repeats them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockLens {
    /// With header and check, without padding.
    encoded: u64,
    decoded: u64,
}

/// Fields of a block header.
struct BlockHeader {
    encoded_len: Option<u64>,
    decoded_len: Option<u64>,
    /// In the order in which they were applied; LZMA2 comes after them.
    filters: [Option<MachineCodeFilter>; FILTERS as usize],
    dict_len: u32,
}

impl Decoder for RustXzDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.decode_stream(src, dst)?.of_all(NAME, src)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        self.stream(src, dst).map_err(|why| Error::corrupt(NAME, why))
    }
}

impl RustXzDecoder {
    fn stream(&mut self, src: &[u8], dst: &mut [u8]) -> StreamResult<DecodedStream> {
        let mut rest = src;
        if take(&mut rest)? != MAGIC {
            return Err("the header is not of this format");
        }
        let flags: [u8; 2] = take(&mut rest)?;
        check_crc(&flags, take(&mut rest)?)?;
        let check = IntegrityCheck::new(flags)?;
        self.blocks.clear();
        let mut len = 0;
        // An index begins with a zero, where a block would have the length of its header.
        while *rest.first().ok_or(TOO_SHORT)? != 0 {
            len = self.block(&mut rest, check, dst, len)?;
        }
        let index_len = self.index(&mut rest)?;
        read_footer(&mut rest, flags, index_len)?;
        Ok(DecodedStream { taken: src.len() - rest.len(), len })
    }

    /// Decodes a block to offset `begin` of `dst`; returns the offset of its end.
    fn block(&mut self, src: &mut &[u8], check: IntegrityCheck, dst: &mut [u8], begin: usize) -> StreamResult<usize> {
        let block_len = src.len();
        let header = BlockHeader::read(src)?;
        let header_len = block_len - src.len();
        let mut out = OutputWindow::new(&mut *dst, begin, header.dict_len);
        chunks::decode(&mut self.lzma, src, &mut out)?;
        let end = out.at;
        let encoded_len = block_len - header_len - src.len();
        let decoded_len = (end - begin) as u64;
        if header.encoded_len.is_some_and(|len| len != encoded_len as u64)
            || header.decoded_len.is_some_and(|len| len != decoded_len)
        {
            return Err("a block has other lengths than its header says");
        }
        read_padding(src, encoded_len)?;
        let decoded = &mut dst[begin..end];
        for filter in header.filters.iter().rev().flatten() {
            filter.undo(decoded);
        }
        let sum = src.split_off(..check.len()).ok_or(TOO_SHORT)?;
        if !check.matches(decoded, sum) {
            return Err(WRONG_CHECKSUM);
        }
        let encoded_len = (header_len + encoded_len + check.len()) as u64;
        self.blocks.push(BlockLens { encoded: encoded_len, decoded: decoded_len });
        Ok(end)
    }

    /// Reads the index and compares it to the blocks; returns its length.
    fn index(&self, src: &mut &[u8]) -> StreamResult<usize> {
        let index = *src;
        let _: [u8; 1] = take(src)?;
        let count = take_number(src)?;
        if count != self.blocks.len() as u64 {
            return Err("the index has another number of blocks");
        }
        for block in &self.blocks {
            let encoded = take_number(src)?;
            let decoded = take_number(src)?;
            if *block != (BlockLens { encoded, decoded }) {
                return Err("the index has other lengths than the blocks");
            }
        }
        read_padding(src, index.len() - src.len())?;
        let len = index.len() - src.len();
        check_crc(&index[..len], take(src)?)?;
        Ok(len + CRC_LEN)
    }
}

impl BlockHeader {
    fn read(src: &mut &[u8]) -> StreamResult<Self> {
        let words = usize::from(*src.first().ok_or(TOO_SHORT)?) + 1;
        let fields = src.split_off(..words * 4 - CRC_LEN).ok_or(TOO_SHORT)?;
        check_crc(fields, take(src)?)?;
        let mut fields = &fields[1..];
        let [flags] = take(&mut fields)?;
        if flags & RESERVED != 0 {
            return Err(UNSUPPORTED);
        }
        let mut length = |flag| if flags & flag == 0 { Ok(None) } else { take_number(&mut fields).map(Some) };
        let encoded_len = length(HAS_ENCODED_LEN)?;
        let decoded_len = length(HAS_DECODED_LEN)?;
        let mut filters = [None; FILTERS as usize];
        for filter in &mut filters[..usize::from(flags & FILTERS)] {
            let (id, properties) = take_filter(&mut fields)?;
            *filter = Some(MachineCodeFilter::new(id, properties)?);
        }
        let (LZMA2, [dict_code]) = take_filter(&mut fields)? else { return Err("the last filter is not LZMA2") };
        let dict_len = dict_len(*dict_code)?;
        if fields.iter().any(|byte| *byte != 0) {
            return Err(UNSUPPORTED);
        }
        Ok(BlockHeader { encoded_len, decoded_len, filters, dict_len })
    }
}

/// Returns the dictionary of a code: 2 or 3 times a power of two.
fn dict_len(code: u8) -> StreamResult<u32> {
    if code > DICT_CODE_MAX {
        return Err(UNSUPPORTED);
    }
    let len = u64::from(2 | code & 1) << (code / 2 + 11);
    u32::try_from(len).ok().filter(|len| *len <= DICT_MAX).ok_or(DICT_TOO_LARGE)
}

/// Reads the last part of a stream, which points back to the index.
fn read_footer(src: &mut &[u8], flags: [u8; 2], index_len: usize) -> StreamResult<()> {
    let crc = take(src)?;
    let fields: [u8; 6] = take(src)?;
    if take(src)? != FOOTER_MAGIC {
        return Err("the footer is not of this format");
    }
    check_crc(&fields, crc)?;
    let [a, b, c, d, footer_flags @ ..] = fields;
    let words = u64::from(u32::from_le_bytes([a, b, c, d])) + 1;
    if words * 4 != index_len as u64 || footer_flags != flags {
        return Err("the footer does not match the stream");
    }
    Ok(())
}

/// Takes the zeros that pad something of `len` bytes to words of four.
fn read_padding(src: &mut &[u8], len: usize) -> StreamResult<()> {
    let padding = src.split_off(..len.next_multiple_of(4) - len).ok_or(TOO_SHORT)?;
    if padding.iter().any(|byte| *byte != 0) { Err("padding that is not zero") } else { Ok(()) }
}

fn check_crc(bytes: &[u8], sum: [u8; CRC_LEN]) -> StreamResult<()> {
    if crc32(bytes) == u32::from_le_bytes(sum) { Ok(()) } else { Err(WRONG_CHECKSUM) }
}

/// Takes a filter's identifier and properties.
fn take_filter<'a>(src: &mut &'a [u8]) -> StreamResult<(u64, &'a [u8])> {
    let id = take_number(src)?;
    let len = usize::try_from(take_number(src)?).map_err(|_| TOO_SHORT)?;
    Ok((id, src.split_off(..len).ok_or(TOO_SHORT)?))
}

/// Takes a number of seven bits per byte, the lowest first: at most nine bytes, the last of which is not zero.
fn take_number(src: &mut &[u8]) -> StreamResult<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let [byte] = take(src)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if byte == 0 && shift > 0 { Err(INVALID_NUMBER) } else { Ok(number) };
        }
    }
    Err(INVALID_NUMBER)
}

/// Takes the first bytes.
fn take<const LEN: usize>(src: &mut &[u8]) -> StreamResult<[u8; LEN]> {
    let (bytes, rest) = src.split_first_chunk().ok_or(TOO_SHORT)?;
    *src = rest;
    Ok(*bytes)
}

#[cfg(test)]
mod tests;
