//! The entries of a merged scan on disk, in the order of their inodes, and the numbers of these.
//!
//! All names are numbered as they come. Names of one file are found by sorting them by the file; each but the first moves
//! the inodes behind it by one.

use super::Place;
use super::sort::{Merge, Sorted, Sorter};
use super::spool::{Cursor, Spool};
use crate::build::{Get, Put};
use crate::source::Seen;
use crate::source::dir::{Receive, Streamed};
use crate::tree::{Data, Device, Ino, Kind, Meta, Time, XattrId, Xattrs, check_name};
use crate::{Error, Result};

/// All entries of a source.
#[derive(Debug)]
pub(super) struct Names {
    entries: Spool,
    /// Paths of the directories that have entries here, in the order of these.
    dirs: Spool,
    /// For each of them, the number of its entries and the bytes of their names.
    lists: Spool,
    /// Names of files with several names, by their numbers.
    links: Sorted,
    pub(super) xattrs: Xattrs,
    /// Number of inodes.
    pub(super) inodes: u64,
}

/// An entry as it was scanned.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) meta: Meta,
    pub(super) kind: Kind,
    pub(super) seen: Seen,
    /// True for a directory that has a list of entries.
    pub(super) enters: bool,
}

/// Inode of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) ino: Ino,
    /// Number of names of the inode.
    pub(super) links: u32,
    /// True for the first of them.
    pub(super) is_first: bool,
}

/// Takes entries from parts.
#[derive(Debug)]
pub(super) struct Collector<'p> {
    place: &'p Place<'p>,
    entries: Spool,
    dirs: Spool,
    lists: Spool,
    links: Sorter,
    xattrs: Xattrs,
    names: u64,
    next_dir: Cursor,
    /// Number of entries of the present directory, bytes of their names, and the last name.
    list: Option<(u64, u64, Box<[u8]>)>,
    record: Vec<u8>,
}

impl<'p> Collector<'p> {
    pub(super) fn new(place: &'p Place<'p>) -> Self {
        let spool = || Spool::new(&place.scratch);
        Collector {
            place,
            entries: spool(),
            dirs: spool(),
            lists: spool(),
            links: place.sorter(),
            xattrs: Xattrs::default(),
            names: 0,
            next_dir: Cursor::default(),
            list: None,
            record: Vec::new(),
        }
    }

    fn push(&mut self, path: &[u8], entry: Streamed) -> Result<()> {
        let Streamed { name, mut meta, xattrs, kind, seen, link, enters } = entry;
        meta.xattrs = self.xattrs.intern(xattrs);
        self.record.clear();
        Entry { name: name.into(), meta, kind, seen, enters }.encode(&mut self.record);
        self.place.io(self.entries.push(&self.record))?;
        if let Some((device, number)) = link {
            let key = [device, number, self.names].map(u64::to_be_bytes).concat();
            self.place.io(self.links.push(&key))?;
        }
        if enters {
            self.place.io(self.dirs.push(path))?;
        }
        self.names += 1;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Names> {
        let Collector { place, entries, dirs, lists, links, xattrs, names, .. } = self;
        let (links, later) = place.io(number(place, links))?;
        let inodes = names - later;
        if inodes > 1 << 32 {
            return Err(Error::TooMany { what: "inodes", max: 1 << 32 });
        }
        Ok(Names { entries, dirs, lists, links, xattrs, inodes })
    }
}

impl Receive for Collector<'_> {
    fn root(&mut self, entry: Streamed) -> Result<()> {
        self.push(b"", entry)
    }

    fn entry(&mut self, dir: &[u8], entry: Streamed) -> Result<()> {
        check_name(&entry.name)?;
        let (count, bytes, last) = self.list.as_mut().expect("a directory was asked for");
        if *count > 0 && **last >= *entry.name {
            return Err(Error::Misuse("entries of a part of a scan are out of order".into()));
        }
        (*count, *bytes) = (*count + 1, *bytes + entry.name.len() as u64);
        last.clone_from(&entry.name);
        let path = if entry.enters { join(dir, &entry.name) } else { Vec::new() };
        self.push(&path, entry)
    }

    fn next_dir(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some((count, bytes, _)) = self.list.take() {
            let record = [count.to_le_bytes(), bytes.to_le_bytes()].concat();
            self.place.io(self.lists.push(&record))?;
        }
        let mut path = Vec::new();
        let found = self.place.io(self.dirs.next(&mut self.next_dir, &mut path))?;
        if found {
            self.list = Some((0, 0, Box::default()));
        }
        Ok(found.then_some(path))
    }
}

