//! Writes the tree of a merged plan: inodes in order, directories with their entries, which lie further behind.

use super::Place;
use super::attributes::Attributes;
use super::names::{Entry, Names, Number, Reader};
use super::sort::{Merge, Sorted};
use crate::build::Put;
use crate::build::shard::file::{Located, Section};
use crate::tree::wire::{ENTRY_LEN, GROUP, encode_entry, encode_head, encode_inode};
use crate::tree::{Kind, path_of};
use crate::{Error, Result};

/// Writes the tree to byte `start` of the output and what follows. `numbers` has inodes with the numbers of their data.
pub(super) fn write(
    place: &Place<'_>,
    start: u64,
    names: &Names,
    attributes: &Attributes<'_>,
    numbers: &Sorted,
) -> Result<Located> {
    let mut section = Section::new(place.output, start);
    let mut group = Vec::new();
    encode_head(&attributes.xattrs, names.inodes, &mut group);
    section.bytes(&group);
    group.clear();
    let mut numbers = Numbers { read: place.io(numbers.read())?, record: Vec::new(), next: None };
    numbers.advance(place)?;
    let (mut inodes, mut lens) = (names.read(place)?, names.lists(place));
    // The first entry of the root follows the root.
    let mut entries = names.read(place)?;
    entries.next()?;
    while let Some((entry, number)) = inodes.next()? {
        if !number.is_first {
            continue;
        }
        let data = numbers.of(place, number.ino.0)?;
        let inode = attributes.inode(&entry, number, data);
        let (inode, _) = inode.map_err(|why| Error::limit(path_of(&entry.name), why))?;
        encode_inode(&inode, &mut group);
        if matches!(inode.kind, Kind::Dir) {
            let (count, bytes) = if entry.enters { lens.next()? } else { (0, 0) };
            group.u64(count);
            list(&mut section, &mut group, (count, bytes), &mut entries)?;
        }
        if group.len() >= GROUP {
            section.bytes(&group);
            group.clear();
        }
    }
    if !group.is_empty() {
        section.bytes(&group);
        group.clear();
    }
    // No inode is to lie first.
    group.count(0);
    section.bytes(&group);
    section.finish()
}

/// Appends the entries of a directory to a group of inodes; long lists are written at once.
fn list(
    section: &mut Section<'_>,
    group: &mut Vec<u8>,
    (count, bytes): (u64, u64),
    entries: &mut Reader<'_>,
) -> Result<()> {
    let len = group.len() as u64 + bytes + count * ENTRY_LEN;
    let mut next = || {
        let found: Option<(Entry, Number)> = entries.next()?;
        found.ok_or_else(|| Error::Misuse("a directory has fewer entries than counted".into()))
    };
    if len < 2 * GROUP as u64 {
        for _ in 0..count {
            let (Entry { name, .. }, Number { ino, .. }) = next()?;
            encode_entry(&name, ino, group);
        }
        return Ok(());
    }
    section.u64(len);
    section.put(group);
    group.clear();
    for _ in 0..count {
        let (Entry { name, .. }, Number { ino, .. }) = next()?;
        encode_entry(&name, ino, section);
    }
    Ok(())
}

/// Numbers of data by inode.
struct Numbers<'n> {
    read: Merge<'n>,
    record: Vec<u8>,
    next: Option<(u32, u32)>,
}

impl Numbers<'_> {
    /// Returns the number of an inode's data; inodes have to be asked for in order.
    fn of(&mut self, place: &Place<'_>, ino: u32) -> Result<Option<u32>> {
        match self.next {
            Some((next, number)) if next == ino => self.advance(place).map(|()| Some(number)),
            _ => Ok(None),
        }
    }

    fn advance(&mut self, place: &Place<'_>) -> Result<()> {
        let found = place.io(self.read.next(&mut self.record))?;
        let number = |at: usize| u32::from_be_bytes(self.record[at..at + 4].try_into().expect("four bytes"));
        self.next = found.then(|| (number(0), number(4)));
        Ok(())
    }
}
