//! The file tree between a source and a writer: inodes without data, directories as sorted names.
//!
//! The tree is held in memory, with 16 bytes for an inode and one to five for a name besides its own: what inodes have in
//! common, such as owner, mode and time, is held once. File contents stay where they are: the [`FileData`] of an inode tells
//! a writer where to find them.

use std::fmt;
use std::sync::Arc;

use crate::Contents;
use crate::{Error, Result, Warnings};

pub mod acl;
mod build;
pub mod capability;
mod entries;
mod fs_config;
mod hot;
mod inodes;
mod layers;
mod names;
mod reroot;
mod shared;
mod time;
mod transform;
mod view;
mod whiteout;
pub mod wire;
mod xattr;

pub use build::path_of;
pub use build::{ConflictPolicy, InodeAttributes};
pub use entries::{DirEntries, EntryIter};
pub use fs_config::{FsConfig, parse_c_number};
use inodes::InodeStore;
pub use time::{NotATime, Time};
pub use transform::shifted;
pub use transform::{ModeChange, TimeChange, TreeTransform};
pub use view::TreeImage;
pub use whiteout::{OPAQUE_MARK, OPAQUE_XATTR, ORIGIN_XATTR, WHITEOUT_PREFIX, WhiteoutPolicy};
pub use xattr::ReducedSet;
pub use xattr::{ExcludeXattrs, TreeXattrs, XattrId, XattrSet};

/// Index of an inode in its [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u32);

/// The root directory of every tree.
pub const ROOT: Ino = Ino(0);

/// A device number, as wide as in Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// Number of the driver.
    pub major: u32,
    /// Number of the device within its driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// The device by which overlayfs knows that a name is deleted.
    pub const WHITEOUT: DeviceNumber = DeviceNumber { major: 0, minor: 0 };

    /// Encodes the number in 32 bits, as both formats do: 12 bits of the major number between 8 and
    /// 12 bits of the minor.
    pub fn encode(self) -> u32 {
        let DeviceNumber { major, minor } = self;
        // As `new_encode_dev` of Linux.
        minor & 0xff | (major & 0xfff) << 8 | (minor & 0xfff00) << 12
    }
}

/// One inode, as a tree shows it.
#[derive(Debug, Clone)]
pub struct Inode<'t> {
    /// Type with type-specific content.
    pub kind: KindRef<'t>,
    /// The 12 permission bits (07777).
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of last modification.
    pub mtime: Time,
    /// Extended attributes; sets are shared, see [`Tree::xattrs`].
    pub xattrs: XattrId,
    /// Number of names (hard links); 1 for directories.
    pub links: u32,
    /// Wishes about the data of a regular file.
    pub handling: DataHandling,
    /// Codec and cluster size of a regular file.
    pub recipe: FileRecipe,
}

/// Codec and cluster size of one file, as numbers in the [`RecipeTable`](crate::RecipeTable) of a build, counted from 1;
/// 0 means that of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct FileRecipe {
    /// Number of the codec.
    pub codec: u8,
    /// Number of the cluster size.
    pub cluster: u8,
}

bitflags::bitflags! {
    /// Wishes about how the data of one file is stored. A format that cannot fulfil one refuses it.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub struct DataHandling: u8 {
        /// Uncompressed, in blocks of its own, shared with no other file.
        const STORE = 1;
        /// Not in a block with tails of other files.
        const NO_FRAGMENT = 2;
        /// Its blocks are shared with no other file.
        const NO_DEDUP = 4;
        /// In a block with tails of other files if it is shorter than a block, whatever the options say.
        const SMALL = 8;
        /// In a block with tails of other files, or only its tail if it is longer, whatever the options say.
        const TAILS = 16;
        /// Blocks of zeros are stored.
        const NO_SPARSE = 32;
        /// Its blocks begin at a multiple of 4 KiB, and are shared with no other file.
        const ALIGN = 64;
        /// Not [`DataHandling::STORE`] any more. Only [`DataHandling::then`] takes it: no file has it.
        const COMPRESS = 128;
    }
}

impl DataHandling {
    /// Wishes of which the last counts.
    const PACKING: DataHandling = DataHandling::NO_FRAGMENT.union(DataHandling::SMALL).union(DataHandling::TAILS);

    /// Returns these wishes, changed by later ones.
    #[must_use]
    pub fn then(self, later: DataHandling) -> DataHandling {
        let mut replaced = DataHandling::COMPRESS;
        // A later wish replaces earlier ones of the same kind only.
        replaced.set(DataHandling::PACKING, later.intersects(DataHandling::PACKING));
        replaced.set(DataHandling::STORE, later.contains(DataHandling::COMPRESS));
        (self - replaced) | (later - DataHandling::COMPRESS)
    }
}

