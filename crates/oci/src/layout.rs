//! The layout that is written. It appears, or changes, when everything in it is complete.

use std::fs::File;
use std::path::{Path, PathBuf};

use packfs_blocks::Output;
use packfs_image::name::display;
use rustix::fs::{FlockOperation, flock};

use crate::destination::{ImageDestination, KnownLayers, find_known_layers};
use crate::digest::{BlobDigest, hash_all};
use crate::documents::{Descriptor, Index, REF_NAME};
use crate::error::{Error, Result};
use crate::files::FileSet;
use crate::layer::hash_file;
use crate::staging::{StagingDir, is_staging};

/// The file that marks a layout, with its version.
const MARK: &str = "oci-layout";
const VERSION: &str = "{\"imageLayoutVersion\":\"1.0.0\"}";
/// Directory of the blobs that are written: all have SHA-256 digests.
const BLOBS: &str = "blobs/sha256";
/// Directory for the new layout in the staging directory.
const LAYOUT: &str = "layout";
/// Beginning of the names of staging directories.
const STAGING: &str = ".packfs-oci-";

/// State of the place of a layout before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExistingTarget {
    /// Nothing.
    Nothing,
    /// A directory without files, which stays: it may be a mount point.
    EmptyDir,
    Layout,
}

impl ExistingTarget {
    fn find(target: &Path) -> Result<Self> {
        let entries = match std::fs::read_dir(target) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !target.is_symlink() => {
                return Ok(ExistingTarget::Nothing);
            }
            Err(error) => return Err(Error::io("cannot open the directory", target)(error)),
        };
        // A program that was killed may have left such directories.
        if entries.flatten().all(|entry| is_staging(&entry.file_name(), STAGING)) {
            return Ok(ExistingTarget::EmptyDir);
        }
        if target.join(MARK).is_file() && target.join("index.json").is_file() {
            return Ok(ExistingTarget::Layout);
        }
        let why = "it has files and is no OCI layout: name a directory that does not exist, or a layout to add to";
        Err(Error::unsupported(display(target), why))
    }
}

/// A layout being written or added to.
pub(crate) struct LayoutWriter {
    target: PathBuf,
    existing: ExistingTarget,
    force: bool,
    staging: StagingDir,
}

impl LayoutWriter {
    /// Begins a layout at `target`, which does not exist or is empty, or adds to one.
    pub(crate) fn create(target: &Path, force: bool) -> Result<Self> {
        let existing = ExistingTarget::find(target)?;
        // A name without a directory has an empty parent, which no call of the system takes.
        let parent = target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // On the same file system as the target, so that it can be renamed.
        let staging = StagingDir::create(if existing == ExistingTarget::Nothing { parent } else { target }, STAGING)?;
        let blobs = staging.path().join(LAYOUT).join(BLOBS);
        std::fs::create_dir_all(&blobs).map_err(Error::io("cannot create", &blobs))?;
        Ok(LayoutWriter { target: target.to_owned(), existing, force, staging })
    }

    fn staged(&self, digest: &BlobDigest) -> PathBuf {
        self.staging.path().join(LAYOUT).join(digest.blob_path())
    }

    fn read_document(&self, descriptor: &Descriptor) -> Result<Vec<u8>> {
        let name = descriptor.digest.to_string();
        self.files().find_blob(descriptor)?.read_document(&name, Some(&descriptor.digest))
    }

    fn files(&self) -> FileSet {
        FileSet::Directory(self.target.clone())
    }

    fn read_index(&self) -> Result<Index> {
        let files = self.files();
        let name = files.name_of("index.json");
        let missing = || Error::damaged(&name, "the file is missing");
        let bytes = files.find("index.json")?.ok_or_else(missing)?.read_document(&name, None)?;
        serde_json::from_slice(&bytes).map_err(|error| Error::damaged(&name, error))
    }

