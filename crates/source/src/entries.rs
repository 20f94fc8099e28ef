//! Entries that a program defines itself: files in memory, from readers or any storage, links, devices.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::system::OsStrExt;

use super::{Contents, FileReader, Source, Store};
use crate::tree::{ConflictPolicy, DeviceNumber, FileData, InodeAttributes, Kind, ROOT, Time, XattrSet, path_of};
use crate::{Error, Result, Tree};

/// An entry defined by a program. By default it is owned by root, dated 1970, with the usual mode of its type.
///
/// Paths are relative to the image's root; a leading `/` is ignored. Parent directories without an
/// entry of their own are created: 0755, owned by root.
///
/// ```
/// use packfs_source::Entry;
/// let motd = Entry::file("etc/motd", "Welcome.\n").mode(0o600).owner(7, 7).xattr("user.lang", "en");
/// ```
#[must_use]
pub struct Entry<'a> {
    path: Vec<u8>,
    node: EntryNode<'a>,
    mode: u16,
    owner: (u32, u32),
    mtime: Time,
    xattrs: XattrSet,
}

/// The kind of an entry, with its content.
enum EntryNode<'a> {
    Dir,
    Bytes(Vec<u8>),
    Stream(u64, Box<dyn Read + 'a>),
    Stored(Arc<dyn ReadAt>),
    HardLink(Vec<u8>),
    Other(Kind),
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("path", &path_of(&self.path)).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl<'a> Entry<'a> {
    fn new(path: impl AsRef<Path>, node: EntryNode<'a>, mode: u16) -> Self {
        let path = path.as_ref().as_os_str().as_bytes().to_owned();
        // A path takes bytes, as on Linux any but NUL and the slash may be in a name.
        Entry { path, node, mode, owner: (0, 0), mtime: Time::default(), xattrs: XattrSet::new() }
    }

    /// Makes a directory, 0755. The path `/` sets the attributes of the root.
    pub fn dir(path: impl AsRef<Path>) -> Self {
        Entry::new(path, EntryNode::Dir, 0o755)
    }

    /// Makes a regular file with these bytes, 0644.
    pub fn file(path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) -> Self {
        Entry::new(path, EntryNode::Bytes(bytes.into()), 0o644)
    }

    /// Makes a regular file, 0644, of the next `size` bytes of `from`, which is read once, when its
    /// turn comes. A reader that ends early is an error.
    pub fn stream(path: impl AsRef<Path>, size: u64, from: impl Read + 'a) -> Self {
        Entry::new(path, EntryNode::Stream(size, Box::new(from)), 0o644)
    }

    /// Makes a regular file, 0644, of everything in `from`. Several threads read it, after all sources are scanned.
    pub fn stored(path: impl AsRef<Path>, from: Arc<dyn ReadAt>) -> Self {
        Entry::new(path, EntryNode::Stored(from), 0o644)
    }

    /// Makes a symbolic link, 0777.
    pub fn symlink(path: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        let target = target.as_ref().as_os_str().as_bytes().into();
        Entry::new(path, EntryNode::Other(Kind::Symlink(target)), 0o777)
    }

    /// Makes another name for the entry `first`, which must come before this one and determines the
    /// attributes of both.
    pub fn hard_link(path: impl AsRef<Path>, first: impl AsRef<Path>) -> Self {
        Entry::new(path, EntryNode::HardLink(first.as_ref().as_os_str().as_bytes().to_owned()), 0)
    }

    /// Makes a character device, 0600.
    pub fn char_device(path: impl AsRef<Path>, device: DeviceNumber) -> Self {
        Entry::new(path, EntryNode::Other(Kind::Char(device)), 0o600)
    }

    /// Makes a block device, 0600.
    pub fn block_device(path: impl AsRef<Path>, device: DeviceNumber) -> Self {
        Entry::new(path, EntryNode::Other(Kind::Block(device)), 0o600)
    }

    /// Makes a named pipe, 0600.
    pub fn fifo(path: impl AsRef<Path>) -> Self {
        Entry::new(path, EntryNode::Other(Kind::Fifo), 0o600)
    }

    /// Makes a socket, 0600.
    pub fn socket(path: impl AsRef<Path>) -> Self {
        Entry::new(path, EntryNode::Other(Kind::Socket), 0o600)
    }

    /// Sets the permission bits (07777). Other bits, such as the file type that [`Permissions`](std::fs::Permissions)
    /// have in their mode, are ignored.
    pub fn mode(self, mode: u32) -> Self {
        Entry { mode: u16::try_from(mode & 0o7777).expect("12 bits"), ..self }
    }

    /// Sets owner and group.
    pub fn owner(self, uid: u32, gid: u32) -> Self {
        Entry { owner: (uid, gid), ..self }
    }

    /// Sets the time of last modification: a [`Time`] or a [`SystemTime`](std::time::SystemTime).
    pub fn mtime(self, mtime: impl Into<Time>) -> Self {
        Entry { mtime: mtime.into(), ..self }
    }

    /// Adds an extended attribute, by its full name (`user.mime_type`).
    pub fn xattr(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.xattrs.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Adds the entry to the tree, replacing an existing one.
    fn add_to(self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
        let Entry { path, node, mode, owner: (uid, gid), mtime, xattrs } = self;
        // Interned at once: entries often have the same attributes.
        let meta = InodeAttributes { mode, uid, gid, mtime, xattrs: tree.xattrs.intern(xattrs) };
        let kind = match node {
            EntryNode::Dir => Kind::Dir,
            EntryNode::Bytes(bytes) => store_file(store, &path, bytes.len() as u64, &mut &bytes[..])?,
            EntryNode::Stream(size, mut from) => store_file(store, &path, size, &mut *from)?,
            EntryNode::Stored(from) => {
                let size = from.len();
                let from: Arc<dyn Contents> = Arc::new(StoredFile { from, path: path_of(&path) });
                // Without bytes there is nothing to ask a source for.
                Kind::File { size, data: if size == 0 { FileData::Empty } else { FileData::Source { from, key: 0 } } }
            }
            EntryNode::HardLink(first) => {
                // Only entries that are there already: a link cannot wait for its target.
                let target = tree.lookup(&first).ok_or_else(|| Error::NotFound { path: path_of(&first) })?;
                let place = tree.parent_of(&path, InodeAttributes::IMPLICIT_DIR)?;
                let (dir, name) = place.ok_or_else(|| Error::BadName { name: path.clone() })?;
                return tree.link(dir, name, target, ConflictPolicy::Replace);
            }
            EntryNode::Other(kind) => kind,
        };
        // The root has no name in a directory.
        match tree.parent_of(&path, InodeAttributes::IMPLICIT_DIR)? {
            Some((dir, name)) => tree.add(dir, name, meta, kind, ConflictPolicy::Replace).map(|_| ()),
            None if matches!(kind, Kind::Dir) => {
                tree.set_meta(ROOT, meta);
                Ok(())
            }
            None => Err(Error::WrongType { path: "/".into(), expected: "directory" }),
        }
    }
}

/// Passes the data of a file to the store.
fn store_file(store: &mut dyn Store, path: &[u8], size: u64, from: &mut dyn Read) -> Result<Kind> {
    if size == 0 {
        return Ok(Kind::File { size, data: FileData::Empty });
    }
    let mut from = ErrorKeeper { from, failed: None };
    let number = store.put(&mut from, size, &[(0, size)]);
    // The store's error about a failed read does not name the file.
    match from.failed {
        Some(error) => Err(Error::io("cannot read", path_of(path))(error)),
        None => Ok(Kind::File { size, data: FileData::Stored(number?) }),
    }
}

/// A reader that keeps its error.
struct ErrorKeeper<'r> {
    from: &'r mut dyn Read,
    failed: Option<io::Error>,
}

impl Read for ErrorKeeper<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let failed = match self.from.read(buf) {
            // The end comes too early: the size was given, and `put` asks for no more than that.
            Ok(0) if !buf.is_empty() => io::ErrorKind::UnexpectedEof.into(),
            // Tried again by whoever reads.
            Err(error) if error.kind() != io::ErrorKind::Interrupted => error,
            done => return done,
        };
        // The error itself is kept for the caller; the store gets one of the same kind.
        let kind = failed.kind();
        self.failed = Some(failed);
        Err(kind.into())
    }
}

