//! `packfs mount` and `packfs umount`.

mod background;
mod log;
mod signals;

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use packfs_blocks::ReadAt;
use packfs_image::Image;
use packfs_image::name::display;
use packfs_image::tree::Time;
use packfs_mount::{DumpImage, MountedImage, ReadTrace, UnmountMode, find_image};

use super::{open, parts, remote};
use crate::args::{ImageArg, Mount, MountOptions, Offset, Umount};
use crate::output::failure::{Outcome, Usage};
use crate::resources;

/// The option for an image that begins further on in its file.
const OFFSET_OPTION: &str = "-o offset=auto";
/// Name of the file that shows a dump.
const DUMP: &str = "dump";
/// Cache for decoded data unless told otherwise.
const CACHE: u64 = 64 << 20;

pub(super) fn umount(args: &Umount) -> Result<Outcome> {
    let how = if args.lazy { UnmountMode::Detach } else { UnmountMode::Now };
    for dir in &args.dirs {
        packfs_mount::unmount(dir, how)?;
    }
    Ok(Outcome::Done)
}

pub(super) fn run(args: &Mount) -> Result<Outcome> {
    run_then(args, || args.ready_fd.map_or(Ok(()), background::tell))
}

/// Mounts an image and serves it, in the background unless told otherwise; calls `tell` once it is mounted, in the
/// process that was started.
pub(crate) fn run_then(args: &Mount, tell: impl FnOnce() -> Result<()>) -> Result<Outcome> {
    if args.foreground || background::is_background() { serve(args, tell) } else { background::start(tell) }
}

/// Mounts an image and answers requests until it is unmounted.
fn serve(args: &Mount, tell: impl FnOnce() -> Result<()>) -> Result<Outcome> {
    let served = Served::open(args)?;
    let log = log::Log::open(args.log.as_deref())?;
    let signals = signals::keep();
    let mounted = mount(args, &served, log.clone())?;
    signals::unmount_on(signals, mounted.place());
    if background::is_background() {
        background::ready(&log)?;
    } else {
        tell()?;
    }
    mounted.serve()?;
    Ok(Outcome::Done)
}

fn mount(args: &Mount, served: &Served, log: log::Log) -> Result<MountedImage> {
    let MountOptions { allow_other, default_permissions, uid, gid, subdir, timeout, suid, dev, exec, .. } =
        args.all_options();
    let name = served.name.clone();
    let trace = args.trace.as_deref().map(trace).transpose()?;
    let options = packfs_mount::MountOptions::default().set(|all| {
        (all.name, all.bytes) = (name.clone(), served.source.len());
        all.threads = args.threads.unwrap_or_else(|| (2 * resources::cores()).clamp(4, 16));
        (all.allow_other, all.uid, all.gid, all.timeout, all.trace) = (allow_other, uid, gid, timeout, trace);
        // Others may not read here what they could not read where it came from.
        all.check_permissions = default_permissions.unwrap_or(allow_other);
        all.subdir = subdir.unwrap_or_default();
        (all.suid, all.dev, all.exec) = (suid.unwrap_or(false), dev.unwrap_or(false), exec.unwrap_or(true));
        all.report = Some(Arc::new(move |line: &str| log.write(&format!("{name}: {line}"))));
    });
    packfs_mount::mount(Arc::clone(&served.image), &args.dir, options).map_err(hint)
}

/// Names the command that helps.
fn hint(error: packfs_mount::Error) -> anyhow::Error {
    match error {
        packfs_mount::Error::Stale { .. } => anyhow!("{error} with packfs umount"),
        _ => error.into(),
    }
}

/// An open image, or the parts of a dump as one.
struct Served {
    image: Arc<dyn Image>,
    source: Arc<dyn ReadAt>,
    name: String,
}

impl Served {
    fn open(args: &Mount) -> Result<Self> {
        let [first, rest @ ..] = args.images.as_slice() else { return Err(Usage("no image named".into()).into()) };
        let cache = args.cache.unwrap_or_else(|| CACHE.min(resources::memory_limit() / 4));
        let name = name(first);
        let mut arg =
            ImageArg { path: first.clone(), offset: 0, device: args.device.clone(), remote: args.remote.clone() };
        if let Some(paths) = parts::named(&arg, rest)? {
            if args.all_options().offset.is_some() {
                return Err(Usage("-o offset is for images, not for the parts of a dump".into()).into());
            }
            let set = Arc::new(parts::open(&paths, cache)?);
            parts::warn(&set);
            let image = DumpImage::new(Arc::clone(&set), DUMP.as_bytes(), modified(first));
            return Ok(Served { image: Arc::new(image), source: set, name });
        }
        arg.offset = match args.all_options().offset {
            None => 0,
            Some(Offset::At(offset)) => offset,
            Some(Offset::Auto) => {
                let found = find_image(&*open::bytes(first, 0, &args.remote)?);
                let found = found.with_context(|| format!("{}: cannot read", open::name(first)))?;
                found.ok_or_else(|| anyhow!("{}: no SquashFS or EROFS image found in it", open::name(first)))?
            }
        };
        let source = open::bytes(first, arg.offset, &args.remote)?;
        let image = open::from_bytes(&arg, Arc::clone(&source), cache, Some(OFFSET_OPTION))?.into_image();
        Ok(Served { image, source, name })
    }
}

/// Returns the name of the image in the table of mounts and in the log.
fn name(image: &Path) -> String {
    if remote::is_address(image) {
        return open::name(image);
    }
    std::path::absolute(image).unwrap_or_else(|_| image.to_owned()).to_string_lossy().into_owned()
}

/// Returns the time of a file's modification.
fn modified(path: &Path) -> Time {
    let time = path.metadata().and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { secs: i64::try_from(since.as_secs()).unwrap_or(0), nanos: since.subsec_nanos() }
}

fn trace(path: &Path) -> Result<ReadTrace> {
    let file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(|| format!("{}: cannot make the file", display(path)))?;
    Ok(ReadTrace::new(file))
}
