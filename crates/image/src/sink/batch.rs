//! Batches: stretches of an archive or a pseudo file of about 256 KiB, which workers fill. They write them to a file,
//! too; those of a stream the conductor writes in order.

use std::io::Write;
use std::path::Path;

use packfs_blocks::io::{OutputPiece, WriteTurns};
use packfs_blocks::pipeline::{Pool, Window};
use packfs_blocks::{Buffer, Buffers, Progress};

use crate::image::{Image, Nid};
use crate::tree::path_of;
use crate::{Error, Result};

/// Size at which a batch is submitted. It is still in the cache of the processor that then writes it.
const ENOUGH: usize = 256 << 10;
/// Maximum size of a batch. No format has longer blocks, so each fits in one and is decoded once.
pub(in crate::sink) const MAX: usize = 1 << 20;
/// Number of filled bytes that wait while a file is written.
pub(in crate::sink) const WAITING: usize = MAX;

/// A stretch of the archive: its pieces, in order.
#[derive(Debug, Default)]
struct ArchiveBatch {
    pieces: Vec<BatchSection>,
    /// The bytes of all [`BatchSection::Bytes`].
    bytes: Vec<u8>,
    len: usize,
}

#[derive(Debug)]
enum BatchSection {
    /// The next bytes of the batch's `bytes`, by number.
    Bytes(usize),
    /// A range of a file.
    Data { nid: Nid, path: Box<[u8]>, offset: u64, len: usize },
}

/// Destination of the archive.
pub(in crate::sink) enum ArchiveTarget<'env> {
    Stream(&'env mut (dyn Write + 'env)),
    File(&'env WriteTurns<'env>),
}

/// The archive that is written.
pub(in crate::sink) struct ArchiveOutput<'env> {
    pub(in crate::sink) to: ArchiveTarget<'env>,
    pub(in crate::sink) name: &'env Path,
    pub(in crate::sink) progress: &'env Progress,
}

/// Length of a batch whose job is done, and its bytes if they are still to be written.
type FinishedBatch = (usize, Option<Buffer>);

/// Cuts an archive into batches, has them filled, and writes them in order.
pub(in crate::sink) struct ArchiveBatcher<'p, 'env> {
    image: &'env dyn Image,
    pool: &'p Pool<'env, ()>,
    output: ArchiveOutput<'env>,
    buffers: Buffers,
    window: Window<Result<FinishedBatch>>,
    batch: ArchiveBatch,
    /// Position of `batch` in the archive.
    at: u64,
}

impl<'p, 'env> ArchiveBatcher<'p, 'env> {
    /// Makes a writer that holds about `memory` bytes of the archive at a time.
    pub(in crate::sink) fn new(
        image: &'env dyn Image,
        pool: &'p Pool<'env, ()>,
        output: ArchiveOutput<'env>,
        memory: u64,
    ) -> Self {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let buffers = Buffers::new(MAX);
        let window = Window::new(memory);
        ArchiveBatcher { image, pool, output, buffers, window, batch: ArchiveBatch::default(), at: 0 }
    }

