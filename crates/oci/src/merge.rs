//! Merged metadata: one EROFS image that shows all layers as overlayfs would, while file data stays in the layers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt, system};
use packfs_image::erofs::{ErofsOptions, Feature, Features, Kernel, Superblock};
use packfs_image::name::display;
use packfs_image::source::open::SourceOpener;
use packfs_image::tree::WhiteoutPolicy;
use packfs_image::{AnyImage, BuildRequest, Choice, Codec, FileAt, Warnings};

use crate::error::{Error, Result};
use crate::layer::open_image_bytes;
use crate::source::{ContainerSource, LayerForm, SourceLayer, SourceOptions, registry_address};

/// Number of algorithms that small files of all layers may have, unless addresses have 48 bits: the index of the inode that
/// holds them tells no more.
const SMALL_FILE_ALGORITHMS: u32 = 2;

/// How layers are merged.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// UUID; by default derived from the contents.
    pub uuid: Option<[u8; 16]>,
    /// Label, at most 15 bytes.
    pub label: String,
    /// True to replace an existing image.
    pub force: bool,
    /// The image whose layers are merged, for one platform: without, there is only one.
    pub source: SourceOptions,
}

packfs_blocks::options!(MergeOptions);

/// Merged metadata.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergedLayers {
    /// The files of the layers, the lowest first: the devices of the image. Layers in a registry have digests instead.
    pub layers: Vec<PathBuf>,
    /// Number of inodes.
    pub inodes: u32,
    /// Length of the image in bytes.
    pub image_bytes: u64,
    /// Bytes of files that stay in the layers.
    pub referred_bytes: u64,
    /// UUID of the image.
    pub uuid: String,
    /// The oldest Linux that reads the image.
    pub kernel: String,
    /// Warnings of the build.
    pub warnings: Warnings,
}

/// A layer to merge.
#[derive(Debug)]
struct OpenLayer {
    /// The file, or the digest of a layer in a registry.
    name: PathBuf,
    /// Name for messages.
    shown_name: PathBuf,
    bytes: Arc<dyn ReadAt>,
}

/// EROFS layers that fit together, open for reading.
#[derive(Debug)]
pub struct LayerStack {
    /// The layers, the lowest first.
    layers: Vec<OpenLayer>,
    /// Options of an image that can have the clusters of all layers.
    merged: ErofsOptions,
}

impl LayerStack {
    /// Opens EROFS layers, the lowest first, or the layers of an OCI layout or of an image in a registry. Layers that do not
    /// fit together are refused.
    pub fn open(sources: &[PathBuf], options: &MergeOptions) -> Result<Self> {
        let layers = match sources {
            [source] if source.is_dir() || is_in_registry(source) => layers_of_container(source, &options.source)?,
            layers => layers.iter().map(|layer| OpenLayer::of_file(layer)).collect::<Result<Vec<_>>>()?,
        };
        let superblocks = layers.iter().map(OpenLayer::superblock).collect::<Result<Vec<Superblock>>>()?;
        let mut merged = merged_options(&layers, &superblocks)?;
        merged.uuid = options.uuid;
        merged.label = options.label.clone();
        merged.build.force = options.force;
        Ok(LayerStack { layers, merged })
    }

    /// Writes the metadata of the layers as one image at `target`. Whoever reads it needs the layers as its devices, in the
    /// same order. Nothing is compressed: the new image addresses the clusters of the layers. Of those in a registry, only
    /// metadata is fetched, and digests are not verified.
    pub fn merge(self, target: &Path, progress: &Arc<Progress>) -> Result<MergedLayers> {
        if let Some(layer) = self.layers.iter().find(|layer| layer.is_at(target)) {
            let why = "its data stays in it, and the merged image would replace it: give another file";
            return Err(Error::unsupported(display(&layer.shown_name), why));
        }
        let mut request = BuildRequest::new(self.merged);
        request.sources = self.layers.iter().map(OpenLayer::argument).collect();
        request.elsewhere = opener(&self.layers);
        request.layers = true;
        // The merged image has no layer below, so marks for deleted files would only be seen as devices.
        request.whiteouts = WhiteoutPolicy::StripOverlay;
        let summary = request.build(target, progress)?;
        let details = summary.erofs().ok_or_else(|| packfs_image::Error::Misuse("the merged image is EROFS".into()))?;
        Ok(MergedLayers {
            layers: self.layers.into_iter().map(|layer| layer.name).collect(),
            inodes: summary.inodes,
            image_bytes: summary.image_bytes,
            referred_bytes: details.referred_bytes,
            uuid: details.uuid.clone(),
            kernel: details.kernel.clone(),
            warnings: summary.warnings,
        })
    }
}

impl OpenLayer {
    /// Returns true if the layer is the file at a path, or on the same device.
    fn is_at(&self, path: &Path) -> bool {
        let (Ok(layer), Ok(found)) = (std::fs::metadata(&self.name), std::fs::metadata(path)) else { return false };
        system::is_same_file(&layer, &found)
    }

    fn of_file(path: &Path) -> Result<Self> {
        if is_in_registry(path) {
            let why = "an image in a registry is merged alone: convert others into it, or merge files";
            return Err(Error::unsupported(shown_name(path), why));
        }
        let bytes = FileAt::open(path, 0).map_err(Error::io("cannot open", path))?;
        Ok(OpenLayer { name: path.to_owned(), shown_name: path.to_owned(), bytes: Arc::new(bytes) })
    }

