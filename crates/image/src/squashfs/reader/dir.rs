//! Directory listings: runs of entries after headers, and the index that finds a run by name.

use zerocopy::{FromBytes, IntoBytes};

use super::inode::DirBody;
use super::metadata::{MetadataArea, MetadataBlocks, MetadataCursor, MetadataPosition};
use crate::Result;
use crate::image::Nid;
use crate::squashfs::format::{self, DIR_RUN_MAX, DIR_SIZE_EXTRA, NAME_MAX};
use crate::tree;

/// One entry as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DirEntry {
    pub(super) nid: Nid,
    /// Inode number, as stored in the entry.
    pub(super) number: u32,
    /// Type, as stored in the entry.
    pub(super) kind: u16,
}

/// Position of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeaderPosition {
    /// Offset in the listing.
    pub(super) offset: u64,
    /// Offset of its metadata block in the image.
    pub(super) block: u64,
}

/// Iterates over a directory's listing entry by entry, checking names and their order.
#[derive(Debug)]
pub(super) struct ListingCursor<'m> {
    cursor: MetadataCursor<'m>,
    /// Length of the listing according to the inode, and bytes read so far. The latter may become
    /// larger: some writers forget to count the three bytes for `.` and `..`, which the kernel
    /// tolerates.
    len: u64,
    read: u64,
    header: Option<HeaderPosition>,
    /// Number of entries left under the current header.
    run: u32,
    inodes: u64,
    number: u32,
    /// Name of the entry just read.
    name: Vec<u8>,
    /// Name of the entry before; its memory is that of the next name.
    name_before: Vec<u8>,
}

