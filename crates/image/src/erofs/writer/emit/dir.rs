//! Encodes directories: blocks of entries, each block with its names after the entries.
//!
//! Names ascend as unsigned bytes over the whole directory, including `.` and `..`. A directory is
//! measured before inodes have positions, and written afterwards.

use zerocopy::IntoBytes;

use crate::erofs::format::{Dirent, file_type};
use crate::tree::{Ino, Kind, KindRef, Tree};

/// Facts about a directory's data that do not depend on the positions of inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirListing {
    /// Length: whole blocks plus the length of the last one.
    pub(crate) size: u64,
    /// Number of entries in all blocks except the last.
    pub(crate) before_last: u32,
    /// Number of subdirectories.
    pub(crate) subdirs: u32,
}

/// An entry of a directory, including `.` and `..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedInode<'t> {
    pub(crate) name: &'t [u8],
    pub(crate) ino: Ino,
}

/// A directory to list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedDir {
    pub(crate) dir: Ino,
    pub(crate) parent: Ino,
    /// True if it has an entry `.`.
    pub(crate) dot: bool,
}

/// Returns the entries of a directory in their stored order.
pub(crate) fn entries(tree: &Tree, of: ListedDir) -> impl Iterator<Item = NamedInode<'_>> {
    let ListedDir { dir, parent, dot } = of;
    let dots = [NamedInode { name: b".", ino: dir }, NamedInode { name: b"..", ino: parent }];
    let mut dots = dots.into_iter().skip(usize::from(!dot)).peekable();
    let mut named = tree.entries(dir).map(|(name, ino)| NamedInode { name, ino }).peekable();
    std::iter::from_fn(move || match (dots.peek(), named.peek()) {
        (Some(dot), Some(entry)) if entry.name < dot.name => named.next(),
        (Some(_), _) => dots.next(),
        (None, _) => named.next(),
    })
}

/// Tracks the room in blocks as entries are added.
struct BlockFill {
    block: usize,
    used: usize,
}

impl BlockFill {
    /// Adds an entry; returns true if it begins a new block.
    fn begins_block(&mut self, name: &[u8]) -> bool {
        let len = size_of::<Dirent>() + name.len();
        let begins = self.used == 0 || self.used + len > self.block;
        self.used = if begins { len } else { self.used + len };
        begins
    }
}

/// Measures the directory `dir`, with or without an entry `.`, in blocks of `block` bytes.
pub(crate) fn measure(tree: &Tree, dir: Ino, dot: bool, block: usize) -> DirListing {
    let mut fill = BlockFill { block, used: 0 };
    let mut blocks = 0u64;
    let mut before_last = 0;
    let mut subdirs = 0;
    // The inode of `..` does not affect lengths.
    for (at, entry) in (0u32..).zip(entries(tree, ListedDir { dir, parent: dir, dot })) {
        if fill.begins_block(entry.name) {
            blocks += 1;
            before_last = at;
        }
        subdirs += u32::from(entry.ino != dir && matches!(tree.inode(entry.ino).kind, Kind::Dir));
    }
    DirListing { size: (blocks - 1) * block as u64 + fill.used as u64, before_last, subdirs }
}

/// Passes the blocks made from `entries` to `each`, all of `block` bytes except the last, which
/// ends with its names.
pub(crate) fn write<'t, E>(
    entries: impl Iterator<Item = NamedInode<'t>>,
    block: usize,
    mut resolve: impl FnMut(Ino) -> (u64, u8),
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut fill = BlockFill { block, used: 0 };
    let mut held = Vec::new();
    let mut bytes = Vec::with_capacity(block);
    for entry in entries {
        if fill.begins_block(entry.name) && !held.is_empty() {
            write_block(&held, &mut resolve, &mut bytes);
            bytes.resize(block, 0);
            each(&bytes)?;
            held.clear();
        }
        held.push(entry);
    }
    write_block(&held, &mut resolve, &mut bytes);
    each(&bytes)
}

