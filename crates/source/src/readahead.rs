//! Read-ahead: a stream is read, and decompressed, on a thread of its own.

use std::fmt;
use std::io::{self, Read};

use crossbeam_channel::{Receiver, Sender, bounded};
use packfs_blocks::threads;

/// Size and number of the buffers in circulation: 2 MiB by which the thread may be ahead. Other values were not
/// measured.
const BUFFER: usize = 256 << 10;
const BUFFERS: usize = 8;

/// A reader whose bytes are read ahead into a bounded number of buffers, or read when they are asked for if there is no
/// thread to read ahead.
///
/// Dropping it early does not wait for the thread, which may be blocked in a read from a pipe: the
/// thread ends when that read returns.
pub(crate) enum ReadAhead {
    /// A thread fills the buffers.
    Threaded(BufferReceiver),
    /// No thread could be started.
    Unbuffered(Box<dyn Read + Send>),
}

/// The receiving end of the buffers in circulation.
pub(crate) struct BufferReceiver {
    full: Receiver<io::Result<FilledBuffer>>,
    empty: Sender<Vec<u8>>,
    chunk: FilledBuffer,
    taken: usize,
}

/// A buffer and its number of filled bytes.
type FilledBuffer = (Vec<u8>, usize);

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadAhead")
    }
}

impl ReadAhead {
    /// Starts reading `from`.
    pub(crate) fn new(from: Box<dyn Read + Send>) -> Self {
        let (filled, full) = bounded(BUFFERS);
        let (empty, emptied) = bounded(BUFFERS);
        // Buffers go round: none is allocated after these.
        for _ in 0..BUFFERS {
            empty.try_send(vec![0; BUFFER]).expect("there is room for all buffers");
        }
        let work = move |from| read_all(from, &filled, &emptied);
        // Without a thread the stream is read where it is asked for, which is slower but right.
        match threads::named("packfs-readahead").start_with(from, work) {
            Ok(_) => ReadAhead::Threaded(BufferReceiver { full, empty, chunk: (Vec::new(), 0), taken: 0 }),
            Err((from, _)) => ReadAhead::Unbuffered(from),
        }
    }
}

/// Fills buffers until the input ends or fails, or the reader is dropped.
fn read_all(mut from: Box<dyn Read + Send>, filled: &Sender<io::Result<FilledBuffer>>, emptied: &Receiver<Vec<u8>>) {
    // The channel closes when the reader is dropped.
    for mut buffer in emptied {
        let mut len = 0;
        let mut end = Ok(());
        while len < buffer.len() {
            match from.read(&mut buffer[len..]) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
        }
        // A buffer that is not full is the last one.
        let last = len < buffer.len();
        // Bytes before an error are still valid.
        if filled.send(Ok((buffer, len))).is_err() || end.is_err_and(|error| filled.send(Err(error)).is_err()) || last {
            return;
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            ReadAhead::Threaded(buffers) => buffers.read(buf),
            ReadAhead::Unbuffered(from) => from.read(buf),
        }
    }
}

impl Read for BufferReceiver {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // A chunk is empty if an error or the end came right after the previous one.
        while self.taken == self.chunk.1 {
            // A closed channel: the thread has reached the end.
            let Ok(next) = self.full.recv() else { return Ok(0) };
            // An error from the thread ends the stream.
            let (used, _) = std::mem::replace(&mut self.chunk, next?);
            self.taken = 0;
            if !used.is_empty() {
                // The thread may be gone already; then nobody needs the buffer.
                let _ = self.empty.send(used);
            }
        }
        let ready = &self.chunk.0[self.taken..self.chunk.1];
        let n = ready.len().min(buf.len());
        buf[..n].copy_from_slice(&ready[..n]);
        self.taken += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields `left` bytes in odd portions, then fails if it is told to.
    struct OddReads {
        left: usize,
        fails: bool,
    }

    impl Read for OddReads {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = buf.len().min(self.left).min(70_001);
            self.left -= n;
            buf[..n].fill(7);
            if n == 0 && self.fails { Err(io::ErrorKind::InvalidData.into()) } else { Ok(n) }
        }
    }

    #[test]
    fn every_byte_comes_through_and_then_the_end_or_the_error() {
        for left in [0, 1, BUFFER - 1, BUFFER, BUFFER + 1, 3 * BUFFER, 21 * BUFFER + 5] {
            for fails in [false, true] {
                let mut ahead = ReadAhead::new(Box::new(OddReads { left, fails }));
                let mut bytes = Vec::new();
                let end = ahead.read_to_end(&mut bytes);
                assert_eq!((bytes.len(), end.is_err()), (left, fails));
            }
        }
    }

    #[test]
    fn dropping_it_early_stops_an_endless_reader() {
        let ReadAhead::Threaded(mut ahead) = ReadAhead::new(Box::new(io::repeat(1))) else { panic!("no thread") };
        ahead.read_exact(&mut [0; 1000]).unwrap();
        let full = ahead.full.clone();
        drop(ahead);
        // The thread finds no free buffer and ends, which closes its channel.
        while full.recv().is_ok() {}
    }
}
