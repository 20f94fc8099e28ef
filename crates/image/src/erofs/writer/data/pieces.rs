//! Pieces for the workers: from batches of small files, from larger files, and from the stream of small files.

use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::stages::Stage;
use packfs_blocks::{Buffer, Digest, Progress};

use super::reuse::RECENT;
use super::{CHUNKING, Data, FilePart, What, Work};
use crate::erofs::writer::chunk;
use crate::erofs::writer::layout::tail_max;
use crate::erofs::writer::pack::{Ending, Piece, Worker};
use crate::{Error, Result};

impl Data<'_, '_> {
    pub(super) fn pack_batch(&mut self, bytes: Buffer, fresh: Vec<(u32, Range<usize>)>) -> Result<()> {
        let mut pieces = Vec::new();
        for (file, range) in fresh {
            let len = range.len();
            let fragment = self.rules.ending == Ending::Fragment && len <= self.rules.fragment_max;
            let what = if fragment || self.rules.all_fragments {
                What::Fragment { offset: self.put_small(&bytes[range])?, len: len as u64 }
            } else if self.is_tail(len) {
                self.packs(len);
                What::Raw { stretches: Box::new([]), tail: self.keep(&bytes[range])? }
            } else {
                let seq = self.piece()?;
                pieces.push(Piece {
                    seq,
                    range,
                    ending: self.rules.ending,
                    whole: self.rules.inline_tails,
                    reuse: Vec::new(),
                });
                self.packs(len);
                What::Compressed(Box::new([FilePart::Piece(seq)]))
            };
            self.files[file as usize].what = what;
        }
        if pieces.is_empty() { Ok(()) } else { self.submit(bytes, pieces) }
    }

    /// Whether a file of so many bytes can only lie behind its inode: compressed it would take a block too.
    pub(super) fn is_tail(&self, len: usize) -> bool {
        self.rules.inline_tails && self.rules.ending == Ending::Cluster && len <= tail_max(self.rules.block())
    }

    /// The number of the next piece of a larger file.
    pub(super) fn block(&mut self, bytes: Buffer, digest: Digest, last: bool) -> Result<u32> {
        let len = bytes.len();
        // A piece from the middle of a file may end another, but not the other way round.
        let found = self.pieces.get(&(digest, false)).or_else(|| self.pieces.get(&(digest, true)).filter(|_| last));
        if let Some(seq) = found.copied().filter(|_| self.rules.dedup) {
            self.counts.duplicate_bytes += len as u64;
            self.save(len as u64);
            return Ok(seq);
        }
        let seq = self.piece()?;
        self.pieces.insert((digest, last), seq);
        self.packs(len);
        let ending = match last {
            false => Ending::More,
            // The packed inode holds whole files only.
            true if self.rules.all_fragments => Ending::Cluster,
            true => self.rules.ending,
        };
        self.submit_whole(seq, bytes, ending)?;
        Ok(seq)
    }

    pub(super) fn submit_whole(&mut self, seq: u32, bytes: Buffer, ending: Ending) -> Result<()> {
        let range = 0..bytes.len();
        self.submit(bytes, vec![Piece { seq, range, ending, whole: false, reuse: Vec::new() }])
    }

    /// Counts bytes that go to a codec.
    pub(super) fn packs(&mut self, len: usize) {
        self.counts.packed_bytes += len as u64;
        Progress::add(&self.tools.progress.done, len as u64);
        Progress::add(&self.tools.progress.packed, len as u64);
    }

    /// A number for one more piece.
    pub(super) fn piece(&mut self) -> Result<u32> {
        self.done.push(None);
        u32::try_from(self.done.len() - 1).map_err(|_| Error::TooMany { what: "pieces of files", max: 1 << 32 })
    }