    fn of_container(layer: &SourceLayer) -> Result<Self> {
        let no_random_access = || Error::unsupported(display(&layer.name), "the layer is no file of its own");
        let bytes = layer.bytes.open_at_random()?.ok_or_else(no_random_access)?;
        let digest = layer.digest.as_ref().map(|digest| digest.to_string().into());
        let name = layer.bytes.path().map(Path::to_owned).or(digest).unwrap_or_else(|| layer.name.clone());
        Ok(OpenLayer { name, shown_name: layer.name.clone(), bytes })
    }

    /// Returns the name of the layer as a source of the build, which has no other meaning.
    fn argument(&self) -> PathBuf {
        if self.name.is_absolute() { self.name.clone() } else { Path::new(".").join(&self.name) }
    }

    fn superblock(&self) -> Result<Superblock> {
        let AnyImage::Erofs(reader) = open_image_bytes(&self.shown_name, Arc::clone(&self.bytes))? else {
            let why = "a layer to merge is an EROFS image: convert it first";
            return Err(Error::unsupported(display(&self.shown_name), why));
        };
        let superblock = reader.superblock().clone();
        if !superblock.devices.is_empty() {
            let why = "its data lies in other files: merge the layers that it refers to";
            return Err(Error::unsupported(display(&self.shown_name), why));
        }
        Ok(superblock)
    }
}

/// Returns the way by which the build opens layers: they are open already.
fn opener(layers: &[OpenLayer]) -> SourceOpener {
    let open = |layer: &OpenLayer| (layer.argument(), (layer.shown_name.clone(), Arc::clone(&layer.bytes)));
    let by_argument: BTreeMap<_, _> = layers.iter().map(open).collect();
    SourceOpener::new(move |argument| by_argument.get(argument).cloned().map(Ok))
}

/// Returns the name of a layout or registry as it may be shown.
fn shown_name(container: &Path) -> String {
    #[cfg(feature = "remote")]
    if let Some(address) = registry_address(container) {
        return packfs_remote::clean(address);
    }
    display(container).to_string()
}

/// Returns true for the address of an image in a registry.
fn is_in_registry(source: &Path) -> bool {
    cfg!(feature = "remote") && registry_address(source).is_some()
}

/// Opens the layers of the only image in a layout or a registry.
fn layers_of_container(container: &Path, options: &SourceOptions) -> Result<Vec<OpenLayer>> {
    let source_options = options.clone().set(|source| source.layer_form = LayerForm::Erofs);
    let source = ContainerSource::open(&[container.to_owned()], &source_options)?;
    let [image] = &source.images[..] else {
        return Err(Error::unsupported(shown_name(container), "it has several images: choose one --image"));
    };
    let [platform] = &image.platforms[..] else {
        return Err(Error::unsupported(
            shown_name(container),
            "the image is for several platforms: choose one --platform",
        ));
    };
    platform.layers.iter().map(OpenLayer::of_container).collect()
}

/// Returns the options of an image that can have the clusters of all layers.
fn merged_options(layers: &[OpenLayer], superblocks: &[Superblock]) -> Result<ErofsOptions> {
    let (Some(lowest), Some(first)) = (layers.first(), superblocks.first()) else {
        return Err(Error::unsupported("no layers", "name the layers to merge, the lowest first"));
    };
    let other = superblocks.iter().position(|layer| layer.block_size != first.block_size);
    if let Some(other) = other {
        let block_size = superblocks[other].block_size;
        let why = format!(
            "its blocks have {block_size} bytes, and those of {} have {}: build all layers with one --fs-block",
            display(&lowest.shown_name),
            first.block_size,
        );
        return Err(Error::unsupported(display(&layers[other].shown_name), why));
    }
    // What the metadata of a layer needs, the merged metadata does not.
    let is_of_data =
        |feature: &Feature| !matches!(feature, Feature::Metabox | Feature::XattrPrefixes | Feature::PlainXattrPrefixes);
    let mut features: Vec<Feature> = superblocks.iter().flat_map(Superblock::features).filter(is_of_data).collect();
    features.push(Feature::DevicesOrSecondHead);
    let has_long_addresses = features.contains(&Feature::Bits48);
    let of_small_files = superblocks.iter().filter(|layer| layer.packed.is_some());
    // One bit an algorithm, so that equal ones count once.
    let algorithms = of_small_files.flat_map(|layer| &layer.compression).fold(0u32, |all, one| all | 1 << one.number());
    if !has_long_addresses && algorithms.count_ones() > SMALL_FILE_ALGORITHMS {
        let why = "the layers have small files of more than two codecs: build those of a third with --fragments none";
        return Err(Error::unsupported(display(&lowest.shown_name), why));
    }
    // The writer refuses more than it can number long before this.
    let refer = u16::try_from(layers.len()).unwrap_or(u16::MAX);
    let mut options = ErofsOptions::default();
    options.build.codec = Choice::new(Codec::None);
    // Long addresses only if a layer has them already: they need a newer Linux.
    options.features = if has_long_addresses { Features::BITS_48 } else { Features::empty() };
    options.block_size = first.block_size;
    // The oldest that reads all layers: the merged image must not need more.
    options.target_kernel = Kernel::needed(&features);
    options.refer = refer;
    Ok(options)
}
