//! The entries of a merged scan, spooled to disk, and the inode number of each.
//!
//! A plan lists inodes in the order of the scan, and a file with several names has its inode where its first name is. A
//! build looks that up in the tree. Here the tree may be larger than memory, so entries are counted as they arrive, and
//! external sorts find the names of each linked file. Every name but the first of its file takes no inode number, so it
//! lowers the inode numbers of all entries that follow it by one. See [`number_linked_names`].

use std::io;

use super::MergeContext;
use super::sort::{ExternalSorter, SortedReader, SortedRecords};
use super::spool::{RecordSpool, SpoolCursor};
use crate::build::{FieldDecoder, FieldEncoder};
use crate::source::FileFingerprint;
use crate::source::dir::{Receive, Streamed};
use crate::tree::wire::decode_device;
use crate::tree::{FileData, Ino, InodeAttributes, Kind, Time, TreeXattrs, XattrId, check_name, child_path};
use crate::{Error, Result};

/// Number of entries read between two checks for a cancelled build: far less than a second of work.
const CANCEL_INTERVAL: u64 = 4096;

/// All entries of a source, in the order of the scan: the root, then one directory after the other, level by level.
#[derive(Debug)]
pub(super) struct ScannedEntries {
    entries: RecordSpool,
    /// Paths of the directories that have a listing, in the order of their listings.
    dirs: RecordSpool,
    /// The [`ListingLength`] of each of these directories.
    listings: RecordSpool,
    /// Inodes of the names of files with several, in the order of the names.
    linked_names: SortedRecords,
    pub(super) xattrs: TreeXattrs,
    pub(super) inode_count: u64,
}

/// An entry as it was scanned.
#[derive(Debug)]
pub(super) struct ScannedEntry {
    pub(super) name: Vec<u8>,
    pub(super) meta: InodeAttributes,
    pub(super) kind: Kind,
    pub(super) seen: FileFingerprint,
    /// True for a directory that has a listing.
    pub(super) has_listing: bool,
}

/// The inode that a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NameInode {
    pub(super) ino: Ino,
    /// Number of names of the inode.
    pub(super) links: u32,
    /// True for the first of these names, where the inode itself is written.
    pub(super) is_first: bool,
}

/// Length of a directory's listing: a writer has to know it before the first entry.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ListingLength {
    pub(super) entry_count: u64,
    /// Sum of the lengths of the names in bytes.
    pub(super) name_bytes: u64,
}

impl ListingLength {
    fn encode(self) -> Vec<u8> {
        [self.entry_count, self.name_bytes].map(u64::to_le_bytes).concat()
    }

    fn decode(record: &[u8]) -> Result<ListingLength> {
        let from = &mut FieldDecoder::new("list in a temporary file", record);
        let entry_count = from.u64()?;
        let name_bytes = from.u64()?;
        Ok(ListingLength { entry_count, name_bytes })
    }
}

/// Receives entries from the parts of a scan and spools them.
#[derive(Debug)]
pub(super) struct EntryCollector<'p> {
    context: &'p MergeContext<'p>,
    entries: RecordSpool,
    dirs: RecordSpool,
    listings: RecordSpool,
    /// Fields of each linked name: device and inode number of its file, then the number of the name.
    links: ExternalSorter,
    xattrs: TreeXattrs,
    /// Number of entries received, which is the number of the next name.
    name_count: u64,
    next_dir: SpoolCursor,
    /// The directory whose entries are arriving.
    open_listing: Option<OpenListing>,
    record: Vec<u8>,
}

/// A listing whose entries are arriving.
#[derive(Debug, Default)]
struct OpenListing {
    length: ListingLength,
    last_name: Box<[u8]>,
}

