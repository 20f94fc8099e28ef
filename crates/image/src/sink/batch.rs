//! Batches: stretches of an archive or a pseudo file of about 256 KiB, which workers fill while the conductor writes them
//! in order.

use std::io::Write;
use std::path::Path;

use packfs_blocks::pipeline::{Pool, Window};
use packfs_blocks::{Buffer, Buffers, Progress};

use crate::image::{Image, Nid};
use crate::tree::path_of;
use crate::{Error, Result};

/// Size at which a batch is submitted; it never exceeds `MAX`.
const ENOUGH: usize = 256 << 10;
pub(in crate::sink) const MAX: usize = 1 << 20;

/// A stretch of the archive: its pieces, in order.
#[derive(Debug, Default)]
struct Batch {
    pieces: Vec<Section>,
    /// The bytes of all [`Section::Bytes`].
    bytes: Vec<u8>,
    len: usize,
}

#[derive(Debug)]
enum Section {
    /// The next bytes of the batch's `bytes`, by number.
    Bytes(usize),
    /// A range of a file.
    Data { nid: Nid, path: Box<[u8]>, offset: u64, len: usize },
}

/// Destination of the archive.
pub(in crate::sink) struct Output<'o> {
    pub(in crate::sink) to: &'o mut dyn Write,
    pub(in crate::sink) name: &'o Path,
    pub(in crate::sink) progress: &'o Progress,
    pub(in crate::sink) written: u64,
}

/// Cuts an archive into batches, has them filled, and writes them in order.
pub(in crate::sink) struct Batches<'p, 'env, 'o> {
    image: &'env dyn Image,
    pool: &'p Pool<'env, ()>,
    output: Output<'o>,
    buffers: Buffers,
    window: Window<Result<Buffer>>,
    batch: Batch,
}

impl<'p, 'env, 'o> Batches<'p, 'env, 'o> {
    /// Makes a writer that holds about `memory` bytes of the archive at a time.
    pub(in crate::sink) fn new(
        image: &'env dyn Image,
        pool: &'p Pool<'env, ()>,
        output: Output<'o>,
        memory: u64,
    ) -> Self {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let (buffers, window) = (Buffers::new(MAX), Window::new(memory));
        Batches { image, pool, output, buffers, window, batch: Batch::default() }
    }

    /// Adds bytes.
    pub(in crate::sink) fn add_bytes(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(MAX - self.batch.len));
            self.batch.bytes.extend_from_slice(now);
            self.batch.len += now.len();
            match self.batch.pieces.last_mut() {
                Some(Section::Bytes(n)) => *n += now.len(),
                _ => self.batch.pieces.push(Section::Bytes(now.len())),
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
                Some(Section::Data { nid: of, offset: start, len: n, .. })
                    if *of == nid && *start + *n as u64 == offset =>
                {
                    *n += now;
                }
                _ => self.batch.pieces.push(Section::Data { nid, path: path.into(), offset, len: now }),
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
        while let Some(filled) = self.window.pop() {
            self.output.write(&filled?)?;
        }
        self.output.to.flush().map_err(Error::io("cannot write", self.output.name))?;
        Ok(self.output.written)
    }

    /// Submits the batch if it has `len` bytes.
    fn submit_if(&mut self, len: usize) -> Result<()> {
        if self.batch.len < len {
            return Ok(());
        }
        Error::unless_cancelled(self.output.progress)?;
        while self.window.is_full() {
            if let Some(filled) = self.window.pop() {
                self.output.write(&filled?)?;
            }
        }
        let batch = std::mem::take(&mut self.batch);
        let (image, buffers) = (self.image, self.buffers.clone());
        self.window.push(self.pool.submit(move |()| fill(image, &batch, &buffers)), MAX);
        while let Some(filled) = self.window.pop_ready() {
            self.output.write(&filled?)?;
        }
        Ok(())
    }
}

impl Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes).map_err(Error::io("cannot write", self.name))?;
        self.written += bytes.len() as u64;
        Progress::add(&self.progress.written, bytes.len() as u64);
        Progress::add(&self.progress.done, bytes.len() as u64);
        Ok(())
    }
}

/// Fills a batch with its bytes and file data.
fn fill(image: &dyn Image, batch: &Batch, buffers: &Buffers) -> Result<Buffer> {
    let mut buffer = buffers.take(batch.len);
    let (mut out, mut bytes) = (&mut buffer[..], &batch.bytes[..]);
    for piece in &batch.pieces {
        let len = match piece {
            Section::Bytes(len) | Section::Data { len, .. } => *len,
        };
        let (here, rest) = out.split_at_mut(len);
        match piece {
            Section::Bytes(len) => {
                let (now, later) = bytes.split_at(*len);
                here.copy_from_slice(now);
                bytes = later;
            }
            Section::Data { nid, path, offset, .. } => {
                let got = image.read_at(*nid, here, *offset)?;
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
