//! Stores the contents of files as composefs objects, each named by its fs-verity digest. Images of composefs hold only
//! metadata, and are read through these objects.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::io::Output;
use packfs_blocks::pipeline::{self, Window};
use packfs_blocks::progress::Phase;
use packfs_image::Tree;
use packfs_image::erofs::composefs::{FileContent, INLINE_MAX, ObjectDigest};
use packfs_image::name::display;
use packfs_image::source::Contents;
use packfs_image::tree::{FileData, Ino, Kind};
use packfs_image::{Error, Result};

use crate::fsverity::{FsVerityHasher, FsVerityOptions};
use crate::hashing::HashAlgorithm;
use crate::tree::HashEffort;

/// Bytes that a worker reads and hashes at a time: a multiple of the block size, so that only the last piece has a
/// partial block. Not measured.
const CHUNK_LEN: usize = 1 << 20;
/// Files in flight for each worker. Most files are small, and then handing one over takes longer than hashing it. Not
/// measured.
const FILES_PER_WORKER: usize = 64;
/// Permissions of an object. Everybody may read what the image shows to them.
const OBJECT_MODE: u32 = 0o644;

/// Contents of all files of a tree, as images of composefs refer to them.
#[derive(Debug, Default)]
pub struct StoredContents {
    /// Content of each file that is not empty.
    pub files: HashMap<Ino, FileContent>,
    /// Number of objects to which the files refer.
    pub objects: u64,
    /// Their bytes.
    pub object_bytes: u64,
    /// Number of objects that were not there before.
    pub new_objects: u64,
    /// True if the file system of the objects keeps all of them as they are (fs-verity).
    pub protected: bool,
}

/// Reads all files of `tree`. With `objects`, a directory, those of more than [`INLINE_MAX`] bytes are stored in it under
/// their digests, with fs-verity where its file system has it. An object appears whole or not at all.
///
/// # Errors
/// Those of the sources; [`Error::Io`] if an object cannot be written; [`Error::Misuse`] for data that was read before.
pub fn store_contents(
    tree: &Tree,
    algorithm: HashAlgorithm,
    objects: Option<&Path>,
    effort: &HashEffort,
) -> Result<StoredContents> {
    let mut files = Vec::new();
    tree.walk(|ino, _| {
        // Empty files need neither an object nor inline bytes: composefs writes nothing after their inodes.
        if let Kind::File { size: size @ 1.., data } = tree.inode(ino).kind {
            let FileData::Source { from, key } = data else {
                // Whatever was packed already cannot be read a second time.
                return Err(Error::Misuse(format!("{} was read before", display(&tree.path_of(ino)))));
            };
            files.push(ListedFile { ino, size, from: Arc::clone(from), key });
        }
        Ok(())
    })?;
    effort.progress.enter(Phase::Read);
    Progress::add(&effort.progress.total, files.iter().map(|file| file.size).sum());
    let store = ObjectStore { algorithm, dir: objects, progress: &effort.progress };
    let mut stored = StoredContents { protected: objects.is_some(), ..StoredContents::default() };
    // Equal files are one object, so they count once, although each of them was read.
    let mut seen = HashMap::new();
    pipeline::scope(effort.threads, Vec::new, |pool| {
        // Without workers, submit runs at once; the window still needs room for one file.
        let mut window = Window::new(effort.threads.max(1) * FILES_PER_WORKER);
        let mut take = |window: &mut Window<Result<ReadFile>>| {
            let Some(done) = window.pop() else { return Ok(()) };
            let ReadFile { ino, size, content, state } = done?;
            if let FileContent::Object(digest) = &content {
                // Without a directory, nothing was stored: the digests alone make the image.
                let state = state.unwrap_or(ObjectState { is_new: false, is_protected: false });
                stored.protected &= state.is_protected;
                stored.new_objects += u64::from(state.is_new);
                if seen.insert(*digest, ()).is_none() {
                    stored.objects += 1;
                    stored.object_bytes += size;
                }
            }
            stored.files.insert(ino, content);
            Ok::<(), Error>(())
        };
        for file in &files {
            Error::unless_cancelled(&effort.progress)?;
            if window.is_full() {
                take(&mut window)?;
            }
            let store = &store;
            window.push(pool.submit(move |buffer| store.store(file, buffer)), 1);
        }
        while !window.is_empty() {
            take(&mut window)?;
        }
        Ok(())
    })
    .map(|()| stored)
}

/// A file to read.
struct ListedFile {
    ino: Ino,
    size: u64,
    from: Arc<dyn Contents>,
    key: u64,
}

/// A file that was read.
struct ReadFile {
    ino: Ino,
    size: u64,
    content: FileContent,
    /// State of its object, if there is a directory of objects.
    state: Option<ObjectState>,
}

/// State of an object in its directory.
#[derive(Debug, Clone, Copy)]
struct ObjectState {
    is_new: bool,
    /// True if the kernel verifies the object from now on.
    is_protected: bool,
}

struct ObjectStore<'a> {
    algorithm: HashAlgorithm,
    dir: Option<&'a Path>,
    progress: &'a Progress,
}

