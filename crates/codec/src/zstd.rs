//! zstd frames without checksum and without content size: whoever decodes a block knows what length it
//! must have, and three bytes a block are three bytes.

use zstd_safe::{CCtx, CParameter, DCtx, ErrorCode};

use crate::{Decoder, Encoder, Error, Result};

/// `ZSTD_error_dstSize_tooSmall`, as the library returns it.
const DOES_NOT_FIT: ErrorCode = 70_usize.wrapping_neg();

struct Zstd {
    context: CCtx<'static>,
}

/// An encoder; its context is reused from block to block.
pub(crate) fn encoder(level: i32) -> Result<Box<dyn Encoder>> {
    let mut context = CCtx::try_create().ok_or_else(no_memory)?;
    for parameter in [CParameter::CompressionLevel(level), CParameter::ContentSizeFlag(false)] {
        context.set_parameter(parameter).map_err(library)?;
    }
    Ok(Box::new(Zstd { context }))
}

impl Encoder for Zstd {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        match self.context.compress2(dst, src) {
            Ok(len) => Ok(Some(len)),
            Err(DOES_NOT_FIT) => Ok(None),
            Err(code) => Err(library(code)),
        }
    }
}

struct Unzstd {
    context: DCtx<'static>,
}

/// A decoder. It decodes straight into the block, so a frame's window costs no memory.
pub(crate) fn decoder() -> Result<Box<dyn Decoder>> {
    let context = DCtx::try_create().ok_or_else(no_memory)?;
    Ok(Box::new(Unzstd { context }))
}

impl Decoder for Unzstd {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let corrupt = |code| Error::corrupt("zstd", zstd_safe::get_error_name(code));
        // The library would go on with further frames; a block is one.
        if zstd_safe::find_frame_compressed_size(src).map_err(corrupt)? != src.len() {
            return Err(Error::corrupt("zstd", "bytes after the frame"));
        }
        self.context.decompress(dst, src).map_err(corrupt)
    }
}

fn library(code: ErrorCode) -> Error {
    Error::Library { codec: "zstd", why: zstd_safe::get_error_name(code).to_owned() }
}

fn no_memory() -> Error {
    Error::Library { codec: "zstd", why: "out of memory".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;

    #[test]
    fn the_memory_promised_covers_the_contexts() {
        for level in [-5, 1, 3, 12, 15, 19, 22] {
            for block in [4096, 1 << 14, 1 << 17, 1 << 20] {
                let promised = format!("zstd:{level}").parse::<Choice>().unwrap().encoder_memory(block);
                let (mut context, mut dst) = (CCtx::create(), vec![0; block]);
                context.compress(&mut dst[..], &vec![7; block], level).unwrap();
                let taken = context.sizeof() + DCtx::create().sizeof();
                assert!(taken <= promised, "level {level} at {block}: {taken} of {promised}");
            }
        }
    }
}
