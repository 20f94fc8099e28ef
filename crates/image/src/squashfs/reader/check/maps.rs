//! Checks the inode and fragment tables by the rules of a check, but reads no data: for a build, which has verified that
//! already.

use packfs_blocks::Progress;

use super::inodes::InodeScan;
use crate::squashfs::reader::SquashfsReader;
use crate::squashfs::reader::metadata::MetadataPosition;
use crate::{Error, Result};
use packfs_tree::{Finding, FindingCollector};

/// Number of data blocks that are compared with each other at a time: 7 MiB of memory, and 28 GiB of
/// files in blocks of 128 KiB.
const BLOCKS_MAX: usize = 7 << 15;

/// A rule that a new image breaks.
#[derive(Debug)]
pub(in crate::squashfs) struct BrokenRule {
    /// Number of the inode that breaks it, if it is known.
    pub(in crate::squashfs) inode: Option<u32>,
    pub(in crate::squashfs) finding: Finding,
}

/// Returns the first rule that an inode or a fragment breaks.
pub(in crate::squashfs) fn first_broken(reader: &SquashfsReader, progress: &Progress) -> Result<Option<BrokenRule>> {
    let area = reader.inodes;
    let mut cursor = reader.metadata.cursor(area, MetadataPosition { block: area.start, offset: 0 })?;
    let mut scan = InodeScan::new(reader, BLOCKS_MAX);
    loop {
        // One inode a time, so that a build can be stopped.
        Error::unless_cancelled(progress)?;
        let mut inode = None;
        let finding = FindingCollector::first_damage(|report| {
            let step = scan.step(&mut cursor, report);
            // No number where the step failed before it read one.
            inode = report.take(step)?.flatten();
            Ok(())
        })?;
        if let Some(finding) = finding {
            return Ok(Some(BrokenRule { inode, finding }));
        }
        if inode.is_none() {
            break;
        }
        // For the rule of any other inode it makes no difference.
        scan.forget();
    }
    let finding = FindingCollector::first_damage(|report| {
        for n in 0..reader.superblock.fragments {
            report.take(reader.fragment(n))?;
        }
        Ok(())
    })?;
    Ok(finding.map(|finding| BrokenRule { inode: None, finding }))
}
