//! Conversion: a layout in which every layer is an image.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_image::build::AnyOptions;
use packfs_image::name::display;
use packfs_image::sink::compress::{StreamCompression, compressed};

use crate::destination::{
    DestinationOptions, ImageDestination, RECIPE, SOURCE_DIFF_ID, TAR_RECORD, set_tar_record, tar_record_of,
};
use crate::digest::BlobDigest;
use crate::documents::{Descriptor, EROFS_LAYER, SQUASHFS_LAYER};
use crate::error::{Error, Result};
use crate::layer::{ConvertedLayer, LayerWarnings, build_flattened, build_layer, decompress_layer, open_image};
use crate::parallel::for_each_layer;
use crate::rewritten::{ConvertedImage, RewrittenPlatform, rewrite_images};
use crate::source::{ContainerSource, SourceLayer, SourcePlatform};
use crate::tar_record::write_record;

/// Compression of records of archives. Names come twice, in a header and in front of the range of the file: zstd finds
/// them over a longer distance than gzip. The level was not measured.
const RECORD_COMPRESSION: &str = "zstd:9";

/// Options of a conversion.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Format, codec and all else of the image of a layer. Its threads and memory are divided among the layers.
    pub target: AnyOptions,
    /// True to make one layer of all.
    pub flatten: bool,
    /// True to keep with each layer a record of what its image lacks of the archive, so that [`export`](crate::export())
    /// writes the same archive again. The layers are not flattened, and the target is a layout.
    pub reversible: bool,
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
            reversible: false,
            force: false,
            temporary_dir: std::env::temp_dir(),
            #[cfg(feature = "remote")]
            remote: packfs_remote::RemoteOptions::default(),
        }
    }

    fn destination(&self) -> DestinationOptions<'_> {
        DestinationOptions {
            force: self.force,
            temporary_dir: &self.temporary_dir,
            #[cfg(feature = "remote")]
            remote: &self.remote,
        }
    }

    /// Fails if records of archives are wanted where there can be none.
    fn check_reversible(&self, target: &Path, destination: &dyn ImageDestination) -> Result<()> {
        if self.reversible && self.flatten {
            return Err(packfs_image::Error::Misuse(
                "a layer merged from several cannot become those layers again".into(),
            )
            .into());
        }
        // Told before anything is converted.
        if self.reversible && !destination.keeps_unlisted_blobs() {
            let why = "registries delete blobs that no manifest lists, as tar records are: convert into a layout";
            return Err(Error::unsupported(display(target), why));
        }
        Ok(())
    }

    fn media_type(&self) -> &'static str {
        match self.target {
            AnyOptions::Erofs(_) => EROFS_LAYER,
            AnyOptions::Squashfs(_) => SQUASHFS_LAYER,
        }
    }

    /// Digest of everything on which the bytes of a layer depend, besides the layer.
    fn recipe(&self) -> String {
        // The text of all options: one that is added later changes the digest without being listed here.
        let mut target = self.target.clone();
        let common = target.common_mut();
        // Bytes never depend on these, so layers are found again whatever they were.
        common.threads = 0;
        common.memory = 0;
        common.force = false;
        // The version belongs to it, as another one may compress the same layer differently.
        BlobDigest::of(format!("packfs {} {target:?}", env!("CARGO_PKG_VERSION")).as_bytes()).to_string()
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
    // Names are checked at once, not after hours of converting.
    let layout = options.destination().open(target, &source.names())?;
    options.check_reversible(target, &*layout)?;
    let mut conversion =
        RunningConversion { layout: &*layout, options, progress, converted: ConversionResult::default() };
    // A flattened image has no layer in common with others, so nothing is built in advance.
    let layers = if options.flatten { BTreeMap::new() } else { conversion.build_layers(source)? };
    let rewritten = rewrite_images(source, &*layout, |found| conversion.convert_platform(found, &layers))?;
    let converted = ConversionResult { images: rewritten.manifests, ..conversion.converted };
    // Committed after the last image, so that a layout never lists what is not complete.
    packfs_image::Error::unless_cancelled(progress)?;
    layout.commit(rewritten.index)?;
    Ok(converted)
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
    fn build_layers(&mut self, source: &ContainerSource) -> Result<BTreeMap<BlobDigest, Descriptor>> {
        // Layers of earlier runs, by archive and options.
        let known = self.layout.known_layers();
        let recipe = self.options.recipe();
        let layers = source.unique_layers();
        let sizes: Vec<u64> = layers.iter().map(|layer| layer.bytes.size).collect();
        let built = for_each_layer(&sizes, &self.options.target, |number, target| {
            let layer = layers[number];
            // By diffID and not by digest: the same archive may be compressed in another way.
            let known = known.get(&(layer.diff_id.to_string(), recipe.clone()));
            if let Some(descriptor) = known.filter(|descriptor| self.is_usable(descriptor)) {
                return Ok(BuiltLayer { descriptor: descriptor.clone(), warnings: None, is_reused: true });
            }
            // Read twice: for the image, and for the record.
            let local = self.local_layer(layer, number)?;
            let layer = &*local;
            let path = self.layout.work_path(&format!("layer-{number}"));
            let warnings = build_layer(layer, &path, target, self.progress)?;
            let record = if self.options.reversible { Some(self.record_layer(layer, &path, number)?) } else { None };
            let mut descriptor = self.layout.add_file(&path, self.options.media_type())?;
            // By these, a later run finds the layer again.
            descriptor.annotations.insert(SOURCE_DIFF_ID.into(), layer.diff_id.to_string());
            descriptor.annotations.insert(RECIPE.into(), recipe.clone());
            if let Some(record) = &record {
                set_tar_record(&mut descriptor, record);
            }
            // A copy of a layer takes room that the next one may need.
            if let Cow::Owned(copy) = &local
                && let Some(path) = copy.bytes.path()
            {
                std::fs::remove_file(path).map_err(Error::io("cannot remove", path))?;
            }
            let warnings = Some(LayerWarnings { layer: layer.name.clone(), warnings });
            Ok(BuiltLayer { descriptor, warnings, is_reused: false })
        })?;
        // In the order of the source, in whatever order they were built.
        let mut descriptors = BTreeMap::new();
        for (layer, built) in layers.iter().zip(built) {
            self.note_layer(layer.diff_id.clone(), layer.bytes.size, &built);
            self.converted.warnings.extend(built.warnings);
            descriptors.insert(layer.diff_id.clone(), built.descriptor);
        }
        Ok(descriptors)
    }

    /// Returns true if a layer that exists already has all that is wanted of it.
    fn is_usable(&self, known: &Descriptor) -> bool {
        let has_record = || tar_record_of(&known.annotations).is_some_and(|record| self.layout.has_intact(&record));
        self.layout.has_intact(known) && (!self.options.reversible || has_record())
    }

    /// Returns the layer; one of a registry as a copy on this machine, if it is read several times.
    fn local_layer<'l>(&self, layer: &'l SourceLayer, number: usize) -> Result<Cow<'l, SourceLayer>> {
        if !self.options.reversible || !layer.bytes.is_remote() {
            return Ok(Cow::Borrowed(layer));
        }
        let path = self.layout.work_path(&format!("archive-{number}"));
        Ok(Cow::Owned(layer.copy_to(&path)?))
    }

    /// Writes the record of a layer, of which the image at `path` was made, as a blob.
    fn record_layer(&self, layer: &SourceLayer, path: &Path, number: usize) -> Result<Descriptor> {
        let image = open_image(path)?;
        let record = self.layout.work_path(&format!("record-{number}"));
        let mut file = File::create(&record).map_err(Error::io("cannot create", &record))?;
        let compression: StreamCompression = RECORD_COMPRESSION.parse().map_err(packfs_image::Error::Misuse)?;
        // One thread: the record of a layer of 100,000 files has some megabytes.
        compressed(compression, &mut file, &record, 0, |out| {
            Ok(write_record(layer, image.image(), out, self.progress))
        })??;
        self.layout.add_file(&record, TAR_RECORD)
    }

    fn note_layer(&mut self, source_diff_id: BlobDigest, source_bytes: u64, built: &BuiltLayer) {
        self.converted.layers.push(ConvertedLayer {
            source_diff_id,
            source_bytes,
            digest: built.descriptor.digest.clone(),
            bytes: built.descriptor.size,
            is_reused: built.is_reused,
        });
    }

    /// Returns configuration and layers for one platform.
    fn convert_platform(
        &mut self,
        found: &SourcePlatform,
        layers: &BTreeMap<BlobDigest, Descriptor>,
    ) -> Result<RewrittenPlatform> {
        // Settings that packfs does not know have to survive.
        let mut config = found.config.clone();
        let mut platform = found.platform.clone();
        let layers: Vec<Descriptor> = if self.options.flatten {
            config.flatten_history();
            vec![self.build_flat(&found.layers)?]
        } else {
            found.layers.iter().map(|layer| with_annotations(&layers[&layer.diff_id], layer)).collect()
        };
        let diff_ids: Vec<BlobDigest> = layers.iter().map(|layer| layer.digest.clone()).collect();
        // The image of a layer is never compressed as a blob, so its digest is its diffID.
        config.set_diff_ids(&diff_ids);
        if matches!(self.options.target, AnyOptions::Erofs(_)) {
            config.require_erofs();
            platform.require_erofs();
        }
        Ok(RewrittenPlatform { config, platform, layers })
    }

    /// Builds one image of all layers, with nothing in it that a layer deletes.
    fn build_flat(&mut self, layers: &[SourceLayer]) -> Result<Descriptor> {
        // Each flattened image is noted as a layer, so the number tells its work files from those of others.
        let number = self.converted.layers.len();
        let path_of = |layer: usize| self.layout.work_path(&format!("plain-{number}-{layer}"));
        let files: Vec<PathBuf> = (0..layers.len()).map(path_of).collect();
        let sizes: Vec<u64> = layers.iter().map(|layer| layer.bytes.size).collect();
        let target = &self.options.target;
        for_each_layer(&sizes, target, |layer, _| decompress_layer(&layers[layer], &files[layer], self.progress))?;
        let path = self.layout.work_path(&format!("flat-{number}"));
        let warnings = build_flattened(layers, &files, &path, target, self.progress)?;
        // Before the next image is flattened, as they take as much room as the unpacked layers.
        for file in &files {
            std::fs::remove_file(file).map_err(crate::Error::io("cannot remove", file))?;
        }
        let descriptor = self.layout.add_file(&path, self.options.media_type())?;
        // No archive has this image, so the digest is made of those of all archives.
        let chain: Vec<String> = layers.iter().map(|layer| layer.diff_id.to_string()).collect();
        let source_bytes = layers.iter().map(|layer| layer.bytes.size).sum();
        let built = BuiltLayer { descriptor, warnings: None, is_reused: false };
        self.note_layer(BlobDigest::of(chain.join(" ").as_bytes()), source_bytes, &built);
        let layer = layers.last().map(|layer| layer.name.clone()).unwrap_or_default();
        self.converted.warnings.push(LayerWarnings { layer, warnings });
        Ok(built.descriptor)
    }
}

/// Returns a layer's descriptor with the annotations that it has in the source, besides its own.
fn with_annotations(built: &Descriptor, layer: &SourceLayer) -> Descriptor {
    let mut descriptor = built.clone();
    descriptor.annotations.extend(layer.foreign_annotations());
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
