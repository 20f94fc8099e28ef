//! Checks the superblock against the image, and against what Linux can mount.

use packfs_blocks::units::Size;

use crate::erofs::format::{Compat, LZ4_BLOCKS_MAX, SUPERBLOCK_OFFSET};
use crate::erofs::reader::ErofsReader;
use packfs_tree::FindingCollector;

pub(super) fn check(reader: &ErofsReader, report: &mut FindingCollector<'_>) {
    let superblock = &reader.superblock;
    let unknown = superblock.compat.bits() & !Compat::KNOWN.bits();
    if unknown != 0 {
        // Readers may ignore them, so this is no damage.
        let text = format!("compatible features {unknown:#x}, which are newer than this program");
        report.note("superblock", SUPERBLOCK_OFFSET, text);
    }
    let mut wrong = |why: String| report.add("superblock", SUPERBLOCK_OFFSET, why);
    let expected = superblock.block_start(superblock.blocks);
    let len = reader.disk.len();
    if expected > len {
        let missing = expected - len;
        wrong(format!("the image is truncated: {} of {} are missing", Size(missing), Size(expected)));
    }
    if let Some(blocks) = superblock.lz4_blocks().filter(|blocks| *blocks > LZ4_BLOCKS_MAX) {
        wrong(format!("LZ4 clusters of {blocks} blocks: Linux mounts images with up to {LZ4_BLOCKS_MAX}"));
    }
    if let Some(number) = superblock.digest_prefix.filter(|number| *number >= superblock.xattr_prefixes) {
        let count = superblock.xattr_prefixes;
        wrong(format!("digests of files have the long xattr prefix {number}, but there are only {count}"));
    }
    let shared = superblock.compat.contains(Compat::SHARED_XATTRS_IN_METABOX);
    if shared && superblock.metabox.is_none() {
        wrong("shared xattrs are in the metabox, which the image does not have".into());
    }
    if superblock.len > u64::from(superblock.block_size) - SUPERBLOCK_OFFSET % u64::from(superblock.block_size) {
        wrong(format!("its {} bytes extend beyond their block, so the checksum does not cover them", superblock.len));
    }
}
