//! xz streams and MicroLZMA by our own encoder. An xz stream holds one block with a CRC32, like those of liblzma.

// Small numbers become bytes here; the bytes of long ones are cut out on purpose.
#![allow(clippy::cast_possible_truncation)]

use super::stream::{crc32, filter_machine_code, filter_number};
use crate::lzma::{LzmaEffort, LzmaEncoder, ModelBits};
use crate::{EncodedPrefix, Encoder, Result};

const MAGIC: [u8; 6] = *b"\xfd7zXZ\0";
/// Stream flags: the check is a CRC32.
const FLAGS: [u8; 2] = [0, 1];
const FOOTER_MAGIC: [u8; 2] = *b"YZ";
/// Length of the stream header, of its copy at the end, and of each checksum.
const STREAM_HEADER: usize = 12;
const CRC: usize = 4;
const LZMA2: u8 = 0x21;
/// Length of a block header without its checksum: size, flags, at most two filters, padding.
const BLOCK_HEADER: usize = 8;

/// Returns the effort of a preset, or `None` for those with a simpler search, which stay with liblzma.
pub(super) fn effort(level: u8, extreme: bool) -> Option<LzmaEffort> {
    let (nice, depth, slack) = match (level, extreme) {
        (3 | 5, true) => (192, 112, 0),
        (_, true) => (273, 512, 0),
        (0..=3, false) => return None,
        (4, false) => (16, 24, 12),
        (5, false) => (32, 24, 12),
        (6, false) => (64, 24, 16),
        (_, false) => (64, 48, 0),
    };
    Some(LzmaEffort { nice, depth, slack, thorough: slack == 0 })
}

/// An encoder of xz streams.
pub(super) struct OwnXzEncoder {
    /// A bit of [`BcjFilters`](crate::settings::BcjFilters), or 0.
    filter: u16,
    dict: u32,
    lzma: LzmaEncoder,
    filtered: Vec<u8>,
    out: Vec<u8>,
}

impl OwnXzEncoder {
    /// Makes an encoder; the filter must be one that [`filter_machine_code`] knows.
    pub(super) fn new(filter: u16, dict: u32, bits: Option<ModelBits>, effort: LzmaEffort) -> Self {
        OwnXzEncoder { filter, dict, lzma: LzmaEncoder::new(bits, effort, dict), filtered: Vec::new(), out: Vec::new() }
    }

    fn block_header(&self) -> [u8; BLOCK_HEADER] {
        let mut header = [0; BLOCK_HEADER];
        // The length counts words of four bytes, with the checksum.
        header[0] = (BLOCK_HEADER / 4) as u8;
        let lzma2 = [LZMA2, 1, dict_code(self.dict)];
        match filter_number(self.filter) {
            Some(number) => {
                header[1] = 1;
                header[2] = number;
                header[4..7].copy_from_slice(&lzma2);
            }
            None => header[2..5].copy_from_slice(&lzma2),
        }
        header
    }

    /// Appends the index of one block and the stream footer.
    fn finish(&mut self, unpadded: usize, plain: usize) {
        let begin = self.out.len();
        self.out.extend([0, 1]);
        push_number(&mut self.out, unpadded);
        push_number(&mut self.out, plain);
        pad(&mut self.out);
        push_crc(&mut self.out, begin);
        let words = (self.out.len() - begin) / 4 - 1;
        let mut footer = [0; 6];
        // An index of one block is a few bytes long.
        footer[0] = words as u8;
        footer[4..].copy_from_slice(&FLAGS);
        self.out.extend(crc32(&footer).to_le_bytes());
        self.out.extend(footer);
        self.out.extend(FOOTER_MAGIC);
    }
}

impl Encoder for OwnXzEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        self.out.clear();
        self.out.extend(MAGIC);
        self.out.extend(FLAGS);
        self.out.extend(crc32(&FLAGS).to_le_bytes());
        self.out.extend(self.block_header());
        push_crc(&mut self.out, STREAM_HEADER);
        let content = match self.filter {
            0 => src,
            filter => {
                self.filtered.clear();
                self.filtered.extend_from_slice(src);
                filter_machine_code(filter, &mut self.filtered);
                &self.filtered
            }
        };
        if !self.lzma.encode_lzma2(content, dst.len(), &mut self.out) {
            return Ok(None);
        }
        let unpadded = self.out.len() - STREAM_HEADER + CRC;
        pad(&mut self.out);
        self.out.extend(crc32(src).to_le_bytes());
        self.finish(unpadded, src.len());
        let Some(dst) = dst.get_mut(..self.out.len()) else { return Ok(None) };
        dst.copy_from_slice(&self.out);
        Ok(Some(self.out.len()))
    }
}

/// Returns the code of the smallest dictionary of at least `dict` bytes: 2 or 3 times a power of two, from 4096.
fn dict_code(dict: u32) -> u8 {
    (0..40).find(|code| (2 | u64::from(code & 1)) << (code / 2 + 11) >= u64::from(dict)).unwrap_or(40)
}

/// Appends a number, seven bits a byte, the lowest first.
fn push_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Pads to words of four bytes. Stream and block header are such, so the output's length decides.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Appends the checksum of what lies after `begin`.
fn push_crc(out: &mut Vec<u8>, begin: usize) {
    let crc = crc32(&out[begin..]);
    out.extend(crc.to_le_bytes());
}

/// An encoder of MicroLZMA.
pub(super) struct OwnMicroEncoder(LzmaEncoder);

impl OwnMicroEncoder {
    pub(super) fn new(window: u32, bits: Option<ModelBits>, effort: LzmaEffort) -> Self {
        OwnMicroEncoder(LzmaEncoder::new(bits, effort, window))
    }

    /// Encodes as much of `src` as fits `dst`, which has room for a flush.
    pub(super) fn fill(&mut self, src: &[u8], dst: &mut [u8]) -> EncodedPrefix {
        let done = self.0.fill(src, dst);
        dst[0] = !self.0.bits().properties();
        done
    }
}
