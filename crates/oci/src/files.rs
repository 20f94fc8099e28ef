//! Files of a container image, wherever they are: in a directory, or in an archive.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_image::name::display;
use packfs_image::source::{Contents, LazySpool, Source, Store, archive};
use packfs_image::tree::{FileData, Inode, Kind};
use packfs_image::{FileAt, Tree};

use crate::digest::{BlobDigest, BlobHasher};
use crate::documents::Descriptor;
use crate::error::{Error, Result};

/// Largest document that is read, in bytes: the limit that registries have for manifests. It bounds the memory for a
/// hostile source.
const DOCUMENT_MAX: u64 = 4 << 20;
/// Number of symbolic links that lead to a file of an archive at most. Those of `docker save` need one; a circle must
/// end.
const LINKS_MAX: usize = 8;

/// A file whose bytes can be read several times.
#[derive(Debug, Clone)]
pub(crate) struct FileBytes {
    pub(crate) size: u64,
    place: BytePlace,
}

#[derive(Debug, Clone)]
enum BytePlace {
    /// A file of the system, opened when it is read: an image may have more layers than the process may open files.
    File(PathBuf),
    Archived {
        from: Arc<dyn Contents>,
        key: u64,
    },
    Empty,
    #[cfg(feature = "remote")]
    Memory(Arc<[u8]>),
    #[cfg(feature = "remote")]
    Registry {
        repository: Arc<packfs_remote::Repository>,
        digest: BlobDigest,
    },
}

impl FileBytes {
    /// Finds a file of the system; `None` if there is none.
    pub(crate) fn of_file(path: &Path) -> Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_file() => {
                Ok(Some(FileBytes { size: found.len(), place: BytePlace::File(path.to_owned()) }))
            }
            // A FIFO would never end.
            Ok(_) => Err(Error::unsupported(display(path), "it is no regular file")),
            // Missing is for the caller to judge.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(Error::io("cannot open", path)(error)),
        }
    }

    /// Returns true if each reading requests the bytes from another machine.
    pub(crate) fn is_remote(&self) -> bool {
        match &self.place {
            #[cfg(feature = "remote")]
            BytePlace::Registry { .. } => true,
            _ => false,
        }
    }

    /// Returns the path, if it is a file of the system.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.place {
            BytePlace::File(path) => Some(path),
            _ => None,
        }
    }

    /// Opens the bytes to be read at any offset; `None` if they would have to be copied for that.
    pub(crate) fn open_at_random(&self) -> Result<Option<Arc<dyn ReadAt>>> {
        Ok(match &self.place {
            BytePlace::File(path) => Some(Arc::new(FileAt::open(path, 0).map_err(Error::io("cannot open", path))?)),
            #[cfg(feature = "remote")]
            BytePlace::Registry { repository, digest } => {
                Some(Arc::new(repository.blob(&digest.to_string(), self.size)?))
            }
            _ => None,
        })
    }

    #[cfg(feature = "remote")]
    pub(crate) fn of_memory(bytes: Vec<u8>) -> Self {
        FileBytes { size: bytes.len() as u64, place: BytePlace::Memory(bytes.into()) }
    }

    pub(crate) fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match &self.place {
            BytePlace::File(path) => Box::new(std::fs::File::open(path).map_err(Error::io("cannot open", path))?),
            BytePlace::Archived { from, key } => {
                Box::new(ArchivedReader { from: Arc::clone(from), key: *key, size: self.size, at: 0 })
            }
            BytePlace::Empty => Box::new(io::empty()),
            #[cfg(feature = "remote")]
            BytePlace::Memory(bytes) => Box::new(io::Cursor::new(Arc::clone(bytes))),
            #[cfg(feature = "remote")]
            BytePlace::Registry { repository, digest } => {
                let blob = repository.blob(&digest.to_string(), self.size)?;
                Box::new(RemoteReader { blob, size: self.size, at: 0 })
            }
        })
    }

    /// Reads a document, which has to have a digest if one is given.
    pub(crate) fn read_document(&self, name: &str, digest: Option<&BlobDigest>) -> Result<Vec<u8>> {
        if self.size > DOCUMENT_MAX {
            return Err(Error::damaged(name, format!("it has {} bytes, too many for a document", self.size)));
        }
        let mut bytes = Vec::new();
        // Bounded also if the size was wrong.
        let read = self.open()?.take(DOCUMENT_MAX).read_to_end(&mut bytes);
        read.map_err(Error::io("cannot read", name))?;
        if let Some(digest) = digest {
            let mut hasher = BlobHasher::new(Some(digest));
            hasher.update(&bytes);
            if hasher.finish() != *digest {
                return Err(Error::damaged(name, "its bytes do not have this digest"));
            }
        }
        Ok(bytes)
    }
}