/// One file that consists of all bytes of a storage, such as memory.
#[derive(Debug)]
pub(crate) struct StoredFile {
    pub(crate) from: Arc<dyn ReadAt>,
    /// Name of the file for messages.
    pub(crate) path: PathBuf,
}

impl Contents for StoredFile {
    fn open(&self, _: u64) -> Result<Box<dyn FileReader + '_>> {
        Ok(Box::new(self))
    }

    fn path(&self, _: u64) -> PathBuf {
        self.path.clone()
    }
}

impl FileReader for &StoredFile {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.from.read_exact_at(buf, offset).map_err(Error::io("cannot read", &self.path))
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let end = self.from.len();
        Ok((offset < end).then_some((offset, end)))
    }

    fn finish(&mut self) -> Result<()> {
        // Memory never changes, a file may.
        super::unchanged(&*self.from, &self.path)
    }
}

/// A source of entries from an iterator. The data of one entry is read before the next is
/// requested, so they need not be in memory together. Of several entries with one path the last is
/// kept.
#[derive(Debug)]
pub struct Entries<I>(Option<I>);

impl<'a, I: Iterator<Item = Entry<'a>>> Entries<I> {
    /// Makes a source that can be scanned once.
    pub fn new(entries: impl IntoIterator<IntoIter = I>) -> Self {
        Entries(Some(entries.into_iter()))
    }
}

impl<'a, I: Iterator<Item = Entry<'a>>> Source for Entries<I> {
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
        // An iterator is gone after it.
        let entries = self.0.take().ok_or_else(|| Error::Misuse("entries can be scanned only once".into()))?;
        entries.into_iter().try_for_each(|entry| entry.add_to(tree, store))
    }
}
