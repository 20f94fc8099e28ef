//! The bytes of the new file: blocks that an earlier attempt left, blocks that are fetched, and the proof at the end.

use std::ops::Range;

use packfs_blocks::ReadAt;
use packfs_blocks::io::Storage;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::index::{ZsyncIndex, each_chunk};
use super::plan::UpdatePlan;
use crate::PatchEffort;
use crate::error::{Error, Result};

/// Finds the blocks that are in their places already, as an earlier attempt left them. Counts bytes as done.
///
/// # Errors
/// [`Error::Io`]; [`Error::Interrupted`].
pub fn find_kept_blocks(
    index: &ZsyncIndex,
    target: &dyn Storage,
    plan: &mut UpdatePlan,
    effort: &PatchEffort,
) -> Result<()> {
    let block_size = index.block_size();
    let file = TargetBytes::of(target, index.file_len())?;
    let look = |first_byte: u64, bytes: &[u8]| -> Vec<usize> {
        let first = usize::try_from(first_byte / u64::from(block_size)).unwrap_or_default();
        let blocks = bytes.chunks(block_size as usize).enumerate();
        // The target may end within a block, which is then not there.
        let is_whole = |block: usize, bytes: &[u8]| bytes.len() as u64 == range_len(&plan.bytes_of(block));
        let here = blocks.map(|(number, bytes)| (first + number, bytes));
        here.filter(|(block, bytes)| is_whole(*block, bytes) && index.is_block(*block, bytes))
            .map(|(block, _)| block)
            .collect()
    };
    let mut kept = Vec::new();
    each_chunk(&file, file.len, block_size, effort, &|chunk| look(chunk.offset, &chunk.bytes), &mut |_, blocks| {
        kept.extend(blocks);
    })?;
    kept.into_iter().for_each(|block| plan.keep(block));
    Ok(())
}

/// Compares the new file with the digest in its index: SHA-256, or SHA-1 if there is no other. Counts bytes as done.
///
/// # Errors
/// [`Error::WrongResult`]; [`Error::Io`]; [`Error::Interrupted`].
pub fn verify(index: &ZsyncIndex, target: &dyn Storage, effort: &PatchEffort) -> Result<()> {
    let file = TargetBytes::of(target, index.file_len())?;
    let is_right = file.len == index.file_len()
        && match (index.sha256(), index.sha1()) {
            (Some(digest), _) => digest_of::<Sha256>(&file, effort)? == digest,
            (None, Some(digest)) => digest_of::<Sha1>(&file, effort)? == digest,
            (None, None) => false,
        };
    if is_right { Ok(()) } else { Err(Error::WrongResult("the result has another digest than the index says")) }
}

fn digest_of<D: Digest>(file: &TargetBytes<'_>, effort: &PatchEffort) -> Result<Vec<u8>> {
    let mut hasher = D::new();
    each_chunk(file, file.len, 1, effort, &|_| (), &mut |chunk, ()| hasher.update(&chunk.bytes))?;
    Ok(hasher.finalize().to_vec())
}

/// The bytes of a target, as far as it has them.
#[derive(Debug)]
struct TargetBytes<'t> {
    target: &'t dyn Storage,
    len: u64,
}

impl<'t> TargetBytes<'t> {
    /// Takes at most `len` bytes: a device goes on after the new file.
    fn of(target: &'t dyn Storage, len: u64) -> Result<Self> {
        let target_len = target.len().map_err(Error::io("cannot read the new file"))?;
        Ok(TargetBytes { target, len: target_len.min(len) })
    }
}

impl ReadAt for TargetBytes<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        self.target.read_exact_at(&mut buf[..len], offset)?;
        Ok(len)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

/// Takes the bytes of a range of the new file as they come, and writes each block that is the right one.
pub struct BlockReceiver<'r> {
    index: &'r ZsyncIndex,
    target: &'r dyn Storage,
    range: Range<u64>,
    /// Offset of the first byte that is not written.
    at: u64,
    /// Bytes of a block that has not come as a whole.
    pending: Vec<u8>,
    failed: Option<Error>,
}

impl std::fmt::Debug for BlockReceiver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockReceiver").field("range", &self.range).field("at", &self.at).finish_non_exhaustive()
    }
}

impl<'r> BlockReceiver<'r> {
    /// Makes a receiver of a range, one of [`UpdatePlan::missing_ranges`].
    pub fn new(index: &'r ZsyncIndex, target: &'r dyn Storage, range: Range<u64>) -> Self {
        BlockReceiver { index, target, at: range.start, range, pending: Vec::new(), failed: None }
    }

    /// Takes the bytes that follow. After an error, which [`finish`](BlockReceiver::finish) returns, they are dropped.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while self.failed.is_none() && !bytes.is_empty() && self.at < self.range.end {
            let block_len = (self.range.end - self.at).min(self.index.block_size().into());
            let block_len = usize::try_from(block_len).unwrap_or_default();
            let (now, rest) = bytes.split_at(bytes.len().min(block_len - self.pending.len()));
            self.pending.extend_from_slice(now);
            bytes = rest;
            if self.pending.len() == block_len {
                self.failed = self.write_block().err();
                self.pending.clear();
            }
        }
    }

    fn write_block(&mut self) -> Result<()> {
        let block = usize::try_from(self.at / u64::from(self.index.block_size())).unwrap_or_default();
        // At once and not only at the end: otherwise all would be fetched from a server that has another file.
        if !self.index.is_block(block, &self.pending) {
            return Err(Error::OtherFile { offset: self.at });
        }
        self.target.write_all_at(&self.pending, self.at).map_err(Error::write("the new file"))?;
        self.at += self.pending.len() as u64;
        Ok(())
    }

    /// Fails if a block was not the right one, or if bytes are missing.
    ///
    /// # Errors
    /// [`Error::OtherFile`]; [`Error::Write`].
    pub fn finish(self) -> Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None if self.at < self.range.end => Err(Error::OtherFile { offset: self.at }),
            None => Ok(()),
        }
    }
}

fn range_len(range: &Range<u64>) -> u64 {
    range.end - range.start
}
