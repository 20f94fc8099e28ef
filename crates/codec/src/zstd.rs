//! zstd frames without checksum. Frames of blocks store their content size in one to three bytes:
//! readers that decode in one step without knowing a block's length need it. Frames of clusters
//! never store it.
//!
//! # Our own parser
//!
//! At the dense levels, the sequences of blocks up to 1 MiB come from a parser of our own ([`own`]), which is faster than
//! those of libzstd because it knows the whole block from the start. libzstd codes what the parser chose.
//!
//! | step | module |
//! |---|---|
//! | positions sorted by their next bytes | [`sorted`] |
//! | the nearest match of each length | [`finder`] |
//! | the cheapest list of sequences by the present prices | [`parser`] |
//! | prices by the shares of symbols so far, and repeated offsets | [`prices`], [`repeats`] |
//! | blocks, entropy coding, frames | [`own`], by libzstd |
//!
//! [`levels`] chooses the encoder and its effort by level and length of block.

// Positions fit 32 bits; lengths, prices and counts far less.
#![allow(clippy::cast_possible_truncation)]

mod finder;
mod levels;
mod own;
mod parser;
mod prices;
mod repeats;
mod sorted;

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer, ResetDirective};

use crate::{DecodedStream, Decoder, Encoder, Error, Result};

const NAME: &str = "zstd";
/// `ZSTD_error_dstSize_tooSmall`, as the library returns it.
const DOES_NOT_FIT: ErrorCode = 70_usize.wrapping_neg();
/// `ZSTD_error_memory_allocation`, as the library returns it.
const MEMORY_ALLOCATION: ErrorCode = 64_usize.wrapping_neg();

struct ZstdEncoder {
    context: CCtx<'static>,
}

/// log2 of the largest window that EROFS can declare.
const CLUSTER_WINDOW_LOG_MAX: u32 = 20;

/// Makes an encoder for blocks of up to `block_len` bytes; its context is reused from block to block.
pub(crate) fn encoder(level: i32, content_size: bool, block_len: usize) -> Result<Box<dyn Encoder>> {
    match levels::own(level, block_len) {
        Some(effort) => Ok(Box::new(own::OwnZstdEncoder::new(effort, level, content_size, block_len)?)),
        None => Ok(Box::new(ZstdEncoder { context: context(&parameters(level, content_size, block_len))? })),
    }
}

fn parameters(level: i32, content_size: bool, block_len: usize) -> Vec<CParameter> {
    let mut parameters = vec![CParameter::CompressionLevel(level), CParameter::ContentSizeFlag(content_size)];
    parameters.extend(levels::better(level, block_len));
    parameters
}

/// Makes an encoder whose frames need no window beyond 2^`window_log` bytes.
pub(crate) fn cluster_encoder(level: i32, window_log: u32) -> Result<Box<dyn Encoder>> {
    let parameters =
        [CParameter::CompressionLevel(level), CParameter::WindowLog(window_log), CParameter::ContentSizeFlag(false)];
    Ok(Box::new(ZstdEncoder { context: context(&parameters)? }))
}

fn context(parameters: &[CParameter]) -> Result<CCtx<'static>> {
    let mut context = CCtx::try_create().ok_or_else(no_memory)?;
    for parameter in parameters {
        context.set_parameter(*parameter).map_err(library)?;
    }
    Ok(context)
}

impl Encoder for ZstdEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        match self.context.compress2(dst, src) {
            Ok(len) => Ok(Some(len)),
            Err(DOES_NOT_FIT) => Ok(None),
            Err(code) => Err(library(code)),
        }
    }
}

struct ZstdDecoder {
    context: DCtx<'static>,
}

/// Makes a decoder. Whole frames are decoded straight into the block, so that their windows cost no
/// memory. For the beginning of a frame the library keeps its window, which is bounded.
pub(crate) fn decoder() -> Result<Box<dyn Decoder>> {
    let mut context = DCtx::try_create().ok_or_else(no_memory)?;
    context.set_parameter(DParameter::WindowLogMax(CLUSTER_WINDOW_LOG_MAX)).map_err(library)?;
    Ok(Box::new(ZstdDecoder { context }))
}

/// Makes a decoder that keeps a window as Linux does, of at most `window` bytes. It refuses matches
/// farther back than the frame declares; decoding straight into the block would not notice them.
pub(crate) fn streaming_decoder(window: u32) -> Result<Box<dyn Decoder>> {
    let mut context = DCtx::try_create().ok_or_else(no_memory)?;
    let log = window.clamp(1 << 10, 1 << 27).ilog2();
    context.set_parameter(DParameter::WindowLogMax(log)).map_err(library)?;
    Ok(Box::new(StreamingZstdDecoder(ZstdDecoder { context })))
}

struct StreamingZstdDecoder(ZstdDecoder);

