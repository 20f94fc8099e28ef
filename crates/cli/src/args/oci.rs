//! Options of `packfs oci`: container images whose layers the kernel mounts.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use packfs_image::build::AnyOptions;
use packfs_oci::{ExportOptions, MergeOptions, Platform, SourceOptions, layer_media_type};

use super::build::{AnyLayer, ErofsLayer};
use super::value::{self, ArchiveCompression};
use super::{RunArgs, TalkArgs};
use crate::output::failure::UsageError;

/// Convert container images to layers that Linux mounts.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  packfs oci convert layout converted
  packfs oci export converted exported
  packfs oci cache image.tar /var/cache/erofs-layers
  packfs oci merge base.erofs change.erofs -o merged.erofs")]
pub(crate) struct OciArgs {
    #[command(subcommand)]
    pub(crate) command: OciCommand,
}

/// One variant a subcommand.
#[derive(Debug, Subcommand)]
pub(crate) enum OciCommand {
    Convert(OciConvertArgs),
    Export(OciExportArgs),
    Cache(OciCacheArgs),
    Merge(OciMergeArgs),
}

/// Write a layout in which every layer is an EROFS or SquashFS image.
///
/// A SOURCE is an OCI layout (a directory or a tar archive), an archive of `docker save`, an image in a registry as
/// oci://REGISTRY/NAME:TAG, or tar layers, the lowest first. Every blob is checked against its digest. Images keep their
/// names, platforms and settings. DEST is a directory that appears when it is complete. If it is already a layout, the
/// images are added to it, and the layers that it already has are not made again. DEST may also be an image in a
/// registry, which gets its tag when everything else is there. Logins come from the files of docker, podman and skopeo.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs oci convert layout converted
  packfs oci convert image.tar converted --codec zstd --target-kernel 6.12 --platform linux/arm64
  packfs oci convert oci://registry.example/app:v1 oci://registry.example/app:v1-erofs
  packfs oci convert base.tar.gz change.tar.gz converted --flatten --format squashfs")]
pub(crate) struct OciConvertArgs {
    /// OCI layout, archive of docker save, registry, or tar layers
    #[arg(value_name = "SOURCE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) sources: Vec<PathBuf>,

    /// Layout or image in a registry to write or to add to
    #[arg(value_name = "DEST", value_hint = ValueHint::DirPath)]
    pub(crate) target: PathBuf,

    #[command(flatten)]
    pub(crate) choice: ImageChoice,

    /// Make one layer of all layers, without the files that they delete
    #[arg(long)]
    pub(crate) flatten: bool,

    /// Keep what `oci export` needs to write the same tar layers again
    ///
    /// DEST gets a record beside each layer: the headers, padding and order of its tar archive, compressed. Contents are
    /// in it only if a later entry of the same archive replaces them. DEST is a layout; registries and programs that copy
    /// images drop the records.
    #[arg(long, conflicts_with = "flatten")]
    pub(crate) reversible: bool,

    #[command(flatten)]
    layers: AnyLayer,

    /// Replace images of the same names in DEST
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) running: RunArgs,
}

/// Write a layout in which every layer is a tar archive again.
///
/// SOURCE is what `oci convert` has written: an OCI layout (a directory or a tar archive), or an image in a registry. With
/// the records of `oci convert --reversible`, each layer becomes the archive that it was made of, byte for byte, and has
/// its diffID again. Without them, packfs packs the files of the layer, and its diffID changes. DEST is a directory that
/// appears when it is complete, a layout to add to, or an image in a registry.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs oci export converted exported
  packfs oci export converted exported --image v1 --compress zstd:9
  packfs oci export converted oci://registry.example/app:v1")]
pub(crate) struct OciExportArgs {
    /// OCI layout or image in a registry, with layers that are images
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) source: PathBuf,

    /// Layout or image in a registry to write or to add to
    #[arg(value_name = "DEST", value_hint = ValueHint::DirPath)]
    pub(crate) target: PathBuf,

    #[command(flatten)]
    pub(crate) choice: ImageChoice,

    /// Compress the layers: gzip or zstd, with or without :LEVEL; or none
    #[arg(long, value_name = "FORMAT", default_value = "gzip", value_parser = layer_compression)]
    compress: ArchiveCompression,

    /// Replace images of the same names in DEST
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    pub(crate) running: RunArgs,
}

