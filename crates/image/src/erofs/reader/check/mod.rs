//! Verifies a whole image, more strictly than the kernel and than any other tool: the superblock first, then
//! every directory and every inode from the root on, then every byte of data.

mod acl;
mod data;
mod inodes;
mod tree;

use packfs_blocks::Progress;
use packfs_blocks::progress::Phase;

use super::Reader;
use crate::Result;
use crate::erofs::format::{Compat, LZ4_BLOCKS_MAX, SUPERBLOCK_OFFSET};
use crate::finding::{Finding, Report};

/// See [`Image::check`](crate::Image::check).
pub(super) fn run(
    reader: &Reader,
    threads: usize,
    progress: &Progress,
    finding: &mut dyn FnMut(Finding),
) -> Result<()> {
    progress.enter(Phase::Metadata);
    let mut report = Report::new(finding);
    check_superblock(reader, &mut report);
    let inodes = tree::check(reader, progress, &mut report)?;
    progress.enter(Phase::Read);
    data::check(reader, &inodes, threads, progress, &mut report)?;
    report.finish();
    progress.enter(Phase::Done);
    Ok(())
}

fn check_superblock(reader: &Reader, report: &mut Report<'_>) {
    let superblock = &reader.superblock;
    let unknown = superblock.compat.bits() & !Compat::KNOWN.bits();
    if unknown != 0 {
        let text = format!("compatible features {unknown:#x}, which are newer than this program");
        report.note("superblock", SUPERBLOCK_OFFSET, text);
    }
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
    let shared = superblock.compat.contains(Compat::SHARED_XATTRS_IN_METABOX);
    if shared && superblock.metabox.is_none() {
        wrong("shared xattrs lie in the metabox, which the image does not have".into());
    }
    if superblock.len > u64::from(superblock.block_size) - SUPERBLOCK_OFFSET % u64::from(superblock.block_size) {
        wrong(format!("its {} bytes go beyond their block, so the checksum does not cover them", superblock.len));
    }
}
