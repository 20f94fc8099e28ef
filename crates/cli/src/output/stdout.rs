//! Standard output, in one of two roles.
//!
//! The output that a command was asked for is its *result*: an error while writing it is an error of the command. All
//! other lines on standard output are *remarks*, such as the name of each packed entry: the work goes on without a
//! reader. Nothing else writes to standard output, so every command decides which of both its lines are.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{error, fmt};

use anyhow::Result;
use nix::errno::Errno;
use packfs_image::name::show;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::failure::UsageError;
use super::say;
use crate::startup::{self, StandardStream};

/// Name of standard output in messages.
pub(crate) const STDOUT: &str = "standard output";
/// Number of bytes written at once: the default capacity of a pipe.
const BUFFER_LEN: usize = 1 << 16;

/// Buffered writer for the result of a command. Its errors name standard output.
#[derive(Debug)]
pub(crate) struct ResultWriter(BufWriter<NamedStdout>);

/// Writes the result of a command, or a part of it, by `write`, and makes sure that all of it has arrived.
pub(crate) fn write_result<T>(write: impl FnOnce(&mut ResultWriter) -> Result<T>) -> Result<T> {
    let stdout = NamedStdout(open_stdout().map_err(name_error)?);
    let mut out = ResultWriter(BufWriter::with_capacity(BUFFER_LEN, stdout));
    let written = write(&mut out);
    // The lines before an error are printed, too.
    let flushed = out.flush();
    let value = written?;
    flushed?;
    let (stdout, _) = out.0.into_parts();
    close_stdout(stdout.0).map_err(name_error)?;
    Ok(value)
}

/// As [`write_result`], without a buffer and for libraries whose errors name what they write; `wrap` makes such an
/// error.
pub(crate) fn write_raw_result<T, E: From<W>, W>(
    wrap: impl FnOnce(io::Error) -> W,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let mut stdout = match open_stdout() {
        Ok(stdout) => stdout,
        Err(error) => return Err(wrap(error).into()),
    };
    let value = write(&mut stdout)?;
    close_stdout(stdout).map_err(wrap)?;
    Ok(value)
}

/// Fails if standard output is closed: for commands that would notice it only after long work.
pub(crate) fn require_stdout() -> Result<()> {
    open_stdout().map_err(name_error)?;
    Ok(())
}

/// Fails if standard output cannot take binary data, described by `what`, because it is closed or a terminal.
pub(crate) fn require_pipe_or_file(what: &str) -> Result<()> {
    require_stdout()?;
    if is_terminal() {
        return Err(
            UsageError(format!("refusing to write {what} to a terminal; redirect it to a file or a pipe")).into()
        );
    }
    Ok(())
}

/// Returns true if standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    static TERMINAL: OnceLock<bool> = OnceLock::new();
    *TERMINAL.get_or_init(|| rustix::stdio::stdout().is_terminal())
}

/// Writes a name unchanged, except on a terminal, where control characters are escaped.
pub(crate) fn write_name(out: &mut impl Write, name: &[u8]) -> io::Result<()> {
    if is_terminal() { out.write_all(&show(name)) } else { out.write_all(name) }
}

/// Returns true if standard output is a pipe or socket that nobody reads any more.
pub(super) fn has_no_reader() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Returns true if an error occurred while writing a result.
pub(crate) fn is_lost(error: &anyhow::Error) -> bool {
    let inner = |cause: &(dyn error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .is_some_and(|inner| inner.is::<ResultWriteError>())
    };
    error.chain().any(inner)
}

impl Write for ResultWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    // The default is a loop around `write`, which takes a fifth of the time of a long listing.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Standard output with errors that name it.
#[derive(Debug)]
struct NamedStdout(File);

impl Write for NamedStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(name_error)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Error while writing a result. It is a type of its own because some programs go on after errors of images.
#[derive(Debug)]
struct ResultWriteError(io::Error);

impl fmt::Display for ResultWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{STDOUT}: cannot write: {}", self.0)
    }
}

impl error::Error for ResultWriteError {}

/// True once a result met a broken pipe: not every library keeps the error as a source of its own.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);

/// Returns true if a result could not be written because its reader is gone.
pub(super) fn met_broken_pipe() -> bool {
    IS_BROKEN.load(Relaxed)
}

fn name_error(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::BrokenPipe {
        IS_BROKEN.store(true, Relaxed);
    }
    io::Error::new(error.kind(), ResultWriteError(error))
}

/// Opens standard output once more, without the line buffer of [`io::stdout`].
fn open_stdout() -> io::Result<File> {
    if startup::was_closed(StandardStream::Output) {
        return Err(io::Error::new(ErrorKind::NotConnected, "it is closed"));
    }
    Ok(File::from(rustix::stdio::stdout().as_fd().try_clone_to_owned()?))
}

/// Closes a descriptor of [`open_stdout`]. Network file systems report only now that data could not be stored.
fn close_stdout(stdout: File) -> io::Result<()> {
    match nix::unistd::close(stdout) {
        // It is closed all the same.
        Ok(()) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Buffered writer for remarks. It never fails: after an error it does nothing.
#[derive(Debug)]
pub(crate) struct RemarkWriter(Option<BufWriter<File>>);

/// Returns a writer for remarks.
pub(crate) fn remarks() -> RemarkWriter {
    let mut remarks = RemarkWriter(None);
    match open_stdout() {
        Ok(stdout) => remarks.0 = Some(BufWriter::with_capacity(BUFFER_LEN, stdout)),
        Err(error) => remarks.give_up(&error),
    }
    remarks
}

impl RemarkWriter {
    /// Returns false once remarks cannot be written any more.
    pub(crate) fn has_reader(&self) -> bool {
        self.0.is_some()
    }

    fn give_up(&mut self, error: &io::Error) {
        if let Some(out) = self.0.take() {
            // Dropping it would write its buffer.
            let _ = out.into_parts();
        }
        // A reader that leaves, as `head` does, has seen enough.
        if error.kind() != ErrorKind::BrokenPipe {
            say(format_args!("packfs: warning: {STDOUT}: cannot write: {error}; continuing without it"));
        }
    }
}

impl Write for RemarkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(out) = &mut self.0
            && let Err(error) = out.write_all(bytes)
        {
            self.give_up(&error);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(out) = &mut self.0
            && let Err(error) = out.flush()
        {
            self.give_up(&error);
        }
        Ok(())
    }
}

impl Drop for RemarkWriter {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
