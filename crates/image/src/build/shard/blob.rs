//! A packed shard on disk: its data from the beginning on, then an index with checksums of the data and what assembly
//! needs to know of it, then a trailer. It is complete if it has its name, so nothing else tells what is done.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::pipeline::{Pool, Window};
use packfs_blocks::system::FileExt;
use packfs_blocks::{Buffers, Digest, Output, Progress};
use xxhash_rust::xxh3::Xxh3;

use super::file::{LocatedSection, SectionedFile};
use super::job::Job;
use crate::{Error, Result};
use packfs_tree::encoding::{FieldDecoder, FieldEncoder};

const MAGIC: [u8; 8] = *b"packfsSH";
const VERSION: u32 = 3;
/// Length of the trailer: magic, version, shard, plan, length of the data, place of the index, digest.
pub(super) const TRAILER: usize = 8 + 4 + 4 + 32 + 8 + LocatedSection::LEN + 32;
/// Number of bytes of data of which each checksum is. It is part of the format of shards. Less would take more room for
/// checksums (0.0004 % now); more would give fewer workers something to check. Not measured.
const CHUNK: u64 = 4 << 20;
/// Length of a checksum: XXH3 with 128 bits. It finds damage as well as a cryptographic digest and takes a tenth of the
/// time; whoever can forge a shard can forge its checksums, too.
const SUM: usize = 16;
/// Number of bytes that are read back and hashed at once. Not measured.
const PIECE: usize = 1 << 16;
/// Number of chunks in flight for each worker, so that none waits for the conductor. Not measured.
const AHEAD: usize = 2;

/// A complete shard.
#[derive(Debug)]
pub(super) struct ShardBlob {
    input: SectionedFile,
    shard: u32,
    pub(super) data_len: u64,
    index: LocatedSection,
}

/// The index of a shard.
struct ShardIndex {
    /// Checksums of the chunks of the data.
    sums: Vec<u128>,
    /// Numbers of files and blocks, for the assembly.
    content: Vec<u8>,
}

/// Returns the name of a shard in `dir`.
pub(super) fn path(dir: &Path, shard: u32) -> PathBuf {
    dir.join(format!("{shard:07}.shard"))
}

impl ShardBlob {
    /// Opens a shard of `job`. The file has to exist.
    pub(super) fn open(dir: &Path, job: &Job, shard: u32) -> Result<ShardBlob> {
        let input = SectionedFile::open(&path(dir, shard))?;
        let len = input.len()?;
        let start = len.checked_sub(TRAILER as u64).ok_or_else(|| input.damaged("not a shard of packfs".into()))?;
        let trailer = input.read(start, TRAILER as u64)?;
        let mut from = FieldDecoder::new("trailer of a shard", &trailer);
        // Before any field is believed: a copy may have been cut off.
        if from.array()? != MAGIC || Digest::of(&trailer[..TRAILER - 32]).as_bytes() != &trailer[TRAILER - 32..] {
            return Err(input.damaged("not a shard of packfs, or its end is damaged".into()));
        }
        let version = from.u32()?;
        let number = from.u32()?;
        let id = from.array()?;
        if (version, number, Digest::from(id)) != (VERSION, shard, job.id()) {
            return Err(input.damaged("belongs to another plan".into()));
        }
        let data_len = from.u64()?;
        let index = LocatedSection::get(&mut from)?;
        if data_len > index.start || index.start.checked_add(index.len) != Some(start) {
            return Err(input.damaged("its length is not that of its parts".into()));
        }
        Ok(ShardBlob { input, shard, data_len, index })
    }

    /// Reads the index.
    fn index(&self) -> Result<ShardIndex> {
        let index = self.input.section(&self.index, "the index")?;
        let mut from = FieldDecoder::new("index of a shard", &index);
        let sums = from.list(SUM, |from| Ok(u128::from_le_bytes(from.array()?)))?;
        from.check(sums.len() as u64 == self.data_len.div_ceil(CHUNK), "a checksum is missing")?;
        let content = from.bytes()?.to_vec();
        from.end()?;
        Ok(ShardIndex { sums, content })
    }

    /// Returns the bytes of chunk `number` that data is in; `start` is the first byte of all data.
    fn chunk(&self, number: u64, start: u64) -> Range<u64> {
        (number * CHUNK).max(start)..((number + 1) * CHUNK).min(self.data_len)
    }