impl<'m> ListingCursor<'m> {
    /// Starts at the beginning of the listing; `None` if the directory is empty.
    pub(super) fn open(
        metadata: &'m MetadataBlocks,
        table: MetadataArea,
        dir: &DirBody,
    ) -> Result<Option<ListingCursor<'m>>> {
        Self::open_at(metadata, table, dir, 0, dir.start)
    }

    /// Starts at the header `skipped` bytes into the listing, in metadata block `start`.
    fn open_at(
        metadata: &'m MetadataBlocks,
        table: MetadataArea,
        dir: &DirBody,
        skipped: u32,
        start: u32,
    ) -> Result<Option<ListingCursor<'m>>> {
        // The size of an empty directory is 3, that of a smaller one means the same.
        let len = u64::from(dir.size).saturating_sub(DIR_SIZE_EXTRA);
        let read = u64::from(skipped);
        if len <= read {
            return Ok(None);
        }
        // All metadata blocks of a table but its last are full, so the offset in its block follows.
        let offset = (u64::from(dir.offset) + u64::from(skipped)) % format::METADATA_LEN as u64;
        // As it is at the beginning, where a wrong one has to be noticed.
        let offset = if skipped == 0 { u64::from(dir.offset) } else { offset };
        let block = table.start.saturating_add(start.into());
        let position = MetadataPosition { block, offset: usize::try_from(offset).unwrap_or(usize::MAX) };
        let cursor = metadata.cursor(table, position)?;
        Ok(Some(ListingCursor {
            cursor,
            len,
            read,
            header: None,
            run: 0,
            inodes: 0,
            number: 0,
            name: Vec::new(),
            name_before: Vec::new(),
        }))
    }

    /// Returns by how many bytes the entries exceed the length of the listing.
    pub(super) fn excess(&self) -> u64 {
        self.read.saturating_sub(self.len)
    }

    /// Returns the number of bytes read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read
    }

    /// Returns the header of the entry just read, if that is its first.
    pub(super) fn new_header(&mut self) -> Option<HeaderPosition> {
        self.header.take()
    }

    /// Returns the next entry and its name, `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(DirEntry, &[u8])>> {
        if self.run == 0 {
            if self.read >= self.len {
                return Ok(None);
            }
            self.next_header()?;
        }
        let at = self.cursor.position();
        let raw: format::DirEntry = self.record()?;
        let len = usize::from(raw.size.get()) + 1;
        if len > NAME_MAX {
            return Err(self.cursor.error(format!("entry at offset {}: name of {len} bytes", at.offset)));
        }
        // Both buffers are used again, so that a listing needs no memory for each name.
        std::mem::swap(&mut self.name, &mut self.name_before);
        self.name.resize(len, 0);
        self.cursor.read(&mut self.name)?;
        self.read += len as u64;
        self.check_name(at)?;
        self.run -= 1;
        // With overflow, as `squashfs_readdir` of Linux adds them.
        let number = self.number.wrapping_add_signed(raw.inode_number.get().into());
        let nid = Nid(self.inodes | u64::from(raw.offset.get()));
        Ok(Some((DirEntry { nid, number, kind: raw.r#type.get() }, &self.name)))
    }

    fn next_header(&mut self) -> Result<()> {
        let offset = self.read;
        // A header at the end of a block stands in the next one.
        let Some(at) = self.cursor.settle()? else {
            return Err(self.cursor.error("a listing reaches past the end of the table"));
        };
        let raw: format::DirHeader = self.record()?;
        let count = raw.count.get();
        // Stored as one less, so this is `dir_count > SQUASHFS_DIR_COUNT` of Linux.
        if count as usize >= DIR_RUN_MAX {
            let count = u64::from(count) + 1;
            let why = format!("directory header at offset {}: {count} entries, more than {DIR_RUN_MAX}", at.offset);
            return Err(self.cursor.error(why));
        }
        self.header = Some(HeaderPosition { offset, block: at.block });
        self.run = count + 1;
        self.inodes = u64::from(raw.start_block.get()) << 16;
        self.number = raw.inode_number.get();
        Ok(())
    }

    fn record<T: FromBytes + IntoBytes>(&mut self) -> Result<T> {
        self.read += size_of::<T>() as u64;
        self.cursor.get()
    }

    fn check_name(&self, at: MetadataPosition) -> Result<()> {
        let name = &self.name[..];
        if tree::check_name(name).is_err() {
            let why = format!("entry at offset {}: `{}` cannot be a file name", at.offset, name.escape_ascii());
            return Err(self.cursor.error(why));
        }
        // `lookup` ends at the first larger name, as Linux does, and would miss what is out of order.
        if name <= &self.name_before[..] {
            let name = name.escape_ascii();
            let before = self.name_before.escape_ascii();
            let why = format!("entry at offset {}: `{name}` after `{before}` is not in ascending order", at.offset);
            return Err(self.cursor.error(why));
        }
        Ok(())
    }
}

/// Finds `name` in a directory, starting from the last index entry that is not after it. `index` is
/// a cursor after the directory's inode.
pub(super) fn lookup(
    metadata: &MetadataBlocks,
    table: MetadataArea,
    dir: &DirBody,
    index: MetadataCursor<'_>,
    name: &[u8],
) -> Result<Option<DirEntry>> {
    let (skipped, start) = find_run(dir, index, name)?;
    let Some(mut listing) = ListingCursor::open_at(metadata, table, dir, skipped, start)? else { return Ok(None) };
    while let Some((entry, found)) = listing.next()? {
        if found >= name {
            return Ok((found == name).then_some(entry));
        }
    }
    Ok(None)
}

fn find_run(dir: &DirBody, mut index: MetadataCursor<'_>, name: &[u8]) -> Result<(u32, u32)> {
    let mut best = (0, dir.start);
    for _ in 0..dir.index_count {
        let (at, first) = index_entry(&mut index)?;
        // Index entries are in order too.
        if &first[..] > name {
            break;
        }
        // Each is the last before `name` so far.
        best = (at.index.get(), at.start_block.get());
    }
    Ok(best)
}

/// Reads one index entry with its name.
pub(super) fn index_entry(cursor: &mut MetadataCursor<'_>) -> Result<(format::DirIndex, Box<[u8]>)> {
    let at = cursor.position();
    let raw: format::DirIndex = cursor.get()?;
    // As the name of an entry, stored as one less.
    let len = usize::try_from(raw.size.get()).unwrap_or(usize::MAX).saturating_add(1);
    if len > NAME_MAX {
        return Err(cursor.error(format!("directory index at offset {}: name of {len} bytes", at.offset)));
    }
    let mut name = vec![0; len];
    cursor.read(&mut name)?;
    Ok((raw, name.into()))
}