impl Decoder for StreamingZstdDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.decode_stream(src, dst)?.of_all(NAME, src)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        let src = first_frame(src)?;
        let context = &mut self.0.context;
        context.reset(ResetDirective::SessionOnly).map_err(library)?;
        let mut output = OutBuffer::around(dst);
        // Given a whole frame at once, the library would decode it without a window.
        let (head, rest) = src.split_at(src.len() / 2);
        let mut left = 1;
        for part in [head, rest] {
            let mut input = InBuffer::around(part);
            loop {
                let before = (input.pos, output.pos());
                left = context.decompress_stream(&mut output, &mut input).map_err(corrupt)?;
                if left == 0 || before == (input.pos, output.pos()) {
                    break;
                }
            }
        }
        match left {
            0 => Ok(DecodedStream { taken: src.len(), len: output.pos() }),
            _ => Err(Error::corrupt(NAME, "decodes to more than the expected length")),
        }
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        self.0.decode_prefix(src, dst)
    }
}

impl Decoder for ZstdDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.decode_stream(src, dst)?.of_all(NAME, src)
    }

    fn decode_stream(&mut self, src: &[u8], dst: &mut [u8]) -> Result<DecodedStream> {
        let src = first_frame(src)?;
        Ok(DecodedStream { taken: src.len(), len: self.context.decompress(dst, src).map_err(corrupt)? })
    }

    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        self.context.reset(ResetDirective::SessionOnly).map_err(library)?;
        let mut input = InBuffer::around(src);
        let room = dst.len();
        let mut output = OutBuffer::around(dst);
        while output.pos() < room {
            let before = (input.pos, output.pos());
            let left = self.context.decompress_stream(&mut output, &mut input);
            let left = left.map_err(corrupt)?;
            // The frame has ended, or its bytes give no more output.
            if output.pos() < room && (left == 0 || before == (input.pos, output.pos())) {
                return Err(Error::corrupt(NAME, "ends too early"));
            }
        }
        Ok(())
    }
}

/// The frame that `src` begins with: the library would go on with further ones, and a block is one.
fn first_frame(src: &[u8]) -> Result<&[u8]> {
    Ok(&src[..zstd_safe::find_frame_compressed_size(src).map_err(corrupt)?])
}

/// Makes the error of a decoder, which may also have run out of memory for its window.
fn corrupt(code: ErrorCode) -> Error {
    if code == MEMORY_ALLOCATION {
        return no_memory();
    }
    Error::corrupt(NAME, zstd_safe::get_error_name(code))
}

fn library(code: ErrorCode) -> Error {
    if code == MEMORY_ALLOCATION {
        return no_memory();
    }
    Error::Library { codec: NAME, why: zstd_safe::get_error_name(code).to_owned() }
}

