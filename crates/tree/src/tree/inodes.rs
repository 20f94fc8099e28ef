//! Inodes in little memory: 16 bytes each, apart from what many have in common and from the names in directories.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use super::shared::SharedValues;
use super::{
    DataHandling, DeviceNumber, DirEntries, FileData, FileRecipe, Ino, Inode, InodeAttributes, Kind, KindRef, Time,
    XattrId,
};
use crate::Contents;
use crate::{Error, Result};

/// Number of remembered values, of which each takes the place of another one. Neighbours in a tree often have the same
/// owner, mode and time; a value that is forgotten is held a second time.
const RECENT: usize = 1 << 12;
/// Number of sources that are compared with that of a file: trees have few, except those with a source for each file.
const SOURCES: usize = 8;

/// All inodes of a tree.
#[derive(Debug, Default)]
pub(super) struct InodeStore {
    records: Vec<InodeRecord>,
    common: SharedValues<CommonAttrs>,
    /// Numbers in `common` by the hash of their value.
    recent: Vec<u32>,
    /// The value that was looked up last: the next inode mostly has the same.
    last: u32,
    sources: SharedValues<Arc<dyn Contents>>,
    /// The source that was used last.
    source: u32,
    dirs: Vec<DirEntries>,
    /// Targets of symbolic links, one after the other.
    targets: Vec<u8>,
    /// Keys of files that need more than 32 bits.
    keys: Vec<u64>,
}

/// One inode. The numbers depend on its form.
#[derive(Debug, Clone, Copy)]
struct InodeRecord {
    /// Number of its [`CommonAttrs`].
    common: u32,
    /// Number of a directory in `dirs`; key of a file, or the number under which it is stored; length of a target.
    low: u32,
    /// Length of a file; start of a target; device number, its major part in the upper half.
    high: u64,
}

const _: () = assert!(size_of::<InodeRecord>() <= 16);

/// Properties that are the same in many inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CommonAttrs {
    form: InodeForm,
    mode: u16,
    uid: u32,
    gid: u32,
    mtime: Time,
    xattrs: XattrId,
    links: u32,
    handling: DataHandling,
    recipe: FileRecipe,
}

/// Type of an inode, and for a file the place of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum InodeForm {
    Dir,
    Empty,
    Stored,
    /// By the number of the source.
    Source(u32),
    /// The same, with a key in `keys`.
    FarSource(u32),
    Symlink,
    Char,
    Block,
    Fifo,
    Socket,
}

impl InodeForm {
    fn is_file(self) -> bool {
        matches!(self, InodeForm::Empty | InodeForm::Stored | InodeForm::Source(_) | InodeForm::FarSource(_))
    }

    fn source(self) -> Option<u32> {
        match self {
            InodeForm::Source(number) | InodeForm::FarSource(number) => Some(number),
            _ => None,
        }
    }
}

impl InodeStore {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Adds an inode with one name.
    pub(super) fn push(&mut self, meta: InodeAttributes, kind: Kind) -> Result<Ino> {
        let ino = u32::try_from(self.records.len()).map_err(|_| Error::TooMany { what: "inodes", max: 1 << 32 })?;
        let (form, low, high) = self.form(kind)?;
        let InodeAttributes { mode, uid, gid, mtime, xattrs } = meta;
        let handling = DataHandling::empty();
        let recipe = FileRecipe::default();
        let common =
            self.intern(CommonAttrs { form, mode: mode & 0o7777, uid, gid, mtime, xattrs, links: 1, handling, recipe });
        // A tree of millions of inodes would otherwise have room for as many again.
        if self.records.len() == self.records.capacity() {
            self.records.reserve_exact((self.records.len() / 8).max(64));
        }
        self.records.push(InodeRecord { common, low, high });
        Ok(Ino(ino))
    }