/// Appends a name to the path of its directory.
pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, name].join(&b'/') }
}

/// Returns the big-endian number at a byte.
fn long(record: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}

/// Determines the inodes of names that are given by file and number; also returns how many are not the first of a file.
fn number(place: &Place<'_>, links: Sorter) -> std::io::Result<(Sorted, u64)> {
    let links = links.finish()?;
    // By the first name of their file, and each by itself with it.
    let (mut groups, mut names) = (place.sorter(), place.sorter());
    let (mut read, mut record) = (links.read()?, Vec::new());
    let (mut file, mut first, mut count) = (Vec::new(), 0, 0u64);
    let mut end = |first: u64, count: u64| match count {
        0 => Ok(()),
        // No linked name has the number 0, which is that of the root.
        count => groups.push(&[first, 0, count].map(u64::to_be_bytes).concat()),
    };
    while read.next(&mut record)? {
        if file != record[..16] {
            end(first, count)?;
            (file, first, count) = (record[..16].to_vec(), long(&record, 16), 0);
        }
        count += 1;
        names.push(&[long(&record, 16), first].map(u64::to_be_bytes).concat())?;
    }
    end(first, count)?;
    let names = names.finish()?;
    let (mut read, mut later) = (names.read()?, 0);
    while read.next(&mut record)? {
        let (name, first) = (long(&record, 0), long(&record, 8));
        groups.push(&[first, name, name - later].map(u64::to_be_bytes).concat())?;
        later += u64::from(name != first);
    }
    let groups = groups.finish()?;
    let (mut numbers, mut read) = (place.sorter(), groups.read()?);
    let (mut count, mut ino) = (0, 0);
    while read.next(&mut record)? {
        let (first, name, value) = (long(&record, 0), long(&record, 8), long(&record, 16));
        if name == 0 {
            count = value;
            continue;
        }
        if name == first {
            ino = value;
        }
        numbers.push(&[name, ino, count, u64::from(name == first)].map(u64::to_be_bytes).concat())?;
    }
    Ok((numbers.finish()?, later))
}

impl Entry {
    fn encode(&self, to: &mut Vec<u8>) {
        let Entry { name, meta, kind, seen, enters } = self;
        let Meta { mode, uid, gid, mtime, xattrs } = meta;
        [u32::from(*mode), *uid, *gid, mtime.nanos, xattrs.0].into_iter().for_each(|number| to.u32(number));
        to.u64(mtime.secs.cast_unsigned());
        to.bytes(name);
        match kind {
            Kind::Dir => to.put(&[0, u8::from(*enters)]),
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

    fn decode(record: &[u8]) -> Result<Entry> {
        let from = &mut Get::new("entry in a temporary file", record);
        let (mode, uid, gid, nanos, xattrs) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?, from.u32()?);
        let mtime = Time { secs: from.u64()?.cast_signed(), nanos };
        let mode = u16::try_from(mode).map_err(|_| from.wrong("a mode has more than 16 bits"))?;
        let meta = Meta { mode, uid, gid, mtime, xattrs: XattrId(xattrs) };
        let name = from.bytes()?.to_vec();
        let (mut seen, mut enters) = (Seen([0; 20]), false);
        let device = |from: &mut Get<'_>| Ok::<_, Error>(Device { major: from.u32()?, minor: from.u32()? });
        let kind = match from.u8()? {
            0 => {
                enters = from.bool()?;
                Kind::Dir
            }
            1 => {
                let size = from.u64()?;
                seen = Seen(from.array()?);
                Kind::File { size, data: Data::Empty }
            }
            2 => Kind::Symlink(from.bytes()?.into()),
            3 => Kind::Char(device(from)?),
            4 => Kind::Block(device(from)?),
            5 => Kind::Fifo,
            _ => Kind::Socket,
        };
        Ok(Entry { name, meta, kind, seen, enters })
    }
}

impl Names {
    /// Reads all entries, from the root on.
    pub(super) fn read<'n>(&'n self, place: &'n Place<'n>) -> Result<Reader<'n>> {
        let links = place.io(self.links.read())?;
        let mut numbers = Numbers { links, next: None, name: 0, later: 0, record: Vec::new() };
        place.io(numbers.advance())?;
        Ok(Reader { names: self, place, entries: Cursor::default(), numbers, record: Vec::new() })
    }

    /// Reads all entries but the root, with the paths of their directories.
    pub(super) fn walk<'n>(&'n self, place: &'n Place<'n>) -> Result<(Entry, Walk<'n>)> {
        let mut reader = self.read(place)?;
        let (root, _) = reader.next()?.ok_or_else(|| Error::Misuse("a scan without a root".into()))?;
        let lists = self.lists(place);
        Ok((root, Walk { reader, dirs: Cursor::default(), lists, dir: Vec::new(), left: 0 }))
    }

    /// Reads the lengths of all lists of entries.
    pub(super) fn lists<'n>(&'n self, place: &'n Place<'n>) -> Lengths<'n> {
        Lengths { names: self, place, at: Cursor::default() }
    }
}

