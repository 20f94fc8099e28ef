//! `packfs oci`: container images whose layers the kernel mounts.

use anyhow::Result;
use packfs_image::build::AnyOptions;
use packfs_image::name::display;
use packfs_oci::{
    ContainerSource, ConvertOptions, ConvertedImage, ConvertedLayer, ExportedLayer, LayerStack, LayerWarnings,
    RecordState, SourceOptions, convert, export, fill_cache,
};
use serde::Serialize;

use super::remote;
use crate::args::{OciArgs, OciCacheArgs, OciCommand, OciConvertArgs, OciExportArgs, OciMergeArgs};
use crate::output::failure::CommandOutcome;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{interrupt, json, say, units, warnings};

pub(super) fn run(args: &OciArgs) -> Result<CommandOutcome> {
    match &args.command {
        OciCommand::Convert(args) => convert_images(args),
        OciCommand::Export(args) => export_images(args),
        OciCommand::Cache(args) => cache_layers(args),
        OciCommand::Merge(args) => merge_metadata(args),
    }
}

fn convert_images(args: &OciConvertArgs) -> Result<CommandOutcome> {
    let mut options = ConvertOptions::new(args.target()?);
    options.flatten = args.flatten;
    options.reversible = args.reversible;
    options.force = args.force;
    #[cfg(feature = "remote")]
    {
        options.remote = connections();
    }
    let meter = ProgressMeter::start(args.running.talk.quiet);
    let source = ContainerSource::open(&args.sources, &connected(args.choice.source_options()))?;
    interrupt::cancel_on_signal(meter.progress());
    let converted = convert(&source, &args.target, &options, meter.progress()).map_err(nothing_written)?;
    let spent = meter.finish();
    if args.running.json {
        let images = converted.images.iter().map(ImageReport::new).collect();
        let layers = converted.layers.iter().map(LayerReport::new).collect();
        json::print(&ConvertReport {
            layout: json::encode_path(&remote::without_secrets(&args.target)),
            images,
            layers,
        })?;
    }
    if !args.running.talk.quiet {
        print_warnings(&converted.warnings);
        let images = units::of(converted.images.len() as u64, "image");
        let name = remote::without_secrets(&args.target);
        let name = display(&name);
        say(format_args!(
            "{name}: {images} with {} in {}",
            describe_layers(&converted.layers),
            units::span(spent.time)
        ));
    }
    Ok(CommandOutcome::Done)
}

fn export_images(args: &OciExportArgs) -> Result<CommandOutcome> {
    #[cfg_attr(not(feature = "remote"), allow(unused_mut))]
    let mut options = args.options();
    #[cfg(feature = "remote")]
    {
        options.remote = connections();
    }
    let meter = ProgressMeter::start(args.running.talk.quiet);
    let source = ContainerSource::open_converted(&args.source, &connected(args.choice.source_options()))?;
    interrupt::cancel_on_signal(meter.progress());
    let exported = export(&source, &args.target, &options, meter.progress()).map_err(nothing_written)?;
    let spent = meter.finish();
    if args.running.json {
        let layout = json::encode_path(&remote::without_secrets(&args.target));
        let images = exported.images.iter().map(ImageReport::new).collect();
        let layers = exported.layers.iter().map(ExportedLayerReport::new).collect();
        json::print(&ExportReport { layout, images, layers })?;
    }
    if !args.running.talk.quiet {
        print_warnings(&exported.warnings);
        exported.layers.iter().for_each(|layer| say(format_args!("{}", describe_export(layer))));
        let images = units::of(exported.images.len() as u64, "image");
        let layers = units::of(exported.layers.len() as u64, "layer");
        let exact = exported.layers.iter().filter(|layer| layer.is_exact()).count() as u64;
        let name = remote::without_secrets(&args.target);
        say(format_args!(
            "{}: {images} with {layers}, {} of them exact, in {}",
            display(&name),
            units::count(exact),
            units::span(spent.time)
        ));
    }
    Ok(CommandOutcome::Done)
}

/// Says whether a layer is the archive that it was made of, and why not.
fn describe_export(layer: &ExportedLayer) -> String {
    let ExportedLayer { source_digest, diff_id, .. } = layer;
    if layer.is_exact() {
        return format!("{source_digest}: exact, with the diffID {diff_id}");
    }
    let reason = match layer.record {
        RecordState::Missing => "its tar record is missing: programs that copy images drop it",
        RecordState::Unrecorded | RecordState::Used => "it was converted without --reversible",
    };
    format!("{source_digest}: packed anew, with another diffID, {diff_id}: {reason}")
}

