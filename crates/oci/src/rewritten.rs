//! Documents of images whose layers have become others: configurations, manifests, indexes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::destination::{ImageDestination, OWN_ANNOTATIONS};
use crate::digest::BlobDigest;
use crate::documents::{
    CONFIG, Descriptor, INDEX, ImageConfig, Index, KeptFields, MANIFEST, Manifest, Platform, REF_NAME,
};
use crate::error::Result;
use crate::layout::to_json;
use crate::source::{ContainerSource, SourceImage, SourcePlatform};

/// Beginnings of the names of annotations that tell where in a layer its table of contents is: those of eStargz, nydus
/// and others that containerd has snapshotters for, and those of zstd:chunked. A program that believed them would read
/// the wrong bytes.
const LAYER_FORMATS: [&str; 3] =
    ["containerd.io/snapshot/", "io.containers.estargz.", "io.github.containers.zstd-chunked."];

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

/// A platform of an image with other layers.
pub(crate) struct RewrittenPlatform {
    pub(crate) config: ImageConfig,
    pub(crate) platform: Platform,
    pub(crate) layers: Vec<Descriptor>,
}

/// Images whose documents are written.
pub(crate) struct RewrittenImages {
    /// The index of a new layout.
    pub(crate) index: Index,
    pub(crate) manifests: Vec<ConvertedImage>,
}

/// Rewrites all images of a source, and writes their documents. The destination lists none of them yet.
pub(crate) fn rewrite_images(
    source: &ContainerSource,
    destination: &dyn ImageDestination,
    mut rewrite: impl FnMut(&SourcePlatform) -> Result<RewrittenPlatform>,
) -> Result<RewrittenImages> {
    let writer = DocumentWriter { destination, replaced: &source.digests };
    let mut listed = Vec::new();
    let mut manifests = Vec::new();
    for image in &source.images {
        let platforms = image.platforms.iter().map(|found| rewrite(found)).collect::<Result<Vec<_>>>()?;
        listed.push(writer.write_image(image, platforms, &mut manifests)?);
    }
    Ok(RewrittenImages { index: Index::new(listed, writer.keep(&source.layout)), manifests })
}

struct DocumentWriter<'d> {
    destination: &'d dyn ImageDestination,
    /// Digests of the source's documents and layers.
    replaced: &'d BTreeSet<BlobDigest>,
}

impl DocumentWriter<'_> {
    /// Writes the documents of an image with other `platforms` in place of its own, in the same order; returns its
    /// entry in the index of a layout.
    fn write_image(
        &self,
        image: &SourceImage,
        platforms: Vec<RewrittenPlatform>,
        manifests: &mut Vec<ConvertedImage>,
    ) -> Result<Descriptor> {
        let mut listed_manifests = Vec::new();
        for (found, rewritten) in image.platforms.iter().zip(platforms) {
            let layers = rewritten.layers.len();
            let manifest = self.write_platform(found, rewritten)?;
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
                let index = Index::new(listed_manifests, self.keep(&image.index));
                self.destination.add_document(&to_json(&index), INDEX)?
            }
        };
        listed.add_fields(self.keep(&image.entry));
        if let Some(name) = &image.name {
            listed.annotations.insert(REF_NAME.into(), name.clone());
        }
        Ok(listed)
    }

    /// Writes configuration and manifest for one platform.
    fn write_platform(&self, found: &SourcePlatform, rewritten: RewrittenPlatform) -> Result<Descriptor> {
        let mut config = self.destination.add_document(&rewritten.config.to_bytes(), CONFIG)?;
        config.add_fields(self.keep(&found.config_entry));
        let mut layers = rewritten.layers;
        for layer in &mut layers {
            layer.annotations.retain(|name, value| self.is_kept(name, value));
        }
        let KeptFields { annotations, others } = self.keep(&found.manifest);
        let manifest = Manifest { schema_version: 2, media_type: MANIFEST.into(), config, layers, annotations, others };
        let mut listed = self.destination.add_document(&to_json(&manifest), MANIFEST)?;
        listed.platform = Some(rewritten.platform);
        listed.add_fields(self.keep(&found.entry));
        Ok(listed)
    }

    /// Returns the fields that are true of the new documents, too.
    fn keep(&self, fields: &KeptFields) -> KeptFields {
        let mut kept = fields.clone();
        kept.annotations.retain(|name, value| self.is_kept(name, value));
        // Such as the subject of a manifest, if that is an image of the same source.
        let names_replaced =
            |value: &Value| value.get("digest").and_then(Value::as_str).is_some_and(|text| self.is_replaced(text));
        kept.others.retain(|_, value| !names_replaced(value));
        kept
    }

    /// Returns true unless an annotation tells of bytes that nobody finds in the destination.
    fn is_kept(&self, name: &str, value: &str) -> bool {
        let is_of_old_format = LAYER_FORMATS.iter().any(|prefix| name.starts_with(prefix));
        // packfs's own names the archive that it has replaced.
        let is_own = name.starts_with(OWN_ANNOTATIONS);
        is_own || !is_of_old_format && !self.is_replaced(value)
    }

    /// Returns true for the digest of a document or layer that the destination has in another form.
    fn is_replaced(&self, text: &str) -> bool {
        BlobDigest::parse(text).is_some_and(|digest| self.replaced.contains(&digest))
    }
}