    pub(super) fn get(&self, ino: Ino) -> Inode<'_> {
        let record = self.record(ino);
        let CommonAttrs { form, mode, uid, gid, mtime, xattrs, links, handling, recipe } =
            *self.common.get(record.common);
        Inode { kind: self.kind(record, form), mode, uid, gid, mtime, xattrs, links, handling, recipe }
    }

    /// Loads inodes that are looked at next. No load waits for another.
    pub(super) fn touch(&self, inos: &[Ino]) {
        // `black_box`, as the compiler would drop loads whose result nobody uses.
        std::hint::black_box(inos.iter().fold(0, |all, ino| all ^ self.record(*ino).common));
    }

    /// Returns the number under which the data of a file is stored.
    pub(super) fn stored(&self, ino: Ino) -> Option<u32> {
        (self.common(ino).form == InodeForm::Stored).then(|| self.record(ino).low)
    }

    /// Returns the length of a regular file; 0 for other types.
    pub(super) fn file_len(&self, ino: Ino) -> u64 {
        if self.common(ino).form.is_file() { self.record(ino).high } else { 0 }
    }

    pub(super) fn is_dir(&self, ino: Ino) -> bool {
        self.common(ino).form == InodeForm::Dir
    }

    /// Returns the entries of a directory.
    pub(super) fn dir(&self, ino: Ino) -> Option<&DirEntries> {
        self.is_dir(ino).then(|| &self.dirs[self.record(ino).low as usize])
    }

    pub(super) fn dir_mut(&mut self, ino: Ino) -> Option<&mut DirEntries> {
        let number = self.record(ino).low as usize;
        self.is_dir(ino).then(|| &mut self.dirs[number])
    }

    pub(super) fn meta(&self, ino: Ino) -> InodeAttributes {
        let CommonAttrs { mode, uid, gid, mtime, xattrs, .. } = *self.common(ino);
        InodeAttributes { mode, uid, gid, mtime, xattrs }
    }

    pub(super) fn links(&self, ino: Ino) -> u32 {
        self.common(ino).links
    }

    /// Returns the times of all inodes that have a name, with the number of inodes that have each.
    pub(super) fn times(&self) -> impl Iterator<Item = (Time, u32)> {
        let named = self.common.all().filter(|(common, _)| common.links > 0);
        named.map(|(common, inodes)| (common.mtime, inodes))
    }

    pub(super) fn set_meta(&mut self, ino: Ino, meta: InodeAttributes) {
        let InodeAttributes { mode, uid, gid, mtime, xattrs } = meta;
        let old = *self.common(ino);
        self.set_common(ino, CommonAttrs { mode: mode & 0o7777, uid, gid, mtime, xattrs, ..old });
    }

    pub(super) fn set_links(&mut self, ino: Ino, links: u32) {
        let old = *self.common(ino);
        self.set_common(ino, CommonAttrs { links, ..old });
    }

    pub(super) fn set_storing(&mut self, ino: Ino, handling: DataHandling, recipe: FileRecipe) {
        let old = *self.common(ino);
        self.set_common(ino, CommonAttrs { handling, recipe, ..old });
    }

    /// Gives an inode another type and contents. The old ones are dropped, but for the target of a symbolic link.
    pub(super) fn set_kind(&mut self, ino: Ino, kind: Kind) -> Result<()> {
        // Set before the new contents, as they may be a directory too.
        if let Some(entries) = self.dir_mut(ino) {
            *entries = DirEntries::default();
        }
        let (form, low, high) = self.form(kind)?;
        let old = *self.common(ino);
        self.set_common(ino, CommonAttrs { form, ..old });
        let record = &mut self.records[ino.0 as usize];
        (record.low, record.high) = (low, high);
        Ok(())
    }

    /// Gives a regular file other data of the same length; leaves other types as they are.
    pub(super) fn set_data(&mut self, ino: Ino, data: FileData) -> Result<()> {
        let old = *self.common(ino);
        if !old.form.is_file() {
            return Ok(());
        }
        let (form, low, _) = self.form(Kind::File { size: 0, data })?;
        self.set_common(ino, CommonAttrs { form, ..old });
        self.records[ino.0 as usize].low = low;
        Ok(())
    }

    fn record(&self, ino: Ino) -> InodeRecord {
        self.records[ino.0 as usize]
    }

    fn common(&self, ino: Ino) -> &CommonAttrs {
        self.common.get(self.record(ino).common)
    }

    fn kind(&self, record: InodeRecord, form: InodeForm) -> KindRef<'_> {
        let InodeRecord { low, high, .. } = record;
        let file = |data| Kind::File { size: high, data };
        let source = |number, key| FileData::Source { from: self.sources.get(number), key };
        // The halves were put together in `form`.
        let half = |number: u64| u32::try_from(number & u64::from(u32::MAX)).expect("32 bits");
        let device = || DeviceNumber { major: half(high >> 32), minor: half(high) };
        match form {
            InodeForm::Dir => Kind::Dir,
            InodeForm::Empty => file(FileData::Empty),
            InodeForm::Stored => file(FileData::Stored(low)),
            InodeForm::Source(number) => file(source(number, low.into())),
            InodeForm::FarSource(number) => file(source(number, self.keys[low as usize])),
            InodeForm::Symlink => {
                let start = usize::try_from(high).expect("a position in memory");
                Kind::Symlink(&self.targets[start..start + low as usize])
            }
            InodeForm::Char => Kind::Char(device()),
            InodeForm::Block => Kind::Block(device()),
            InodeForm::Fifo => Kind::Fifo,
            InodeForm::Socket => Kind::Socket,
        }
    }

    /// Returns what a record has of a type and its contents.
    fn form(&mut self, kind: Kind) -> Result<(InodeForm, u32, u64)> {
        let number = |DeviceNumber { major, minor }| u64::from(major) << 32 | u64::from(minor);
        Ok(match kind {
            Kind::Dir => {
                self.dirs.push(DirEntries::default());
                (InodeForm::Dir, u32::try_from(self.dirs.len() - 1).expect("no more directories than inodes"), 0)
            }
            Kind::File { size, data: FileData::Empty } => (InodeForm::Empty, 0, size),
            Kind::File { size, data: FileData::Stored(number) } => (InodeForm::Stored, number, size),
            Kind::File { size, data: FileData::Source { from, key } } => {
                let source = self.source(from);
                match u32::try_from(key) {
                    Ok(key) => (InodeForm::Source(source), key, size),
                    Err(_) => {
                        // Keys of images are references with more bits; sources of files count from 0.
                        self.keys.push(key);
                        let at = u32::try_from(self.keys.len() - 1);
                        let at = at.map_err(|_| Error::TooMany { what: "files of images", max: 1 << 32 })?;
                        (InodeForm::FarSource(source), at, size)
                    }
                }
            }
            Kind::Symlink(target) => {
                let too_long = |_| Error::Misuse("a symlink target of 4 GiB".into());
                let len = u32::try_from(target.len()).map_err(too_long)?;
                let start = self.targets.len() as u64;
                self.targets.extend_from_slice(&target);
                (InodeForm::Symlink, len, start)
            }
            Kind::Char(device) => (InodeForm::Char, 0, number(device)),
            Kind::Block(device) => (InodeForm::Block, 0, number(device)),
            Kind::Fifo => (InodeForm::Fifo, 0, 0),
            Kind::Socket => (InodeForm::Socket, 0, 0),
        })
    }

    /// Returns the number of a source.
    fn source(&mut self, from: Arc<dyn Contents>) -> u32 {
        let is_this = |known: &Arc<dyn Contents>| Arc::ptr_eq(known, &from);
        if !self.sources.find(self.source).is_some_and(is_this) {
            // Only the last few: a search through thousands would be made for each file.
            let known = self.sources.last(SOURCES).find(|(_, known)| is_this(known)).map(|(number, _)| number);
            self.source = known.unwrap_or_else(|| self.sources.add(from));
        }
        self.source
    }

    /// Gives an inode other properties.
    fn set_common(&mut self, ino: Ino, new: CommonAttrs) {
        let old = self.record(ino).common;
        if *self.common.get(old) == new {
            return;
        }
        let number = self.intern(new);
        self.records[ino.0 as usize].common = number;
        // Only when no inode has the value any more is its source one user fewer.
        if let Some(source) = self.common.leave(old).and_then(|old| old.form.source()) {
            self.sources.leave(source);
        }
    }

    /// Returns the number of a value, and counts one more inode that has it.
    fn intern(&mut self, value: CommonAttrs) -> u32 {
        // Without a hash for a value that equals the one before.
        if self.common.find(self.last) != Some(&value) {
            self.last = self.look_up(value);
        }
        self.common.share(self.last);
        self.last
    }

    /// Returns the number of a value, which nobody has yet if it is new.
    fn look_up(&mut self, value: CommonAttrs) -> u32 {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(value);
        if self.recent.is_empty() {
            self.recent.resize(RECENT, u32::MAX);
        }
        let recent = &mut self.recent[usize::try_from(hash % RECENT as u64).expect("below RECENT")];
        // Either another value has the place, or none has it yet.
        if self.common.find(*recent) != Some(&value) {
            *recent = self.common.add(value);
            if let Some(source) = value.form.source() {
                self.sources.share(source);
            }
        }
        *recent
    }
}

#[cfg(test)]
mod tests;