fn write_block(entries: &[NamedInode<'_>], resolve: &mut impl FnMut(Ino) -> (u64, u8), bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut name_offset = size_of::<Dirent>() * entries.len();
    for NamedInode { name, ino } in entries {
        let (nid, file_type) = resolve(*ino);
        let offset = u16::try_from(name_offset).expect("a block is at most 64 KiB").into();
        let dirent = Dirent { nid: nid.into(), nameoff: offset, file_type, reserved: 0 };
        bytes.extend_from_slice(dirent.as_bytes());
        name_offset += name.len();
    }
    entries.iter().for_each(|entry| bytes.extend_from_slice(entry.name));
}

/// Returns the file type stored in directory entries.
pub(crate) fn type_of(kind: &KindRef<'_>) -> u8 {
    match kind {
        Kind::Dir => file_type::DIR,
        Kind::File { .. } => file_type::FILE,
        Kind::Symlink(_) => file_type::SYMLINK,
        Kind::Char(_) => file_type::CHAR,
        Kind::Block(_) => file_type::BLOCK,
        Kind::Fifo => file_type::FIFO,
        Kind::Socket => file_type::SOCKET,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{ConflictPolicy, InodeAttributes, ROOT};

    fn tree(names: &[&[u8]]) -> Tree {
        let mut tree = Tree::default();
        for name in names {
            tree.add(ROOT, name, InodeAttributes::IMPLICIT_DIR, Kind::Fifo, ConflictPolicy::Refuse).unwrap();
        }
        tree
    }

    fn listed(dot: bool) -> ListedDir {
        ListedDir { dir: ROOT, parent: ROOT, dot }
    }

    #[test]
    fn dots_are_sorted_among_names() {
        let tree = tree(&[b"-x", b"#", b".-", b"...", b".a", b"a", b"\xff"]);
        let names: Vec<_> = entries(&tree, listed(true)).map(|entry| entry.name).collect();
        assert_eq!(names, [&b"#"[..], b"-x", b".", b".-", b"..", b"...", b".a", b"a", b"\xff"]);
        let without: Vec<_> = entries(&tree, listed(false)).map(|entry| entry.name).collect();
        assert_eq!(without, [&b"#"[..], b"-x", b".-", b"..", b"...", b".a", b"a", b"\xff"]);
    }

    #[test]
    fn the_measured_size_is_the_written_size() {
        let block = 512;
        // With `.` and `..` (27 bytes) and entries of 22 bytes, 22 of them leave one byte of a block.
        for (count, last_len) in [(0, 10), (1, 10), (22, 10), (22, 11), (22, 12), (23, 10), (44, 10), (500, 3)] {
            let mut names: Vec<Vec<u8>> = (0..count).map(|n| format!("{n:010}").into_bytes()).collect();
            if let Some(last) = names.last_mut() {
                last.resize(last_len, b'x');
            }
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let tree = tree(&names);
            let listing = measure(&tree, ROOT, true, block);
            let mut lens = Vec::new();
            write(
                entries(&tree, listed(true)),
                block,
                |ino| (ino.0.into(), 1),
                |bytes| {
                    let names = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
                    assert!(names % 12 == 0 && names < bytes.len());
                    lens.push(bytes.len() as u64);
                    Ok::<_, ()>(())
                },
            )
            .unwrap();
            assert_eq!(lens.iter().sum::<u64>(), listing.size, "{count} entries, the last of {last_len}");
            assert!(lens[..lens.len() - 1].iter().all(|len| *len == block as u64));
            // Written alone, the last block is the same.
            let mut again = Vec::new();
            let last = entries(&tree, listed(true)).skip(listing.before_last as usize);
            write(
                last,
                block,
                |ino| (ino.0.into(), 1),
                |bytes| {
                    again.push(bytes.len() as u64);
                    Ok::<_, ()>(())
                },
            )
            .unwrap();
            assert_eq!(again, lens[lens.len() - 1..]);
        }
    }
}
