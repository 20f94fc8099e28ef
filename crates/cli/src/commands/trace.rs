//! `packfs trace`: runs a command and records, by fanotify, which files of a mount are opened meanwhile.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use packfs_blocks::threads::start_program;
use packfs_image::name::display;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::args::TraceArgs;
use crate::output::failure::CommandOutcome;
use crate::output::{interrupt, say, target, units};

/// Time after which it is seen at the latest that the command has ended.
const PATIENCE: Duration = Duration::from_millis(20);

pub(super) fn run(args: &TraceArgs) -> Result<CommandOutcome> {
    let list = target::create(&args.output, target::READABLE, args.force)?;
    let mut trace = OpenRecorder::start(&args.mount)?;
    let [program, arguments @ ..] = &args.command[..] else { bail!("no command was given") };
    let stop = catch_signals()?;
    let child = start_program(Command::new(program).args(arguments));
    let child = child.with_context(|| format!("cannot run {}", display(Path::new(program))))?;
    let status = trace.follow(child, &stop)?;
    let (lines, counts) = trace.list_paths();
    target::fill_bytes(list, &lines)?;
    report_counts(args, counts);
    if status.success() {
        return Ok(CommandOutcome::Done);
    }
    say(format_args!(
        "packfs: {} ended with {status}; the list has the files opened until then",
        display(Path::new(program))
    ));
    Ok(CommandOutcome::Findings)
}

fn report_counts(args: &TraceArgs, counts: PathCounts) {
    if counts.listed == 0 {
        say(format_args!(
            "packfs: nothing below {} was opened; perhaps the command ran in a mount namespace of its own",
            display(&args.mount)
        ));
    }
    if counts.unlisted > 0 {
        say(format_args!("packfs: left out {} with a newline in the name", units::of(counts.unlisted, "path")));
    }
    if !args.talk.quiet {
        let paths = units::of(counts.listed, "path");
        say(format_args!("{}: {paths} below {}", display(&args.output), display(&args.mount)));
    }
}

/// Keeps signals from ending packfs before the list is written; returns a flag that says that one came.
fn catch_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in interrupt::ending_signals() {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for signals")?;
    }
    Ok(stop)
}

/// Files opened so far.
struct OpenRecorder {
    events: Fanotify,
    /// The directory whose files count, without symbolic links.
    dir: PathBuf,
    /// Paths in it, in order of first use.
    order: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
}

/// Numbers of paths.
#[derive(Default)]
struct PathCounts {
    listed: u64,
    /// Those that a line cannot hold.
    unlisted: u64,
}

impl OpenRecorder {
    /// Begins to record what is opened on the mount that `dir` is on.
    fn start(dir: &Path) -> Result<Self> {
        let dir = fs::canonicalize(dir).with_context(|| format!("cannot watch {}", display(dir)))?;
        let cannot = |error: Errno| {
            let why = match error {
                Errno::EPERM => " (run as root: fanotify needs CAP_SYS_ADMIN)",
                Errno::ENOSYS => " (this Linux is built without fanotify)",
                _ => "",
            };
            anyhow::anyhow!("cannot watch {}: {}{why}", display(&dir), error.desc())
        };
        // The queue is unlimited, as the kernel drops events that do not fit.
        let flags = InitFlags::FAN_CLASS_NOTIF
            | InitFlags::FAN_CLOEXEC
            | InitFlags::FAN_NONBLOCK
            | InitFlags::FAN_UNLIMITED_QUEUE;
        let of_events = EventFFlags::O_RDONLY | EventFFlags::O_LARGEFILE | EventFFlags::O_CLOEXEC;
        let events = Fanotify::init(flags, of_events).map_err(cannot)?;
        let root = File::open(&dir).with_context(|| format!("cannot watch {}", display(&dir)))?;
        let opened = MaskFlags::FAN_OPEN | MaskFlags::FAN_OPEN_EXEC | MaskFlags::FAN_ONDIR;
        let add = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_MOUNT;
        events.mark(add, opened, &root, None::<&Path>).map_err(cannot)?;
        Ok(OpenRecorder { events, dir, order: Vec::new(), seen: HashSet::new() })
    }

    /// Records until the command has ended; asks it to end once `stop` is set.
    fn follow(&mut self, mut child: Child, stop: &AtomicBool) -> Result<ExitStatus> {
        loop {
            // Before the events are read: all that it opened are then among them.
            let ended = child.try_wait().context("cannot wait for the command")?;
            self.read_events()?;
            if let Some(status) = ended {
                return Ok(status);
            }
            if stop.swap(false, Ordering::Relaxed) {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                // It may have ended meanwhile.
                pid.map(|pid| kill_process(pid, Signal::TERM));
            }
            let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.events, PollFlags::IN)], Some(&patience)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for events"),
            }
        }
    }

    /// Takes all events that there are.
    fn read_events(&mut self) -> Result<()> {
        loop {
            let events = match self.events.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error).context("cannot read events"),
            };
            for event in &events {
                if let Some(fd) = event.fd().filter(|_| event.pid().unsigned_abs() != std::process::id()) {
                    self.record_path(fd);
                }
            }
        }
    }

    /// Adds the path of an opened file. Files that are gone, and those elsewhere on the mount, do not count.
    fn record_path(&mut self, fd: BorrowedFd<'_>) {
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let Ok(found) = fs::metadata(&link) else { return };
        let Ok(path) = fs::read_link(&link) else { return };
        let kept = (found.is_file() && found.nlink() > 0) || found.is_dir();
        let Some(inside) = path.strip_prefix(&self.dir).ok().filter(|_| kept) else { return };
        if self.seen.insert(inside.to_owned()) {
            self.order.push(inside.to_owned());
        }
    }

    /// Returns the list; temporary files, which are gone by now, are not in it.
    fn list_paths(&self) -> (Vec<u8>, PathCounts) {
        let mut lines = Vec::new();
        let mut counts = PathCounts::default();
        for inside in self.order.iter().filter(|inside| self.dir.join(inside).symlink_metadata().is_ok()) {
            let bytes = OsStr::as_bytes(inside.as_os_str());
            if bytes.contains(&b'\n') {
                counts.unlisted += 1;
                continue;
            }
            counts.listed += 1;
            lines.push(b'/');
            lines.extend_from_slice(bytes);
            lines.push(b'\n');
        }
        (lines, counts)
    }
}
