//! Decodes stored blocks: the only place of the reader that calls a codec.

use std::fmt;

use packfs_blocks::stock::ToolStock;
use packfs_codec::{Codec, DecodedStream, Decoder};

use super::compression::CompressorOptions;
use super::disk::ImageBytes;
use super::superblock::Superblock;
use crate::{Error, Result};

/// Length of the largest metadata block, for which Linux always has room.
const METADATA_MAX: u32 = 8192;

/// A stored block, compressed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocatedBlock {
    /// Name of the structure, for messages.
    pub(super) structure: &'static str,
    /// Offset in the image.
    pub(super) start: u64,
    /// Length in the image.
    pub(super) len: usize,
    /// True if it is stored uncompressed.
    pub(super) raw: bool,
}

/// Decodes stored blocks. Decoders keep state and serve one thread at a time: each call borrows one
/// from a pool, so threads wait for each other only while taking one.
pub(super) struct BlockReader {
    pub(super) disk: ImageBytes,
    /// End of the image.
    pub(super) end: u64,
    pub(super) codec: Codec,
    /// Size in bytes of the window or dictionary that Linux allocates for the streams of this image.
    window: u32,
    stock: ToolStock<BlockDecoders>,
}

/// Decoders and buffers of one thread.
#[derive(Default)]
struct BlockDecoders {
    decoder: Option<Box<dyn Decoder>>,
    /// Decoder for checks.
    strict: Option<Box<dyn Decoder>>,
    packed: Vec<u8>,
}

/// Streams to refuse, in addition to damaged ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamRules {
    /// No others.
    Library,
    /// Streams that Linux cannot read.
    Linux,
}

impl fmt::Debug for BlockReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockReader").field("disk", &self.disk).field("codec", &self.codec).finish_non_exhaustive()
    }
}

impl BlockReader {
    pub(super) fn new(disk: ImageBytes, superblock: &Superblock) -> Self {
        let window = match superblock.options {
            Some(CompressorOptions::Xz { dictionary, .. }) => dictionary,
            // Linux sizes the buffers of all other codecs by the larger of both, as `zstd_init` does.
            _ => superblock.block_size.max(METADATA_MAX),
        };
        BlockReader { disk, end: superblock.bytes_used, codec: superblock.codec, window, stock: ToolStock::default() }
    }

    /// Decodes a block into `out`, which it need not fill, as strictly as Linux.
    pub(super) fn verify(&self, block: LocatedBlock, out: &mut [u8]) -> Result<DecodedStream> {
        self.stock.lend(BlockDecoders::default, |tools| self.decode(tools, block, out, StreamRules::Linux))
    }

    /// As [`BlockReader::verify`], for a block that must fill `out` exactly.
    pub(super) fn verify_exact(&self, block: LocatedBlock, out: &mut [u8]) -> Result<DecodedStream> {
        let expected = out.len();
        let decoded = self.verify(block, out)?;
        require_len(block, decoded.len, expected)?;
        Ok(decoded)
    }

    /// Returns an unusual property of a stored block that was decoded.
    pub(super) fn oddity(&self, block: LocatedBlock, decoded: DecodedStream) -> Option<String> {
        // No overflow: a stream never takes more than there is.
        let more = block.len - decoded.taken;
        let others = if self.codec == Codec::Gzip { "" } else { ", unsquashfs refuses it" };
        (more > 0)
            .then(|| format!("its stream takes {} of its {} bytes; Linux reads it{others}", decoded.taken, block.len))
    }

    /// Decodes a block that must fill `out` exactly.
    pub(super) fn decode_exact(&self, block: LocatedBlock, out: &mut [u8]) -> Result<()> {
        let expected = out.len();
        let got = self.decode_up_to(block, out)?;
        require_len(block, got, expected)
    }

    /// Decodes a block into `out`, which it need not fill; returns its length.
    pub(super) fn decode_up_to(&self, block: LocatedBlock, out: &mut [u8]) -> Result<usize> {
        self.stock
            .lend(BlockDecoders::default, |tools| self.decode(tools, block, out, StreamRules::Library))
            .map(|decoded| decoded.len)
    }

