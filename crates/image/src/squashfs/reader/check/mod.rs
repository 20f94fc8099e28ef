//! Verifies a whole image, more strictly than the kernel and than any other tool: tables first, then every
//! inode in the order of the inode table, then every directory from the root on, then every block of data.

mod data;
mod inodes;
mod tables;
mod tree;

use packfs_blocks::Progress;
use packfs_blocks::progress::Phase;

use super::Reader;
use crate::Result;
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
    tables::check(reader, &mut report)?;
    let mut inodes = inodes::scan(reader, progress, &mut report)?;
    tables::check_export(reader, &inodes, &mut report)?;
    tree::check(reader, &mut inodes, &mut report)?;
    progress.enter(Phase::Read);
    data::check(reader, inodes, threads, progress, &mut report)?;
    report.finish();
    progress.enter(Phase::Done);
    Ok(())
}
