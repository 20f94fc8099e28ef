//! Writes the tree of a merged plan. An inode that is a directory is followed by its entries, but in the scan these come
//! after all entries of the same level. So the scan is read twice at a time: one reader is at the inodes, the other at the
//! entries of directories, further on.

use super::MergeContext;
use super::attributes::{ChangedInode, EntryAttributes};
use super::names::{EntryReader, ListingLength, NameInode, ScannedEntries, ScannedEntry};
use super::sort::{SortedReader, SortedRecords};
use crate::build::FieldEncoder;
use crate::build::shard::file::{LocatedSection, SectionWriter};
use crate::tree::wire::{ENTRY_LEN, GROUP, encode_entry, encode_head, encode_inode};
use crate::tree::{Kind, path_of};
use crate::{Error, Result};

/// Writes the tree to the output, from byte `start` on. `data_numbers` has inodes with the numbers of their data.
pub(super) fn write_tree(
    context: &MergeContext<'_>,
    start: u64,
    scanned: &ScannedEntries,
    attributes: &EntryAttributes<'_>,
    data_numbers: &SortedRecords,
) -> Result<LocatedSection> {
    let mut section = SectionWriter::new(context.output, start);
    let mut group = Vec::new();
    encode_head(&attributes.xattrs, scanned.inode_count, &mut group);
    section.bytes(&group);
    group.clear();
    let mut data_numbers = DataNumbers { reader: context.io(data_numbers.read())?, record: Vec::new(), next: None };
    data_numbers.advance(context)?;
    let mut inodes = scanned.read(context)?;
    let mut listing_lengths = scanned.read_listing_lengths(context);
    // The root is in no directory: the first entry of the root follows it.
    let mut entries = scanned.read(context)?;
    entries.next()?;
    while let Some((entry, number)) = inodes.next()? {
        if !number.is_first {
            continue;
        }
        let data = data_numbers.data_of(context, number.ino.0)?;
        let changed = attributes.change_entry(&entry, number, data);
        let ChangedInode { inode, .. } = changed.map_err(|why| Error::limit(path_of(&entry.name), why))?;
        encode_inode(&inode, &mut group);
        if matches!(inode.kind, Kind::Dir) {
            let length = if entry.has_listing { listing_lengths.next()? } else { ListingLength::default() };
            group.u64(length.entry_count);
            write_listing(&mut section, &mut group, length, &mut entries)?;
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
    // The plan ends with the inodes whose data is to lie first: none.
    group.count(0);
    section.bytes(&group);
    section.finish()
}

/// Appends the entries of a directory to a group of inodes; a long listing is written at once, as it need not fit in
/// memory.
fn write_listing(
    section: &mut SectionWriter<'_>,
    group: &mut Vec<u8>,
    length: ListingLength,
    entries: &mut EntryReader<'_>,
) -> Result<()> {
    let ListingLength { entry_count, name_bytes } = length;
    let len = group.len() as u64 + name_bytes + entry_count * ENTRY_LEN;
    if len < 2 * GROUP as u64 {
        for _ in 0..entry_count {
            let (entry, inode) = next_entry(entries)?;
            encode_entry(&entry.name, inode.ino, group);
        }
        return Ok(());
    }
    section.u64(len);
    section.put(group);
    group.clear();
    for _ in 0..entry_count {
        let (entry, inode) = next_entry(entries)?;
        encode_entry(&entry.name, inode.ino, section);
    }
    Ok(())
}

fn next_entry(entries: &mut EntryReader<'_>) -> Result<(ScannedEntry, NameInode)> {
    entries.next()?.ok_or_else(|| Error::Misuse("a directory has fewer entries than counted".into()))
}

/// Tells the numbers of data by inode.
struct DataNumbers<'n> {
    reader: SortedReader<'n>,
    record: Vec<u8>,
    /// The next inode with data, and the number of the data.
    next: Option<(u32, u32)>,
}

impl DataNumbers<'_> {
    /// Returns the number of an inode's data; inodes have to be asked for in order.
    fn data_of(&mut self, context: &MergeContext<'_>, ino: u32) -> Result<Option<u32>> {
        match self.next {
            Some((next, number)) if next == ino => self.advance(context).map(|()| Some(number)),
            _ => Ok(None),
        }
    }

    fn advance(&mut self, context: &MergeContext<'_>) -> Result<()> {
        let found = context.io(self.reader.next(&mut self.record))?;
        let field = |at: usize| u32::from_be_bytes(self.record[at..at + 4].try_into().expect("four bytes"));
        self.next = found.then(|| (field(0), field(4)));
        Ok(())
    }
}