fn cache_layers(args: &OciCacheArgs) -> Result<CommandOutcome> {
    let AnyOptions::Erofs(target) = args.target()? else { unreachable!("the cache has EROFS images") };
    let meter = ProgressMeter::start(args.running.talk.quiet);
    let source = ContainerSource::open(&args.sources, &connected(args.choice.source_options()))?;
    interrupt::cancel_on_signal(meter.progress());
    let cached = fill_cache(&source, &args.cache, &target, meter.progress())
        .map_err(|error| explain_interruption(error, "the cache keeps the layers that are complete"))?;
    let spent = meter.finish();
    if args.running.json {
        let layers = cached.layers.iter().map(LayerReport::new).collect();
        json::print(&CacheReport { cache: json::encode_path(&args.cache), layers })?;
    }
    if !args.running.talk.quiet {
        print_warnings(&cached.warnings);
        let name = display(&args.cache);
        say(format_args!("{name}: {} in {}", describe_layers(&cached.layers), units::span(spent.time)));
    }
    Ok(CommandOutcome::Done)
}

fn merge_metadata(args: &OciMergeArgs) -> Result<CommandOutcome> {
    let meter = ProgressMeter::start(args.talk.quiet);
    let options = args.options(connected(args.source_options()));
    let layers = LayerStack::open(&args.layers, &options)?;
    // Not before: a registry that does not answer would keep the program from ending.
    interrupt::cancel_on_signal(meter.progress());
    let merged = layers.merge(&args.output, meter.progress()).map_err(nothing_written)?;
    let spent = meter.finish();
    if args.json {
        json::print(&MergeReport {
            image: json::encode_path(&args.output),
            layers: merged.layers.iter().map(|layer| json::encode_path(layer)).collect(),
            inodes: merged.inodes,
            image_bytes: merged.image_bytes,
            referred_bytes: merged.referred_bytes,
            uuid: merged.uuid.clone(),
            kernel: merged.kernel.clone(),
        })?;
    }
    if !args.talk.quiet {
        warnings::print(&merged.warnings);
        say(format_args!(
            "{}: {} of metadata for {}, which keep {} of files, in {}",
            display(&args.output),
            units::bytes(merged.image_bytes),
            units::of(merged.layers.len() as u64, "layer"),
            units::bytes(merged.referred_bytes),
            units::span(spent.time),
        ));
    }
    Ok(CommandOutcome::Done)
}

/// Adds the connections to registries.
#[cfg_attr(not(feature = "remote"), allow(unused_mut))]
fn connected(mut options: SourceOptions) -> SourceOptions {
    #[cfg(feature = "remote")]
    {
        options.remote = connections();
    }
    options
}

/// Returns the options for connections to registries. Of a blob, bytes are read once: nothing is kept on disk, and little in
/// memory, since several are read at the same time.
#[cfg(feature = "remote")]
fn connections() -> packfs_remote::RemoteOptions {
    packfs_remote::RemoteOptions::default().set(|options| {
        options.memory = 32 << 20;
        options.report = Some(packfs_remote::WarningReceiver::new(|line| say(format_args!("packfs: warning: {line}"))));
    })
}

/// Says what a signal has ended.
fn nothing_written(error: packfs_oci::Error) -> anyhow::Error {
    explain_interruption(error, "nothing was written")
}

/// Says of an interrupted command what it leaves behind.
fn explain_interruption(error: packfs_oci::Error, remains: &str) -> anyhow::Error {
    match error {
        packfs_oci::Error::Image(packfs_image::Error::Cancelled) => {
            anyhow::Error::from(error).context(format!("interrupted: {remains}"))
        }
        error => error.into(),
    }
}

fn print_warnings(of_layers: &[LayerWarnings]) {
    of_layers.iter().for_each(|layer| warnings::print(&layer.warnings));
}

/// Counts layers, and compares their sizes.
fn describe_layers(layers: &[ConvertedLayer]) -> String {
    let reused = layers.iter().filter(|layer| layer.is_reused).count() as u64;
    let before = layers.iter().map(|layer| layer.source_bytes).sum();
    let after = layers.iter().map(|layer| layer.bytes).sum();
    let count = units::of(layers.len() as u64, "layer");
    let before = units::bytes(before);
    let after = units::bytes(after);
    match reused {
        0 => format!("{count}: {before} became {after}"),
        reused => format!("{count}, {} already there: {before} became {after}", units::count(reused)),
    }
}

