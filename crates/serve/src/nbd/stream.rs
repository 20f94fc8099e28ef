//! A connection by either kind of socket, with deadlines.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

/// Time for a piece of an answer. Pieces have at most a few hundred KiB, so even a slow line manages one.
const PIECE_TIME: Duration = Duration::from_secs(60);

/// A connection.
#[derive(Debug)]
pub(super) enum ClientStream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl ClientStream {
    /// Ends the connection: whoever reads or writes stops at once.
    pub(super) fn hang_up(&self) {
        let _ = shutdown(self, Shutdown::Both);
    }

    /// Answers are whole, so none waits for another.
    pub(super) fn send_at_once(&self) {
        if let ClientStream::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        match self {
            ClientStream::Unix(stream) => stream.set_read_timeout(read).and_then(|()| stream.set_write_timeout(write)),
            ClientStream::Tcp(stream) => stream.set_read_timeout(read).and_then(|()| stream.set_write_timeout(write)),
        }
    }

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            ClientStream::Unix(stream) => (&*stream).read(buf),
            ClientStream::Tcp(stream) => (&*stream).read(buf),
        }
    }

    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            ClientStream::Unix(stream) => (&*stream).write(buf),
            ClientStream::Tcp(stream) => (&*stream).write(buf),
        }
    }
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ClientStream::Unix(stream) => stream.as_fd(),
            ClientStream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// A connection on which everything has to be done by a deadline.
pub(super) struct DeadlineStream<'s> {
    pub(super) stream: &'s ClientStream,
    pub(super) deadline: Instant,
}

impl DeadlineStream<'_> {
    fn hurry(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // What is left, and not the whole time, or each byte would get a new deadline.
        self.stream.set_timeouts(Some(left), Some(left))
    }
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.hurry()?;
        self.stream.read(buf)
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.hurry()?;
        self.stream.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The requests of a client. They may take any time: a disk may be unused for days.
pub(super) struct RequestReader<'s>(&'s ClientStream);

impl<'s> RequestReader<'s> {
    /// Makes reading wait for as long as it takes, and writing for a second at a time.
    pub(super) fn new(stream: &'s ClientStream) -> io::Result<Self> {
        stream.set_timeouts(None, Some(Duration::from_secs(1)))?;
        Ok(RequestReader(stream))
    }
}

impl Read for RequestReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

/// The way to a client, with a deadline for each piece: a client that takes none keeps no threads.
pub(super) struct ReplyWriter<'s>(pub(super) &'s ClientStream);

impl Write for ReplyWriter<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_all(buf)?;
        Ok(buf.len())
    }

    fn write_all(&mut self, mut buf: &[u8]) -> io::Result<()> {
        // The time runs from the first wait to the end of the piece, so a client that takes byte after byte gains
        // nothing.
        let mut begun = None;
        while !buf.is_empty() {
            match self.0.write(buf) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => buf = &buf[len..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if begun.get_or_insert_with(Instant::now).elapsed() > PIECE_TIME {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
