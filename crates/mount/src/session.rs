//! A mount from its making to its end.

use std::env::VarError;
use std::fmt;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use packfs_blocks::threads::{self, program_limit};
use packfs_blocks::trouble::{LineReceiver, TroubleReporter};
use packfs_image::image::{FileType, Nid};
use packfs_image::name::display;
use packfs_image::{Image, sink};
use rustix::io::{DupFlags, Errno};

use crate::ahead::{ReadAheadStore, ahead};
use crate::attr::OwnerOverride;
use crate::device;
use crate::dirs::ListingCache;
use crate::filesystem::ImageFs;
use crate::nodes::NodeNumbers;
use crate::options::MountOptions;
use crate::paths::PathFinder;
use crate::unmount::{UnmountMode, absolute, has_helper, no_helper, unmount, without_commas};
use crate::{Error, Result};

const DEVICE: &str = "/dev/fuse";
/// Environment variable with the path of fusermount3, which fuser reads.
const HELPER_VARIABLE: &str = "FUSERMOUNT_PATH";
/// Name of this file system in the system's tables.
const SUBTYPE: &str = "packfs";

/// A mounted image that nobody serves yet. Dropping it unmounts it.
#[derive(Debug)]
pub struct MountedImage {
    session: Session<ImageFs>,
    storing: Option<ReadAheadStore>,
    idle: Option<IdleWatcher>,
    /// The mount point; `None` if somebody else mounted it.
    place: Option<PathBuf>,
}

/// Mounts an image at `place`: a directory, or `/dev/fd/N` with the descriptor of a FUSE device whose mount the caller
/// has made.
pub fn mount(image: Arc<dyn Image>, place: &Path, options: MountOptions) -> Result<MountedImage> {
    let root = find_root(&*image, &options.subdir)?;
    let requests = Arc::new(AtomicU64::new(0));
    let nodes = NodeNumbers { root };
    // A trace lists the files that programs read. Read-ahead would add files that nobody read, and the page cache would
    // answer reads that the trace should list.
    let (ahead, storing) = options.trace.is_none().then(|| ahead(Arc::clone(&image), nodes)).unzip();
    let filesystem = ImageFs {
        nodes,
        owner: OwnerOverride { uid: options.uid, gid: options.gid },
        checks_permissions: options.check_permissions,
        bytes: options.bytes,
        listings: ListingCache::default(),
        trace: options.trace.clone(),
        ahead,
        trouble: TroubleReporter::new(options.report.clone()),
        told_change: AtomicBool::new(false),
        paths: PathFinder::default(),
        requests: Arc::clone(&requests),
        image,
    };
    let mut config = fuse_config(&options);
    config.n_threads = Some(answering_threads(options.threads.max(1)).map_err(Error::io("cannot mount", place))?);
    if let Some(number) = device::descriptor_number(place) {
        let device = device::inherited(number).map_err(Error::io("cannot take over the FUSE device", place))?;
        config.clone_fd = false;
        let session = Session::from_fd(filesystem, device, config.acl, config);
        let session = session.map_err(Error::io("cannot serve the FUSE device", place))?;
        return Ok(MountedImage { session, storing, idle: None, place: None });
    }
    check_device()?;
    check_helper_variable()?;
    let place = check_place(place)?;
    let session = Session::new(filesystem, &place, &config).map_err(|error| explain_mount_error(error, &place))?;
    let idle =
        options.timeout.map(|timeout| IdleWatcher { timeout, requests, place: place.clone(), report: options.report });
    Ok(MountedImage { session, storing, idle, place: Some(place) })
}

