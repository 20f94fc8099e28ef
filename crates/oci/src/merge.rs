//! Merged metadata: one EROFS image that shows all layers as overlayfs would, while file data stays in the layers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_image::erofs::{ErofsOptions, Feature, Features, Kernel, Superblock};
use packfs_image::name::display;
use packfs_image::tree::WhiteoutPolicy;
use packfs_image::{AnyImage, BuildRequest, Choice, Codec, Warnings};

use crate::documents::Platform;
use crate::error::{Error, Result};
use crate::layer::open_image;
use crate::source::{ContainerSource, LayerForm, SourceLayer, SourceOptions};

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
    /// Name of the image of a layout; without, the layout has only one.
    pub image: Option<String>,
    /// Platform of the image; without, it has only one.
    pub platform: Option<Platform>,
}

packfs_blocks::options!(MergeOptions);

/// Merged metadata.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergedLayers {
    /// The files of the layers, the lowest first: the devices of the image.
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

/// Writes the metadata of EROFS layers, the lowest first, or of the layers of an OCI layout, as one image at `target`.
/// Whoever reads it needs the layers as its devices, in the same order. Nothing is compressed: the new image addresses the
/// clusters of the layers.
pub fn merge_layers(
    sources: &[PathBuf],
    target: &Path,
    options: &MergeOptions,
    progress: &Arc<Progress>,
) -> Result<MergedLayers> {
    let layers = match sources {
        [layout] if layout.is_dir() => layers_of_layout(layout, options)?,
        layers => layers.to_vec(),
    };
    // Superblocks before anything is built: layers that do not fit together are refused at once.
    let superblocks = layers.iter().map(|layer| read_superblock(layer)).collect::<Result<Vec<Superblock>>>()?;
    let mut merged = merged_options(&layers, &superblocks)?;
    merged.uuid = options.uuid;
    merged.label = options.label.clone();
    merged.build.force = options.force;
    let mut request = BuildRequest::new(merged);
    request.sources = layers.iter().map(|layer| file_argument(layer)).collect();
    request.layers = true;
    // The merged image has no layer below, so marks for deleted files would only be seen as devices.
    request.whiteouts = WhiteoutPolicy::StripOverlay;
    let summary = request.build(target, progress)?;
    let details = summary.erofs().ok_or_else(|| packfs_image::Error::Misuse("the merged image is EROFS".into()))?;
    Ok(MergedLayers {
        layers,
        inodes: summary.inodes,
        image_bytes: summary.image_bytes,
        referred_bytes: details.referred_bytes,
        uuid: details.uuid.clone(),
        kernel: details.kernel.clone(),
        warnings: summary.warnings,
    })
}

/// Returns the files of the layers of the only image in a layout.
fn layers_of_layout(layout: &Path, options: &MergeOptions) -> Result<Vec<PathBuf>> {
    let source_options = SourceOptions::default().set(|source| {
        source.image = options.image.clone();
        source.platforms = options.platform.iter().cloned().collect();
        source.layer_form = LayerForm::Erofs;
    });
    let source = ContainerSource::open(&[layout.to_owned()], &source_options)?;
    let [image] = &source.images[..] else {
        return Err(Error::unsupported(display(layout), "it has several images: choose one --image"));
    };
    let [platform] = &image.platforms[..] else {
        return Err(Error::unsupported(display(layout), "the image is for several platforms: choose one --platform"));
    };
    let is_no_file = |layer: &SourceLayer| Error::unsupported(display(&layer.name), "the layer is no file of its own");
    let files = platform.layers.iter().map(|layer| layer.bytes.path().ok_or_else(|| is_no_file(layer)));
    files.map(|file| file.map(Path::to_owned)).collect()
}

/// Returns the name of a file as a source, which has no other meaning.
fn file_argument(path: &Path) -> PathBuf {
    if path.is_absolute() { path.to_owned() } else { Path::new(".").join(path) }
}

fn read_superblock(layer: &Path) -> Result<Superblock> {
    let AnyImage::Erofs(reader) = open_image(layer)? else {
        return Err(Error::unsupported(display(layer), "a layer to merge is an EROFS image: convert it first"));
    };
    let superblock = reader.superblock().clone();
    if !superblock.devices.is_empty() {
        let why = "its data lies in other files: merge the layers that it refers to";
        return Err(Error::unsupported(display(layer), why));
    }
    Ok(superblock)
}

/// Returns the options of an image that can have the clusters of all layers.
fn merged_options(layers: &[PathBuf], superblocks: &[Superblock]) -> Result<ErofsOptions> {
    let (Some(lowest), Some(first)) = (layers.first(), superblocks.first()) else {
        return Err(Error::unsupported("no layers", "name the layers to merge, the lowest first"));
    };
    let other = superblocks.iter().position(|layer| layer.block_size != first.block_size);
    if let Some(other) = other {
        let block_size = superblocks[other].block_size;
        let why = format!(
            "its blocks have {block_size} bytes, and those of {} have {}: build all layers with one --fs-block",
            display(lowest),
            first.block_size,
        );
        return Err(Error::unsupported(display(&layers[other]), why));
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
        return Err(Error::unsupported(display(lowest), why));
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
