//! State in which the caller started this process, and which Rust's runtime hides from `main`: it opens `/dev/null` in
//! the place of closed standard streams, and ignores SIGPIPE.
//!
//! With `/dev/null`, a result that is written to a closed standard output is lost without an error, and a closed
//! standard input looks like an empty file. Looking for `/dev/null` later does not help, because many callers open it
//! on purpose. So the C library runs a function before the runtime, as it does with the constructors of C++. An epoll
//! instance then takes the place of a closed stream: it can be neither read nor written, nor opened by its name in
//! `/proc`, so every use of it fails, in libraries and child programs, too.

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::event::epoll;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;

/// A standard stream that the caller may have closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardStream {
    Input,
    Output,
    Errors,
}

/// Streams in the order of their descriptors, which is that in which new descriptors take free numbers.
const STREAMS: [StandardStream; 3] = [StandardStream::Input, StandardStream::Output, StandardStream::Errors];

static CLOSED: [AtomicBool; STREAMS.len()] = [const { AtomicBool::new(false) }; STREAMS.len()];
static IGNORES_BROKEN_PIPES: AtomicBool = AtomicBool::new(false);

/// Number of bytes that hold the line of `/proc/self/stat`: 52 numbers of at most 20 digits and a short name.
const STAT_LEN: usize = 2048;
/// Number of fields between the name of the program and the set of ignored signals in `/proc/self/stat`.
const FIELDS_BEFORE_IGNORED: usize = 30;

// SAFETY: The C library calls each function in this section once, with arguments that `record` does not take, before
// `main` and before other threads exist. `record` makes system calls and stores their results; it needs no runtime.
#[allow(unsafe_code, reason = "the only place where closed streams can still be seen")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = record;

/// Returns true if the caller closed a stream.
pub(crate) fn was_closed(stream: StandardStream) -> bool {
    CLOSED[stream as usize].load(Relaxed)
}

/// Returns true if the caller ignores SIGPIPE: it then expects an error instead of a process ended by the signal.
pub(crate) fn ignores_broken_pipes() -> bool {
    IGNORES_BROKEN_PIPES.load(Relaxed)
}

extern "C" fn record() {
    for stream in STREAMS {
        if rustix::io::fcntl_getfd(descriptor(stream)) == Err(Errno::BADF) {
            CLOSED[stream as usize].store(true, Relaxed);
            occupy(stream);
        }
    }
    IGNORES_BROKEN_PIPES.store(has_ignored_signal(), Relaxed);
}

fn descriptor(stream: StandardStream) -> BorrowedFd<'static> {
    match stream {
        StandardStream::Input => rustix::stdio::stdin(),
        StandardStream::Output => rustix::stdio::stdout(),
        StandardStream::Errors => rustix::stdio::stderr(),
    }
}

/// Fills the place of a closed stream. Where that fails, the runtime fills it with `/dev/null`.
fn occupy(stream: StandardStream) {
    let Ok(unusable) = epoll::create(epoll::CreateFlags::empty()) else { return };
    if unusable.as_raw_fd() == descriptor(stream).as_raw_fd() {
        // It stays open for the life of the process.
        let _ = unusable.into_raw_fd();
    }
}

/// Returns true if SIGPIPE is ignored; without `/proc`, it counts as not ignored, as is usual.
fn has_ignored_signal() -> bool {
    let mut line = [0; STAT_LEN];
    let file = rustix::fs::open(c"/proc/self/stat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let len = file.and_then(|file| rustix::io::read(file, &mut line)).unwrap_or(0);
    std::str::from_utf8(&line[..len]).is_ok_and(ignores_sigpipe)
}

/// Reads the line of `/proc/self/stat`, see proc_pid_stat(5).
fn ignores_sigpipe(stat: &str) -> bool {
    // The name of the program is in parentheses and may contain anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ignored = after_name.split_ascii_whitespace().nth(FIELDS_BEFORE_IGNORED);
    let signals = ignored.and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    signals >> (Signal::PIPE.as_raw() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_of_ignored_signals_is_found_after_any_name() {
        let line = |name: &str, ignored: u64| {
            let before = ["0"; 30].join(" ");
            format!("7 ({name}) {before} {ignored} 17 0 0")
        };
        assert!(ignores_sigpipe(&line("packfs", 1 << 12)));
        assert!(ignores_sigpipe(&line("a) S 1 (b", 1 << 12 | 1)));
        assert!(!ignores_sigpipe(&line("packfs", 1 << 11)));
        assert!(!ignores_sigpipe(""));
        // The runtime of this process ignores it.
        assert!(has_ignored_signal());
    }
}
