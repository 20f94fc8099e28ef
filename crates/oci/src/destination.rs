//! The place that a converted image is written to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::documents::{Descriptor, INDEXES, Index, Manifest};
use crate::error::Result;

/// Annotation of a layer: the diffID of the archive that it was made of.
pub(crate) const SOURCE_DIFF_ID: &str = "packfs.source.diff-id";
/// Annotation of a layer: a digest of the options that it was made with.
pub(crate) const RECIPE: &str = "packfs.recipe";

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

    /// Takes a complete file as a blob.
    fn add_file(&self, file: &Path, media_type: &str) -> Result<Descriptor>;

    /// Adds a configuration, a manifest or an index.
    fn add_document(&self, bytes: &[u8], media_type: &str) -> Result<Descriptor>;

    /// Lists images and lets them appear.
    fn commit(self: Box<Self>, images: Vec<Descriptor>) -> Result<()>;
}

/// Finds the layers of images, whose documents `read` returns.
pub(crate) fn find_known_layers(images: Vec<Descriptor>, read: impl Fn(&Descriptor) -> Result<Vec<u8>>) -> KnownLayers {
    let mut known = KnownLayers::new();
    let mut waiting = images;
    // Images share documents, and a layout that lies may name one of them again and again.
    let mut seen = std::collections::BTreeSet::<Digest>::new();
    while let Some(descriptor) = waiting.pop() {
        if !seen.insert(descriptor.digest.clone()) {
            continue;
        }
        let Ok(bytes) = read(&descriptor) else { continue };
        if INDEXES.contains(&descriptor.media_type.as_str()) {
            waiting.extend(serde_json::from_slice::<Index>(&bytes).into_iter().flat_map(|index| index.manifests));
            continue;
        }
        for layer in serde_json::from_slice::<Manifest>(&bytes).into_iter().flat_map(|manifest| manifest.layers) {
            let note = |name: &str| layer.annotations.get(name).cloned();
            if let (Some(diff_id), Some(recipe)) = (note(SOURCE_DIFF_ID), note(RECIPE)) {
                known.insert((diff_id, recipe), layer);
            }
        }
    }
    known
}