/// Reads a file of an archive.
struct ArchivedReader {
    from: Arc<dyn Contents>,
    key: u64,
    size: u64,
    at: u64,
}

impl Read for ArchivedReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // `at` never passes `size`, as each read is bounded by what is left.
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        if len > 0 {
            // Opened for each read, as a reader borrows its source; layers are read in long pieces.
            let read = self.from.open(self.key).and_then(|mut file| file.read_exact_at(&mut buf[..len], self.at));
            read.map_err(io::Error::other)?;
        }
        self.at += len as u64;
        Ok(len)
    }
}

/// Reads a blob of a registry.
#[cfg(feature = "remote")]
struct RemoteReader {
    blob: packfs_remote::RemoteObject,
    size: u64,
    at: u64,
}

#[cfg(feature = "remote")]
impl Read for RemoteReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        if len > 0 {
            self.blob.read_exact_at(&mut buf[..len], self.at)?;
        }
        self.at += len as u64;
        Ok(len)
    }
}

/// Takes the data of a compressed archive of which only the names are needed.
pub(crate) struct DiscardingStore;

impl Store for DiscardingStore {
    fn put(&mut self, from: &mut dyn Read, _size: u64, _data: &[(u64, u64)]) -> packfs_image::Result<u32> {
        io::copy(from, &mut io::sink()).map_err(packfs_image::Error::io("cannot read", "the archive"))?;
        Ok(0)
    }
}

/// Where the files of an image are.
pub(crate) enum FileSet {
    Directory(PathBuf),
    Archive {
        name: PathBuf,
        tree: Box<Tree>,
    },
    #[cfg(feature = "remote")]
    Registry {
        name: PathBuf,
        repository: Arc<packfs_remote::Repository>,
    },
}

impl FileSet {
    /// Lists the files of an archive that has one of the files `marks` in its root; `None` if it has none of them.
    /// Files of a compressed archive are copied to `temporary_dir`, but only then: it may be a large layer.
    pub(crate) fn of_archive(path: &Path, marks: &[&str], temporary_dir: &Path) -> Result<Option<Self>> {
        let scan = |store: &mut dyn Store| {
            let bytes: Arc<dyn ReadAt> = Arc::new(FileAt::open(path, 0).map_err(Error::io("cannot open", path))?);
            let mut tree = Tree::default();
            archive::from_bytes(bytes, path, archive::Options::default())?.scan(&mut tree, store)?;
            Ok::<_, Error>(tree)
        };
        let mut tree = scan(&mut DiscardingStore)?;
        let Some(mark) = marks.iter().find_map(|mark| tree.lookup(mark.as_bytes())) else { return Ok(None) };
        // Files of a compressed archive were discarded with the first scan.
        let is_compressed = matches!(tree.inode(mark).kind, Kind::File { data: FileData::Stored(_), .. });
        if is_compressed {
            let mut copies = LazySpool::new(temporary_dir);
            tree = scan(&mut copies)?;
            copies.serve(&mut tree)?;
        }
        Ok(Some(FileSet::Archive { name: path.to_owned(), tree: Box::new(tree) }))
    }