/// Fill the layer cache of containerd's EROFS snapshotter.
///
/// DIR is a directory of `layer_content_caches` in containerd's configuration. Each layer becomes an EROFS image with
/// the name of its diffID, which containerd takes instead of downloading and unpacking the layer. Layers that DIR
/// already has are not made again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs oci cache layout /var/cache/erofs-layers --codec zstd --target-kernel 6.12
  packfs oci cache image.tar /var/cache/erofs-layers --platform linux/amd64")]
pub(crate) struct OciCacheArgs {
    /// OCI layout, archive of docker save, registry, or tar layers
    #[arg(value_name = "SOURCE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) sources: Vec<PathBuf>,

    /// Directory of the cache
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cache: PathBuf,

    #[command(flatten)]
    pub(crate) choice: ImageChoice,

    #[command(flatten)]
    layers: ErofsLayer,

    /// Replace layers that the cache already has
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) running: RunArgs,
}

/// Write metadata of EROFS layers as one image that refers to their data.
///
/// The image shows what overlayfs shows of the layers: deleted files and what opaque directories hide are gone. It
/// contains no data of files. Clusters stay in the layers, which are its additional devices, in the same order: mount it
/// with -o device=LAYER for each, name them with --device, or append them to it. Only what follows inodes is copied.
/// Of the layers of oci://REGISTRY/NAME:TAG, only metadata is fetched, so their digests are not verified.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs oci merge base.erofs change.erofs -o merged.erofs
  packfs oci merge converted --image v1 -o merged.erofs
  packfs oci merge oci://registry.example/app:v1-erofs -o merged.erofs
  packfs list merged.erofs --device base.erofs --device change.erofs")]
pub(crate) struct OciMergeArgs {
    /// EROFS images, the lowest first, or an OCI layout or registry of them
    #[arg(value_name = "LAYER", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) layers: Vec<PathBuf>,

    /// Image to write
    #[arg(short, long, value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Name of the image of a layout [default: the only one]
    #[arg(long, value_name = "NAME")]
    image: Option<String>,

    /// Platform of the image, as in linux/arm64 [default: the only one]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", value_parser = platform)]
    platform: Option<Platform>,

    /// Label, at most 15 bytes
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    label: String,

    /// Replace IMAGE if it exists
    #[arg(short, long)]
    force: bool,

    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Which images of a source to take.
#[derive(Debug, Args)]
pub(crate) struct ImageChoice {
    /// Name of the image to take [default: all images]
    #[arg(long, value_name = "NAME")]
    image: Option<String>,

    /// Platform to take, as in linux/arm64 (repeat) [default: all]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", value_parser = platform)]
    platform: Vec<Platform>,
}

impl ImageChoice {
    pub(crate) fn source_options(&self) -> SourceOptions {
        SourceOptions::default().set(|all| {
            all.image = self.image.clone();
            all.platforms = self.platform.clone();
        })
    }
}

impl OciConvertArgs {
    /// Returns the options by which layers are built.
    pub(crate) fn target(&self) -> Result<AnyOptions, UsageError> {
        self.layers.resolve(&self.running.effort)
    }
}

impl OciExportArgs {
    pub(crate) fn options(&self) -> ExportOptions {
        ExportOptions::default().set(|options| {
            options.compression = self.compress;
            options.force = self.force;
            options.threads = self.running.effort.threads();
            options.memory = self.running.effort.memory();
        })
    }
}

impl OciCacheArgs {
    /// Returns the options by which layers are built.
    pub(crate) fn target(&self) -> Result<AnyOptions, UsageError> {
        let mut target = self.layers.resolve(&self.running.effort)?;
        target.common_mut().force = self.force;
        Ok(target)
    }
}

impl OciMergeArgs {
    pub(crate) fn source_options(&self) -> SourceOptions {
        SourceOptions::default().set(|all| {
            all.image = self.image.clone();
            all.platforms = self.platform.iter().cloned().collect();
        })
    }

    pub(crate) fn options(&self, source: SourceOptions) -> MergeOptions {
        MergeOptions::default().set(|options| {
            options.source = source;
            options.label = self.label.clone();
            options.force = self.force;
        })
    }
}

/// Parses a compression that layers may have.
fn layer_compression(text: &str) -> Result<ArchiveCompression, String> {
    match value::compression(text)? {
        Some(compression) if layer_media_type(Some(compression)).is_none() => {
            Err("layers are compressed with gzip or zstd".into())
        }
        compression => Ok(compression),
    }
}

fn platform(text: &str) -> Result<Platform, String> {
    Platform::parse(text).ok_or_else(|| "expected OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, as in linux/arm64".into())
}