impl<'p> EntryCollector<'p> {
    pub(super) fn new(context: &'p MergeContext<'p>) -> Self {
        EntryCollector {
            context,
            entries: RecordSpool::new(&context.scratch),
            dirs: RecordSpool::new(&context.scratch),
            listings: RecordSpool::new(&context.scratch),
            links: context.new_sorter(),
            xattrs: TreeXattrs::default(),
            name_count: 0,
            next_dir: SpoolCursor::default(),
            open_listing: None,
            record: Vec::new(),
        }
    }

    /// Spools an entry; `path` is used only if the entry is a directory with a listing.
    fn push_entry(&mut self, path: &[u8], entry: Streamed) -> Result<()> {
        let Streamed { name, mut meta, xattrs, kind, seen, link, enters: has_listing } = entry;
        meta.xattrs = self.xattrs.intern(xattrs);
        self.record.clear();
        ScannedEntry { name: name.into(), meta, kind, seen, has_listing }.encode(&mut self.record);
        self.context.io(self.entries.push(&self.record))?;
        if let Some((device, number)) = link {
            let record = encode_fields([device, number, self.name_count]);
            self.context.io(self.links.push(&record))?;
        }
        if has_listing {
            self.context.io(self.dirs.push(path))?;
        }
        self.name_count += 1;
        Ok(())
    }

    /// Numbers the inodes once all entries have arrived.
    pub(super) fn finish(self) -> Result<ScannedEntries> {
        let NumberedLinks { linked_names, extra_names } =
            self.context.io(number_linked_names(self.context, self.links))?;
        let inode_count = self.name_count - extra_names;
        if inode_count > 1 << 32 {
            return Err(Error::TooMany { what: "inodes", max: 1 << 32 });
        }
        Ok(ScannedEntries {
            entries: self.entries,
            dirs: self.dirs,
            listings: self.listings,
            linked_names,
            xattrs: self.xattrs,
            inode_count,
        })
    }
}

impl Receive for EntryCollector<'_> {
    fn root(&mut self, entry: Streamed) -> Result<()> {
        self.push_entry(b"", entry)
    }

    fn entry(&mut self, dir: &[u8], entry: Streamed) -> Result<()> {
        check_name(&entry.name)?;
        let listing = self.open_listing.as_mut().expect("a directory was asked for");
        // The plan lists entries as they arrive, and the entries of a directory are sorted by name.
        if listing.length.entry_count > 0 && *listing.last_name >= *entry.name {
            return Err(Error::Misuse("entries of a part of a scan are out of order".into()));
        }
        listing.length.entry_count += 1;
        listing.length.name_bytes += entry.name.len() as u64;
        listing.last_name.clone_from(&entry.name);
        let path = if entry.enters { child_path(dir, &entry.name) } else { Vec::new() };
        self.push_entry(&path, entry)
    }

    fn next_dir(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(listing) = self.open_listing.take() {
            self.context.io(self.listings.push(&listing.length.encode()))?;
        }
        let mut path = Vec::new();
        if !self.context.io(self.dirs.next(&mut self.next_dir, &mut path))? {
            return Ok(None);
        }
        self.open_listing = Some(OpenListing::default());
        Ok(Some(path))
    }
}

/// Makes a record of big-endian numbers: sorting by bytes then sorts by the first number, by the second, and so on.
fn encode_fields<const N: usize>(fields: [u64; N]) -> Vec<u8> {
    fields.map(u64::to_be_bytes).concat()
}

/// Reads a record of [`encode_fields`].
fn decode_fields<const N: usize>(record: &[u8]) -> [u64; N] {
    std::array::from_fn(|field| {
        let bytes = record[field * 8..].first_chunk().expect("eight bytes");
        u64::from_be_bytes(*bytes)
    })
}

/// The result of [`number_linked_names`].
struct NumberedLinks {
    /// Fields: number of the name, inode, number of names of the inode, 1 for the first of them.
    linked_names: SortedRecords,
    /// Number of names that are not the first of their file.
    extra_names: u64,
}

