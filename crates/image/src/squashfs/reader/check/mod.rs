//! Verifies a whole image, more strictly than the kernel and other tools: superblock and tables
//! first, then every inode in the order of the inode table, then every directory from the root,
//! then every data block.

mod data;
mod inodes;
mod maps;
mod superblock;
mod tables;
mod tree;
mod xattrs;

use packfs_blocks::Progress;

use super::SquashfsReader;
use crate::{Part, Result, check};
use packfs_tree::Finding;

pub(in crate::squashfs) use self::maps::{BrokenRule, first_broken};

/// See [`Image::check_part`](crate::Image::check_part).
pub(super) fn run(
    reader: &SquashfsReader,
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
            tables::check(reader, report)?;
            let mut inodes = inodes::scan(reader, progress, report)?;
            tables::check_export(reader, &inodes, report)?;
            tree::check(reader, &mut inodes, report)?;
            Ok(inodes)
        },
        |inodes, report| data::check(reader, inodes, part, threads, progress, report),
    )
}
