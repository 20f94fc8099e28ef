//! `packfs mount` and `packfs umount`.

mod background;
mod log;
mod signals;

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use packfs_blocks::ReadAt;
use packfs_image::Image;
use packfs_image::name::display;
use packfs_image::tree::Time;
use packfs_mount::{DumpImage, MountOptions, MountedImage, ReadTrace, UnmountMode, find_image};

use super::{open, parts, remote};
use crate::args::{ImageArg, MountArgs, MountOffset, MountOptionList, UmountArgs};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::resources;

/// Hint after the error of a file that does not begin with an image.
pub(super) const OFFSET_HINT: &str = " (use -o offset=auto if one begins further on)";
/// Name of the file that shows a dump.
const DUMP: &str = "dump";
/// Cache for decoded data unless told otherwise.
const CACHE: u64 = 64 << 20;

pub(super) fn umount(args: &UmountArgs) -> Result<CommandOutcome> {
    let how = if args.lazy { UnmountMode::Detach } else { UnmountMode::Now };
    for dir in &args.dirs {
        packfs_mount::unmount(dir, how)?;
    }
    Ok(CommandOutcome::Done)
}

pub(super) fn run(args: &MountArgs) -> Result<CommandOutcome> {
    run_then(args, || args.ready_fd.map_or(Ok(()), background::tell_descriptor))
}

/// Mounts an image and serves it, in the background unless told otherwise; calls `tell` once it is mounted, in the
/// process that was started.
pub(crate) fn run_then(args: &MountArgs, tell: impl FnOnce() -> Result<()>) -> Result<CommandOutcome> {
    if args.foreground || background::is_background() { serve(args, tell) } else { background::start_server(tell) }
}

/// Mounts an image and answers requests until it is unmounted.
fn serve(args: &MountArgs, tell: impl FnOnce() -> Result<()>) -> Result<CommandOutcome> {
    let served = MountedSource::open(args)?;
    let log = log::MessageLog::open(args.log.as_deref())?;
    let trace = args.trace.as_deref().map(TraceFile::create).transpose()?;
    let signals = signals::hold();
    let mounted = mount_source(args, &served, trace.as_ref(), log.clone()).inspect_err(|_| {
        if let Some(trace) = &trace {
            // Nothing was read, and the next attempt would find the file in its way.
            let _ = fs::remove_file(trace.path);
        }
    })?;
    signals::unmount_on(signals, mounted.place());
    if background::is_background() {
        background::report_ready(&log)?;
    } else {
        tell()?;
    }
    mounted.serve()?;
    let lost = trace.and_then(TraceFile::into_error);
    if let Some(error) = &lost
        && background::is_background()
    {
        // Nobody sees the status.
        log.write(&format!("{error:#}"));
    }
    lost.map_or(Ok(CommandOutcome::Done), Err)
}

fn mount_source(
    args: &MountArgs,
    served: &MountedSource,
    trace: Option<&TraceFile<'_>>,
    log: log::MessageLog,
) -> Result<MountedImage> {
    let MountOptionList { allow_other, default_permissions, uid, gid, subdir, timeout, suid, dev, exec, .. } =
        args.all_options();
    let name = served.name.clone();
    let options = MountOptions::default().set(|all| {
        all.name = name.clone();
        all.bytes = served.source.len();
        all.threads = args.threads.unwrap_or_else(|| (2 * resources::cores()).clamp(4, 16));
        all.allow_other = allow_other;
        all.uid = uid;
        all.gid = gid;
        all.timeout = timeout;
        all.trace = trace.map(|file| file.trace.clone());
        // Others may not read here what they could not read where it came from.
        all.check_permissions = default_permissions.unwrap_or(allow_other);
        all.subdir = subdir.unwrap_or_default();
        // As for all FUSE mounts of users: what an image contains must not give rights.
        all.suid = suid.unwrap_or(false);
        all.dev = dev.unwrap_or(false);
        all.exec = exec.unwrap_or(true);
        all.report = Some(Arc::new(move |line: &str| log.write(&format!("{name}: {line}"))));
    });
    packfs_mount::mount(Arc::clone(&served.image), &args.dir, options).map_err(name_umount)
}

/// Names the command that frees a directory of an earlier mount.
fn name_umount(error: packfs_mount::Error) -> anyhow::Error {
    match error {
        packfs_mount::Error::Stale { .. } => anyhow!("{error} with packfs umount"),
        _ => error.into(),
    }
}

/// An open image, or the parts of a dump as one.
struct MountedSource {
    image: Arc<dyn Image>,
    source: Arc<dyn ReadAt>,
    name: String,
}

impl MountedSource {
    fn open(args: &MountArgs) -> Result<Self> {
        let [first, rest @ ..] = args.images.as_slice() else { return Err(UsageError("no image named".into()).into()) };
        let cache = args.cache.unwrap_or_else(|| CACHE.min(resources::memory_limit() / 4));
        let name = image_name(first);
        let mut arg =
            ImageArg { path: first.clone(), offset: 0, device: args.device.clone(), remote: args.remote.clone() };
        if let Some(paths) = parts::named(&arg, rest)? {
            if args.all_options().offset.is_some() {
                return Err(UsageError("-o offset is for images, not for the parts of a dump".into()).into());
            }
            let set = Arc::new(parts::open(&paths, cache)?);
            parts::warn(&set);
            let image = DumpImage::new(Arc::clone(&set), DUMP.as_bytes(), modification_time(first));
            return Ok(MountedSource { image: Arc::new(image), source: set, name });
        }
        arg.offset = match args.all_options().offset {
            None => 0,
            Some(MountOffset::At(offset)) => offset,
            Some(MountOffset::Auto) => {
                let found = find_image(&*open::bytes(first, 0, &args.remote)?);
                let found = found.with_context(|| format!("{}: cannot read", open::name(first)))?;
                found.ok_or_else(|| anyhow!("{}: no SquashFS or EROFS image found in it", open::name(first)))?
            }
        };
        let source = open::bytes(first, arg.offset, &args.remote)?;
        let image = open::to_mount(&arg, Arc::clone(&source), cache)?.into_image();
        Ok(MountedSource { image, source, name })
    }
}

/// Returns the name of the image in the table of mounts and in the log.
fn image_name(image: &Path) -> String {
    if remote::is_address(image) {
        return open::name(image);
    }
    std::path::absolute(image).unwrap_or_else(|_| image.to_owned()).to_string_lossy().into_owned()
}

/// Returns the time of a file's modification.
fn modification_time(path: &Path) -> Time {
    let time = path.metadata().and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { secs: i64::try_from(since.as_secs()).unwrap_or(0), nanos: since.subsec_nanos() }
}

/// The file of `--trace`.
struct TraceFile<'p> {
    path: &'p Path,
    trace: ReadTrace,
}

impl<'p> TraceFile<'p> {
    fn create(path: &'p Path) -> Result<Self> {
        let file: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .with_context(|| format!("{}: cannot make the file", display(path)))?;
        Ok(TraceFile { path, trace: ReadTrace::new(file) })
    }

    /// Returns why the file lacks names of files that were read; `None` if it lacks none.
    fn into_error(self) -> Option<anyhow::Error> {
        let error = self.trace.take_error()?;
        Some(
            anyhow!(error)
                .context(format!("{}: cannot write: files that were read later are missing", display(self.path))),
        )
    }
}