    /// Appends to the stream of small files; returns at which offset.
    pub(super) fn put_small(&mut self, bytes: &[u8]) -> Result<u64> {
        self.packs(bytes.len());
        self.counts.fragment_bytes += bytes.len() as u64;
        let (offset, mut left) = (self.small.len(), bytes);
        while !left.is_empty() {
            left = self.small.put(left);
            if self.small.is_full() {
                self.send_small(Ending::More)?;
            }
        }
        Ok(offset)
    }

    pub(super) fn send_small(&mut self, ending: Ending) -> Result<()> {
        if let Some(bytes) = self.small.take() {
            let seq = self.piece()?;
            self.small.pieces.push(seq);
            self.submit_whole(seq, bytes, ending)?;
        }
        Ok(())
    }

    /// Appends zeros to the stream of small files.
    pub(super) fn put_zeros(&mut self, mut len: u64) -> Result<()> {
        let zeros = vec![0; self.rules.piece];
        while len > 0 {
            let part = usize::try_from(len).unwrap_or(usize::MAX).min(zeros.len());
            self.put_small(&zeros[..part])?;
            len -= part as u64;
        }
        Ok(())
    }

    /// Puts pieces of zeros, each length once, in place of holes: this form of index has none.
    pub(super) fn fill_holes(&mut self, parts: Vec<FilePart>) -> Result<Vec<FilePart>> {
        let mut filled = Vec::with_capacity(parts.len());
        let count = parts.len();
        for (n, part) in parts.into_iter().enumerate() {
            let FilePart::Hole(mut left) = part else {
                filled.push(part);
                continue;
            };
            while left > 0 {
                let len = left.min(self.rules.piece as u64);
                left -= len;
                let last = left == 0 && n + 1 == count;
                let seq = match self.zeros.get(&(len, last)) {
                    Some(seq) => *seq,
                    None => self.zero_piece(len, last)?,
                };
                filled.push(FilePart::Piece(seq));
            }
        }
        Ok(filled)
    }

    fn zero_piece(&mut self, len: u64, last: bool) -> Result<u32> {
        let mut bytes = self.buffers.take(usize::try_from(len).expect("a piece at most"));
        bytes.fill(0);
        let seq = self.piece()?;
        self.zeros.insert((len, last), seq);
        self.submit_whole(seq, bytes, if last { Ending::Cluster } else { Ending::More })?;
        Ok(seq)
    }

    pub(super) fn submit(&mut self, bytes: Buffer, pieces: Vec<Piece>) -> Result<()> {
        let bytes = Arc::new(bytes);
        let Some(average) = self.rules.chunk else { return self.submit_planned(&bytes, pieces) };
        let (shared, ranges) = (Arc::clone(&bytes), pieces.iter().map(|piece| piece.range.clone()).collect::<Vec<_>>());
        let stages = &self.tools.progress.stages;
        let ticket = self.tools.pool.submit(move |_: &mut Worker| {
            let chunks = || ranges.into_iter().map(|range| chunk::chunks(&shared[range], average)).collect();
            stages.time(Stage::Hash, chunks)
        });
        self.chunking.push_back((bytes, pieces, ticket));
        if self.chunking.len() > CHUNKING { self.plan().map(|_| ()) } else { Ok(()) }
    }

    pub(super) fn submit_planned(&mut self, bytes: &Arc<Buffer>, pieces: Vec<Piece>) -> Result<()> {
        let Some(last) = pieces.last() else { return Ok(()) };
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(self.planned);
        self.planned = last.seq + 1;
        // The pieces and what they are packed into.
        let held = pieces.iter().map(|piece| piece.range.len()).sum::<usize>() * 2;
        let bytes = Arc::clone(bytes);
        let stages = &self.tools.progress.stages;
        let pack = move |worker: &mut Worker| stages.time(Stage::Compress, || worker.pack(&bytes, pieces));
        let ticket = self.tools.pool.submit(move |worker: &mut Worker| pack(worker).map(Work::Packed));
        self.push(ticket, held)
    }
}