impl ObjectStore<'_> {
    fn store(&self, file: &ListedFile, buffer: &mut Vec<u8>) -> Result<ReadFile> {
        let &ListedFile { ino, size, .. } = file;
        // The format prescribes it: so short a file is in the inode.
        if size <= INLINE_MAX as u64 {
            let mut bytes = Vec::new();
            self.read(file, buffer, &mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            Progress::add(&self.progress.done, size);
            return Ok(ReadFile { ino, size, content: FileContent::Inline(bytes.into()), state: None });
        }
        let digest = self.digest(file, buffer, &mut |_| Ok(()))?;
        let state =
            self.dir.map(|dir| self.ensure_object(&dir.join(digest.path()), &digest, file, buffer)).transpose()?;
        Progress::add(&self.progress.done, size);
        Ok(ReadFile { ino, size, content: FileContent::Object(digest), state })
    }

    /// Reads a file from its beginning to its end.
    fn read(&self, file: &ListedFile, buffer: &mut Vec<u8>, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut reader = file.from.open(file.key)?;
        buffer.resize(CHUNK_LEN, 0);
        let mut at = 0;
        while at < file.size {
            // A file may have terabytes: cancelling must not wait for its end.
            Error::unless_cancelled(self.progress)?;
            // What does not fit in usize is more than a chunk.
            let len = usize::try_from(file.size - at).unwrap_or(CHUNK_LEN).min(CHUNK_LEN);
            reader.read_exact_at(&mut buffer[..len], at)?;
            each(&buffer[..len])?;
            at += len as u64;
        }
        // Readers notice here that the file changed or went on after the expected length.
        reader.finish()
    }

    /// Returns the digest of a file, whose bytes are passed to `each`, too.
    fn digest(
        &self,
        file: &ListedFile,
        buffer: &mut Vec<u8>,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<ObjectDigest> {
        let options = FsVerityOptions { algorithm: self.algorithm, ..FsVerityOptions::default() };
        let mut hasher = FsVerityHasher::new(&options, file.size);
        self.read(file, buffer, &mut |piece| {
            hasher.push(piece);
            each(piece)
        })?;
        Ok(object_digest(hasher.finish().as_bytes()))
    }

    /// Stores a file as an object unless that is there. It is read again: its name was not known before.
    fn ensure_object(
        &self,
        path: &Path,
        digest: &ObjectDigest,
        file: &ListedFile,
        buffer: &mut Vec<u8>,
    ) -> Result<ObjectState> {
        let failed = Error::io("cannot write the object", path);
        // Trusted by its name: hashing each would mean reading all objects in every build. One of another length is
        // damaged.
        let found = std::fs::metadata(path).ok();
        let mut is_new = found.as_ref().is_none_or(|found| found.len() != file.size);
        if is_new && let Err(error) = self.write_object(path, digest, file, buffer, found.is_some()) {
            match error {
                // Another worker or process was faster, and counts it.
                Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => is_new = false,
                error => return Err(error),
            }
        }
        // For objects that exist, too: whoever wrote them may have ended before this.
        Ok(ObjectState { is_new, is_protected: enable_verity(path, self.algorithm).map_err(failed)? })
    }

    fn write_object(
        &self,
        path: &Path,
        digest: &ObjectDigest,
        file: &ListedFile,
        buffer: &mut Vec<u8>,
        replace: bool,
    ) -> Result<()> {
        let failed = || Error::io("cannot write the object", path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed())?;
        }
        // Without `replace`, commit fails if the name exists by then, so no two workers write one object.
        let output = Output::create(path, OBJECT_MODE, replace).map_err(failed())?;
        let mut at = 0;
        // The digest is computed again from the bytes that are written. A file that changed between the two readings
        // would otherwise become an object whose name lies about it.
        let again = self.digest(file, buffer, &mut |piece| {
            output.write_all_at(piece, at).map_err(failed())?;
            at += piece.len() as u64;
            Ok(())
        })?;
        if again != *digest {
            let path: PathBuf = file.from.path(file.key);
            return Err(Error::Changed { path, why: "it changed while it was read".into() });
        }
        output.commit().map_err(failed())
    }
}

fn object_digest(bytes: &[u8]) -> ObjectDigest {
    // 64 bytes also begin with 32, so the longer digest is tried first.
    match (bytes.first_chunk(), bytes.try_into()) {
        (_, Ok(all)) => ObjectDigest::Sha512(all),
        (Some(all), Err(_)) => ObjectDigest::Sha256(*all),
        (None, Err(_)) => unreachable!("digests have 32 or 64 bytes"),
    }
}

/// Has the kernel verify an object from now on; returns false if its file system cannot.
#[cfg(target_os = "linux")]
fn enable_verity(path: &Path, algorithm: HashAlgorithm) -> io::Result<bool> {
    use composefs_ioctls::fsverity::{EnableVerityError, fs_ioc_enable_verity};
    // The block size that the digest was computed with: with another, the kernel would have another digest.
    match fs_ioc_enable_verity(File::open(path)?, algorithm.fsverity_number(), 4096) {
        Ok(()) | Err(EnableVerityError::AlreadyEnabled) => Ok(true),
        // An object that somebody else owns or is writing just now stays as it is.
        Err(EnableVerityError::FilesystemNotSupported | EnableVerityError::FileOpenedForWrite) => Ok(false),
        Err(EnableVerityError::Io(error)) if is_refusal(&error) => Ok(false),
        Err(EnableVerityError::Io(error)) => Err(error),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}

#[cfg(target_os = "linux")]
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::Unsupported
    )
}

#[cfg(not(target_os = "linux"))]
fn enable_verity(path: &Path, _algorithm: HashAlgorithm) -> io::Result<bool> {
    File::open(path).map(|_| false)
}
