//! Conversion: a layout in which every layer is an image.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_image::build::AnyOptions;
use packfs_image::tree::Whiteouts;
use packfs_image::{BuildRequest, Codec};

use crate::destination::{ImageDestination, RECIPE, SOURCE_DIFF_ID};
use crate::digest::Digest;
use crate::documents::{CONFIG, Descriptor, EROFS_LAYER, INDEX, Index, MANIFEST, Manifest, Platform, REF_NAME};
use crate::error::Result;
use crate::layer::{ConvertedLayer, LayerWarnings, build_layer};
use crate::layout::{LayoutWriter, to_json};
use crate::parallel::for_each_layer;
use crate::source::{ContainerSource, SourceImage, SourceLayer, SourcePlatform};

/// Media type of SquashFS layers, as Sylabs' tools have it.
const SQUASHFS_LAYER: &str = "application/vnd.sylabs.image.layer.v1.squashfs";

/// Options of a conversion.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Format, codec and all else of the image of a layer. Its threads and memory are divided among the layers.
    pub target: AnyOptions,
    /// True to make one layer of all.
    pub flatten: bool,
    /// True to replace images of the same names in the layout.
    pub force: bool,
    /// Directory for layers that are sent to a registry.
    pub temporary_dir: PathBuf,
    /// Connections to registries.
    #[cfg(feature = "remote")]
    pub remote: packfs_remote::RemoteOptions,
}

impl ConvertOptions {
    /// Makes options with the image of a layer.
    pub fn new(target: impl Into<AnyOptions>) -> Self {
        ConvertOptions {
            target: target.into(),
            flatten: false,
            force: false,
            temporary_dir: std::env::temp_dir(),
            #[cfg(feature = "remote")]
            remote: packfs_remote::RemoteOptions::default(),
        }
    }

    fn media_type(&self) -> &'static str {
        match self.target {
            AnyOptions::Erofs(_) => EROFS_LAYER,
            AnyOptions::Squashfs(_) => SQUASHFS_LAYER,
        }
    }

    /// Digest of everything on which the bytes of a layer depend, besides the layer.
    fn recipe(&self) -> String {
        let mut target = self.target.clone();
        let common = target.common_mut();
        common.threads = 0;
        common.memory = 0;
        common.force = false;
        Digest::of(format!("packfs {} {target:?}", env!("CARGO_PKG_VERSION")).as_bytes()).to_string()
    }
}

/// Result of a conversion.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ConversionResult {
    /// Manifests, in the order of the source.
    pub images: Vec<ConvertedImage>,
    /// Layers, those of several images once.
    pub layers: Vec<ConvertedLayer>,
    /// Warnings about layers.
    pub warnings: Vec<LayerWarnings>,
}

/// A manifest that a conversion has made.
#[derive(Debug)]
#[non_exhaustive]
pub struct ConvertedImage {
    /// Name of the image.
    pub name: Option<String>,
    /// Platform of the manifest.
    pub platform: Platform,
    /// Digest of the manifest.
    pub digest: Digest,
    /// Number of its layers.
    pub layers: usize,
}

/// Converts the images of `source` into the layout `target`, which appears when it is complete. An existing layout gets
/// the images in addition, and the layers that it already has are not made again. `target` may also be an address,
/// `oci://REGISTRY/NAME:TAG`; the tag then appears when everything else is in the registry.
///
/// # Errors
/// [`Error::Damaged`](crate::Error::Damaged) if a blob does not have its digest;
/// [`Error::Exists`](crate::Error::Exists) if the layout has an image of the same name.
pub fn convert(
    source: &ContainerSource,
    target: &Path,
    options: &ConvertOptions,
    progress: &Arc<Progress>,
) -> Result<ConversionResult> {
    options.target.check_layer()?;
    let layout = open_destination(target, options)?;
    let names: Vec<Option<&str>> = source.images.iter().map(|image| image.name.as_deref()).collect();
    layout.check_names(&names)?;
    let mut conversion =
        RunningConversion { layout: &*layout, options, progress, converted: ConversionResult::default() };
    let layers = if options.flatten { BTreeMap::new() } else { conversion.build_layers(source)? };
    let mut listed = Vec::new();
    for image in &source.images {
        listed.push(conversion.add_image(image, &layers)?);
    }
    let converted = conversion.converted;
    packfs_image::Error::unless_cancelled(progress)?;
    layout.commit(listed)?;
    Ok(converted)
}