fn no_memory() -> Error {
    Error::NoMemory { codec: NAME }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use crate::testing::Random;

    /// Returns the memory of an encoder that has encoded the block that needs most.
    fn memory_of_encoder(level: i32, block: usize) -> usize {
        // Sequences as short as possible, and candidates everywhere.
        let src: Vec<u8> = (0..block as u64).map(|n| (n * n / 7).to_le_bytes()[0] & 0x1f).collect();
        let mut dst = vec![0; block];
        if let Some(effort) = levels::own(level, block) {
            let mut own = own::OwnZstdEncoder::new(effort, level, true, block).unwrap();
            // A longer block follows a shorter one, and all positions of the second kind begin alike.
            for len in [block / 8 * 7, block] {
                own.encode(&src[..len], &mut dst).unwrap();
                own.encode(&vec![0; len], &mut dst).unwrap();
                // A table, which the library encodes, too.
                let table: Vec<u8> = (0..=len as u32 / 4).flat_map(u32::to_le_bytes).collect();
                own.encode(&table[..len], &mut dst).unwrap();
            }
            return own.allocated();
        }
        let mut context = context(&parameters(level, true, block)).unwrap();
        context.compress2(&mut dst[..], &src).unwrap();
        context.sizeof()
    }

    #[test]
    fn the_memory_bound_covers_the_contexts() {
        for level in [-5, 1, 3, 9, 11, 12, 13, 14, 15, 18, 19, 22] {
            for block in [4096, 1 << 14, 1 << 16, 1 << 17, 1 << 18, 1 << 20] {
                let promised = format!("zstd:{level}").parse::<Choice>().unwrap().encoder_memory(block);
                let taken = memory_of_encoder(level, block) + DCtx::create().sizeof();
                assert!(taken <= promised, "level {level} at {block}: {taken} of {promised}");
            }
        }
    }

    /// Data of a kind by `seed`: words, tables of numbers with a stride, long repeats, runs and noise.
    fn data(len: usize, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        let mut draw = |limit| random.below(limit);
        let mut data = Vec::new();
        while data.len() < len {
            match (seed as usize + draw(6)) % 8 {
                0 | 1 => data.extend_from_slice(format!("word{} ", draw(300)).as_bytes()),
                2 => data.extend_from_slice(&(draw(2000) as u32 * 16).to_le_bytes()),
                3 => (0..draw(40)).for_each(|n| data.extend_from_slice(&[0, n as u8, 7])),
                4 => data.resize(data.len() + draw(2000), 0),
                5 => data.extend((0..draw(30)).map(|_| draw(256) as u8)),
                _ if data.is_empty() => data.push(1),
                _ => {
                    let from = draw(data.len());
                    let to = data.len().min(from + draw(3000));
                    data.extend_from_within(from..to);
                }
            }
        }
        data.truncate(len);
        data
    }

    /// Two decoders read what our parser chose, and neither what an encoder did before nor the room changes it.
    fn round_trips(level: i32, len: usize, seed: u64) {
        let block_len = len.next_power_of_two().max(4096);
        let choice: Choice = format!("zstd:{level}").parse().unwrap();
        let mut used = choice.encoder(block_len).unwrap();
        let mut dst = vec![0; len + len / 8 + 1000];
        used.encode(&data(block_len, seed ^ 1), &mut dst).unwrap();
        for src in [data(len, seed), vec![b'x'; len], data(len, 5)] {
            let packed = used.encode(&src, &mut dst).unwrap().map(|len| dst[..len].to_vec()).unwrap();
            let mut again = vec![0; packed.len()];
            let mut new = choice.encoder(block_len).unwrap();
            assert_eq!(new.encode(&src, &mut dst).unwrap().map(|len| dst[..len].to_vec()), Some(packed.clone()));
            if let Some(len) = new.encode(&src, &mut again).unwrap() {
                assert!(again[..len] == packed);
            }
            let mut back = vec![0; len];
            let decoded = choice.codec().decoder().unwrap().decode(&packed, &mut back);
            assert_eq!(decoded.ok(), Some(len));
            assert!(back == src);
            let mut other = Vec::new();
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(packed.as_slice()).unwrap();
            std::io::Read::read_to_end(&mut decoder, &mut other).unwrap();
            assert!(other == src);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
        #[test]
        fn blocks_of_our_own_parser_round_trip(level in 14..=22, len in 0..=128_usize << 10, short in 0..3_u32, seed: u64) {
            round_trips(level, len >> (4 * short), seed);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(6))]
        #[test]
        fn large_blocks_of_our_own_parser_round_trip(level in 15..=22, len in 128_usize << 10..=1 << 20, seed: u64) {
            round_trips(level, len, seed);
        }
    }

    #[test]
    fn blocks_store_their_content_size_by_default() {
        for (len, more) in [(100, 0), (8192, 1), (65_791, 1), (131_072, 3), (1 << 20, 3)] {
            let src: Vec<u8> = (0..len).map(|n: usize| n.to_le_bytes()[0] / 3).collect();
            let encode = |choice: &str| {
                let choice: Choice = choice.parse().unwrap();
                let mut encoder = choice.encoder(len).unwrap();
                let mut dst = vec![0; len + 100];
                let n = encoder.encode(&src, &mut dst).unwrap().unwrap();
                dst.truncate(n);
                let mut back = vec![0; len];
                assert_eq!(choice.codec().decoder().unwrap().decode(&dst, &mut back).unwrap(), len);
                assert_eq!(back, src);
                dst
            };
            let with = encode("zstd:3");
            let without = encode("zstd:3:content-size=no");
            assert_eq!(zstd_safe::get_frame_content_size(&with).unwrap(), Some(len as u64));
            assert_eq!(zstd_safe::get_frame_content_size(&without).unwrap(), None);
            assert_eq!(with.len(), without.len() + more, "{len}");
        }
    }

    #[test]
    fn the_memory_bound_for_clusters_covers_it_too() {
        for level in [-5, 1, 3, 15, 22] {
            for cluster in [4096, 1 << 14, 1 << 17] {
                let choice = format!("zstd:{level}").parse::<Choice>().unwrap();
                let promised = choice.cluster_memory(cluster);
                let window = choice.cluster_window(cluster);
                let mut context = CCtx::create();
                let mut dst = vec![0; 5000];
                context.set_parameter(CParameter::CompressionLevel(level)).unwrap();
                context.set_parameter(CParameter::WindowLog(window.ilog2())).unwrap();
                let len = context.compress2(&mut dst[..], &vec![7; 4 << 20]).unwrap();
                let mut decoder = DCtx::create();
                let mut back = vec![0; 1 << 17];
                let mut input = InBuffer::around(&dst[..len]);
                decoder.decompress_stream(&mut OutBuffer::around(&mut back[..]), &mut input).unwrap();
                let taken = context.sizeof() + decoder.sizeof();
                assert!(taken <= promised, "level {level} at {cluster}: {taken} of {promised}");
            }
        }
    }
}