/// Result of converting images.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ConvertReport {
    /// Path of the directory, or name of the registry's repository, that got the images.
    layout: String,
    /// Manifests of the images.
    images: Vec<ImageReport>,
    /// Layers of all images, each once.
    layers: Vec<LayerReport>,
}

impl JsonDocument for ConvertReport {
    const KIND: &'static str = "oci-convert";
}

/// Result of exporting images.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ExportReport {
    /// Path of the directory, or name of the registry's repository, that got the images.
    layout: String,
    /// Manifests of the images.
    images: Vec<ImageReport>,
    /// Layers of all images, each once.
    layers: Vec<ExportedLayerReport>,
}

impl JsonDocument for ExportReport {
    const KIND: &'static str = "oci-export";
}

/// A layer that is a tar archive again.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExportedLayerReport {
    /// Digest of the layer's image.
    source_digest: String,
    /// Length of the layer's image in bytes.
    source_bytes: u64,
    /// Digest of the archive that the image was made of, uncompressed; null if the layer does not tell it.
    original_diff_id: Option<String>,
    /// Record of that archive: `used`, `missing` (named by the layer, and not there) or `none`.
    record: &'static str,
    /// True if the archive is the one that the image was made of.
    is_exact: bool,
    /// Digest of the archive, uncompressed.
    diff_id: String,
    /// Digest of the archive as stored.
    digest: String,
    /// Length of the archive as stored, in bytes.
    bytes: u64,
}

impl ExportedLayerReport {
    fn new(layer: &ExportedLayer) -> Self {
        ExportedLayerReport {
            source_digest: layer.source_digest.to_string(),
            source_bytes: layer.source_bytes,
            original_diff_id: layer.original_diff_id.as_ref().map(ToString::to_string),
            record: match layer.record {
                RecordState::Used => "used",
                RecordState::Missing => "missing",
                RecordState::Unrecorded => "none",
            },
            is_exact: layer.is_exact(),
            diff_id: layer.diff_id.to_string(),
            digest: layer.digest.to_string(),
            bytes: layer.bytes,
        }
    }
}

/// Result of filling a cache of layers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CacheReport {
    /// Path of the cache's directory.
    cache: String,
    /// Layers, each once.
    layers: Vec<LayerReport>,
}

impl JsonDocument for CacheReport {
    const KIND: &'static str = "oci-cache";
}

/// Result of merging layers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct MergeReport {
    /// Path of the merged metadata.
    image: String,
    /// Paths of the layers, the lowest first; digests, if they are in a registry.
    layers: Vec<String>,
    /// Number of inodes.
    inodes: u32,
    /// Length of the metadata in bytes.
    image_bytes: u64,
    /// Bytes of files that stay in the layers.
    referred_bytes: u64,
    /// UUID of the image.
    uuid: String,
    /// Oldest Linux that reads the image.
    kernel: String,
}

impl JsonDocument for MergeReport {
    const KIND: &'static str = "oci-merge";
}

/// A converted image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ImageReport {
    /// Name of the image; null if it has none.
    name: Option<String>,
    /// Operating system and architecture, as in `linux/arm64`.
    platform: String,
    /// Digest of the manifest.
    digest: String,
    /// Number of layers.
    layers: usize,
}

impl ImageReport {
    fn new(image: &ConvertedImage) -> Self {
        ImageReport {
            name: image.name.clone(),
            platform: image.platform.to_string(),
            digest: image.digest.to_string(),
            layers: image.layers,
        }
    }
}

/// A converted layer.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LayerReport {
    /// Digest of the source layer, uncompressed.
    source_diff_id: String,
    /// Bytes of the source layer as stored.
    source_bytes: u64,
    /// Digest of the layer's image.
    digest: String,
    /// Length of the layer's image in bytes.
    bytes: u64,
    /// True if the layer's image was there already.
    is_reused: bool,
}

impl LayerReport {
    fn new(layer: &ConvertedLayer) -> Self {
        LayerReport {
            source_diff_id: layer.source_diff_id.to_string(),
            source_bytes: layer.source_bytes,
            digest: layer.digest.to_string(),
            bytes: layer.bytes,
            is_reused: layer.is_reused,
        }
    }
}