impl MountedImage {
    /// Returns the mount point, an absolute path; `None` if the caller mounted it.
    pub fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    /// Answers requests until it is unmounted, by whomever.
    pub fn serve(self) -> Result<()> {
        let MountedImage { session, storing, idle, place } = self;
        let place = place.unwrap_or_else(|| DEVICE.into());
        // Ends with this function.
        let (_end, ended) = channel::<()>();
        let watch = idle.map(|idle| threads::named("packfs-idle").start(move || idle.watch(&ended)));
        watch.transpose().map_err(Error::io("cannot start a thread for", &place))?;
        let kernel = session.notifier();
        let storing = storing.map(|storing| threads::named("packfs-ahead").start(move || storing.run(&kernel)));
        let storing = storing.transpose().map_err(Error::io("cannot start a thread for", &place))?;
        let device = session.as_fd().as_raw_fd();
        let cannot = Error::io("cannot serve", &place);
        let (served, handle) = match serve_until_unmounted(session) {
            Ok(ended) => ended,
            Err(error) => return Err(cannot(error)),
        };
        // It ends as the session did, but may have a file to decode before.
        storing.map(thread::JoinHandle::join);
        served.and_then(|()| end_unmounted(handle, device)).map_err(cannot)
    }
}

/// Answers requests until somebody unmounts; returns how that ended, and fuser's handle.
fn serve_until_unmounted(session: Session<ImageFs>) -> io::Result<(io::Result<()>, BackgroundSession)> {
    let nothing = threads::named("packfs-fuse").start(|| Ok(()))?;
    let mut handle = session.spawn()?;
    let serving = std::mem::replace(&mut handle.guard, nothing);
    let served = serving.join().unwrap_or_else(|_| Err(io::Error::other("a thread that serves panicked")));
    Ok((served, handle))
}

/// Ends a session that others have unmounted, whose device has the number `device`. What they have mounted at the same
/// place since then stays.
///
/// A handle that is dropped unmounts: fuser 0.18 takes an ended connection for one that is still mounted. It takes a pipe
/// without a writer for an ended one, so the device becomes that before. A forgotten handle would keep the stack of a
/// thread.
fn end_unmounted(handle: BackgroundSession, device: RawFd) -> io::Result<()> {
    let (ended, _) = io::pipe()?;
    // SAFETY: the descriptor is open as long as `handle` is, and stays with it: this second owner never closes it.
    #[allow(unsafe_code, reason = "fuser lends the descriptor only, and the safe call wants its owner")]
    let mut device = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(device) });
    rustix::io::dup3(&ended, &mut device, DupFlags::CLOEXEC)?;
    drop(handle);
    Ok(())
}

/// Returns the directory to show.
fn find_root(image: &dyn Image, subdir: &Path) -> Result<Nid> {
    let found = sink::resolve(image, subdir.as_os_str().as_bytes())?;
    let nid = found.ok_or_else(|| packfs_image::Error::NotFound { path: subdir.to_owned() })?;
    match image.stat(nid)?.kind {
        FileType::Dir => Ok(nid),
        _ => Err(packfs_image::Error::WrongType { path: subdir.to_owned(), expected: "directory" }.into()),
    }
}

fn fuse_config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::FSName(without_commas(&options.name)),
        MountOption::Subtype(SUBTYPE.into()),
        if options.suid { MountOption::Suid } else { MountOption::NoSuid },
        if options.dev { MountOption::Dev } else { MountOption::NoDev },
        if options.exec { MountOption::Exec } else { MountOption::NoExec },
    ];
    if options.check_permissions {
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.clone_fd = true;
    config
}

/// Threads beside those that answer: fuser's own, one that ends at once, the one that watches for idleness, the one
/// that stores ahead, and the caller's for signals.
const OTHER_THREADS: usize = 5;
/// Number of bytes that fuser allocates for each thread that answers, for the longest request. Reads touch few of them,
/// but limits count all.
const REQUEST_BUFFER_LEN: u64 = (16 << 20) + 4096;
/// Number of bytes that remain for decoding when threads are counted: with less, a block of 1 MiB could not be decoded.
const DECODING_ROOM: u64 = 12 << 20;

/// Returns how many of `wanted` threads can answer. fuser starts them itself, once it is mounted, and gives up if one is
/// refused; without memory for its buffer, the whole program would end.
fn answering_threads(wanted: usize) -> io::Result<usize> {
    let startable = threads::available(wanted + OTHER_THREADS).saturating_sub(OTHER_THREADS);
    if startable == 0 {
        return Err(no_thread());
    }
    let Some(room) = threads::address_room() else { return Ok(startable) };
    let room_of_others = DECODING_ROOM + (OTHER_THREADS * threads::STACK) as u64;
    let fitting = room.saturating_sub(room_of_others) / (REQUEST_BUFFER_LEN + threads::STACK as u64);
    match usize::try_from(fitting).unwrap_or(usize::MAX).min(startable) {
        0 => Err(Errno::NOMEM.into()),
        answering => Ok(answering),
    }
}

