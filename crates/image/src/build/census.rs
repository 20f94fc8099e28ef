//! Counts of a tree.

use crate::tree::{Kind, Tree};

/// Counts of a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeCensus {
    pub(crate) inodes: u32,
    /// Number of regular files.
    pub(crate) files: u32,
    /// Number of directories.
    pub(crate) directories: u32,
    /// Sum of the lengths of regular files, each hard-linked file once.
    pub(crate) file_bytes: u64,
    /// Newest modification time in whole seconds: images take their time from the input, never from the clock.
    pub(crate) newest: i64,
}

impl TreeCensus {
    /// Counts the inodes of `tree`.
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut census = TreeCensus { inodes: 0, files: 0, directories: 0, file_bytes: 0, newest: i64::MIN };
        let walked = tree.walk(|ino, _| {
            let inode = tree.inode(ino);
            census.newest = census.newest.max(inode.mtime.secs);
            census.inodes += 1;
            match inode.kind {
                Kind::File { size, .. } => {
                    census.files += 1;
                    census.file_bytes += size;
                }
                Kind::Dir => census.directories += 1,
                _ => {}
            }
            Ok(())
        });
        debug_assert!(walked.is_ok(), "the visitor never fails");
        census
    }
}
