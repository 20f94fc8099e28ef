//! LZ4 blocks without a frame: the fast encoder, the dense encoder, and their common decoder.

mod dense;
mod emit;
mod fast;
mod fill;
mod matches;
mod optimal;

use lzzzz::{lz4, lz4_hc};

pub(crate) use optimal::memory as optimal_memory;

use crate::{Decoder, EncodedPrefix, Encoder, Error, Result};

/// Level of the dense codec from which on our own encoder is used.
pub(crate) const OPTIMAL: u8 = 12;

/// The fast encoder: our own where it is better, otherwise the library's, whose tables are thread-local.
pub(crate) struct Lz4FastEncoder {
    acceleration: i32,
    table: emit::PositionTable,
}

impl Lz4FastEncoder {
    pub(crate) fn new(acceleration: i32) -> Self {
        Lz4FastEncoder { acceleration, table: emit::PositionTable::new() }
    }
}

impl Encoder for Lz4FastEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        if self.acceleration == 1 && src.len() > fast::PAYS_ABOVE {
            return Ok(fast::compress(&mut self.table, src, dst));
        }
        encode(src, dst, |src, dst| lz4::compress(src, dst, self.acceleration))
    }

    fn encode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<EncodedPrefix>> {
        Ok(fill::fill(&mut self.table, src, dst, self.acceleration))
    }
}

/// The dense encoder: our own at the highest level, otherwise the library's, whose tables for whole blocks are
/// thread-local.
pub(crate) struct Lz4DenseEncoder {
    level: i32,
    /// Our own encoder.
    optimal: Option<Box<optimal::OptimalEncoder>>,
    /// State for filling, made when first used.
    state: Option<dense::LibraryState>,
}

impl Lz4DenseEncoder {
    pub(crate) fn new(level: u8) -> Self {
        let optimal = (level >= OPTIMAL).then(Box::default);
        Lz4DenseEncoder { level: i32::from(level), optimal, state: None }
    }
}

impl Encoder for Lz4DenseEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        if let Some(optimal) = &mut self.optimal {
            check_len(src)?;
            return Ok(optimal.compress(src, dst));
        }
        encode(src, dst, |src, dst| lz4_hc::compress(src, dst, self.level))
    }

    fn encode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<EncodedPrefix>> {
        if let Some(optimal) = &mut self.optimal {
            return Ok(optimal.fill(src, dst));
        }
        let state = match &mut self.state {
            Some(state) => state,
            none => none.insert(dense::LibraryState::new()?),
        };
        Ok(state.fill(src, dst, self.level))
    }
}

fn check_len(src: &[u8]) -> Result<()> {
    const MAX_INPUT: usize = 0x7E00_0000;
    if src.len() > MAX_INPUT {
        let why = "a block cannot be larger than 2,113,929,216 bytes".to_owned();
        return Err(Error::Library { codec: "lz4", why });
    }
    Ok(())
}

/// Encodes with a function of the library, which both encoders share. The library takes lengths
/// that fit an `int`, has no error but "does not fit", and writes nothing for an empty block,
/// although the format requires one empty token.
fn encode(
    src: &[u8],
    dst: &mut [u8],
    compress: impl FnOnce(&[u8], &mut [u8]) -> lzzzz::Result<usize>,
) -> Result<Option<usize>> {
    check_len(src)?;
    if src.is_empty() {
        return Ok(dst.first_mut().map(|token| {
            *token = 0;
            1
        }));
    }
    // More room than the longest result needs is of no use, and this length fits the library's `int`.
    let len = dst.len().min(lz4::max_compressed_size(src.len()));
    Ok(compress(src, &mut dst[..len]).ok())
}

/// The decoder.
pub(crate) struct Lz4Decoder;

impl Decoder for Lz4Decoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        // The library takes both lengths as `int`; no block is that long.
        let len = dst.len().min(i32::MAX as usize);
        if src.len() > i32::MAX as usize {
            return Err(Error::corrupt("lz4", "longer than the largest block"));
        }
        lz4::decompress(src, &mut dst[..len])
            .map_err(|_| Error::corrupt("lz4", "damaged block, or it decodes to more than the expected length"))
    }
    fn decode_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let broken = || Error::corrupt("lz4", "damaged block, or it ends too early");
        if src.len().max(dst.len()) > i32::MAX as usize {
            return Err(Error::corrupt("lz4", "longer than the largest block"));
        }
        let want = dst.len();
        let got = lz4::decompress_partial(src, dst, want).map_err(|_| broken())?;
        if got == want { Ok(()) } else { Err(broken()) }
    }
}
