//! Verifies a whole image, more strictly than the kernel and than any other tool: the superblock first, then
//! every directory and every inode from the root on, then every byte of data.

mod data;
mod inodes;
mod tree;

use packfs_blocks::Progress;
use packfs_blocks::progress::Phase;

use super::Reader;
use crate::erofs::format::{Compat, LZ4_BLOCKS_MAX, SUPERBLOCK_OFFSET};
use crate::{Error, Result};

/// Findings after which the rest is not listed: a damaged image may have millions.
const FINDINGS_MAX: usize = 1000;

/// See [`Image::check`](crate::Image::check).
pub(super) fn run(reader: &Reader, threads: usize, progress: &Progress, finding: &mut dyn FnMut(String)) -> Result<()> {
    progress.enter(Phase::Metadata);
    let mut report = Report { finding, count: 0 };
    check_superblock(reader, &mut report);
    let inodes = tree::check(reader, progress, &mut report)?;
    progress.enter(Phase::Read);
    data::check(reader, &inodes, threads, progress, &mut report)?;
    progress.enter(Phase::Done);
    Ok(())
}

fn check_superblock(reader: &Reader, report: &mut Report<'_>) {
    let superblock = &reader.superblock;
    let mut wrong = |why: String| report.add("superblock", SUPERBLOCK_OFFSET, why);
    let (expected, len) = (superblock.block_start(superblock.blocks), reader.disk.len());
    if expected > len {
        let missing = expected - len;
        wrong(format!(
            "the image is truncated: it should have {expected} bytes but has only {len}, {missing} are missing"
        ));
    }
    if let Some(blocks) = superblock.lz4_blocks().filter(|blocks| *blocks > LZ4_BLOCKS_MAX) {
        wrong(format!("LZ4 clusters of {blocks} blocks: Linux mounts images with up to {LZ4_BLOCKS_MAX}"));
    }
    let unknown = superblock.compat.bits() & !Compat::KNOWN.bits();
    if unknown != 0 {
        wrong(format!("unknown compatible features {unknown:#x}"));
    }
    if superblock.len > u64::from(superblock.block_size) - SUPERBLOCK_OFFSET % u64::from(superblock.block_size) {
        wrong(format!("its {} bytes go beyond their block, so the checksum does not cover them", superblock.len));
    }
}

/// Where findings go.
struct Report<'f> {
    finding: &'f mut dyn FnMut(String),
    count: usize,
}

impl Report<'_> {
    /// Reports something wrong with a structure.
    fn add(&mut self, structure: &'static str, offset: u64, why: impl Into<String>) {
        self.text(Error::corrupt(structure, offset, why).to_string());
    }

    fn text(&mut self, text: String) {
        self.count += 1;
        if self.count <= FINDINGS_MAX {
            (self.finding)(text);
        } else if self.count == FINDINGS_MAX + 1 {
            (self.finding)(format!("more than {FINDINGS_MAX} findings; the rest is not listed"));
        }
    }

    /// Whether nothing more would be listed.
    fn is_full(&self) -> bool {
        self.count > FINDINGS_MAX
    }

    /// Reports damage that made a reader stop; other errors are not about the image and go on.
    fn error(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corrupt { .. } | Error::Unsupported(_) => {
                self.text(error.to_string());
                Ok(())
            }
            other => Err(other),
        }
    }

    /// The value of a step, or `None` when damage stopped it.
    fn take<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.error(error).map(|()| None),
        }
    }
}
