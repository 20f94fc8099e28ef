//! Limits of the process (`ulimit`, `prlimit`): the program keeps within them, and where it cannot, ends with an error
//! that names the limit instead of a signal.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

/// Prepares the process for its limits. Must be called before any thread is started.
pub(crate) fn prepare() {
    // A handler that does nothing lets a write beyond the limit of file sizes fail with an error. Unlike an ignored
    // signal, it is not inherited by the programs that packfs runs.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    limit_arenas();
}

/// Number of bytes of addresses for each arena of glibc. An arena reserves 64 MiB, and 128 MiB for a moment; threads
/// share arenas if there are fewer of them, which costs waiting for locks.
const ADDRESSES_PER_ARENA: u64 = 1 << 30;

/// Has glibc use fewer arenas if addresses are limited: one arena a thread would take most of them for nothing.
#[allow(unsafe_code)]
fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    if let Some(limit) = getrlimit(Resource::As).current {
        /// `M_ARENA_MAX` of glibc's <malloc.h>.
        const ARENA_MAX: std::ffi::c_int = -8;
        unsafe extern "C" {
            fn mallopt(parameter: std::ffi::c_int, value: std::ffi::c_int) -> std::ffi::c_int;
        }
        let arenas = (limit / ADDRESSES_PER_ARENA).max(1);
        // SAFETY: The function of glibc's <malloc.h> takes two numbers. No other thread runs yet.
        unsafe { mallopt(ARENA_MAX, arenas.try_into().unwrap_or(std::ffi::c_int::MAX)) };
    }
}

/// Allocator of the program: the system's. A failed allocation ends the program with a message and status 1, where the
/// standard library would abort.
pub(crate) struct ProgramAllocator;

#[global_allocator]
static HEAP: ProgramAllocator = ProgramAllocator;

// SAFETY: everything is left to the system's allocator, whose contract this is.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for ProgramAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unless_null(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unless_null(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        unless_null(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn unless_null(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() { end(size) } else { memory }
}

/// Ends the program because `size` bytes cannot be allocated. Nothing here allocates, and nothing is cleaned up,
/// because that might allocate.
#[cold]
fn end(size: usize) -> ! {
    static ENDS: AtomicBool = AtomicBool::new(false);
    // Other threads that fail meanwhile only wait until the message is printed.
    if ENDS.swap(true, Relaxed) {
        std::thread::sleep(Duration::from_secs(1));
        signal_hook::low_level::exit(1);
    }
    let mut line = StackLine::default();
    let _ = writeln!(line, "packfs: out of memory: cannot allocate {}; {MemoryAdvice}", RoundedBytes(size as u64));
    let _ = rustix::io::write(rustix::stdio::stderr(), line.text());
    signal_hook::low_level::exit(1)
}

/// A line of text without an allocation. Text that does not fit is cut off.
struct StackLine {
    bytes: [u8; 512],
    len: usize,
}

impl Default for StackLine {
    fn default() -> Self {
        StackLine { bytes: [0; 512], len: 0 }
    }
}

impl StackLine {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Write for StackLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let taken = text.len().min(room.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        Ok(())
    }
}

/// A number of bytes in KiB or MiB, rounded up.
struct RoundedBytes(u64);

impl fmt::Display for RoundedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kibibytes = self.0.div_ceil(1 << 10);
        if kibibytes < 1 << 10 {
            write!(f, "{kibibytes} KiB")
        } else {
            write!(f, "{} MiB", kibibytes.div_ceil(1 << 10))
        }
    }
}

/// Names the limit of memory and a way out. Formatting it does not allocate.
pub(crate) struct MemoryAdvice;

impl fmt::Display for MemoryAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = getrlimit(Resource::As).current;
        let data = getrlimit(Resource::Data).current;
        match (addresses, data) {
            (Some(limit), data) if data.is_none_or(|data| data > limit) => {
                write!(f, "the address space is limited to {} (ulimit -v): raise that, or ", RoundedBytes(limit))?;
            }
            (_, Some(limit)) => write!(f, "data is limited to {} (ulimit -d): raise that, or ", RoundedBytes(limit))?,
            _ => {}
        }
        f.write_str("use fewer threads (--jobs), less --memory or smaller blocks")
    }
}

/// Returns the limit of the process that caused an error, and a way out; `None` if no limit caused it.
pub(crate) fn advice(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(packfs_codec::Error::NoMemory { .. }) = codec_error(cause) {
            return Some(MemoryAdvice.to_string());
        }
        cause.downcast_ref().and_then(advice_of_system)
    })
}

/// Returns the error of a codec that is an error of a library.
fn codec_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e packfs_codec::Error> {
    if let Some(packfs_image::Error::Codec(error)) = error.downcast_ref() {
        Some(error)
    } else if let Some(packfs_dump::Error::Codec(error)) = error.downcast_ref() {
        Some(error)
    } else if let Some(packfs_bench::Error::Codec(error)) = error.downcast_ref() {
        Some(error)
    } else if let Some(packfs_delta::Error::Image(packfs_image::Error::Codec(error))) = error.downcast_ref() {
        Some(error)
    } else {
        None
    }
}

/// As [`advice`], for an error of the operating system. Errors with a text that names a file have only their kind left.
fn advice_of_system(error: &io::Error) -> Option<String> {
    let limit = |of| getrlimit(of).current;
    match (Errno::from_io_error(error), error.kind()) {
        (_, io::ErrorKind::OutOfMemory) => Some(MemoryAdvice.to_string()),
        (_, io::ErrorKind::FileTooLarge) => limit(Resource::Fsize)
            .map(|most| format!("files are limited to {} (ulimit -f): raise that", RoundedBytes(most))),
        (Some(Errno::MFILE), _) => limit(Resource::Nofile).map(|most| {
            format!("open files are limited to {most} (ulimit -n): raise that, or use fewer threads (--jobs)")
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_off_where_it_ends() {
        let mut line = StackLine::default();
        write!(line, "{} {} {MemoryAdvice}", RoundedBytes(100), RoundedBytes((2 << 20) + 1)).unwrap();
        assert!(line.text().starts_with(b"1 KiB 3 MiB use fewer threads"), "{:?}", str::from_utf8(line.text()));
        write!(line, "{:600}", 1).unwrap();
        assert_eq!(line.text().len(), 512);
    }

    #[test]
    fn errors_of_limits_are_recognised_below_any_context() {
        let no_memory = || packfs_codec::Error::NoMemory { codec: "xz" };
        let memory = [
            anyhow::Error::from(io::Error::from(Errno::NOMEM)),
            anyhow::Error::from(packfs_image::Error::Codec(no_memory())).context("building x"),
            anyhow::Error::from(packfs_dump::Error::Codec(no_memory())).context("splitting x"),
            anyhow::Error::from(io::Error::from(packfs_image::Error::Codec(no_memory()))).context("reading x"),
        ];
        for error in memory {
            assert!(advice(&error).is_some_and(|text| text.contains("--memory")), "{error:#}");
        }
        let files = anyhow::Error::from(packfs_image::Error::io("cannot open", "a")(Errno::MFILE.into()));
        assert!(advice(&files).is_some_and(|text| text.contains("ulimit -n")));
        assert_eq!(advice(&anyhow::anyhow!("something else")), None);
    }
}
