//! Verifies a whole image, more strictly than the kernel and other tools: the superblock first,
//! then every directory and inode from the root, then every byte of data.

mod data;
mod digests;
mod inodes;
mod maps;
mod superblock;
mod tree;
mod xattrs;

use packfs_blocks::Progress;

use super::ErofsReader;
use crate::{Part, Result, check};
use packfs_tree::Finding;

pub(in crate::erofs) use self::maps::MapCheck;

/// See [`Image::check_part`](crate::Image::check_part).
pub(super) fn run(
    reader: &ErofsReader,
    part: Part,
    threads: usize,
    progress: &Progress,
    finding: &mut dyn FnMut(Finding),
) -> Result<()> {
    check::run(
        progress,
        finding,
        part,
        |report| {
            superblock::check(reader, report);
            tree::check(reader, progress, report)
        },
        |inodes, report| {
            data::check(reader, &inodes, part, threads, progress, report)?;
            digests::check(reader, &inodes, part, threads, progress, report)
        },
    )
}
