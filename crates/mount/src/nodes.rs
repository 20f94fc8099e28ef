//! Inode numbers of the mount. They follow from those of the image alone, so none are kept in memory and they never
//! change: from mount to mount and for clients of an NFS server.

use fuser::INodeNo;
use packfs_image::image::Nid;

/// The distance between an inode's number here and in the image: 0 stands for no inode and 1 for the root.
const SHIFT: u64 = 2;

/// The numbers of a mount whose root is the inode `root`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeNumbers {
    pub(crate) root: Nid,
}

impl NodeNumbers {
    /// Returns the number of an inode; `None` if a damaged image has numbers that no inode can have.
    pub(crate) fn number(self, nid: Nid) -> Option<INodeNo> {
        if nid == self.root {
            return Some(INodeNo::ROOT);
        }
        nid.0.checked_add(SHIFT).map(INodeNo)
    }

    /// Returns the inode with a number.
    pub(crate) fn nid(self, number: INodeNo) -> Nid {
        if number == INodeNo::ROOT { self.root } else { Nid(number.0.wrapping_sub(SHIFT)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_inodes_and_avoid_those_with_a_meaning() {
        let nodes = NodeNumbers { root: Nid(36) };
        for nid in [0, 1, 2, 36, 37, 1 << 47, 1 << 63, u64::MAX - 2] {
            let number = nodes.number(Nid(nid)).unwrap();
            assert_eq!(nodes.nid(number), Nid(nid));
            assert_eq!(number.0 < SHIFT, nid == 36);
        }
        assert_eq!(nodes.number(Nid(u64::MAX)), None);
        assert_eq!(nodes.nid(INodeNo::ROOT), Nid(36));
    }
}