    /// Adds bytes.
    pub(in crate::sink) fn add_bytes(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(MAX - self.batch.len));
            self.batch.bytes.extend_from_slice(now);
            self.batch.len += now.len();
            match self.batch.pieces.last_mut() {
                // Headers come in many small writes; a section for each would cost more than its bytes.
                Some(BatchSection::Bytes(n)) => *n += now.len(),
                _ => self.batch.pieces.push(BatchSection::Bytes(now.len())),
            }
            self.submit_if(ENOUGH)?;
            bytes = later;
        }
        Ok(())
    }

    /// Adds a range of the file `nid` that decodes independently.
    pub(in crate::sink) fn add_data(&mut self, nid: Nid, path: &[u8], mut offset: u64, mut len: u64) -> Result<()> {
        while len > 0 {
            let now = usize::try_from(len).unwrap_or(MAX).min(MAX);
            // Cut at the start of the range if needed, so that no block is decoded twice.
            self.submit_if((MAX + 1 - now).min(ENOUGH))?;
            match self.batch.pieces.last_mut() {
                Some(BatchSection::Data { nid: of, offset: start, len: n, .. })
                    if *of == nid && *start + *n as u64 == offset =>
                {
                    *n += now;
                }
                _ => self.batch.pieces.push(BatchSection::Data { nid, path: path.into(), offset, len: now }),
            }
            self.batch.len += now;
            (offset, len) = (offset + now as u64, len - now as u64);
            self.submit_if(ENOUGH)?;
        }
        Ok(())
    }

    /// Writes everything still in flight. Returns the total number of bytes written.
    pub(in crate::sink) fn finish(mut self) -> Result<u64> {
        self.submit_if(1)?;
        while let Some(done) = self.window.pop() {
            self.output.put(done?)?;
        }
        if let ArchiveTarget::Stream(to) = &mut self.output.to {
            to.flush().map_err(Error::io("cannot write", self.output.name))?;
        }
        Ok(self.at)
    }

    /// Submits the batch if it has `len` bytes.
    fn submit_if(&mut self, len: usize) -> Result<()> {
        if self.batch.len < len {
            return Ok(());
        }
        // Here, on the thread that every batch passes; workers finish what they have.
        Error::unless_cancelled(self.output.progress)?;
        while self.window.is_full() {
            if let Some(done) = self.window.pop() {
                self.output.put(done?)?;
            }
        }
        let batch = std::mem::take(&mut self.batch);
        let at = self.at;
        self.at += batch.len as u64;
        let image = self.image;
        let buffers = self.buffers.clone();
        let turns = self.output.turns();
        let name = self.output.name;
        let job = move |_: &mut ()| {
            let filled = fill(image, &batch, &buffers)?;
            let Some(turns) = turns else { return Ok((batch.len, Some(filled))) };
            turns.write(OutputPiece::whole(filled, at)).map_err(Error::io("cannot write", name))?;
            Ok((batch.len, None))
        };
        self.window.push(self.pool.submit(job), MAX);
        // One for one: if everything that is ready were written now, workers would run out of batches meanwhile.
        match self.window.pop_ready() {
            Some(done) => self.output.put(done?),
            None => Ok(()),
        }
    }
}

impl<'env> ArchiveOutput<'env> {
    fn turns(&self) -> Option<&'env WriteTurns<'env>> {
        if let ArchiveTarget::File(turns) = self.to { Some(turns) } else { None }
    }

    fn put(&mut self, (len, bytes): FinishedBatch) -> Result<()> {
        if let (ArchiveTarget::Stream(to), Some(bytes)) = (&mut self.to, bytes) {
            to.write_all(&bytes).map_err(Error::io("cannot write", self.name))?;
            // For a file, the turns have counted it.
            Progress::add(&self.progress.written, len as u64);
        }
        Progress::add(&self.progress.done, len as u64);
        Ok(())
    }
}

/// Fills a batch with its bytes and file data.
fn fill(image: &dyn Image, batch: &ArchiveBatch, buffers: &Buffers) -> Result<Buffer> {
    let mut buffer = buffers.take(batch.len);
    let mut out = &mut buffer[..];
    let mut bytes = &batch.bytes[..];
    for piece in &batch.pieces {
        let len = match piece {
            BatchSection::Bytes(len) | BatchSection::Data { len, .. } => *len,
        };
        let (here, rest) = out.split_at_mut(len);
        match piece {
            BatchSection::Bytes(len) => {
                let (now, later) = bytes.split_at(*len);
                here.copy_from_slice(now);
                bytes = later;
            }
            BatchSection::Data { nid, path, offset, .. } => {
                let got = image.read_at(*nid, here, *offset).map_err(|error| error.in_entry(path))?;
                if got < len {
                    let why = format!("it ends at byte {}, before its size", offset + got as u64);
                    return Err(Error::Damaged { path: path_of(path), why });
                }
            }
        }
        out = rest;
    }
    Ok(buffer)
}
