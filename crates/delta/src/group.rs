//! Compression of the plain bytes of a group against its reference, by zstd.

use zstd_safe::{CCtx, CParameter, DCtx};

use crate::error::{Error, Result};

/// Level of zstd. The reference is indexed once for each group, so higher levels cost mostly there; 19 is the highest
/// whose tables stay below 100 MiB.
const LEVEL: i32 = 19;
/// log2 of the longest window: reference and plain bytes of the largest group.
const WINDOW_LOG_MAX: u32 = 27;
/// log2 of the shortest window that zstd accepts.
const WINDOW_LOG_MIN: u32 = 10;
/// log2 of the positions for each entry of the table that finds long matches anywhere in the reference. Every eighth
/// position finds nearly all matches of 64 bytes; zstd itself takes every 128th.
const LONG_MATCH_RATE_LOG: u32 = 3;

/// `ZSTD_error_memory_allocation`, as functions of libzstd return it.
const NO_MEMORY: usize = 64_usize.wrapping_neg();

/// Compresses `plain`, with `reference` as what comes before.
pub(crate) fn compress(plain: &[u8], reference: &[u8]) -> Result<Vec<u8>> {
    let mut context = CCtx::try_create().ok_or_else(no_memory)?;
    let mut parameters = vec![CParameter::CompressionLevel(LEVEL)];
    if !reference.is_empty() {
        let window = (reference.len() + plain.len()).next_power_of_two();
        let window_log = window.ilog2().clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX);
        parameters.extend([
            CParameter::WindowLog(window_log),
            CParameter::EnableLongDistanceMatching(true),
            CParameter::LdmHashLog(window_log - LONG_MATCH_RATE_LOG),
        ]);
    }
    for parameter in parameters {
        context.set_parameter(parameter).map_err(library)?;
    }
    if !reference.is_empty() {
        context.ref_prefix(reference).map_err(library)?;
    }
    let mut packed = vec![0; zstd_safe::compress_bound(plain.len())];
    let len = context.compress2(&mut packed[..], plain).map_err(library)?;
    packed.truncate(len);
    Ok(packed)
}

/// Decompresses a frame that must give `len` bytes; `None` if it does not.
pub(crate) fn decompress(packed: &[u8], reference: &[u8], len: usize) -> Result<Option<Vec<u8>>> {
    let mut context = DCtx::try_create().ok_or_else(no_memory)?;
    // Frames need no limit on their window here: the whole result is one buffer of the length that was checked.
    if !reference.is_empty() {
        context.ref_prefix(reference).map_err(library)?;
    }
    let mut plain = vec![0; len];
    // A whole frame is decoded into one buffer, so the window that it asks for needs no memory.
    match context.decompress(&mut plain[..], packed) {
        Ok(got) => Ok((got == len).then_some(plain)),
        // A lack of memory is no damage of the patch, which may well apply later.
        Err(NO_MEMORY) => Err(no_memory()),
        Err(_) => Ok(None),
    }
}

fn library(code: usize) -> Error {
    if code == NO_MEMORY {
        return no_memory();
    }
    Error::from(packfs_codec::Error::Library { codec: "zstd", why: zstd_safe::get_error_name(code).to_owned() })
}

fn no_memory() -> Error {
    Error::from(packfs_codec::Error::NoMemory { codec: "zstd" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_the_reference_has_cost_next_to_nothing() {
        let reference: Vec<u8> = (0..200_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let plain = [&reference[300_000..700_000], b"new", &reference[5000..90_000]].concat();
        let packed = compress(&plain, &reference).unwrap();
        assert!(packed.len() < 200, "{}", packed.len());
        assert!(decompress(&packed, &reference, plain.len()).unwrap().as_ref() == Some(&plain));
        assert!(decompress(&packed, &reference, plain.len() - 1).unwrap().is_none());
        assert!(decompress(&packed, &reference[..reference.len() - 1], plain.len()).unwrap() != Some(plain));
        let alone = compress(b"hello", &[]).unwrap();
        assert_eq!(decompress(&alone, &[], 5).unwrap().as_deref(), Some(&b"hello"[..]));
    }
}