fn open_destination(target: &Path, options: &ConvertOptions) -> Result<Box<dyn ImageDestination>> {
    #[cfg(feature = "remote")]
    if let Some(address) = crate::registry::address(target) {
        use crate::registry::RegistryWriter;
        let writer = RegistryWriter::create(address, options.force, &options.remote, &options.temporary_dir)?;
        return Ok(Box::new(writer));
    }
    Ok(Box::new(LayoutWriter::create(target, options.force)?))
}

/// A layer that is in the layout, or will be.
struct BuiltLayer {
    descriptor: Descriptor,
    warnings: Option<LayerWarnings>,
    is_reused: bool,
}

struct RunningConversion<'c> {
    layout: &'c dyn ImageDestination,
    options: &'c ConvertOptions,
    progress: &'c Arc<Progress>,
    converted: ConversionResult,
}

impl RunningConversion<'_> {
    /// Builds every layer once; returns their descriptors by diffID.
    fn build_layers(&mut self, source: &ContainerSource) -> Result<BTreeMap<Digest, Descriptor>> {
        let known = self.layout.known_layers();
        let recipe = self.options.recipe();
        let layers = source.unique_layers();
        let sizes: Vec<u64> = layers.iter().map(|layer| layer.bytes.size).collect();
        let built = for_each_layer(&sizes, &self.options.target, |number, target| {
            let layer = layers[number];
            let known = known.get(&(layer.diff_id.to_string(), recipe.clone()));
            if let Some(descriptor) = known.filter(|descriptor| self.layout.has_intact(descriptor)) {
                return Ok(BuiltLayer { descriptor: descriptor.clone(), warnings: None, is_reused: true });
            }
            let path = self.layout.work_path(&format!("layer-{number}"));
            let warnings = build_layer(layer, &path, target, self.progress)?;
            let mut descriptor = self.layout.add_file(&path, self.options.media_type())?;
            descriptor.annotations.insert(SOURCE_DIFF_ID.into(), layer.diff_id.to_string());
            descriptor.annotations.insert(RECIPE.into(), recipe.clone());
            let warnings = Some(LayerWarnings { layer: layer.name.clone(), warnings });
            Ok(BuiltLayer { descriptor, warnings, is_reused: false })
        })?;
        let mut descriptors = BTreeMap::new();
        for (layer, built) in layers.iter().zip(built) {
            self.note_layer(layer.diff_id.clone(), layer.bytes.size, &built);
            self.converted.warnings.extend(built.warnings);
            descriptors.insert(layer.diff_id.clone(), built.descriptor);
        }
        Ok(descriptors)
    }

    fn note_layer(&mut self, source_diff_id: Digest, source_bytes: u64, built: &BuiltLayer) {
        self.converted.layers.push(ConvertedLayer {
            source_diff_id,
            source_bytes,
            digest: built.descriptor.digest.clone(),
            bytes: built.descriptor.size,
            is_reused: built.is_reused,
        });
    }

    /// Writes the documents of an image; returns its entry in the layout's index.
    fn add_image(&mut self, image: &SourceImage, layers: &BTreeMap<Digest, Descriptor>) -> Result<Descriptor> {
        let mut manifests = Vec::new();
        for found in &image.platforms {
            let manifest = self.add_platform(found, layers)?;
            self.converted.images.push(ConvertedImage {
                name: image.name.clone(),
                platform: found.platform.clone(),
                digest: manifest.digest.clone(),
                layers: if self.options.flatten { 1 } else { found.layers.len() },
            });
            manifests.push(manifest);
        }
        let mut listed = match manifests.pop() {
            Some(only) if manifests.is_empty() && !image.is_index => only,
            last => {
                manifests.extend(last);
                let mut index = Index::new(manifests);
                index.annotations = image.annotations.clone();
                self.layout.add_document(&to_json(&index), INDEX)?
            }
        };
        if let Some(name) = &image.name {
            listed.annotations.insert(REF_NAME.into(), name.clone());
        }
        Ok(listed)
    }

    /// Writes configuration and manifest for one platform.
    fn add_platform(&mut self, found: &SourcePlatform, layers: &BTreeMap<Digest, Descriptor>) -> Result<Descriptor> {
        let mut config = found.config.clone();
        let mut platform = found.platform.clone();
        let descriptors: Vec<Descriptor> = if self.options.flatten {
            config.flatten_history();
            vec![self.build_flat(&found.layers)?]
        } else {
            found.layers.iter().map(|layer| with_annotations(&layers[&layer.diff_id], layer)).collect()
        };
        let diff_ids: Vec<Digest> = descriptors.iter().map(|layer| layer.digest.clone()).collect();
        config.set_diff_ids(&diff_ids);
        if matches!(self.options.target, AnyOptions::Erofs(_)) {
            config.require_erofs();
            platform.require_erofs();
        }
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST.into(),
            config: self.layout.add_document(&config.to_bytes(), CONFIG)?,
            layers: descriptors,
            annotations: found.annotations.clone(),
        };
        let mut listed = self.layout.add_document(&to_json(&manifest), MANIFEST)?;
        listed.platform = Some(platform);
        Ok(listed)
    }

    /// Builds one image of all layers, with nothing in it that a layer deletes. Each layer first becomes an image
    /// without compression: what a later layer replaces is then never packed.
    fn build_flat(&mut self, layers: &[SourceLayer]) -> Result<Descriptor> {
        let number = self.converted.images.len();
        let mut plain = packfs_image::erofs::ErofsOptions::default();
        plain.features = packfs_image::erofs::Features::empty();
        let mut plain = AnyOptions::Erofs(plain);
        plain.common_mut().codec = Codec::None.into();
        plain.common_mut().threads = self.options.target.common().threads;
        plain.common_mut().memory = self.options.target.common().memory;
        let path_of = |layer: usize| self.layout.work_path(&format!("plain-{number}-{layer}"));
        let sizes: Vec<u64> = layers.iter().map(|layer| layer.bytes.size).collect();
        let warnings = for_each_layer(&sizes, &plain, |layer, plain| {
            let warnings = build_layer(&layers[layer], &path_of(layer), plain, self.progress)?;
            Ok(LayerWarnings { layer: layers[layer].name.clone(), warnings })
        })?;
        let mut request = BuildRequest::new(self.options.target.clone());
        request.sources = (0..layers.len()).map(path_of).collect::<Vec<PathBuf>>();
        request.layers = true;
        request.whiteouts = Whiteouts::StripOverlay;
        let path = self.layout.work_path(&format!("flat-{number}"));
        request.build(&path, self.progress)?;
        for layer in &request.sources {
            std::fs::remove_file(layer).map_err(crate::Error::io("cannot remove", layer))?;
        }
        let descriptor = self.layout.add_file(&path, self.options.media_type())?;
        let chain: Vec<String> = layers.iter().map(|layer| layer.diff_id.to_string()).collect();
        let source_bytes = layers.iter().map(|layer| layer.bytes.size).sum();
        let built = BuiltLayer { descriptor, warnings: None, is_reused: false };
        self.note_layer(Digest::of(chain.join(" ").as_bytes()), source_bytes, &built);
        self.converted.warnings.extend(warnings);
        Ok(built.descriptor)
    }
}

/// Returns a layer's descriptor with the annotations that it has in the source, besides its own.
fn with_annotations(built: &Descriptor, layer: &SourceLayer) -> Descriptor {
    let mut descriptor = built.clone();
    for (name, value) in &layer.annotations {
        descriptor.annotations.entry(name.clone()).or_insert_with(|| value.clone());
    }
    descriptor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceOptions;

    #[test]
    fn options_that_a_layer_cannot_have_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("layer.tar");
        std::fs::write(&archive, [0; 1024]).unwrap();
        let source = ContainerSource::open(&[archive], &SourceOptions::default()).unwrap();
        let with_uuid = packfs_image::erofs::ErofsOptions::default().set(|options| options.uuid = Some([1; 16]));
        let stream = packfs_image::squashfs::SquashfsOptions::default().set(|options| options.stream = true);
        for (target, part) in [(AnyOptions::from(with_uuid), "uuid"), (AnyOptions::from(stream), "stream")] {
            let options = ConvertOptions::new(target);
            let error = convert(&source, &dir.path().join("x"), &options, &Arc::default()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let options = ConvertOptions::new(packfs_image::erofs::ErofsOptions::default());
        convert(&source, &dir.path().join("x"), &options, &Arc::default()).unwrap();
    }
}