/// Returns the reason why a mount cannot start its threads. One may be startable again, or still.
fn no_thread() -> io::Error {
    let probe = threads::named("packfs-probe").start(|| ());
    probe.err().unwrap_or_else(|| {
        let limit = threads::PROCESS_LIMIT;
        io::Error::other(format!("fewer threads can be started than a mount needs ({limit})"))
    })
}

/// Refuses to go on where there is no FUSE, and says what is missing.
fn check_device() -> Result<()> {
    let error = match File::options().read(true).write(true).open(DEVICE) {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let why = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no {DEVICE}: load the kernel's module fuse, or give the container that device")
        }
        io::ErrorKind::PermissionDenied => format!("no permission to open {DEVICE}: {error}"),
        _ => format!("{DEVICE} cannot be opened; the kernel may lack FUSE: {error}"),
    };
    Err(Error::NoFuse { why })
}

/// Refuses a value on which fuser would panic.
fn check_helper_variable() -> Result<()> {
    match std::env::var(HELPER_VARIABLE) {
        Err(VarError::NotUnicode(path)) => {
            Err(Error::NoFuse { why: format!("{HELPER_VARIABLE}={}: not UTF-8", display(Path::new(&path))) })
        }
        _ => Ok(()),
    }
}

fn check_place(place: &Path) -> Result<PathBuf> {
    let path = absolute(place)?;
    match path.metadata() {
        // The root of an image is a directory, which Linux mounts on a directory only.
        Ok(found) if found.is_dir() => Ok(path),
        Ok(_) => Err(Error::place(place, "not a directory")),
        // What FUSE answers once the program behind a mount is gone.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => {
            Err(Error::Stale { path: place.to_owned() })
        }
        Err(error) => Err(Error::io("cannot mount", place)(error)),
    }
}

fn explain_mount_error(error: io::Error, place: &Path) -> Error {
    if let Some(limited) = program_limit(&error) {
        return Error::io("cannot mount", place)(limited);
    }
    let text = error.to_string();
    match error.kind() {
        // The mount point is there, so it is the program that is not.
        io::ErrorKind::NotFound => Error::NoFuse { why: no_helper() },
        io::ErrorKind::PermissionDenied if text.contains("user_allow_other") => {
            Error::place(place, "allow_other is for root only, because /etc/fuse.conf has no line `user_allow_other`")
        }
        // A system error means that the program could not be started. One of several directories in PATH may give
        // another error than that it is missing.
        _ if error.raw_os_error().is_some() && !has_helper() => Error::NoFuse { why: no_helper() },
        _ => Error::io("cannot mount", place)(io::Error::new(error.kind(), text.trim().to_owned())),
    }
}

/// Unmounts what nobody uses.
struct IdleWatcher {
    timeout: Duration,
    requests: Arc<AtomicU64>,
    place: PathBuf,
    report: Option<LineReceiver>,
}

impl fmt::Debug for IdleWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleWatcher").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl IdleWatcher {
    /// Waits for a time without requests, or for the end. Who reads what the kernel keeps makes no requests, but
    /// then unmounting fails, as the mount is in use.
    fn watch(self, ended: &Receiver<()>) {
        // Short enough that the time is kept to an eighth, and long enough not to wake a quiet machine often.
        let tick = (self.timeout / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let mut quiet = Duration::ZERO;
        let mut before = self.requests.load(Ordering::Relaxed);
        while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
            let now = self.requests.load(Ordering::Relaxed);
            quiet = if now == before { quiet + tick } else { Duration::ZERO };
            before = now;
            if quiet < self.timeout {
                continue;
            }
            match unmount(&self.place, UnmountMode::Now) {
                Ok(()) => return,
                // A program has a file open, or its directory there: it gets the whole time once more.
                Err(Error::Busy { .. }) => {}
                Err(error) => {
                    if let Some(report) = &self.report {
                        report(&error.to_string());
                    }
                }
            }
            quiet = Duration::ZERO;
        }
    }
}