/// Determines the inode of each linked name. `links` has fields as [`EntryCollector`] pushes them.
///
/// Neither all files nor all names of one file need fit in memory, so each pass reads sorted records once and leaves
/// its results to the next sort:
///
/// 1. [`group_links`], by file: the first name of each file, and the number of its names.
/// 2. [`count_extra_names`], by name: the number of extra names before each name, hence the inode of each first name.
/// 3. [`assign_inodes`], by first name: every name gets the inode of the first one.
///
/// The result is sorted by name, as the entries are read.
fn number_linked_names(context: &MergeContext<'_>, links: ExternalSorter) -> io::Result<NumberedLinks> {
    let LinkGroups { names, mut groups } = group_links(context, &links.finish()?)?;
    let extra_names = count_extra_names(&names.finish()?, &mut groups)?;
    let linked_names = assign_inodes(context, &groups.finish()?)?;
    Ok(NumberedLinks { linked_names, extra_names })
}

/// What [`group_links`] leaves to the next sorts.
struct LinkGroups {
    /// Fields: number of the name, number of the first name of its file.
    names: ExternalSorter,
    /// For each file, the number of its first name, [`COUNT_MARK`], and the number of its names. For each of its names,
    /// which [`count_extra_names`] adds, the first name, the name, and the inode if it is the first.
    groups: ExternalSorter,
}

/// Stands in the field of a name, so that the number of names sorts before the names themselves. It is the number of
/// the root, which has no second name.
const COUNT_MARK: u64 = 0;

/// A file whose names are being read.
struct LinkGroup {
    device: u64,
    number: u64,
    first_name: u64,
    name_count: u64,
}

impl LinkGroup {
    fn record(&self) -> Vec<u8> {
        encode_fields([self.first_name, COUNT_MARK, self.name_count])
    }
}

/// Finds the first name of each file and the number of its names.
fn group_links(context: &MergeContext<'_>, links: &SortedRecords) -> io::Result<LinkGroups> {
    let mut names = context.new_sorter();
    let mut groups = context.new_sorter();
    let mut open: Option<LinkGroup> = None;
    let mut reader = links.read()?;
    let mut record = Vec::new();
    while reader.next(&mut record)? {
        let [device, number, name] = decode_fields(&record);
        if let Some(complete) = open.take_if(|group| (group.device, group.number) != (device, number)) {
            groups.push(&complete.record())?;
        }
        let group = open.get_or_insert(LinkGroup { device, number, first_name: name, name_count: 0 });
        group.name_count += 1;
        names.push(&encode_fields([name, group.first_name]))?;
    }
    if let Some(complete) = open {
        groups.push(&complete.record())?;
    }
    Ok(LinkGroups { names, groups })
}

/// Adds every linked name to `groups`; returns the number of those that are not the first of their file.
fn count_extra_names(names: &SortedRecords, groups: &mut ExternalSorter) -> io::Result<u64> {
    let mut extra_names = 0;
    let mut reader = names.read()?;
    let mut record = Vec::new();
    while reader.next(&mut record)? {
        let [name, first_name] = decode_fields(&record);
        // The inode of the name if it is the first; unused otherwise.
        let ino = name - extra_names;
        groups.push(&encode_fields([first_name, name, ino]))?;
        extra_names += u64::from(name != first_name);
    }
    Ok(extra_names)
}

/// Gives all names of a file the inode of the first one, and the number of names.
fn assign_inodes(context: &MergeContext<'_>, groups: &SortedRecords) -> io::Result<SortedRecords> {
    let mut linked_names = context.new_sorter();
    let mut name_count = 0;
    let mut file_ino = 0;
    let mut reader = groups.read()?;
    let mut record = Vec::new();
    while reader.next(&mut record)? {
        let [first_name, name, value] = decode_fields(&record);
        if name == COUNT_MARK {
            name_count = value;
            continue;
        }
        let is_first = name == first_name;
        if is_first {
            file_ino = value;
        }
        linked_names.push(&encode_fields([name, file_ino, name_count, u64::from(is_first)]))?;
    }
    linked_names.finish()
}

