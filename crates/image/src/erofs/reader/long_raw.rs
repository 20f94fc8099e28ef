//! Uncompressed extents of several blocks, of which the superblock does not tell.

use super::ErofsReader;
use super::data::InodeData;
use super::inode::InodeType;
use crate::erofs::format::Incompat;
use crate::image::{FileType, Nid};
use crate::sink::Walk;

impl ErofsReader {
    /// Returns true if files have uncompressed extents of several blocks, which packfs 0.2 wrote and Linux before 6.15
    /// refuses to read (EUCLEAN). False for images with 48-bit addresses, which need 6.15 in any case.
    ///
    /// No feature tells that, so the indexes of files are read until one has such an extent. Damaged inodes are passed over.
    pub fn has_long_raw_extents(&self) -> bool {
        let incompat = self.superblock.incompat;
        // Only the older forms of indexes have that limit, and only with big clusters.
        if incompat.contains(Incompat::BITS_48) || !incompat.contains(Incompat::BIG_CLUSTERS) {
            return false;
        }
        let of_file = |nid: Nid| {
            let inode = self.inode(nid)?;
            // Without data there is no map.
            if inode.kind != InodeType::File || inode.size == 0 {
                Ok(false)
            } else {
                InodeData::open(self, &inode)?.has_long_raw()
            }
        };
        // First, as it is one inode that many files may depend on.
        if self.superblock.packed.is_some_and(|nid| of_file(nid).unwrap_or(false)) {
            return true;
        }
        let Ok(mut walk) = Walk::new(self, &[]) else { return false };
        loop {
            match walk.step() {
                Ok(None) => return false,
                Ok(Some(visit)) => {
                    let is_file = matches!(visit.stat.kind, FileType::File { .. });
                    if is_file && of_file(visit.nid).unwrap_or(false) {
                        return true;
                    }
                }
                // The walk goes on with the next entry.
                Err(_) => {}
            }
        }
    }
}
