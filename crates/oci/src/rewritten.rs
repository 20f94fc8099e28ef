//! Documents of images whose layers have become others: configurations, manifests, indexes.

use crate::destination::ImageDestination;
use crate::digest::BlobDigest;
use crate::documents::{CONFIG, Descriptor, INDEX, ImageConfig, Index, MANIFEST, Manifest, Platform, REF_NAME};
use crate::error::Result;
use crate::layout::to_json;
use crate::source::{SourceImage, SourcePlatform};

/// A manifest that a conversion has made.
#[derive(Debug)]
#[non_exhaustive]
pub struct ConvertedImage {
    /// Name of the image.
    pub name: Option<String>,
    /// Platform of the manifest.
    pub platform: Platform,
    /// Digest of the manifest.
    pub digest: BlobDigest,
    /// Number of its layers.
    pub layers: usize,
}

/// What has become of a platform of an image. Annotations stay those of the source.
pub(crate) struct RewrittenPlatform {
    pub(crate) config: ImageConfig,
    pub(crate) platform: Platform,
    pub(crate) layers: Vec<Descriptor>,
}

/// An image whose documents are written.
pub(crate) struct RewrittenImage {
    /// Entry in the index of a layout.
    pub(crate) listed: Descriptor,
    pub(crate) manifests: Vec<ConvertedImage>,
}

/// Writes the documents of an image with other `platforms` in place of its own, in the same order.
pub(crate) fn write_image(
    destination: &dyn ImageDestination,
    image: &SourceImage,
    platforms: Vec<RewrittenPlatform>,
) -> Result<RewrittenImage> {
    let mut listed_manifests = Vec::new();
    let mut manifests = Vec::new();
    for (found, rewritten) in image.platforms.iter().zip(platforms) {
        let layers = rewritten.layers.len();
        let manifest = write_platform(destination, found, rewritten)?;
        manifests.push(ConvertedImage {
            name: image.name.clone(),
            platform: found.platform.clone(),
            digest: manifest.digest.clone(),
            layers,
        });
        listed_manifests.push(manifest);
    }
    let mut listed = match listed_manifests.pop() {
        // An image that had an index keeps one, even for a single platform: its annotations have no other place.
        Some(only) if listed_manifests.is_empty() && !image.is_index => only,
        last => {
            listed_manifests.extend(last);
            let mut index = Index::new(listed_manifests);
            index.annotations = image.annotations.clone();
            destination.add_document(&to_json(&index), INDEX)?
        }
    };
    if let Some(name) = &image.name {
        listed.annotations.insert(REF_NAME.into(), name.clone());
    }
    Ok(RewrittenImage { listed, manifests })
}

/// Writes configuration and manifest for one platform.
fn write_platform(
    destination: &dyn ImageDestination,
    found: &SourcePlatform,
    rewritten: RewrittenPlatform,
) -> Result<Descriptor> {
    let manifest = Manifest {
        schema_version: 2,
        media_type: MANIFEST.into(),
        config: destination.add_document(&rewritten.config.to_bytes(), CONFIG)?,
        layers: rewritten.layers,
        annotations: found.annotations.clone(),
    };
    let mut listed = destination.add_document(&to_json(&manifest), MANIFEST)?;
    listed.platform = Some(rewritten.platform);
    Ok(listed)
}
