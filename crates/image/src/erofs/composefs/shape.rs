//! Lengths of inodes and of what follows them, and the places that these lengths demand.

use super::BLOCK;
use super::order::NamedNode;
use crate::erofs::format::{CompactInode, Dirent, ExtendedInode, INODE_SLOT, Layout};

/// Longest end of a directory that follows its inode.
const DIR_TAIL_MAX: usize = 2048;

/// Condition that the place of an inode must meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placing {
    /// None.
    Anywhere,
    /// All that follows inode and attributes is in one block.
    Tail,
    /// Everything is in one block, or begins with one.
    Whole,
}

/// Lengths of an inode and of its data.
#[derive(Debug, Clone, Copy)]
pub(super) struct InodeShape {
    pub(super) layout: Layout,
    pub(super) placing: Placing,
    /// True if the inode takes 32 bytes.
    pub(super) is_compact: bool,
    pub(super) size: u64,
    pub(super) links: u32,
    /// Number of bytes of attributes.
    pub(super) attributes: u64,
    /// Number of bytes that follow the attributes.
    pub(super) tail: u64,
    /// Number of blocks elsewhere.
    pub(super) blocks: u32,
}

impl InodeShape {
    /// Returns the place of the inode if `at` is the first free byte.
    pub(super) fn start(&self, at: u64) -> u64 {
        let at = at.next_multiple_of(INODE_SLOT);
        match self.placing {
            Placing::Anywhere => at,
            Placing::Tail => {
                let tail_at = at + self.head_len();
                let room = tail_at.next_multiple_of(BLOCK) - tail_at;
                if room > 0 && room < self.tail { at + room.next_multiple_of(INODE_SLOT) } else { at }
            }
            // A target in a block of its own counts as if it were here.
            Placing::Whole if at % BLOCK + self.head_len() + self.size > BLOCK => at.next_multiple_of(BLOCK),
            Placing::Whole => at,
        }
    }

    /// Returns the number of bytes of the inode and all that follows it.
    pub(super) fn len(&self) -> u64 {
        self.head_len() + self.tail
    }

    fn head_len(&self) -> u64 {
        inode_len(self.is_compact) + self.attributes
    }
}

/// Returns the length of an inode alone.
pub(super) fn inode_len(is_compact: bool) -> u64 {
    (if is_compact { size_of::<CompactInode>() } else { size_of::<ExtendedInode>() }) as u64
}

/// Returns the bits of a chunk of a file of `size` bytes: the file is one chunk if possible.
pub(super) fn chunk_bits(size: u64) -> u32 {
    const CHUNK_BITS_MAX: u32 = 31;
    let bits = u64::BITS - size.saturating_sub(1).leading_zeros();
    bits.clamp(BLOCK.ilog2(), BLOCK.ilog2() + CHUNK_BITS_MAX)
}

/// Returns the number of chunks of a file.
pub(super) fn chunk_count(size: u64) -> u64 {
    size.div_ceil(1 << chunk_bits(size))
}

/// Entries of a directory that are stored together.
#[derive(Debug)]
pub(super) struct DirPart<'t> {
    pub(super) entries: Vec<NamedNode<'t>>,
    /// Number of bytes of the entries and their names.
    pub(super) len: usize,
    /// True if they follow the inode, and are not in a block.
    pub(super) is_tail: bool,
}

/// Cuts the entries of a directory into blocks, and an end that follows the inode if it is short.
pub(super) fn parts<'t>(mut entries: impl Iterator<Item = NamedNode<'t>>) -> impl Iterator<Item = DirPart<'t>> {
    let mut next = entries.next();
    std::iter::from_fn(move || {
        let mut part = DirPart { entries: Vec::new(), len: 0, is_tail: false };
        while let Some(entry) = next {
            let len = size_of::<Dirent>() + entry.name.len();
            if (part.len + len) as u64 > BLOCK {
                break;
            }
            part.len += len;
            part.entries.push(entry);
            next = entries.next();
        }
        part.is_tail = next.is_none() && part.len <= DIR_TAIL_MAX;
        (!part.entries.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_one_chunk_if_possible() {
        let chunk = |size| (chunk_bits(size), chunk_count(size));
        assert_eq!([1, 4096, 4097, 1 << 43].map(chunk), [(12, 1), (12, 1), (13, 1), (43, 1)]);
        assert_eq!([(1 << 43) + 1, 3 << 43].map(chunk), [(43, 2), (43, 3)]);
    }

    #[test]
    fn the_end_of_a_directory_follows_its_inode_if_it_is_short() {
        let name = [b'n'; 244];
        let of = |count: u32| {
            let entries = (0..count).map(|node| NamedNode { name: &name, node });
            parts(entries).map(|part| (part.entries.len(), part.is_tail)).collect::<Vec<_>>()
        };
        // Each entry takes 256 bytes.
        assert_eq!(of(8), [(8, true)]);
        assert_eq!(of(9), [(9, false)]);
        assert_eq!(of(16), [(16, false)]);
        assert_eq!(of(17), [(16, false), (1, true)]);
        assert_eq!(of(0), []);
    }
}
