//! Metadata tables: consecutive records in blocks of 8 KiB, compressed on the workers.
//!
//! A record's address is known immediately as block number and offset. The start of that block in
//! the table depends on how well earlier blocks shrank, so asking for it waits for them.

use packfs_blocks::pipeline::{JobTicket, Pool};

use super::pack::BlockPacker;
use crate::squashfs::format::METADATA_LEN;
use crate::{Error, Result};

/// Position of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RecordPosition {
    pub(crate) block: u32,
    pub(crate) offset: u16,
}

/// Writes bytes at an offset in a table.
pub(crate) type TableSink<'p> = Box<dyn FnMut(&[u8], u64) -> Result<()> + 'p>;

/// Number of bytes written at a time.
const WRITE_LEN: usize = 1 << 20;

/// Number of blocks that may wait for a worker.
const PENDING: usize = 256;

/// A complete table.
#[derive(Debug)]
pub(crate) struct FinishedTable {
    /// Its bytes, unless they were written.
    pub(crate) packed: Vec<u8>,
    /// Start of each of its blocks.
    pub(crate) starts: Vec<u64>,
    /// Length in bytes.
    pub(crate) len: u64,
}

impl FinishedTable {
    /// Returns the reference of a record: the block's start and the offset in the block.
    pub(crate) fn reference(&self, at: RecordPosition) -> Result<u64> {
        reference(self.starts[at.block as usize], at)
    }
}

fn reference(start: u64, at: RecordPosition) -> Result<u64> {
    let start = u32::try_from(start).map_err(|_| too_large())?;
    Ok(u64::from(start) << 16 | u64::from(at.offset))
}

/// A table being filled.
pub(crate) struct GrowingTable<'p, 'env> {
    pool: &'p Pool<'env, BlockPacker>,
    /// True to store blocks uncompressed.
    plain: bool,
    filling: Vec<u8>,
    sent: std::collections::VecDeque<JobTicket<Result<Vec<u8>>>>,
    /// Packed blocks: all, or those that are not yet written.
    packed: Vec<u8>,
    sink: Option<TableSink<'p>>,
    /// Number of bytes written.
    written: u64,
    /// Start of each block in the table; one more than there are packed blocks.
    starts: Vec<u64>,
    /// Number of blocks filled so far.
    blocks: u32,
}

impl<'p, 'env> GrowingTable<'p, 'env> {
    pub(crate) fn new(pool: &'p Pool<'env, BlockPacker>, plain: bool) -> Self {
        GrowingTable {
            pool,
            plain,
            filling: Vec::with_capacity(METADATA_LEN),
            sent: std::collections::VecDeque::new(),
            packed: Vec::new(),
            sink: None,
            written: 0,
            starts: vec![0],
            blocks: 0,
        }
    }

    /// Has the table written while it is filled, so that little of it is in memory.
    pub(crate) fn into_sink(self, sink: TableSink<'p>) -> Self {
        GrowingTable { sink: Some(sink), ..self }
    }

    /// Returns the position of the next record.
    pub(crate) fn at(&self) -> RecordPosition {
        // A full block is submitted immediately, so the offset is below 8192.
        RecordPosition { block: self.blocks, offset: u16::try_from(self.filling.len()).expect("below 8192") }
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(METADATA_LEN - self.filling.len()));
            self.filling.extend_from_slice(part);
            bytes = rest;
            if self.filling.len() == METADATA_LEN {
                self.send()?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let raw = std::mem::replace(&mut self.filling, Vec::with_capacity(METADATA_LEN));
        let plain = self.plain;
        self.sent.push_back(self.pool.submit(move |worker: &mut BlockPacker| worker.pack_metadata(&raw, plain)));
        self.blocks = self.blocks.checked_add(1).ok_or_else(too_large)?;
        // Finished blocks are fetched, so that only their compressed form is held, and few are uncompressed at a time.
        while self.sent.len() > PENDING || self.sent.front().is_some_and(JobTicket::is_ready) {
            self.fetch()?;
        }
        Ok(())
    }

    fn fetch(&mut self) -> Result<()> {
        if let Some(ticket) = self.sent.pop_front() {
            self.packed.extend_from_slice(&ticket.wait()?);
            self.starts.push(self.written + self.packed.len() as u64);
            if self.packed.len() >= WRITE_LEN {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Writes what is packed, if the table is written.
    fn write(&mut self) -> Result<()> {
        if let Some(sink) = &mut self.sink {
            sink(&self.packed, self.written)?;
            self.written += self.packed.len() as u64;
            self.packed.clear();
        }
        Ok(())
    }

    /// Returns the start of a block in the table. Waits until the blocks before it are packed.
    pub(crate) fn start(&mut self, block: u32) -> Result<u32> {
        while self.starts.len() <= block as usize {
            self.fetch()?;
        }
        u32::try_from(self.starts[block as usize]).map_err(|_| too_large())
    }

    /// Returns the reference of a record. Waits until the blocks before it are packed.
    pub(crate) fn reference(&mut self, at: RecordPosition) -> Result<u64> {
        let start = self.start(at.block)?;
        reference(start.into(), at)
    }

    /// Ends the table.
    pub(crate) fn finish(mut self) -> Result<FinishedTable> {
        if !self.filling.is_empty() {
            self.send()?;
        }
        while !self.sent.is_empty() {
            self.fetch()?;
        }
        self.write()?;
        let len = self.starts.pop().expect("one more than there are blocks");
        Ok(FinishedTable { packed: self.packed, starts: self.starts, len })
    }
}

fn too_large() -> Error {
    Error::TooMany { what: "bytes in a table of inodes, names or attributes", max: u32::MAX.into() }
}
