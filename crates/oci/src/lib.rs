//! Container images whose layers the kernel mounts.
//!
//! - [`ContainerSource`]: images in OCI layouts, in archives of `docker save`, or made of tar layers.
//! - [`convert()`]: writes a layout in which every layer is an EROFS or SquashFS image.
//! - [`export()`]: writes a layout in which every layer is a tar archive again.
//! - [`LayerStack`]: writes the metadata of EROFS layers as one image, which refers to them.
//! - [`fill_cache`]: builds the images that containerd's EROFS snapshotter takes instead of unpacking layers.
//!
//! Every blob that is converted is compared with its digest while it is read, and every tar layer with its diffID. A merge
//! reads the metadata of layers only, and compares no digests.
//!
//! ```no_run
//! use packfs_oci::{ContainerSource, ConvertOptions, SourceOptions, convert};
//!
//! let source = ContainerSource::open(&["layout".into()], &SourceOptions::default())?;
//! let options = ConvertOptions::new(packfs_image::erofs::ErofsOptions::default());
//! let converted = convert(&source, "converted".as_ref(), &options, &Default::default())?;
//! println!("{} layers", converted.layers.len());
//! # Ok::<(), packfs_oci::Error>(())
//! ```

mod cache;
mod convert;
mod destination;
mod digest;
mod documents;
mod error;
mod export;
mod files;
mod layer;
mod layout;
mod merge;
mod parallel;
#[cfg(feature = "remote")]
mod registry;
mod rewritten;
mod source;
mod staging;
mod tar_record;
mod whiteouts;

pub use cache::{CachedLayers, fill_cache};
pub use convert::{ConversionResult, ConvertOptions, convert};
pub use digest::BlobDigest;
pub use documents::Platform;
pub use error::{Error, Result};
pub use export::{ExportOptions, ExportResult, ExportedLayer, RecordState, export, layer_media_type};
pub use layer::{ConvertedLayer, LayerWarnings};
pub use merge::{LayerStack, MergeOptions, MergedLayers};
pub use rewritten::ConvertedImage;
pub use source::{ContainerSource, SourceOptions};
