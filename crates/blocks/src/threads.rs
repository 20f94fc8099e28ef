//! Start of threads, and of other programs. All are started here, so that limits of the system are handled in one place.
//!
//! A thread that cannot be started is an error that names the limit, never a panic. Callers that can work with fewer
//! threads, or with none, go on; [`shortage`] tells how many were missing.
//!
//! Threads must not take the last addresses. A new thread of the standard library panics if its signal stack cannot be
//! mapped, so no thread is started without room for that.

use std::fmt;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};

use crate::mutex;
use crate::system;
pub use crate::system::address_room;

/// Default stack size in bytes, that of the standard library. It is repeated here because the room for it is checked.
pub const STACK: usize = 2 << 20;

/// Number of bytes that have to remain addressable after a thread has started, for its signal stack and for the work of
/// all threads. With less, started threads would fail; with much more, none would start under a limit of 64 MiB.
const RESERVE: u64 = 4 << 20;

/// A thread to start.
#[derive(Debug, Clone)]
pub struct ThreadStarter {
    name: String,
    stack: usize,
}

/// Describes a thread to start. System tools show the first 15 bytes of `name`.
pub fn named(name: impl Into<String>) -> ThreadStarter {
    ThreadStarter { name: name.into(), stack: STACK }
}

impl ThreadStarter {
    /// Sets the number of bytes of its stack.
    pub fn stack(self, stack: usize) -> Self {
        ThreadStarter { stack, ..self }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// If the system or a limit of the process does not allow another thread: the error names the limit.
    pub fn start<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
        self.builder()?.spawn(work).map_err(refused)
    }

    /// Starts the thread with a value, which is returned if there is no thread for it.
    pub fn start_with<V: Send + 'static, T: Send + 'static>(
        self,
        value: V,
        work: impl FnOnce(V) -> T + Send + 'static,
    ) -> Result<JoinHandle<Option<T>>, (V, io::Error)> {
        let (give, given) = mpsc::sync_channel::<V>(1);
        // The value is sent once the thread exists: a thread that cannot start would drop it.
        let work = move || given.recv().ok().map(work);
        let thread = match self.builder().and_then(|builder| builder.spawn(work).map_err(refused)) {
            Ok(thread) => thread,
            Err(error) => return Err((value, error)),
        };
        // The thread keeps the receiver until the value comes, so this cannot fail.
        let _ = give.send(value);
        Ok(thread)
    }

    /// Starts the thread in a scope, whose end waits for it. Errors as of [`ThreadStarter::start`].
    pub fn start_in<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        self.builder()?.spawn_scoped(scope, work).map_err(refused)
    }

    fn builder(&self) -> io::Result<thread::Builder> {
        match address_room() {
            Some(room) if room < self.stack as u64 + RESERVE => Err(refused(io::ErrorKind::OutOfMemory.into())),
            _ => Ok(thread::Builder::new().name(self.name.clone()).stack_size(self.stack)),
        }
    }
}

/// Starts a program.
///
/// # Errors
/// Those of [`Command::spawn`]; if a limit of the process may be the reason, the error names it.
pub fn start_program(command: &mut Command) -> io::Result<Child> {
    command.spawn().map_err(|error| program_limit(&error).unwrap_or(error))
}

/// Returns the error of starting a program with the limit of the process that may be the reason; `None` if it is none.
pub fn program_limit(error: &io::Error) -> Option<io::Error> {
    let limit = match error.kind() {
        io::ErrorKind::WouldBlock => PROCESS_LIMIT,
        io::ErrorKind::OutOfMemory => MEMORY_LIMIT,
        _ if system::is_own_file_limit(error) => "limit of open files: ulimit -n",
        _ => return None,
    };
    Some(io::Error::new(error.kind(), format!("{error} ({limit})")))
}

/// The limits of threads and processes, for messages.
pub const PROCESS_LIMIT: &str = "limit of processes and threads: ulimit -u, or pids.max of a control group";
/// The limits of memory.
const MEMORY_LIMIT: &str = "the limit of addresses or data is too low: ulimit -v, ulimit -d";

/// Names the limits that may be the reason. Systems report any of them as "try again".
fn refused(error: io::Error) -> io::Error {
    let limit = match (error.kind(), address_room()) {
        (io::ErrorKind::OutOfMemory, _) => MEMORY_LIMIT,
        (_, Some(room)) if room < STACK as u64 + RESERVE => MEMORY_LIMIT,
        _ => PROCESS_LIMIT,
    };
    io::Error::new(error.kind(), format!("cannot start a thread: {error} ({limit})"))
}

/// Returns how many of `wanted` more threads could be started now. Threads that start meanwhile reduce the number. It
/// is for libraries that start threads themselves and panic if one is refused.
pub fn available(wanted: usize) -> usize {
    thread::scope(|scope| {
        let ends: Vec<_> = (0..wanted)
            .map_while(|_| {
                let (end, ended) = mpsc::channel::<()>();
                let wait = move || {
                    // It ends when the sender is dropped.
                    let _ = ended.recv();
                };
                named("packfs-probe").start_in(scope, wait).ok().map(|_| end)
            })
            .collect();
        ends.len()
    })
}

/// Description of an operation with fewer worker threads than wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadShortage {
    /// Number of wanted threads.
    pub wanted: usize,
    /// Number of started threads; with 0, the calling thread did the work.
    pub started: usize,
    /// The reason.
    pub why: String,
}

impl fmt::Display for ThreadShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} threads: {}", self.started, self.wanted, self.why)
    }
}

/// The worst shortage so far.
static SHORTAGE: Mutex<Option<ThreadShortage>> = Mutex::new(None);

/// Returns the worst shortage of worker threads of the process so far; `None` if all could be started.
pub fn shortage() -> Option<ThreadShortage> {
    mutex::lock(&SHORTAGE).clone()
}

/// Keeps a shortage if it is the worst so far, for [`shortage`].
pub fn tell_shortage(new: ThreadShortage) {
    let mut worst = mutex::lock(&SHORTAGE);
    if worst.as_ref().is_none_or(|worst| new.started < worst.started) {
        *worst = Some(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_return_their_results() {
        assert_eq!(named("a").start(|| 7).unwrap().join().unwrap(), 7);
        assert_eq!(named("a").stack(256 << 10).start_with(3, |n| n + 1).unwrap().join().unwrap(), Some(4));
        let word = String::from("borrowed");
        thread::scope(|scope| assert_eq!(named("a").start_in(scope, || word.len()).unwrap().join().unwrap(), 8));
        assert_eq!(available(3), 3);
    }

    #[test]
    fn a_thread_that_cannot_be_had_is_an_error_that_names_the_limit_and_returns_the_value() {
        // More than any machine can address.
        let huge = || named("a").stack(1 << (usize::BITS - 4));
        let error = huge().start(|| ()).unwrap_err().to_string();
        assert!(error.starts_with("cannot start a thread: ") && error.contains("ulimit -"), "{error}");
        let (value, _) = huge().start_with(5, |n| n).unwrap_err();
        assert_eq!(value, 5);
    }
}
