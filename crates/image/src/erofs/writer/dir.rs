//! Directories as bytes: blocks of entries, each with its names behind the entries.
//!
//! Names ascend as unsigned bytes over the whole directory, `.` and `..` among them. A directory is measured
//! before inodes have their places, and written when they do.

use zerocopy::IntoBytes;

use crate::erofs::format::{Dirent, file_type};
use crate::tree::{Ino, Kind, Tree};

/// What is known of a directory's data without any inode's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listing {
    /// Its length: whole blocks and what the last one holds.
    pub(super) size: u64,
    /// Entries in all blocks but the last.
    pub(super) before_last: u32,
    /// Directories in it.
    pub(super) subdirs: u32,
}

/// An entry of a directory, `.` and `..` included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'t> {
    pub(super) name: &'t [u8],
    pub(super) ino: Ino,
}

/// The entries of `dir` in the order they are stored.
pub(super) fn entries(tree: &Tree, dir: Ino, parent: Ino) -> impl Iterator<Item = Entry<'_>> {
    let mut dots = [Entry { name: b".", ino: dir }, Entry { name: b"..", ino: parent }].into_iter().peekable();
    let mut named = tree.entries(dir).map(|(name, ino)| Entry { name, ino }).peekable();
    std::iter::from_fn(move || match (dots.peek(), named.peek()) {
        (Some(dot), Some(entry)) if entry.name < dot.name => named.next(),
        (Some(_), _) => dots.next(),
        (None, _) => named.next(),
    })
}

/// Room in blocks as entries come: what one entry does to it.
struct Fill {
    block: usize,
    used: usize,
}

impl Fill {
    /// Whether the next entry begins a block.
    fn begins_block(&mut self, name: &[u8]) -> bool {
        let len = size_of::<Dirent>() + name.len();
        let begins = self.used == 0 || self.used + len > self.block;
        self.used = if begins { len } else { self.used + len };
        begins
    }
}

/// Measures the directory `dir` in blocks of `block` bytes.
pub(super) fn measure(tree: &Tree, dir: Ino, block: usize) -> Listing {
    let mut fill = Fill { block, used: 0 };
    let (mut blocks, mut before_last, mut subdirs) = (0u64, 0, 0);
    // Whose inode `..` is makes no difference to lengths.
    for (at, entry) in (0u32..).zip(entries(tree, dir, dir)) {
        if fill.begins_block(entry.name) {
            blocks += 1;
            before_last = at;
        }
        subdirs += u32::from(entry.ino != dir && matches!(tree.inode(entry.ino).kind, Kind::Dir(_)));
    }
    Listing { size: (blocks - 1) * block as u64 + fill.used as u64, before_last, subdirs }
}

/// Hands the blocks that `entries` make to `each`, all of `block` bytes but the last, which ends with its names.
pub(super) fn write<'t, E>(
    entries: impl Iterator<Item = Entry<'t>>,
    block: usize,
    mut resolve: impl FnMut(Ino) -> (u64, u8),
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut fill = Fill { block, used: 0 };
    let (mut held, mut bytes) = (Vec::new(), Vec::with_capacity(block));
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

fn write_block(entries: &[Entry<'_>], resolve: &mut impl FnMut(Ino) -> (u64, u8), bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut name_offset = size_of::<Dirent>() * entries.len();
    for Entry { name, ino } in entries {
        let (nid, file_type) = resolve(*ino);
        let offset = u16::try_from(name_offset).expect("a block is at most 64 KiB").into();
        let dirent = Dirent { nid: nid.into(), nameoff: offset, file_type, reserved: 0 };
        bytes.extend_from_slice(dirent.as_bytes());
        name_offset += name.len();
    }
    entries.iter().for_each(|entry| bytes.extend_from_slice(entry.name));
}

/// What an entry says of its inode.
pub(super) fn type_of(kind: &Kind) -> u8 {
    match kind {
        Kind::Dir(_) => file_type::DIR,
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
    use crate::tree::{Conflict, Meta, ROOT};

    fn tree(names: &[&[u8]]) -> Tree {
        let mut tree = Tree::default();
        for name in names {
            tree.add(ROOT, name, Meta::IMPLICIT_DIR, Kind::Fifo, Conflict::Refuse).unwrap();
        }
        tree
    }

    #[test]
    fn dots_are_sorted_among_names() {
        let tree = tree(&[b"-x", b"#", b".-", b"...", b".a", b"a", b"\xff"]);
        let names: Vec<_> = entries(&tree, ROOT, ROOT).map(|entry| entry.name).collect();
        assert_eq!(names, [&b"#"[..], b"-x", b".", b".-", b"..", b"...", b".a", b"a", b"\xff"]);
    }

    #[test]
    fn what_is_measured_is_what_is_written() {
        let block = 512;
        // With `.` and `..` (27 bytes) and entries of 22 bytes, 22 of them leave one byte of a block.
        for (count, last_len) in [(0, 10), (1, 10), (22, 10), (22, 11), (22, 12), (23, 10), (44, 10), (500, 3)] {
            let mut names: Vec<Vec<u8>> = (0..count).map(|n| format!("{n:010}").into_bytes()).collect();
            if let Some(last) = names.last_mut() {
                last.resize(last_len, b'x');
            }
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let tree = tree(&names);
            let listing = measure(&tree, ROOT, block);
            let mut lens = Vec::new();
            write(
                entries(&tree, ROOT, ROOT),
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
            // The last block alone is the same again.
            let mut again = Vec::new();
            let last = entries(&tree, ROOT, ROOT).skip(listing.before_last as usize);
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
