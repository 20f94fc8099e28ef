//! Builds the levels of a tree from the digests of its data, as they come.

use std::io;

use super::{RootHash, TreeShape};
use crate::error::{Error, Result};
use crate::hashing::BlockHasher;

/// Receives hash blocks, each with its byte offset from the start of the tree. Blocks come in no particular order.
pub(crate) type BlockSink<'s> = dyn FnMut(&[u8], u64) -> io::Result<()> + 's;

/// A tree being built. It holds one block of each level.
#[derive(Debug)]
pub(crate) struct TreeWriter {
    hasher: BlockHasher,
    block_size: usize,
    digest_len: usize,
    levels: Vec<OpenLevel>,
    root: Vec<u8>,
}

/// The block of a level that is being filled.
#[derive(Debug)]
struct OpenLevel {
    digests: Vec<u8>,
    /// Byte offset of the block from the start of the tree.
    offset: u64,
}

impl TreeWriter {
    pub(crate) fn new(shape: &TreeShape, hasher: BlockHasher, block_size: u32, digest_len: usize) -> Self {
        // Every level fills in order from its own start, so a block's place is known before the tree is complete.
        let open = |first_block: u64| OpenLevel { digests: Vec::new(), offset: first_block * u64::from(block_size) };
        let levels = shape.levels.iter().map(|level| open(level.first_block)).collect();
        TreeWriter { hasher, block_size: block_size as usize, digest_len, levels, root: Vec::new() }
    }

    /// Adds digests of the next blocks of data.
    pub(crate) fn push(&mut self, digests: &[u8], sink: &mut BlockSink<'_>) -> Result<()> {
        digests.chunks_exact(self.digest_len).try_for_each(|digest| self.push_at(0, digest, sink))
    }

    fn push_at(&mut self, height: usize, digest: &[u8], sink: &mut BlockSink<'_>) -> Result<()> {
        // Above the highest level there is only the root.
        let Some(level) = self.levels.get_mut(height) else {
            self.root = digest.to_vec();
            return Ok(());
        };
        level.digests.extend_from_slice(digest);
        if level.digests.len() < self.block_size { Ok(()) } else { self.close_block(height, sink) }
    }

    /// Passes on the open block of a level, and its digest to the level above.
    fn close_block(&mut self, height: usize, sink: &mut BlockSink<'_>) -> Result<()> {
        let level = &mut self.levels[height];
        // Digests that do not fill a block are followed by zeros, in both formats.
        level.digests.resize(self.block_size, 0);
        sink(&level.digests, level.offset).map_err(Error::write("the hash tree"))?;
        let mut digest = Vec::with_capacity(self.digest_len);
        self.hasher.append_digest(&level.digests, &mut digest);
        level.digests.clear();
        level.offset += self.block_size as u64;
        self.push_at(height + 1, &digest, sink)
    }

    /// Passes on the blocks that are not full, and returns the root.
    pub(crate) fn finish(mut self, sink: &mut BlockSink<'_>) -> Result<RootHash> {
        // From below: closing a block may add the last digest to a block above.
        for height in 0..self.levels.len() {
            if !self.levels[height].digests.is_empty() {
                self.close_block(height, sink)?;
            }
        }
        Ok(RootHash::new(self.root))
    }
}
