//! The place that a converted image is written to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::digest::BlobDigest;
use crate::documents::{Descriptor, INDEXES, Index, Manifest};
use crate::error::Result;
use crate::layout::LayoutWriter;

/// Annotation of a layer: the diffID of the archive that it was made of.
pub(crate) const SOURCE_DIFF_ID: &str = "packfs.source.diff-id";
/// Annotation of a layer: a digest of the options that it was made with.
pub(crate) const RECIPE: &str = "packfs.recipe";

/// Annotations of a layer: digest and length of the record of the archive that it was made of. The blob is in the same
/// layout; no manifest lists it, since programs would take it for a layer.
const TAR_RECORD_DIGEST: &str = "packfs.tar-record.digest";
const TAR_RECORD_SIZE: &str = "packfs.tar-record.size";
/// Media type of such records, which nothing stores.
pub(crate) const TAR_RECORD: &str = "application/vnd.packfs.tar-record.v1+zstd";
/// Beginning of the names of all annotations that packfs adds to layers.
pub(crate) const OWN_ANNOTATIONS: &str = "packfs.";

/// Returns the record that the annotations of a layer name.
pub(crate) fn tar_record_of(annotations: &BTreeMap<String, String>) -> Option<Descriptor> {
    // Annotations are text that any program may have written: what does not parse names no record.
    let digest = BlobDigest::parse(annotations.get(TAR_RECORD_DIGEST)?)?;
    let size = annotations.get(TAR_RECORD_SIZE)?.parse().ok()?;
    Some(Descriptor::new(TAR_RECORD, digest, size))
}

/// Names a record in the annotations of a layer.
pub(crate) fn set_tar_record(layer: &mut Descriptor, record: &Descriptor) {
    layer.annotations.insert(TAR_RECORD_DIGEST.into(), record.digest.to_string());
    layer.annotations.insert(TAR_RECORD_SIZE.into(), record.size.to_string());
}

/// How images are added to a destination.
pub(crate) struct DestinationOptions<'o> {
    /// True to replace images of the same names.
    pub(crate) force: bool,
    /// Directory for layers that are sent to a registry.
    #[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "only registries have layers sent"))]
    pub(crate) temporary_dir: &'o Path,
    #[cfg(feature = "remote")]
    pub(crate) remote: &'o packfs_remote::RemoteOptions,
}

impl DestinationOptions<'_> {
    /// Begins a layout, or an image in a registry, for images with `names`.
    pub(crate) fn open(&self, target: &Path, names: &[Option<&str>]) -> Result<Box<dyn ImageDestination>> {
        let destination = self.open_any(target)?;
        destination.check_names(names)?;
        Ok(destination)
    }

    fn open_any(&self, target: &Path) -> Result<Box<dyn ImageDestination>> {
        #[cfg(feature = "remote")]
        if let Some(address) = crate::source::registry_address(target) {
            use crate::registry::RegistryWriter;
            let writer = RegistryWriter::create(address, self.force, self.remote, self.temporary_dir)?;
            return Ok(Box::new(writer));
        }
        Ok(Box::new(LayoutWriter::create(target, self.force)?))
    }
}

/// Layers that exist already, by the archive and the options that they were made of.
pub(crate) type KnownLayers = BTreeMap<(String, String), Descriptor>;

/// Receives blobs and documents. Images appear when they are committed.
pub(crate) trait ImageDestination: Sync {
    /// Fails if images with these names cannot be added.
    fn check_names(&self, names: &[Option<&str>]) -> Result<()>;

    /// Path for a file that is not complete yet.
    fn work_path(&self, name: &str) -> PathBuf;

    /// Returns the layers that exist already. What cannot be read has none.
    fn known_layers(&self) -> KnownLayers;

    /// Returns true if a blob exists, with the bytes that its digest stands for as far as that can be told.
    fn has_intact(&self, blob: &Descriptor) -> bool;

    /// Returns true if blobs stay that no manifest lists.
    fn keeps_unlisted_blobs(&self) -> bool;

    /// Takes a complete file as a blob.
    fn add_file(&self, file: &Path, media_type: &str) -> Result<Descriptor>;

    /// Adds a configuration, a manifest or an index.
    fn add_document(&self, bytes: &[u8], media_type: &str) -> Result<Descriptor>;

    /// Lets the images of an index appear. A layout that exists already takes nothing else of the index.
    fn commit(self: Box<Self>, index: Index) -> Result<()>;
}

/// Finds the layers of images, whose documents `read` returns.
pub(crate) fn find_known_layers(images: Vec<Descriptor>, read: impl Fn(&Descriptor) -> Result<Vec<u8>>) -> KnownLayers {
    let mut known = KnownLayers::new();
    let mut waiting = images;
    // Images share documents, and a layout that lies may name one of them again and again.
    let mut seen = std::collections::BTreeSet::<BlobDigest>::new();
    while let Some(descriptor) = waiting.pop() {
        if !seen.insert(descriptor.digest.clone()) {
            continue;
        }
        // What cannot be read cannot be reused, which is no error.
        let Ok(bytes) = read(&descriptor) else { continue };
        if INDEXES.contains(&descriptor.media_type.as_str()) {
            // Nested indexes are for several platforms.
            waiting.extend(serde_json::from_slice::<Index>(&bytes).into_iter().flat_map(|index| index.manifests));
            continue;
        }
        for mut layer in serde_json::from_slice::<Manifest>(&bytes).into_iter().flat_map(|manifest| manifest.layers) {
            let note = |name: &str| layer.annotations.get(name).cloned();
            if let (Some(diff_id), Some(recipe)) = (note(SOURCE_DIFF_ID), note(RECIPE)) {
                // Others are of that image, and not of the layer in every image.
                layer.annotations.retain(|name, _| name.starts_with(OWN_ANNOTATIONS));
                layer.others.clear();
                known.insert((diff_id, recipe), layer);
            }
        }
    }
    known
}