    fn refuse_listed<'n>(&self, index: &Index, names: impl Iterator<Item = &'n str>) -> Result<()> {
        let exists = |name: &&str| index.manifests.iter().any(|one| name_of(one) == Some(*name));
        match names.filter(|_| !self.force).find(exists) {
            Some(name) => Err(Error::Exists { layout: self.target.clone(), name: name.into() }),
            None => Ok(()),
        }
    }

    fn commit_new(self, index: &Index) -> Result<()> {
        let layout = self.staging.path().join(LAYOUT);
        write_file(&layout.join(MARK), VERSION.as_bytes())?;
        write_file(&layout.join("index.json"), &to_json(index))?;
        // From the inside out, so that no directory names what is not on the disk.
        for dir in [BLOBS, "blobs", "."] {
            sync_dir(&layout.join(dir))?;
        }
        // Fails if another program has made a directory with files meanwhile.
        std::fs::rename(&layout, &self.target).map_err(Error::io("cannot create", &self.target))?;
        sync_dir(self.staging.path().parent().unwrap_or(Path::new(".")))
    }

    fn commit_into_existing(self, mut new: Index) -> Result<()> {
        // Of two programs that add to a layout at the same time, none loses the images of the other.
        let lock = File::open(&self.target).map_err(Error::io("cannot open", &self.target))?;
        // Without locks, as on some network file systems, one program at a time has to write.
        let _ = flock(&lock, FlockOperation::LockExclusive);
        // Again, as another program may have made it a layout meanwhile.
        let existing = ExistingTarget::find(&self.target)?;
        let images = std::mem::take(&mut new.manifests);
        let mut index = match existing {
            ExistingTarget::Layout => self.read_index()?,
            ExistingTarget::EmptyDir | ExistingTarget::Nothing => new,
        };
        self.refuse_listed(&index, images.iter().filter_map(name_of))?;
        // Blobs before the index that names them.
        self.move_blobs()?;
        index.manifests.retain(|old| {
            // An image without a name replaces nothing.
            let is_replaced = name_of(old).is_some() && images.iter().any(|new| name_of(new) == name_of(old));
            let is_same = images.iter().any(|new| new.digest == old.digest && name_of(new) == name_of(old));
            !is_replaced && !is_same
        });
        index.manifests.extend(images);
        if existing != ExistingTarget::Layout {
            write_file(&self.target.join(MARK), VERSION.as_bytes())?;
        }
        write_file(&self.target.join("index.json"), &to_json(&index))?;
        sync_dir(&self.target)
    }

    /// Moves all blobs to their place. One of the same name there has the same bytes, unless it was damaged.
    fn move_blobs(&self) -> Result<()> {
        let to = self.target.join(BLOBS);
        std::fs::create_dir_all(&to).map_err(Error::io("cannot create", &to))?;
        let from = self.staging.path().join(LAYOUT).join(BLOBS);
        for entry in std::fs::read_dir(&from).map_err(Error::io("cannot list", &from))? {
            let entry = entry.map_err(Error::io("cannot list", &from))?;
            let blob = to.join(entry.file_name());
            std::fs::rename(entry.path(), &blob).map_err(Error::io("cannot rename", &blob))?;
        }
        sync_dir(&to)
    }
}

impl ImageDestination for LayoutWriter {
    fn check_names(&self, names: &[Option<&str>]) -> Result<()> {
        match self.existing {
            ExistingTarget::Layout => self.refuse_listed(&self.read_index()?, names.iter().copied().flatten()),
            // Checked again when the images are listed, under the lock.
            ExistingTarget::Nothing | ExistingTarget::EmptyDir => Ok(()),
        }
    }

    fn work_path(&self, name: &str) -> PathBuf {
        self.staging.path().join(name)
    }

    fn known_layers(&self) -> KnownLayers {
        if self.existing != ExistingTarget::Layout {
            return KnownLayers::new();
        }
        let images = self.read_index().map(|index| index.manifests).unwrap_or_default();
        find_known_layers(images, |descriptor| self.read_document(descriptor))
    }

    fn has_intact(&self, blob: &Descriptor) -> bool {
        let Ok(found) = self.files().find_blob(blob) else { return false };
        let hash = || hash_all(found.open().ok()?, Some(&blob.digest)).ok();
        // The length first, as it costs nothing to compare.
        found.size == blob.size && hash().as_ref() == Some(&blob.digest)
    }

    fn keeps_unlisted_blobs(&self) -> bool {
        true
    }

    fn add_file(&self, file: &Path, media_type: &str) -> Result<Descriptor> {
        let (digest, size) = hash_file(file)?;
        let place = self.staged(&digest);
        // Moved, not copied: both are on one file system.
        // A blob of the same name has the same bytes, so replacing it does no harm.
        std::fs::rename(file, &place).map_err(Error::io("cannot rename", file))?;
        Ok(Descriptor::new(media_type, digest, size))
    }

    fn add_document(&self, bytes: &[u8], media_type: &str) -> Result<Descriptor> {
        let digest = BlobDigest::of(bytes);
        write_file(&self.staged(&digest), bytes)?;
        Ok(Descriptor::new(media_type, digest, bytes.len() as u64))
    }

    fn commit(self: Box<Self>, index: Index) -> Result<()> {
        match self.existing {
            ExistingTarget::Nothing => self.commit_new(&index),
            ExistingTarget::EmptyDir | ExistingTarget::Layout => self.commit_into_existing(index),
        }
    }
}

fn name_of(descriptor: &Descriptor) -> Option<&str> {
    descriptor.annotations.get(REF_NAME).map(String::as_str)
}

pub(crate) fn to_json(document: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("documents have no keys but text")
}

/// Writes a document, which appears whole.
fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    // As other programs create files: the umask decides who may read them.
    let output = Output::create(path, 0o666, true).map_err(Error::io("cannot create", path))?;
    output.write_all_at(bytes, 0).map_err(Error::io("cannot write", path))?;
    output.commit().map_err(Error::io("cannot finish", path))
}

fn sync_dir(path: &Path) -> Result<()> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(Error::io("cannot flush", path))
}
