//! Opening the image a command is about.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::ReadAt;
use packfs_blocks::io::FileAt;
use packfs_image::name::display;
use packfs_image::{AnyImage, OpenOptions};

use crate::args::ImageArg;
use crate::resources;

/// Decoded blocks that are worth keeping when an image is read from its start to its end.
const IN_ORDER_CACHE: u64 = 8 << 20;

/// Opens the image named on the command line.
pub(super) fn image(arg: &ImageArg) -> Result<AnyImage> {
    with_cache(arg, resources::default_budget(resources::cores()))
}

/// The same, keeping at most `cache_bytes` of decoded blocks.
pub(super) fn with_cache(arg: &ImageArg, cache_bytes: u64) -> Result<AnyImage> {
    let devices = arg.device.iter().map(|path| bytes(path, 0)).collect::<Result<_>>()?;
    let options = OpenOptions { cache_bytes, name: arg.path.clone(), devices };
    AnyImage::open(bytes(&arg.path, arg.offset)?, options).with_context(|| name(&arg.path))
}

/// The same for a command that reads everything once and in order: a larger cache would only cost the
/// time to fill it.
pub(super) fn in_order(arg: &ImageArg, memory: u64) -> Result<AnyImage> {
    with_cache(arg, (memory / 2).min(IN_ORDER_CACHE))
}

/// Opens an image by its path alone.
pub(super) fn path(path: &Path, cache_bytes: u64) -> Result<AnyImage> {
    let options = OpenOptions { cache_bytes, name: path.to_owned(), ..OpenOptions::default() };
    AnyImage::open(bytes(path, 0)?, options).with_context(|| name(path))
}

fn bytes(path: &Path, offset: u64) -> Result<Arc<dyn ReadAt>> {
    let file = FileAt::open(path, offset).with_context(|| format!("{}: cannot open", display(path)))?;
    Ok(Arc::new(file))
}

/// What to call an image in messages.
pub(super) fn name(path: &Path) -> String {
    display(path).to_string()
}
