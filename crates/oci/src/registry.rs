//! Registries: the source of an image, and the place that one is written to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_remote::{Manifest, RemoteOptions, Repository};

use crate::destination::{ImageDestination, KnownLayers, find_known_layers};
use crate::digest::BlobDigest;
use crate::documents::{Descriptor, INDEXES, Index, MANIFEST};
use crate::error::{Error, Result};
use crate::files::FileSet;
use crate::layer::hash_file;
use crate::staging::StagingDir;

/// Beginning of the names of directories for layers that are not sent yet.
const STAGING: &str = ".packfs-push-";

/// Opens a repository as the source of an image.
pub(crate) fn open(address: &str, options: &RemoteOptions) -> Result<FileSet> {
    let repository = Repository::new(address, options)?;
    Ok(FileSet::Registry { name: repository.name().into(), repository: Arc::new(repository) })
}

/// Reads the manifest or index that the address names.
pub(crate) fn read_manifest(repository: &Repository) -> Result<Manifest> {
    let missing = || Error::unsupported(repository.name(), "the registry has no such image");
    let mut found = repository.manifest(&repository.reference())?.ok_or_else(missing)?;
    found.media_type = media_type(&found);
    Ok(found)
}

/// Returns the media type in a document, or else that of the answer without its parameters.
fn media_type(found: &Manifest) -> String {
    let document: Option<serde_json::Value> = serde_json::from_slice(&found.bytes).ok();
    let named = document.as_ref().and_then(|document| document.get("mediaType")?.as_str());
    let answered = found.media_type.split(';').next().unwrap_or_default().trim();
    named.unwrap_or(answered).to_owned()
}

/// An image that is being written to a registry. Blobs are sent as they become complete, the tag at the end.
pub(crate) struct RegistryWriter {
    repository: Repository,
    tag: String,
    /// The image that has the tag already.
    existing: Option<Manifest>,
    staging: StagingDir,
}

impl RegistryWriter {
    /// Begins an image. Layers are built in `temporary_dir`.
    pub(crate) fn create(address: &str, force: bool, options: &RemoteOptions, temporary_dir: &Path) -> Result<Self> {
        let repository = Repository::new(address, options)?;
        let no_tag =
            || Error::unsupported(repository.name(), "an image is written under a tag, as in oci://HOST/NAME:TAG");
        let tag = repository.tag().ok_or_else(no_tag)?;
        let existing = repository.manifest(&tag)?;
        // Before layers are built. A tag moves only if that is wanted.
        if existing.is_some() && !force {
            return Err(Error::Exists { layout: repository.name().into(), name: tag });
        }
        let staging = StagingDir::create(temporary_dir, STAGING)?;
        Ok(RegistryWriter { repository, tag, existing, staging })
    }

    /// Sends a blob unless the registry has it.
    fn send(
        &self,
        digest: &BlobDigest,
        len: u64,
        open: &dyn Fn() -> std::io::Result<Box<dyn std::io::Read>>,
    ) -> Result<()> {
        let digest = digest.to_string();
        // A question costs one request, and may save gigabytes.
        if !self.repository.has_blob(&digest)? {
            self.repository.push_blob(&digest, len, open)?;
        }
        Ok(())
    }
}

impl ImageDestination for RegistryWriter {
    fn check_names(&self, names: &[Option<&str>]) -> Result<()> {
        if names.len() == 1 {
            return Ok(());
        }
        let why = format!("the source has {} images, and one tag takes one: choose it with --image", names.len());
        Err(Error::unsupported(self.repository.name(), why))
    }

    fn work_path(&self, name: &str) -> PathBuf {
        self.staging.path().join(name)
    }

    fn known_layers(&self) -> KnownLayers {
        let Some(existing) = &self.existing else { return KnownLayers::new() };
        let digest = BlobDigest::of(&existing.bytes);
        let image = Descriptor::new(&media_type(existing), digest.clone(), existing.bytes.len() as u64);
        find_known_layers(vec![image], |descriptor| {
            if descriptor.digest == digest {
                return Ok(existing.bytes.clone());
            }
            let found = self.repository.manifest(&descriptor.digest.to_string())?;
            found.map(|found| found.bytes).ok_or_else(|| Error::damaged(&descriptor.digest, "the manifest is missing"))
        })
    }

    fn has_intact(&self, blob: &Descriptor) -> bool {
        // The registry compared the digest when it took the blob. Reading it again would cost as much as sending it.
        self.repository.has_blob(&blob.digest.to_string()).unwrap_or(false)
    }

    /// Registries delete what no manifest lists when they clean up.
    fn keeps_unlisted_blobs(&self) -> bool {
        false
    }

    fn add_file(&self, file: &Path, media_type: &str) -> Result<Descriptor> {
        let (digest, len) = hash_file(file)?;
        self.send(&digest, len, &|| Ok(Box::new(std::fs::File::open(file)?)))?;
        // Layers lie in a temporary directory, and the next one needs the room.
        std::fs::remove_file(file).map_err(Error::io("cannot remove", file))?;
        Ok(Descriptor::new(media_type, digest, len))
    }

    fn add_document(&self, bytes: &[u8], media_type: &str) -> Result<Descriptor> {
        let digest = BlobDigest::of(bytes);
        let len = bytes.len() as u64;
        if media_type == MANIFEST || INDEXES.contains(&media_type) {
            self.repository.push_manifest(&digest.to_string(), media_type, bytes)?;
        } else {
            let bytes: Arc<[u8]> = bytes.into();
            self.send(&digest, len, &|| Ok(Box::new(std::io::Cursor::new(Arc::clone(&bytes)))))?;
        }
        Ok(Descriptor::new(media_type, digest, len))
    }

    fn commit(self: Box<Self>, index: Index) -> Result<()> {
        // There is one: `check_names` refused all others.
        for image in index.manifests {
            let lost = || format!("the registry took the manifest {}, and does not have it: try again", image.digest);
            let missing = || Error::damaged(self.repository.name(), lost());
            // Sent once more under the tag: registries have no call that gives an existing manifest a name.
            let sent = self.repository.manifest(&image.digest.to_string())?.ok_or_else(missing)?;
            self.repository.push_manifest(&self.tag, &image.media_type, &sent.bytes)?;
        }
        Ok(())
    }
}
