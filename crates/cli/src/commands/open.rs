//! Opens the image that a command works on.

#[cfg(feature = "serve")]
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use packfs_blocks::ReadAt;
use packfs_blocks::io::{FileAt, ShiftedBytes};
use packfs_image::name::display;
use packfs_image::source::open::FileFormat;
use packfs_image::{AnyImage, Error, OpenOptions};

use super::remote;
use crate::args::{ImageArg, RemoteArgs};
use crate::output::advice;
use crate::resources;

/// Cache size for reading an image from its start to its end, in bytes.
const IN_ORDER_CACHE: u64 = 8 << 20;

/// Opens the image named on the command line.
pub(crate) fn image(arg: &ImageArg) -> Result<AnyImage> {
    with_cache(arg, resources::default_budget(resources::cores()))
}

/// As [`image`], with a cache of at most `cache_bytes` of decoded blocks.
pub(super) fn with_cache(arg: &ImageArg, cache_bytes: u64) -> Result<AnyImage> {
    observed(arg, cache_bytes, |bytes| bytes)
}

/// As [`with_cache`], with the bytes of the image and of its devices read through what `observe` makes of them.
pub(super) fn observed(
    arg: &ImageArg,
    cache_bytes: u64,
    observe: impl Fn(Arc<dyn ReadAt>) -> Arc<dyn ReadAt>,
) -> Result<AnyImage> {
    let source = observe(bytes(&arg.path, arg.offset, &arg.remote)?);
    let devices = open_devices(&arg.device, &arg.remote)?.into_iter().map(observe).collect();
    let opened = open_source(&arg.path, source, devices, cache_bytes);
    opened.map_err(|error| explain(error, &arg.path, arg.offset, offset_hint))
}

/// As [`with_cache`], with the bytes of the image opened already.
#[cfg(feature = "serve")]
pub(super) fn from_bytes(arg: &ImageArg, source: Arc<dyn ReadAt>, cache_bytes: u64) -> Result<AnyImage> {
    let opened = open_source(&arg.path, source, open_devices(&arg.device, &arg.remote)?, cache_bytes);
    opened.map_err(|error| explain(error, &arg.path, arg.offset, offset_hint))
}

/// As [`with_cache`], for a mount: its option finds an image that begins further on, so no hint names the offset.
#[cfg(feature = "mount")]
pub(super) fn to_mount(arg: &ImageArg, source: Arc<dyn ReadAt>, cache_bytes: u64) -> Result<AnyImage> {
    let opened = open_source(&arg.path, source, open_devices(&arg.device, &arg.remote)?, cache_bytes);
    let hint = |_: &Path| super::mount::OFFSET_HINT.to_owned();
    opened.map_err(|error| explain(error, &arg.path, arg.offset, hint))
}

/// Opens the additional devices of an image.
fn open_devices(paths: &[PathBuf], remote: &RemoteArgs) -> Result<Vec<Arc<dyn ReadAt>>> {
    paths.iter().map(|path| bytes(path, 0, remote)).collect()
}

fn open_source(
    path: &Path,
    source: Arc<dyn ReadAt>,
    devices: Vec<Arc<dyn ReadAt>>,
    cache_bytes: u64,
) -> packfs_image::Result<AnyImage> {
    let options = OpenOptions::default().set(|all| {
        all.cache_bytes = cache_bytes;
        all.name = remote::without_secrets(path);
        all.devices = devices;
    });
    AnyImage::open(source, options)
}

/// As [`image`], for a command that reads everything once and in order: a larger cache would only
/// cost the time to fill it.
pub(super) fn in_order(arg: &ImageArg, memory: u64) -> Result<AnyImage> {
    with_cache(arg, (memory / 2).min(IN_ORDER_CACHE))
}

/// Opens an image by its path or address alone.
pub(crate) fn path(path: &Path, cache_bytes: u64, remote: &RemoteArgs) -> Result<AnyImage> {
    with_devices(path, &[], cache_bytes, remote)
}