    /// Reads all data, from byte `start` on, and compares it with its checksums.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the first chunk that is not as it was packed.
    pub(super) fn verify<'env, S>(&self, pool: &Pool<'env, S>, start: u64, progress: &Progress) -> Result<()> {
        let file = Arc::new(self.input.again()?.file);
        let mut window = Window::new((pool.threads() + 1) * AHEAD);
        for (number, sum) in (0..).zip(self.index()?.sums) {
            Error::unless_cancelled(progress)?;
            let file = Arc::clone(&file);
            let chunk = self.chunk(number, start);
            let job = move |_: &mut S| {
                let at = chunk.start;
                let found = sum_of(&|piece, at| file.read_exact_at(piece, at), chunk)?;
                Ok::<_, std::io::Error>((at, found == sum))
            };
            window.push(pool.submit(job), 1);
            while window.is_full() {
                self.proven(window.pop(), "cannot read")?;
            }
        }
        while let Some(read) = window.pop() {
            self.proven(Some(read), "cannot read")?;
        }
        Ok(())
    }

    /// Copies the data to byte `to` of `output`, from byte `start` on, and proves what was copied if `verify`. Returns what was
    /// packed with it.
    pub(super) fn copy<'env, S>(
        &self,
        pool: &Pool<'env, S>,
        output: &'env Output,
        (start, to): (u64, u64),
        verify: bool,
        progress: &'env Progress,
    ) -> Result<Vec<u8>> {
        let ShardIndex { sums, content } = self.index()?;
        let file = Arc::new(self.input.again()?.file);
        let by_itself = output.copies_by_itself();
        let mut window = Window::new((pool.threads() + 1) * AHEAD);
        for (number, sum) in (0..).zip(sums) {
            Error::unless_cancelled(progress)?;
            let chunk = self.chunk(number, start);
            let file = Arc::clone(&file);
            let len = chunk.end.saturating_sub(chunk.start);
            let job = move |_: &mut S| {
                let copy = to + chunk.start - start;
                // A copy by the file system shows no bytes, so they are read back. Otherwise they are summed up on
                // their way.
                let copied = if by_itself || !verify {
                    output.copy_from(&file, chunk.start, len, copy)?;
                    // What is not read counts as sound.
                    if verify { sum_of(&|piece, at| output.read_exact_at(piece, at), copy..copy + len)? } else { sum }
                } else {
                    let mut hasher = Xxh3::new();
                    output.copy_seen(&file, chunk.start, len, copy, &mut |piece| hasher.update(piece))?;
                    hasher.digest128()
                };
                Progress::add(&progress.done, len);
                Progress::add(&progress.written, len);
                Ok::<_, std::io::Error>((chunk.start, copied == sum))
            };
            window.push(pool.submit(job), 1);
            while window.is_full() {
                self.proven(window.pop(), "cannot copy")?;
            }
        }
        while let Some(copied) = window.pop() {
            self.proven(Some(copied), "cannot copy")?;
        }
        Ok(content)
    }

    /// Fails unless a chunk is as it was packed: `chunk` has its first byte, and true if it is. `what` names the
    /// operation.
    fn proven(&self, chunk: Option<std::io::Result<(u64, bool)>>, what: &'static str) -> Result<()> {
        match chunk {
            Some(Ok((at, false))) => {
                let shard = self.shard;
                Err(self.input.damaged(format!(
                    "shard {shard} is damaged in the {} bytes at byte {at}",
                    CHUNK.min(self.data_len - at)
                )))
            }
            Some(Err(error)) => Err(Error::io(what, &self.input.path)(error)),
            Some(Ok((_, true))) | None => Ok(()),
        }
    }
}

/// Returns the checksum of a range of bytes, which `read` puts into a buffer. Pieces that stay in the processor's cache
/// cost much less than a whole chunk.
fn sum_of(read: &dyn Fn(&mut [u8], u64) -> std::io::Result<()>, range: Range<u64>) -> std::io::Result<u128> {
    let mut hasher = Xxh3::new();
    // The kernel copies to a page boundary in less time than to any other address.
    let mut buffer = Buffers::new(PIECE).take(PIECE);
    let mut at = range.start;
    while at < range.end {
        let len = usize::try_from(range.end - at).map_or(PIECE, |left| left.min(PIECE));
        read(&mut buffer[..len], at)?;
        hasher.update(&buffer[..len]);
        at += len as u64;
    }
    Ok(hasher.digest128())
}

/// Finishes a shard of which the data was written to `output`, from byte `start` on; `content` is for the assembly.
pub(super) fn finish<'env, S>(
    pool: &Pool<'env, S>,
    output: &'env Output,
    (job, shard): (&Job, u32),
    (start, data_len): (u64, u64),
    content: &[u8],
) -> Result<()> {
    // The last block of data may be a hole at its end.
    output.set_len(data_len).map_err(Error::io("cannot write", output.target()))?;
    let mut sums = Vec::new();
    let mut window = Window::new((pool.threads() + 1) * AHEAD);
    let mut take = |sum: std::io::Result<u128>| {
        sums.push(sum.map_err(Error::io("cannot read back", output.target()))?);
        Ok::<_, Error>(())
    };
    for number in 0..data_len.div_ceil(CHUNK) {
        let chunk = (number * CHUNK).max(start)..((number + 1) * CHUNK).min(data_len);
        let job = move |_: &mut S| sum_of(&|piece, at| output.read_exact_at(piece, at), chunk);
        window.push(pool.submit(job), 1);
        while window.is_full() {
            window.pop().map_or(Ok(()), &mut take)?;
        }
    }
    while let Some(digest) = window.pop() {
        take(digest)?;
    }
    let mut section = super::file::SectionWriter::new(output, data_len);
    section.count(sums.len());
    sums.iter().for_each(|sum| section.put(&sum.to_le_bytes()));
    section.bytes(content);
    let index = section.finish()?;
    let mut trailer = MAGIC.to_vec();
    trailer.u32(VERSION);
    trailer.u32(shard);
    trailer.put(job.id().as_bytes());
    trailer.u64(data_len);
    index.put(&mut trailer);
    let digest = Digest::of(&trailer);
    trailer.put(digest.as_bytes());
    let written = output.write_all_at(&trailer, index.start + index.len);
    written.map_err(Error::io("cannot write", output.target()))
}