    /// Decodes the beginning of a compressed block, all of `out`; fails if the block has less.
    pub(super) fn decode_beginning(&self, block: LocatedBlock, out: &mut [u8]) -> Result<()> {
        self.stock.lend(BlockDecoders::default, |tools| {
            self.with_packed(tools, block, |tools, packed| {
                let decoder = self.decoder(tools, StreamRules::Library)?;
                decoder.decode_prefix(packed, out).map_err(|error| damaged(block, error))
            })
        })
    }

    /// Fills `out` from byte `from` of an uncompressed block, which has as many bytes.
    pub(super) fn read_stored(&self, block: LocatedBlock, from: usize, out: &mut [u8]) -> Result<()> {
        self.disk.read(block.structure, block.start.saturating_add(from as u64), out)
    }

    /// Decodes a block that was already read.
    pub(super) fn decode_packed(&self, block: LocatedBlock, packed: &[u8], out: &mut [u8]) -> Result<usize> {
        self.stock
            .lend(BlockDecoders::default, |tools| self.call_decoder(tools, block, packed, out, StreamRules::Library))
            .map(|decoded| decoded.len)
    }

    fn decode(
        &self,
        tools: &mut BlockDecoders,
        block: LocatedBlock,
        out: &mut [u8],
        rules: StreamRules,
    ) -> Result<DecodedStream> {
        if block.raw {
            // An uncompressed block longer than its place is damaged like one that decodes to more.
            let Some(out) = out.get_mut(..block.len) else { return Err(too_long(block, out.len())) };
            self.disk.read(block.structure, block.start, out)?;
            return Ok(DecodedStream { taken: block.len, len: block.len });
        }
        self.with_packed(tools, block, |tools, packed| self.call_decoder(tools, block, packed, out, rules))
    }

    /// Reads the stored bytes of a block and calls `decode` with them.
    fn with_packed<T>(
        &self,
        tools: &mut BlockDecoders,
        block: LocatedBlock,
        decode: impl FnOnce(&mut BlockDecoders, &[u8]) -> Result<T>,
    ) -> Result<T> {
        // Taken out of `tools` for the time being, because `decode` borrows the decoders next to it.
        let mut packed = std::mem::take(&mut tools.packed);
        if packed.len() < block.len {
            // Never shrunk and not cleared: each block overwrites what it uses.
            packed.resize(block.len, 0);
        }
        let read = self.disk.read(block.structure, block.start, &mut packed[..block.len]);
        let result = read.and_then(|()| decode(tools, &packed[..block.len]));
        tools.packed = packed;
        result
    }

    /// Returns the decoder for these rules. It is made at the first use, as most threads never check anything.
    fn decoder<'t>(&self, tools: &'t mut BlockDecoders, rules: StreamRules) -> Result<&'t mut Box<dyn Decoder>> {
        let BlockDecoders { decoder, strict, .. } = tools;
        Ok(match (rules, decoder, strict) {
            (StreamRules::Library, Some(decoder), _) | (StreamRules::Linux, _, Some(decoder)) => decoder,
            (StreamRules::Library, none, _) => none.insert(self.codec.decoder()?),
            (StreamRules::Linux, _, none) => none.insert(self.codec.strict_decoder(self.window)?),
        })
    }

    fn call_decoder(
        &self,
        tools: &mut BlockDecoders,
        block: LocatedBlock,
        packed: &[u8],
        out: &mut [u8],
        rules: StreamRules,
    ) -> Result<DecodedStream> {
        let decoder = self.decoder(tools, rules)?;
        // Linux passes over what follows a stream.
        decoder.decode_stream(packed, out).map_err(|error| damaged(block, error))
    }
}

fn require_len(block: LocatedBlock, got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(Error::corrupt(block.structure, block.start, format!("it holds {got} bytes instead of {expected}")))
}

fn damaged(block: LocatedBlock, error: packfs_codec::Error) -> Error {
    match error {
        packfs_codec::Error::Corrupt { .. } => Error::corrupt(block.structure, block.start, error.to_string()),
        other => other.into(),
    }
}

fn too_long(block: LocatedBlock, most: usize) -> Error {
    let why = format!("it is stored in {} bytes, more than the {most} it may hold", block.len);
    Error::corrupt(block.structure, block.start, why)
}