/// As [`path`], with the additional devices of the image.
pub(super) fn with_devices(
    path: &Path,
    devices: &[PathBuf],
    cache_bytes: u64,
    remote: &RemoteArgs,
) -> Result<AnyImage> {
    let devices = open_devices(devices, remote)?;
    let opened = open_source(path, bytes(path, 0, remote)?, devices, cache_bytes);
    // Without a hint: commands that take several images have no option for an offset.
    opened.map_err(|error| explain(error, path, 0, |_| String::new()))
}

/// Names the image in an error, and the command that the user may have wanted. `offset_hint` returns how this
/// command takes an image that begins further on in the file, to follow the reason.
fn explain(error: Error, path: &Path, offset: u64, offset_hint: impl FnOnce(&Path) -> String) -> anyhow::Error {
    reason(error, path, offset, offset_hint).context(name(path))
}

/// Returns the reason of an error, or the right command for a file that is not an image.
fn reason(error: Error, path: &Path, offset: u64, offset_hint: impl FnOnce(&Path) -> String) -> anyhow::Error {
    if !matches!(error, Error::NoImage { .. }) {
        return error.into();
    }
    if offset == 0 && packfs_dump::set::is_part(path) {
        return anyhow!("a part of a dump, not an image: packfs join restores the dump, packfs info describes it");
    }
    match packfs_image::source::open::file_format(path) {
        FileFormat::Tar | FileFormat::Cpio | FileFormat::Zip | FileFormat::Compressed(_) if offset == 0 => {
            anyhow!("an archive, not an image: packfs build makes an image of it")
        }
        FileFormat::Foreign(what) if offset == 0 => {
            anyhow!("{what}, not an image: unpack it, and packfs build makes an image of the files")
        }
        _ if offset == 0 => anyhow!("neither a SquashFS nor an EROFS image{}", offset_hint(path)),
        _ => anyhow!("neither a SquashFS nor an EROFS image begins at byte {offset}"),
    }
}

/// Names the option of most commands for an image that begins further on, with the offset if one is found.
fn offset_hint(path: &Path) -> String {
    let hint = match offset_of_image(path) {
        Some(found) => format!(" (one begins further on: use --offset {found})"),
        None => " (use --offset if one begins further on)".to_owned(),
    };
    advice::for_user(&hint).unwrap_or_default()
}

/// Returns the byte at which the image in an AppImage or a SIF container begins; `None` if the file is something else.
#[cfg(feature = "mount")]
fn offset_of_image(path: &Path) -> Option<u64> {
    packfs_mount::find_image(&FileAt::open(path, 0).ok()?).ok()?
}

/// Containers are known to the code for mounts only.
#[cfg(not(feature = "mount"))]
fn offset_of_image(_path: &Path) -> Option<u64> {
    None
}

/// Opens the file or the remote object of an image.
pub(super) fn bytes(path: &Path, offset: u64, args: &RemoteArgs) -> Result<Arc<dyn ReadAt>> {
    if let Some(opened) = remote::bytes(path, args) {
        return Ok(if offset == 0 { opened? } else { Arc::new(ShiftedBytes::new(opened?, offset)) });
    }
    Ok(Arc::new(file(path, offset)?))
}

/// Opens the file of an image.
pub(super) fn file(path: &Path, offset: u64) -> Result<FileAt> {
    let name = display(path);
    match FileAt::open(path, offset) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            bail!("{name}: a directory, not an image: packfs build makes an image of it")
        }
        opened => opened.with_context(|| format!("{name}: cannot open")),
    }
}

/// Returns the last component of a path or address.
#[cfg(feature = "serve")]
pub(super) fn file_name(path: &Path) -> OsString {
    let shown = remote::without_secrets(path);
    shown.file_name().unwrap_or(shown.as_os_str()).to_owned()
}

/// Returns the name of an image for messages.
pub(super) fn name(path: &Path) -> String {
    display(&remote::without_secrets(path)).to_string()
}
