//! Cuts files into hashed blocks: the part of the feed that runs on workers.

use packfs_blocks::hash::is_zero;
use packfs_blocks::stages::{Stage, Stages};
use packfs_blocks::{Buffer, Buffers, Digest};

use super::sums::FileDigests;
use crate::source::{Contents, FileReader};
use crate::{Error, Result};

/// Number of bytes of a large file that one job reads: enough that a job costs little beside its reads, and little
/// enough that several jobs of one file fit in the memory budget. Not measured.
pub(super) const SEGMENT_LEN: u64 = 1 << 20;
/// Shorter runs of zeros at the end of a file are stored as data: a hole would cost more than it saves. Most file
/// systems hold none shorter.
const HOLE_MIN: usize = 4096;

/// One block or hole of a file.
#[derive(Debug)]
pub(crate) enum FileBlock {
    /// A run of zeros of this many bytes: whole blocks, except at the end of the file.
    Hole(u64),
    /// A block; only the last of a file may be short.
    Block(Buffer, Digest),
}

impl FileBlock {
    /// Returns this cut as it must be after a hole: a short tail of zeros continues the hole.
    /// Sources that report holes cannot tell such a tail from the hole, so other sources must give
    /// the same result.
    pub(crate) fn behind_hole(self) -> FileBlock {
        match self {
            FileBlock::Block(bytes, _) if bytes.len() < HOLE_MIN && is_zero(&bytes) => {
                FileBlock::Hole(bytes.len() as u64)
            }
            other => other,
        }
    }
}

/// A run of blocks of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSegment {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) hole: bool,
}

impl FileSegment {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Reads files and cuts them into blocks; shared by the workers and the conductor.
#[derive(Debug, Clone)]
pub(super) struct FileCutter<'env> {
    pub(super) block_len: usize,
    pub(super) sparse: bool,
    pub(super) buffers: Buffers,
    pub(super) stages: &'env Stages,
    pub(super) sums: Option<FileDigests>,
}

impl FileCutter<'_> {
    /// Reads all `size` bytes of the file of this number.
    pub(super) fn whole(&self, file: u32, from: &dyn Contents, key: u64, size: u64) -> Result<Vec<FileBlock>> {
        let (mut open, segments) = self.stages.time(Stage::Read, || {
            let mut open = from.open(key)?;
            let segments = self.segments(&mut *open, size)?;
            Ok::<_, Error>((open, segments))
        })?;
        let mut cuts = Vec::new();
        for segment in segments {
            self.read(&mut *open, segment, &mut cuts)?;
        }
        self.stages.time(Stage::Read, || open.finish())?;
        if let Some(sums) = &self.sums {
            self.stages.time(Stage::Hash, || sums.cuts(file, &cuts));
        }
        Ok(cuts)
    }

    /// Reads one segment of a file.
    pub(super) fn segment(&self, from: &dyn Contents, key: u64, segment: FileSegment) -> Result<Vec<FileBlock>> {
        let mut open = from.open(key)?;
        let mut cuts = Vec::new();
        self.read(&mut *open, segment, &mut cuts)?;
        open.finish()?;
        Ok(cuts)
    }

    fn read(&self, open: &mut (dyn FileReader + '_), segment: FileSegment, cuts: &mut Vec<FileBlock>) -> Result<()> {
        if segment.hole {
            cuts.push(FileBlock::Hole(segment.len));
            return Ok(());
        }
        let mut at = segment.offset;
        while at < segment.end() {
            let len = usize::try_from(segment.end() - at).unwrap_or(usize::MAX).min(self.block_len);
            let mut bytes = self.buffers.take(len);
            self.stages.time(Stage::Read, || open.read_exact_at(&mut bytes, at))?;
            cuts.push(self.cut(bytes));
            at += len as u64;
        }
        Ok(())
    }

    /// Hashes a block, or detects that it is a hole.
    pub(super) fn cut(&self, bytes: Buffer) -> FileBlock {
        let digest = self.stages.time(Stage::Hash, || {
            let hole = self.sparse && bytes.len() >= HOLE_MIN && is_zero(&bytes);
            (!hole).then(|| Digest::of(&bytes))
        });
        match digest {
            Some(digest) => FileBlock::Block(bytes, digest),
            None => FileBlock::Hole(bytes.len() as u64),
        }
    }

    /// Cuts a file at block boundaries into runs of blocks that are all hole and other runs, the
    /// latter of at most about [`SEGMENT_LEN`].
    pub(super) fn segments(&self, open: &mut (dyn FileReader + '_), size: u64) -> Result<Vec<FileSegment>> {
        let block = self.block_len as u64;
        let most = SEGMENT_LEN.max(block) / block * block;
        let mut segments = Vec::new();
        let mut at = 0;
        while at < size {
            let data = if self.sparse { open.next_data(at)? } else { Some((at, size)) };
            // Holes that do not cover a whole block are read as zeros.
            let (start, end) = data.map_or((size, size), |(start, end)| {
                (start.max(at) / block * block, end.div_ceil(block).saturating_mul(block).min(size))
            });
            if start > at {
                // Sources that do not report holes have a block there, unless it follows a hole: see `behind_hole`.
                let is_short_tail = start == size && size - at < HOLE_MIN as u64;
                segments.push(FileSegment { offset: at, len: start.min(size) - at, hole: !is_short_tail });
                at = start.min(size);
            }
            while at < end {
                let len = most.min(end - at);
                segments.push(FileSegment { offset: at, len, hole: false });
                at += len;
            }
        }
        Ok(segments)
    }
}