/// Type of an inode; `T` holds the target of a symbolic link, `S` the source of a file.
#[derive(Debug, Clone)]
pub enum Kind<T = Box<[u8]>, S = Arc<dyn Contents>> {
    /// A directory; [`Tree::entries`] has its entries.
    Dir,
    /// A regular file.
    File {
        /// Length in bytes.
        size: u64,
        /// Location of the bytes.
        data: FileData<S>,
    },
    /// A symbolic link and its target.
    Symlink(T),
    /// A character device.
    Char(DeviceNumber),
    /// A block device.
    Block(DeviceNumber),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// Type of an inode, as a tree shows it: to look at a file of a tree must not count one more user of its source.
pub type KindRef<'t> = Kind<&'t [u8], &'t Arc<dyn Contents>>;

impl<T, S> Kind<T, S> {
    /// Returns true for the device by which overlayfs knows that a name is deleted.
    pub fn is_whiteout(&self) -> bool {
        matches!(self, Kind::Char(DeviceNumber::WHITEOUT))
    }

    /// Returns the letter that `find -type` has for the type.
    pub fn letter(&self) -> u8 {
        match self {
            Kind::Dir => b'd',
            Kind::File { .. } => b'f',
            Kind::Symlink(_) => b'l',
            Kind::Char(_) => b'c',
            Kind::Block(_) => b'b',
            Kind::Fifo => b'p',
            Kind::Socket => b's',
        }
    }
}

impl KindRef<'_> {
    /// Returns the same with a target and a source of its own.
    pub fn into_owned(self) -> Kind {
        match self {
            Kind::Dir => Kind::Dir,
            Kind::File { size, data } => Kind::File { size, data: data.into_owned() },
            Kind::Symlink(target) => Kind::Symlink(target.into()),
            Kind::Char(device) => Kind::Char(device),
            Kind::Block(device) => Kind::Block(device),
            Kind::Fifo => Kind::Fifo,
            Kind::Socket => Kind::Socket,
        }
    }
}

/// Location of a file's bytes; `S` holds its source.
#[derive(Clone)]
pub enum FileData<S = Arc<dyn Contents>> {
    /// The file is empty.
    Empty,
    /// A source can open it by `key`, at any time and from any thread.
    Source {
        /// The source.
        from: S,
        /// Key of the file in the source.
        key: u64,
    },
    /// A stream's data, which a writer has already stored under this file number.
    Stored(u32),
}

impl FileData<&Arc<dyn Contents>> {
    /// Returns the same with a source of its own.
    pub fn into_owned(self) -> FileData {
        match self {
            FileData::Empty => FileData::Empty,
            FileData::Source { from, key } => FileData::Source { from: Arc::clone(from), key },
            FileData::Stored(n) => FileData::Stored(n),
        }
    }
}

impl<S> fmt::Debug for FileData<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileData::Empty => f.write_str("Empty"),
            FileData::Source { key, .. } => write!(f, "Source({key})"),
            FileData::Stored(n) => write!(f, "Stored({n})"),
        }
    }
}

/// A whole file tree.
#[derive(Debug)]
pub struct Tree {
    inodes: InodeStore,
    /// Inodes that are used first.
    hot: hot::HotInodes,
    /// All sets of extended attributes, each once.
    pub xattrs: TreeXattrs,
    /// Warnings about the sources and entries; see [`Warnings`] for how to refuse them.
    pub warnings: Warnings,
    /// Attributes of directories that no source describes, if they are not those of the source.
    pub implied: Option<InodeAttributes>,
    /// Sources that an image may refer to instead of copying their data, in the order of their scans.
    pub devices: Vec<crate::SourceDevice>,
    /// The last layer, if sources are layers of overlayfs.
    layer: Option<layers::SourceLayer>,
}

