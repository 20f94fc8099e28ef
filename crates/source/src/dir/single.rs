//! Single files of the running system, added one by one to a tree, all through one open directory.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType};

use super::attrs::EntryAttrs;
use super::files::{FileRecords, ListedFiles};
use super::listing::{self, ListingBuffers};
use super::root::ScanRoot;
use super::{LinkPolicy, SingleFile, device, file_kind, meta};
use crate::tree::{FileData, InodeAttributes, Kind};
use crate::{Error, Result, Tree};

/// Collects single files. They can be read after [`finish`](Self::finish).
pub(crate) struct SingleFiles {
    files: Arc<ListedFiles>,
    records: FileRecords,
    dirs: HashMap<Box<[u8]>, u32>,
    scratch: ListingBuffers,
    xattrs: bool,
}

impl SingleFiles {
    /// Starts a collection; `xattrs` tells whether to read extended attributes.
    pub(crate) fn new(xattrs: bool) -> Result<Self> {
        let root =
            ScanRoot::open(Path::new("/")).map_err(|errno| Error::sys("cannot open the directory", "/", errno))?;
        let files = Arc::new(ListedFiles::new(root));
        Ok(SingleFiles {
            files,
            records: FileRecords::default(),
            dirs: HashMap::new(),
            scratch: ListingBuffers::new(),
            xattrs,
        })
    }

    /// Finds a file of any type except a directory.
    pub(crate) fn find(&mut self, tree: &mut Tree, path: &Path, links: LinkPolicy) -> Result<SingleFile> {
        match self.find_any(tree, path, links)? {
            SingleFile { kind: Kind::Dir, .. } => Err(not_a_file(path)),
            found => Ok(found),
        }
    }

    /// Finds a file of any type, a directory without its entries.
    pub(crate) fn find_any(&mut self, tree: &mut Tree, path: &Path, links: LinkPolicy) -> Result<SingleFile> {
        // The root directory opens only paths without symbolic links, so resolve them here.
        let cannot_find = || Error::io("cannot find", path);
        let real = match links {
            LinkPolicy::Follow => path.canonicalize().map_err(cannot_find())?,
            LinkPolicy::Keep => {
                let path = std::path::absolute(path).map_err(cannot_find())?;
                let (dir, name) = split(&path)?;
                let dir = Path::new(OsStr::from_bytes(dir)).canonicalize().map_err(cannot_find())?;
                dir.join(OsStr::from_bytes(name))
            }
        };
        let is_root = real.parent().is_none();
        let (dir, name) = if is_root { (&b"/"[..], &b"."[..]) } else { split(&real)? };
        let dir = dir.strip_prefix(b"/").unwrap_or(dir);
        let found = self.files.root.open_dir(dir).map_err(|errno| Error::sys("cannot open", path, errno))?;
        let stat = fs::statat(&found, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| Error::sys("cannot read the attributes", path, errno))?;
        let mut attrs = EntryAttrs::of(&stat);
        let xattrs = listing::take_xattrs(self.xattrs, &mut attrs, found.as_fd(), name, path, &mut self.scratch)?;
        let kind = match attrs.kind() {
            FileType::RegularFile => self.note(dir, name, &attrs)?,
            FileType::Symlink => {
                let target = fs::readlinkat(&found, name, Vec::new());
                Kind::Symlink(
                    target.map_err(|errno| Error::sys("cannot read the link", path, errno))?.into_bytes().into(),
                )
            }
            FileType::CharacterDevice => Kind::Char(device(&attrs)),
            FileType::BlockDevice => Kind::Block(device(&attrs)),
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::Directory => Kind::Dir,
            FileType::Unknown => return Err(not_a_file(path)),
        };
        let linked = attrs.linked && !matches!(kind, Kind::Dir);
        Ok(SingleFile { meta: meta(tree, &attrs, xattrs), kind, id: attrs.id, linked })
    }

    fn note(&mut self, dir: &[u8], name: &[u8], attrs: &EntryAttrs) -> Result<Kind> {
        let record = match self.dirs.get(dir) {
            Some(record) => *record,
            None if dir.is_empty() => FileRecords::ROOT,
            None => {
                let record = self.records.add_dir(FileRecords::ROOT, dir)?;
                self.dirs.insert(dir.into(), record);
                record
            }
        };
        let key = self.records.add_file(record, name, attrs)?;
        Ok(file_kind(attrs, self.files.clone(), key))
    }

    /// Finds a regular file, following symbolic links.
    pub(crate) fn find_regular(&mut self, tree: &mut Tree, path: &Path) -> Result<(InodeAttributes, u64, FileData)> {
        match self.find(tree, path, LinkPolicy::Follow)? {
            SingleFile { meta, kind: Kind::File { size, data }, .. } => Ok((meta, size, data)),
            _ => Err(not_a_file(path)),
        }
    }

    /// Ends the collection; from now on the files can be read.
    pub(crate) fn finish(self) {
        self.files.fill(self.records);
    }
}

fn not_a_file(path: &Path) -> Error {
    Error::WrongType { path: path.to_owned(), expected: "regular file" }
}

/// Splits an absolute path into its directory and the name in it.
fn split(path: &Path) -> Result<(&[u8], &[u8])> {
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => Ok((dir.as_os_str().as_bytes(), name.as_bytes())),
        _ => Err(not_a_file(path)),
    }
}