/// Reads entries with the numbers of their inodes.
#[derive(Debug)]
pub(super) struct Reader<'n> {
    names: &'n Names,
    place: &'n Place<'n>,
    entries: Cursor,
    numbers: Numbers<'n>,
    record: Vec<u8>,
}

impl Reader<'_> {
    pub(super) fn next(&mut self) -> Result<Option<(Entry, Number)>> {
        if !self.place.io(self.names.entries.next(&mut self.entries, &mut self.record))? {
            return Ok(None);
        }
        let number = self.place.io(self.numbers.next())?;
        if self.numbers.name.is_multiple_of(4096) {
            Error::unless_cancelled(self.place.progress)?;
        }
        Ok(Some((Entry::decode(&self.record)?, number)))
    }
}

/// Numbers of the inodes of all names.
#[derive(Debug)]
struct Numbers<'n> {
    links: Merge<'n>,
    /// The next name of a file with several, and its inode.
    next: Option<(u64, Number)>,
    /// Number of the next name.
    name: u64,
    /// Number of names so far that are not the first of their file.
    later: u64,
    record: Vec<u8>,
}

impl Numbers<'_> {
    fn next(&mut self) -> std::io::Result<Number> {
        let (name, narrow) = (self.name, |number: u64| u32::try_from(number).unwrap_or(u32::MAX));
        self.name += 1;
        let Some((_, number)) = self.next.filter(|(next, _)| *next == name) else {
            return Ok(Number { ino: Ino(narrow(name - self.later)), links: 1, is_first: true });
        };
        self.later += u64::from(!number.is_first);
        self.advance()?;
        Ok(number)
    }

    fn advance(&mut self) -> std::io::Result<()> {
        self.next = None;
        if self.links.next(&mut self.record)? {
            let narrow = |at| u32::try_from(long(&self.record, at)).unwrap_or(u32::MAX);
            let number = Number { ino: Ino(narrow(8)), links: narrow(16), is_first: narrow(24) != 0 };
            self.next = Some((long(&self.record, 0), number));
        }
        Ok(())
    }
}

/// Reads the lengths of lists of entries.
#[derive(Debug)]
pub(super) struct Lengths<'n> {
    names: &'n Names,
    place: &'n Place<'n>,
    at: Cursor,
}

impl Lengths<'_> {
    /// Returns the number of entries of the next directory, and the bytes of their names.
    pub(super) fn next(&mut self) -> Result<(u64, u64)> {
        let mut record = Vec::new();
        self.place.io(self.names.lists.next(&mut self.at, &mut record))?;
        let from = &mut Get::new("list in a temporary file", &record);
        Ok((from.u64()?, from.u64()?))
    }
}

/// Reads entries with the paths of their directories.
#[derive(Debug)]
pub(super) struct Walk<'n> {
    reader: Reader<'n>,
    dirs: Cursor,
    lists: Lengths<'n>,
    /// Path of the directory of the entry that was returned last.
    pub(super) dir: Vec<u8>,
    /// Number of its entries that are still to come.
    left: u64,
}

impl Walk<'_> {
    pub(super) fn next(&mut self) -> Result<Option<(Entry, Number)>> {
        let Some(found) = self.reader.next()? else { return Ok(None) };
        while self.left == 0 {
            let place = self.reader.place;
            place.io(self.reader.names.dirs.next(&mut self.dirs, &mut self.dir))?;
            self.left = self.lists.next()?.0;
        }
        self.left -= 1;
        Ok(Some(found))
    }
}
