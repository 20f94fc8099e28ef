//! Opening the image a command is about.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::io::FileAt;
use packfs_image::squashfs::{ReadOptions, Reader};

use crate::args::ImageArg;
use crate::resources;

/// Decoded blocks that are worth keeping when an image is read from its start to its end.
const IN_ORDER_CACHE: u64 = 8 << 20;

/// Opens the image named on the command line.
pub(super) fn image(arg: &ImageArg) -> Result<Reader> {
    with_cache(arg, resources::default_budget(resources::cores()))
}

/// The same, keeping at most `cache_bytes` of decoded blocks.
pub(super) fn with_cache(arg: &ImageArg, cache_bytes: u64) -> Result<Reader> {
    path(&arg.path, arg.offset, cache_bytes)
}

/// The same for a command that reads everything once and in order: a larger cache would only cost the
/// time to fill it.
pub(super) fn in_order(arg: &ImageArg, memory: u64) -> Result<Reader> {
    with_cache(arg, (memory / 2).min(IN_ORDER_CACHE))
}

/// Opens the image that begins `offset` bytes into a file.
pub(super) fn path(path: &Path, offset: u64, cache_bytes: u64) -> Result<Reader> {
    let file = FileAt::open(path, offset).with_context(|| format!("{}: cannot open", path.display()))?;
    let options = ReadOptions { cache_bytes, name: path.to_owned() };
    Reader::open(Arc::new(file), options).with_context(|| name(path))
}

/// What to call an image in messages.
pub(super) fn name(path: &Path) -> String {
    path.display().to_string()
}
