//! Opens the image that a command works on.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use packfs_blocks::ReadAt;
use packfs_blocks::io::FileAt;
use packfs_image::name::display;
use packfs_image::source::open::FileFormat;
use packfs_image::{AnyImage, Error, OpenOptions};

use super::remote;
use crate::args::{ImageArg, RemoteArgs};
use crate::resources;

/// The option of most commands for an image that begins further on in its file.
pub(super) const OFFSET_OPTION: &str = "--offset";
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
    let devices = devices(arg)?.into_iter().map(observe).collect();
    from_devices(arg, source, devices, cache_bytes, Some(OFFSET_OPTION))
}

/// As [`with_cache`], with the bytes of the image opened already. `offset_option` is the option of the command for an
/// image that begins further on, for a hint.
#[cfg(any(feature = "mount", feature = "serve"))]
pub(super) fn from_bytes(
    arg: &ImageArg,
    source: Arc<dyn ReadAt>,
    cache_bytes: u64,
    offset_option: Option<&str>,
) -> Result<AnyImage> {
    from_devices(arg, source, devices(arg)?, cache_bytes, offset_option)
}

/// Opens the additional devices of an image.
fn devices(arg: &ImageArg) -> Result<Vec<Arc<dyn ReadAt>>> {
    arg.device.iter().map(|path| bytes(path, 0, &arg.remote)).collect()
}

fn from_devices(
    arg: &ImageArg,
    source: Arc<dyn ReadAt>,
    devices: Vec<Arc<dyn ReadAt>>,
    cache_bytes: u64,
    offset_option: Option<&str>,
) -> Result<AnyImage> {
    let options = OpenOptions::default().set(|all| {
        all.cache_bytes = cache_bytes;
        all.name = remote::shown(&arg.path);
        all.devices = devices;
    });
    let opened = AnyImage::open(source, options);
    opened.map_err(|error| instead(error, &arg.path, arg.offset, offset_option)).with_context(|| name(&arg.path))
}

/// As [`image`], for a command that reads everything once and in order: a larger cache would only
/// cost the time to fill it.
pub(super) fn in_order(arg: &ImageArg, memory: u64) -> Result<AnyImage> {
    with_cache(arg, (memory / 2).min(IN_ORDER_CACHE))
}

/// Opens an image by its path or address alone.
pub(crate) fn path(path: &Path, cache_bytes: u64, remote: &RemoteArgs) -> Result<AnyImage> {
    over(path, &[], cache_bytes, remote)
}

/// As [`path`], with the additional devices of the image.
pub(super) fn over(path: &Path, devices: &[PathBuf], cache_bytes: u64, remote: &RemoteArgs) -> Result<AnyImage> {
    let devices = devices.iter().map(|path| bytes(path, 0, remote)).collect::<Result<_>>()?;
    let options = OpenOptions::default().set(|all| {
        (all.cache_bytes, all.name, all.devices) = (cache_bytes, remote::shown(path), devices);
    });
    AnyImage::open(bytes(path, 0, remote)?, options)
        .map_err(|error| instead(error, path, 0, None))
        .with_context(|| name(path))
}

/// Names the right command for a file that is not an image.
fn instead(error: Error, path: &Path, offset: u64, offset_option: Option<&str>) -> anyhow::Error {
    if path.is_dir() {
        return anyhow!("a directory, not an image: packfs build makes an image of it");
    }
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
        _ if offset == 0 => {
            let hint = match (offset_option, offset_of_image(path)) {
                (Some(OFFSET_OPTION), Some(found)) => format!(" (one begins further on: use {OFFSET_OPTION} {found})"),
                (Some(option), _) => format!(" (use {option} if one begins further on)"),
                (None, _) => String::new(),
            };
            anyhow!("neither a SquashFS nor an EROFS image{hint}")
        }
        _ => anyhow!("neither a SquashFS nor an EROFS image begins at byte {offset}"),
    }
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
        return Ok(if offset == 0 { opened? } else { Arc::new(Rest { whole: opened?, offset }) });
    }
    let file = FileAt::open(path, offset).with_context(|| format!("{}: cannot open", display(path)))?;
    Ok(Arc::new(file))
}

/// Returns the name of an image for messages.
pub(super) fn name(path: &Path) -> String {
    display(&remote::shown(path)).to_string()
}

/// The bytes from an offset on.
#[derive(Debug)]
struct Rest {
    whole: Arc<dyn ReadAt>,
    offset: u64,
}

impl ReadAt for Rest {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.offset.checked_add(offset).map_or(Ok(0), |at| self.whole.read_at(buf, at))
    }

    fn len(&self) -> u64 {
        self.whole.len().saturating_sub(self.offset)
    }

    fn will_read(&self, range: Range<u64>) {
        self.whole.will_read(self.offset.saturating_add(range.start)..self.offset.saturating_add(range.end));
    }

    fn has_delay(&self) -> bool {
        self.whole.has_delay()
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.whole.check_unchanged()
    }
}
