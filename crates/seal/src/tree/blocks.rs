//! Hashing of data on all cores, with the digests in the order of the blocks.

use packfs_blocks::pipeline::{self, Pool, Window};
use packfs_blocks::progress::Phase;
use packfs_blocks::{Progress, ReadAt};

use super::HashEffort;
use crate::error::{Error, Result};
use crate::hashing::BlockHasher;

/// Bytes that a worker reads and hashes at a time. 1 MiB is a multiple of every block size, and large enough that reading
/// and the hand-over of digests cost nothing beside hashing.
const CHUNK_LEN: u32 = 1 << 20;
/// Chunks in flight for each worker: one being hashed, and one that is ready when it ends.
const CHUNKS_PER_WORKER: usize = 2;

/// Data to hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockSource<'d> {
    pub(crate) data: &'d dyn ReadAt,
    /// Number of bytes from the start of `data` that are hashed. A last block that is not full is filled with zeros.
    pub(crate) len: u64,
    /// Block size in bytes, a power of two of at most [`CHUNK_LEN`].
    pub(crate) block_size: u32,
    pub(crate) hasher: &'d BlockHasher,
}

/// Hashes each block, and passes digests to `take` in the order of the blocks, those of a chunk at a time.
///
/// Memory is bounded by two chunks for each worker.
pub(crate) fn hash_blocks(
    source: BlockSource<'_>,
    effort: &HashEffort,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    effort.progress.enter(Phase::Read);
    Progress::add(&effort.progress.total, source.len);
    pipeline::scope(effort.threads, Vec::new, |pool| conduct(pool, source, effort, take))
}

/// Submits the chunks, and takes their digests in order.
fn conduct<'env>(
    pool: &Pool<'env, Vec<u8>>,
    source: BlockSource<'env>,
    effort: &'env HashEffort,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let progress = &*effort.progress;
    let chunk_len = u64::from(CHUNK_LEN);
    // Without workers, submit runs at once; the window still needs room for one chunk.
    let mut window = Window::new(effort.threads.max(1) * CHUNKS_PER_WORKER * CHUNK_LEN as usize);
    for start in (0..source.len.div_ceil(chunk_len)).map(|chunk| chunk * chunk_len) {
        if progress.is_cancelled() {
            return Err(Error::Interrupted);
        }
        if window.is_full() {
            take_oldest(&mut window, take)?;
        }
        let len = chunk_len.min(source.len - start);
        let ticket = pool.submit(move |buffer| {
            // At most a chunk, so the conversion succeeds.
            let digests = hash_chunk(source, start, usize::try_from(len).unwrap_or_default(), buffer);
            Progress::add(&progress.done, len);
            digests
        });
        window.push(ticket, CHUNK_LEN as usize);
    }
    while !window.is_empty() {
        take_oldest(&mut window, take)?;
    }
    Ok(())
}

fn take_oldest(window: &mut Window<Result<Vec<u8>>>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    window.pop().map_or(Ok(()), |digests| take(&digests?))
}

/// Returns the digests of the blocks in `len` bytes at `start`.
fn hash_chunk(source: BlockSource<'_>, start: u64, len: usize, buffer: &mut Vec<u8>) -> Result<Vec<u8>> {
    let block_size = source.block_size as usize;
    buffer.clear();
    // Clearing first makes the bytes after a partial last block zero, although the buffer had other data.
    buffer.resize(len.next_multiple_of(block_size), 0);
    source.data.read_exact_at(&mut buffer[..len], start).map_err(Error::io("cannot read the image"))?;
    let mut digests = Vec::new();
    for block in buffer.chunks_exact(block_size) {
        source.hasher.append_digest(block, &mut digests);
    }
    Ok(digests)
}