    /// Name for messages.
    pub(crate) fn name(&self) -> &Path {
        match self {
            FileSet::Directory(path) | FileSet::Archive { name: path, .. } => path,
            #[cfg(feature = "remote")]
            FileSet::Registry { name, .. } => name,
        }
    }

    /// Name of a file for messages.
    pub(crate) fn name_of(&self, path: &str) -> String {
        format!("{}/{path}", display(self.name()))
    }

    /// Finds a file by its path in a layout, which packfs chose, or in an archive, which has nothing outside of it.
    pub(crate) fn find(&self, path: &str) -> Result<Option<FileBytes>> {
        match self {
            FileSet::Directory(dir) => FileBytes::of_file(&dir.join(path)),
            FileSet::Archive { tree, .. } => Ok(find_archived(tree, path.as_bytes())),
            // A registry has no paths.
            #[cfg(feature = "remote")]
            FileSet::Registry { .. } => Ok(None),
        }
    }

    /// Name of a blob for messages.
    pub(crate) fn name_of_blob(&self, digest: &BlobDigest) -> String {
        match self {
            #[cfg(feature = "remote")]
            FileSet::Registry { name, .. } => format!("{}: {digest}", display(name)),
            _ => self.name_of(&digest.blob_path()),
        }
    }

    /// Finds a blob. That of a registry is requested when it is read.
    pub(crate) fn find_blob(&self, blob: &Descriptor) -> Result<FileBytes> {
        #[cfg(feature = "remote")]
        if let FileSet::Registry { repository, .. } = self {
            let repository = Arc::clone(repository);
            let place = BytePlace::Registry { repository, digest: blob.digest.clone() };
            return Ok(FileBytes { size: blob.size, place });
        }
        let missing = || Error::damaged(self.name_of_blob(&blob.digest), "the blob is missing");
        self.find(&blob.digest.blob_path())?.ok_or_else(missing)
    }

    /// Finds a blob that may be missing.
    pub(crate) fn find_optional_blob(&self, blob: &Descriptor) -> Result<Option<FileBytes>> {
        match self {
            #[cfg(feature = "remote")]
            FileSet::Registry { repository, .. } => {
                // Asked for, as a blob of a registry is otherwise requested only when it is read.
                let is_there = repository.has_blob(&blob.digest.to_string())?;
                is_there.then(|| self.find_blob(blob)).transpose()
            }
            _ => self.find(&blob.digest.blob_path()),
        }
    }

    /// Finds a manifest or an index. Only registries tell them from other blobs.
    pub(crate) fn find_manifest(&self, document: &Descriptor) -> Result<FileBytes> {
        #[cfg(feature = "remote")]
        if let FileSet::Registry { repository, .. } = self {
            let missing = || Error::damaged(self.name_of_blob(&document.digest), "the manifest is missing");
            return Ok(FileBytes::of_memory(
                repository.manifest(&document.digest.to_string())?.ok_or_else(missing)?.bytes,
            ));
        }
        self.find_blob(document)
    }
}

/// Finds a file of an archive. Older versions of `docker save` link equal layers symbolically.
fn find_archived(tree: &Tree, path: &[u8]) -> Option<FileBytes> {
    let mut path = path.to_vec();
    // One more than the links: the last one still leads to a file.
    for _ in 0..=LINKS_MAX {
        let Inode { kind, .. } = tree.inode(tree.lookup(&path)?);
        match kind {
            Kind::File { size, data: FileData::Source { from, key } } => {
                return Some(FileBytes { size, place: BytePlace::Archived { from: Arc::clone(from), key } });
            }
            Kind::File { size: 0, .. } => return Some(FileBytes { size: 0, place: BytePlace::Empty }),
            Kind::Symlink(target) => path = join_link(&path, target),
            _ => return None,
        }
    }
    None
}

/// Returns the path that a link at `path` leads to. What leads out of the archive names nothing in it.
fn join_link(path: &[u8], target: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    parts.pop();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join(&b'/')
}