impl Tree {
    /// Returns the inode `ino`.
    pub fn inode(&self, ino: Ino) -> Inode<'_> {
        self.inodes.get(ino)
    }

    /// Loads inodes that are looked at next: if they lie anywhere, it takes little longer to load many than one.
    pub fn touch(&self, inos: &[Ino]) {
        self.inodes.touch(inos);
    }

    /// Returns the number under which the data of a file is stored.
    pub fn stored(&self, ino: Ino) -> Option<u32> {
        self.inodes.stored(ino)
    }

    /// Returns the length of a regular file; 0 for other types.
    pub fn file_len(&self, ino: Ino) -> u64 {
        self.inodes.file_len(ino)
    }

    /// Returns true if an inode is a directory.
    pub fn is_dir(&self, ino: Ino) -> bool {
        self.inodes.is_dir(ino)
    }

    /// Returns the entries of a directory; `None` for other types.
    pub fn dir(&self, ino: Ino) -> Option<&DirEntries> {
        self.inodes.dir(ino)
    }

    /// Returns the number of inodes held, including unreachable ones.
    pub fn len(&self) -> usize {
        self.inodes.len()
    }

    /// Returns all inodes, including unreachable ones.
    pub fn inos(&self) -> impl Iterator<Item = Ino> + use<> {
        (0..self.len()).filter_map(|ino| u32::try_from(ino).ok()).map(Ino)
    }

    /// Always false: there is always a root.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entries of a directory in byte order of their names; none for other types.
    pub fn entries(&self, ino: Ino) -> impl Iterator<Item = (&[u8], Ino)> {
        self.dir(ino).into_iter().flatten()
    }

    /// Returns the inode at `path` (components separated by `/`; empty and `.` components are skipped).
    pub fn lookup(&self, path: &[u8]) -> Option<Ino> {
        // A path through anything but a directory leads nowhere.
        components(path).try_fold(ROOT, |dir, name| self.dir(dir)?.get(name))
    }

    /// Calls `visit` for every inode reachable from the root, once each, with the path of its first
    /// name: a directory before its entries, entries in byte order.
    pub fn walk(&self, mut visit: impl FnMut(Ino, &[u8]) -> Result<()>) -> Result<()> {
        self.walk_named(|ino, _, path| visit(ino, path))
    }

    /// As [`Tree::walk`], also with the first name of each inode, which is the end of its path; empty for the root.
    pub fn walk_named<'t>(&'t self, mut visit: impl FnMut(Ino, &'t [u8], &[u8]) -> Result<()>) -> Result<()> {
        // Of files with several names, only the first one counts.
        let mut seen = vec![false; self.len()];
        let mut path = Vec::new();
        let mut stack: Vec<(EntryIter<'t>, usize)> = Vec::new();
        visit(ROOT, b"", b"")?;
        if let Some(entries) = self.dir(ROOT) {
            stack.push((entries.iter(), 0));
        }
        while let Some((entries, parent_len)) = stack.last_mut() {
            // The path is that of the directory again, whatever its last entry was.
            path.truncate(*parent_len);
            let Some((name, ino)) = entries.next() else {
                stack.pop();
                continue;
            };
            if std::mem::replace(&mut seen[ino.0 as usize], true) {
                continue;
            }
            push_name(&mut path, name);
            visit(ino, name, &path)?;
            if let Some(entries) = self.dir(ino) {
                stack.push((entries.iter(), path.len()));
            }
        }
        Ok(())
    }
}

impl Tree {
    /// Calls `visit` for every name but the root's, with its directory, the name, its inode and its path: a directory
    /// before its entries, which are visited only if it returns true, and entries in byte order.
    pub fn each_name<'t>(&'t self, mut visit: impl FnMut(Ino, &'t [u8], Ino, &[u8]) -> bool) {
        let mut stack = vec![(ROOT, self.entries(ROOT), 0)];
        let mut path: Vec<u8> = Vec::new();
        while let Some((dir, entries, parent_len)) = stack.last_mut() {
            let dir = *dir;
            path.truncate(*parent_len);
            let Some((name, ino)) = entries.next() else {
                stack.pop();
                continue;
            };
            push_name(&mut path, name);
            if visit(dir, name, ino, &path) && self.is_dir(ino) {
                stack.push((ino, self.entries(ino), path.len()));
            }
        }
    }

    /// Returns the times of all inodes that have a name, with the number of inodes that have each; a time may be there
    /// more than once.
    pub fn times(&self) -> impl Iterator<Item = (Time, u32)> {
        self.inodes.times()
    }

    /// Returns true if any time has a fraction of a second.
    pub fn has_fractions_of_seconds(&self) -> bool {
        self.times().any(|(time, _)| time.nanos != 0)
    }

    /// Returns the path of an inode's first name in the tree's order, for messages; empty for the
    /// root and for unreachable inodes. Searches the whole tree.
    pub fn path_of(&self, wanted: Ino) -> std::path::PathBuf {
        let mut found = Vec::new();
        let walked = self.walk(|ino, path| {
            if ino != wanted {
                return Ok(());
            }
            found = path.to_vec();
            // Ends the walk; nobody sees this error.
            Err(Error::Misuse(String::new()))
        });
        drop(walked);
        build::path_of(&found)
    }
}

/// Returns the components of a slash-separated path without empty and `.` ones.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

/// Returns a path in the form that the tree uses: its components with a slash between them.
pub fn normal_path(path: &[u8]) -> Vec<u8> {
    components(path).collect::<Vec<_>>().join(&b'/')
}

/// Appends a name to the path of its directory, which is empty for the root.
pub fn push_name(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// Returns the path of an entry of a directory, whose path is empty for the root.
pub fn child_path(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, name].join(&b'/') }
}

/// Refuses names that are never valid in a directory: empty, `.`, `..`, or with `/` or NUL.
pub fn check_name(name: &[u8]) -> Result<()> {
    let bad = name.is_empty() || name == b"." || name == b".." || name.iter().any(|b| *b == b'/' || *b == 0);
    if bad { Err(Error::BadName { name: name.to_owned() }) } else { Ok(()) }
}