impl ScannedEntry {
    fn encode(&self, to: &mut Vec<u8>) {
        let ScannedEntry { name, meta, kind, seen, has_listing } = self;
        let InodeAttributes { mode, uid, gid, mtime, xattrs } = meta;
        for number in [u32::from(*mode), *uid, *gid, mtime.nanos, xattrs.0] {
            to.u32(number);
        }
        to.u64(mtime.secs.cast_unsigned());
        to.bytes(name);
        match kind {
            Kind::Dir => to.put(&[0, u8::from(*has_listing)]),
            Kind::File { size, .. } => {
                to.u8(1);
                to.u64(*size);
                to.put(&seen.0);
            }
            Kind::Symlink(target) => {
                to.u8(2);
                to.bytes(target);
            }
            Kind::Char(device) | Kind::Block(device) => {
                to.u8(if matches!(kind, Kind::Char(_)) { 3 } else { 4 });
                to.u32(device.major);
                to.u32(device.minor);
            }
            Kind::Fifo => to.u8(5),
            Kind::Socket => to.u8(6),
        }
    }

    fn decode(record: &[u8]) -> Result<ScannedEntry> {
        let from = &mut FieldDecoder::new("entry in a temporary file", record);
        let mode = from.u32()?;
        let uid = from.u32()?;
        let gid = from.u32()?;
        let nanos = from.u32()?;
        let xattrs = XattrId(from.u32()?);
        let secs = from.u64()?.cast_signed();
        let mode = u16::try_from(mode).map_err(|_| from.wrong("a mode has more than 16 bits"))?;
        let meta = InodeAttributes { mode, uid, gid, mtime: Time { secs, nanos }, xattrs };
        let name = from.bytes()?.to_vec();
        let mut seen = FileFingerprint([0; 20]);
        let mut has_listing = false;
        let kind = match from.u8()? {
            0 => {
                has_listing = from.bool()?;
                Kind::Dir
            }
            1 => {
                let size = from.u64()?;
                seen = FileFingerprint(from.array()?);
                Kind::File { size, data: FileData::Empty }
            }
            2 => Kind::Symlink(from.bytes()?.into()),
            3 => Kind::Char(decode_device(from)?),
            4 => Kind::Block(decode_device(from)?),
            5 => Kind::Fifo,
            _ => Kind::Socket,
        };
        Ok(ScannedEntry { name, meta, kind, seen, has_listing })
    }
}

impl ScannedEntries {
    /// Reads all entries, from the root on.
    pub(super) fn read<'n>(&'n self, context: &'n MergeContext<'n>) -> Result<EntryReader<'n>> {
        let linked_names = context.io(self.linked_names.read())?;
        let mut inodes =
            InodeNumbers { linked_names, next_linked: None, next_name: 0, extra_names: 0, record: Vec::new() };
        context.io(inodes.advance())?;
        Ok(EntryReader { scanned: self, context, cursor: SpoolCursor::default(), inodes, record: Vec::new() })
    }

    /// Returns the root, and reads all other entries with the paths of their directories.
    pub(super) fn walk<'n>(&'n self, context: &'n MergeContext<'n>) -> Result<(ScannedEntry, EntryWalk<'n>)> {
        let mut reader = self.read(context)?;
        let (root, _) = reader.next()?.ok_or_else(|| Error::Misuse("a scan without a root".into()))?;
        let walk = EntryWalk {
            reader,
            dirs: SpoolCursor::default(),
            listings: self.read_listing_lengths(context),
            dir: Vec::new(),
            entries_left: 0,
        };
        Ok((root, walk))
    }

    /// Reads the lengths of all listings, in the order of their directories.
    pub(super) fn read_listing_lengths<'n>(&'n self, context: &'n MergeContext<'n>) -> ListingLengths<'n> {
        ListingLengths { scanned: self, context, cursor: SpoolCursor::default() }
    }
}

