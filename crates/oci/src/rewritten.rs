//! Documents of images whose layers have become others: configurations, manifests, indexes.

use crate::destination::ImageDestination;
use crate::digest::BlobDigest;
use crate::documents::{CONFIG, Descriptor, INDEX, ImageConfig, Index, MANIFEST, Manifest, Platform, REF_NAME};
use crate::error::Result;
use crate::layout::to_json;
use crate::source::{ContainerSource, SourceImage, SourcePlatform};

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

/// Images whose documents are written.
#[derive(Default)]
pub(crate) struct RewrittenImages {
    /// Entries in the index of a layout.
    pub(crate) listed: Vec<Descriptor>,
    pub(crate) manifests: Vec<ConvertedImage>,
}

/// Rewrites all images of a source, and writes their documents. The destination lists none of them yet.
pub(crate) fn rewrite_images(
    source: &ContainerSource,
    destination: &dyn ImageDestination,
    mut rewrite: impl FnMut(&SourcePlatform) -> Result<RewrittenPlatform>,
) -> Result<RewrittenImages> {
    let mut written = RewrittenImages::default();
    for image in &source.images {
        let platforms = image.platforms.iter().map(|found| rewrite(found)).collect::<Result<Vec<_>>>()?;
        written.listed.push(write_image(destination, image, platforms, &mut written.manifests)?);
    }
    Ok(written)
}

/// Writes the documents of an image with other `platforms` in place of its own, in the same order; returns its entry in
/// the index of a layout.
fn write_image(
    destination: &dyn ImageDestination,
    image: &SourceImage,
    platforms: Vec<RewrittenPlatform>,
    manifests: &mut Vec<ConvertedImage>,
) -> Result<Descriptor> {
    let mut listed_manifests = Vec::new();
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
    Ok(listed)
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