/// Reads entries with their inodes.
#[derive(Debug)]
pub(super) struct EntryReader<'n> {
    scanned: &'n ScannedEntries,
    context: &'n MergeContext<'n>,
    cursor: SpoolCursor,
    inodes: InodeNumbers<'n>,
    record: Vec<u8>,
}

impl EntryReader<'_> {
    pub(super) fn next(&mut self) -> Result<Option<(ScannedEntry, NameInode)>> {
        if !self.context.io(self.scanned.entries.next(&mut self.cursor, &mut self.record))? {
            return Ok(None);
        }
        let inode = self.context.io(self.inodes.next())?;
        if self.inodes.next_name.is_multiple_of(CANCEL_INTERVAL) {
            Error::unless_cancelled(self.context.progress)?;
        }
        Ok(Some((ScannedEntry::decode(&self.record)?, inode)))
    }
}

/// Tells the inodes of all names, one after the other.
#[derive(Debug)]
struct InodeNumbers<'n> {
    linked_names: SortedReader<'n>,
    /// The next name of a file with several.
    next_linked: Option<LinkedName>,
    /// Number of the next name.
    next_name: u64,
    /// Number of names so far that are not the first of their file.
    extra_names: u64,
    record: Vec<u8>,
}

/// A name of a file with several.
#[derive(Debug, Clone, Copy)]
struct LinkedName {
    name: u64,
    inode: NameInode,
}

impl InodeNumbers<'_> {
    fn next(&mut self) -> io::Result<NameInode> {
        let name = self.next_name;
        self.next_name += 1;
        let Some(linked) = self.next_linked.filter(|linked| linked.name == name) else {
            let ino = Ino(saturate_to_u32(name - self.extra_names));
            return Ok(NameInode { ino, links: 1, is_first: true });
        };
        self.extra_names += u64::from(!linked.inode.is_first);
        self.advance()?;
        Ok(linked.inode)
    }

    fn advance(&mut self) -> io::Result<()> {
        self.next_linked = None;
        if self.linked_names.next(&mut self.record)? {
            let [name, ino, links, is_first] = decode_fields(&self.record);
            let ino = Ino(saturate_to_u32(ino));
            let inode = NameInode { ino, links: saturate_to_u32(links), is_first: is_first != 0 };
            self.next_linked = Some(LinkedName { name, inode });
        }
        Ok(())
    }
}

/// Inodes are fewer than 2^32, which [`EntryCollector::finish`] checks; only a count of links may be larger.
fn saturate_to_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Reads the lengths of listings.
#[derive(Debug)]
pub(super) struct ListingLengths<'n> {
    scanned: &'n ScannedEntries,
    context: &'n MergeContext<'n>,
    cursor: SpoolCursor,
}

impl ListingLengths<'_> {
    /// Returns the length of the next directory's listing.
    pub(super) fn next(&mut self) -> Result<ListingLength> {
        let mut record = Vec::new();
        self.context.io(self.scanned.listings.next(&mut self.cursor, &mut record))?;
        ListingLength::decode(&record)
    }
}

/// Reads entries with the paths of their directories.
#[derive(Debug)]
pub(super) struct EntryWalk<'n> {
    reader: EntryReader<'n>,
    dirs: SpoolCursor,
    listings: ListingLengths<'n>,
    /// Path of the directory of the entry that was returned last.
    pub(super) dir: Vec<u8>,
    /// Number of entries of this directory that are still to come.
    entries_left: u64,
}

impl EntryWalk<'_> {
    pub(super) fn next(&mut self) -> Result<Option<(ScannedEntry, NameInode)>> {
        let Some(found) = self.reader.next()? else { return Ok(None) };
        // A loop, as directories may be empty.
        while self.entries_left == 0 {
            let context = self.reader.context;
            context.io(self.reader.scanned.dirs.next(&mut self.dirs, &mut self.dir))?;
            self.entries_left = self.listings.next()?.entry_count;
        }
        self.entries_left -= 1;
        Ok(Some(found))
    }
}
