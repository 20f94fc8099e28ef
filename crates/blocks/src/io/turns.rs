//! `WriteTurns`: many threads make pieces of one output, and one of them at a time writes.
//!
//! The kernel lets one thread at a time write to a file through the page cache; the others would spin for its lock. Here
//! they leave their piece with the thread that writes and go on with the next one. The writer's own piece is still in
//! its cache.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::Output;
use crate::mutex;
use crate::{Buffer, Progress};

/// Writes pieces of an output for the threads that make them.
pub struct WriteTurns<'o> {
    output: &'o Output,
    progress: &'o Progress,
    /// Number of bytes that may wait.
    most: usize,
    state: Mutex<TurnState>,
    room: Condvar,
}

/// Bytes for one or several places of an output.
#[derive(Debug)]
pub struct OutputPiece {
    bytes: Buffer,
    /// Number of bytes that have a place.
    filled: usize,
    /// Offset and length of each place, in the order of the bytes.
    places: Vec<(u64, usize)>,
}

#[derive(Default)]
struct TurnState {
    waiting: VecDeque<OutputPiece>,
    /// Number of bytes of these, and of the piece being written.
    bytes: usize,
    /// Number of threads that wait for room.
    blocked: usize,
    /// True while a thread writes.
    busy: bool,
    failed: Option<io::Error>,
}

impl fmt::Debug for WriteTurns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteTurns").field("output", self.output).finish_non_exhaustive()
    }
}

impl OutputPiece {
    /// Makes a piece to be filled with as many bytes as `buffer` has.
    pub fn new(buffer: Buffer) -> Self {
        OutputPiece { bytes: buffer, filled: 0, places: Vec::new() }
    }

    /// Makes a piece of all bytes of `buffer`, for one place.
    pub fn whole(buffer: Buffer, at: u64) -> Self {
        OutputPiece { filled: buffer.len(), places: vec![(at, buffer.len())], bytes: buffer }
    }

    /// Adds as many of `bytes`, which belong at an offset, as there is room for; returns their number.
    pub fn add(&mut self, bytes: &[u8], at: u64) -> usize {
        let room = &mut self.bytes[self.filled..];
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.filled += len;
        match self.places.last_mut() {
            Some((start, before)) if *start + *before as u64 == at => *before += len,
            _ if len > 0 => self.places.push((at, len)),
            _ => {}
        }
        len
    }

    /// Returns true if there is no room left.
    pub fn is_full(&self) -> bool {
        self.filled == self.bytes.len()
    }

    fn write_to(&self, output: &Output) -> io::Result<()> {
        let mut rest = &self.bytes[..self.filled];
        for (at, len) in &self.places {
            let (now, later) = rest.split_at(*len);
            output.write_all_at(now, *at)?;
            rest = later;
        }
        Ok(())
    }
}

impl<'o> WriteTurns<'o> {
    /// Makes a writer to `output`, of which about `most` bytes wait at a time. `progress` counts written bytes.
    pub fn new(output: &'o Output, progress: &'o Progress, most: usize) -> Self {
        WriteTurns { output, progress, most, state: Mutex::default(), room: Condvar::new() }
    }

    /// Has `piece` written: by this thread, or by one that writes already. An error may be that of another
    /// thread's piece. Once all threads have returned, everything is written.
    pub fn write(&self, piece: OutputPiece) -> io::Result<()> {
        let mut state = mutex::lock(&self.state);
        while state.busy && state.bytes >= self.most {
            state.blocked += 1;
            state = mutex::wait(&self.room, state);
            state.blocked -= 1;
        }
        if let Some(error) = &state.failed {
            return Err(again(error));
        }
        state.bytes += piece.filled;
        state.waiting.push_back(piece);
        if state.busy {
            return Ok(());
        }
        state.busy = true;
        self.write_waiting(state)
    }

    /// Writes until nothing waits.
    fn write_waiting<'t>(&'t self, mut state: MutexGuard<'t, TurnState>) -> io::Result<()> {
        while let Some(piece) = state.waiting.pop_front() {
            drop(state);
            let writing = WritingTurn(self);
            let written = piece.write_to(self.output);
            let len = piece.filled;
            drop(writing);
            // Its memory is free before somebody is woken who needs some.
            drop(piece);
            state = mutex::lock(&self.state);
            state.bytes -= len;
            if let Err(error) = written {
                self.fail(&mut state, again(&error));
                return Err(error);
            }
            Progress::add(&self.progress.written, len as u64);
            // Not at once: waking somebody for each piece takes a part of the time of writing one.
            if state.blocked > 0 && state.bytes <= self.most / 2 {
                self.room.notify_all();
            }
        }
        state.busy = false;
        Ok(())
    }

    /// Drops what waits, and lets nobody wait or write any more.
    fn fail(&self, state: &mut TurnState, error: io::Error) {
        *state = TurnState { failed: Some(error), blocked: state.blocked, ..TurnState::default() };
        self.room.notify_all();
    }
}

/// A thread that writes. If it panics, the others get an error: they would wait for it forever.
struct WritingTurn<'t, 'o>(&'t WriteTurns<'o>);

impl Drop for WritingTurn<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&mut mutex::lock(&self.0.state), io::Error::other("the thread that wrote panicked"));
        }
    }
}

/// Returns the same error for one more thread.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{
        AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    };

    use super::*;
    use crate::Buffers;
    use crate::io::{Memory, Storage};

    /// A storage that fails from its write number `fails` on, and notices two at once.
    #[derive(Debug)]
    struct SlowStorage {
        memory: Arc<Memory>,
        inside: AtomicUsize,
        writes: AtomicUsize,
        fails: usize,
    }

    impl Storage for SlowStorage {
        fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "two threads write");
            std::thread::sleep(std::time::Duration::from_micros(200));
            let failed = self.writes.fetch_add(1, SeqCst) >= self.fails;
            let written = self.memory.write_all_at(bytes, offset);
            self.inside.fetch_sub(1, SeqCst);
            if failed { Err(io::ErrorKind::StorageFull.into()) } else { written }
        }

        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            self.memory.read_exact_at(buf, offset)
        }

        fn len(&self) -> io::Result<u64> {
            Storage::len(&*self.memory)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.memory.set_len(len)
        }
    }

    /// Has `threads` write 100 pieces of 10 bytes each, of which `most` bytes may wait.
    fn written(threads: u64, most: usize, fails: usize) -> (Vec<u8>, Vec<io::Result<()>>) {
        let memory = Arc::new(Memory::default());
        let inside = AtomicUsize::new(0);
        let writes = AtomicUsize::new(0);
        let output = Output::over(SlowStorage { memory: Arc::clone(&memory), inside, writes, fails }, "slow");
        let progress = Progress::default();
        let buffers = Buffers::new(10);
        let turns = WriteTurns::new(&output, &progress, most);
        let results = std::thread::scope(|scope| {
            let put = |thread: u64| {
                let each = (0..100).map(|n| {
                    let mut piece = buffers.take(10);
                    piece.fill(u8::try_from(n).unwrap());
                    turns.write(OutputPiece::whole(piece, (n * threads + thread) * 10))
                });
                each.collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || put(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        if fails == usize::MAX {
            assert_eq!(progress.written.load(Relaxed), 1000 * threads);
        }
        let bytes = memory.lock().unwrap().get_ref().clone();
        (bytes, results)
    }

    #[test]
    fn all_pieces_arrive_by_one_thread_at_a_time() {
        for (threads, most) in [(1, 0), (2, 0), (4, 25), (4, 1 << 20)] {
            let (bytes, results) = written(threads, most, usize::MAX);
            assert!(results.iter().all(Result::is_ok));
            let want: Vec<u8> = (0..100u8).flat_map(|n| vec![n; 10 * usize::try_from(threads).unwrap()]).collect();
            assert!(bytes == want, "{threads} threads, {most} bytes");
        }
    }

    #[test]
    fn a_piece_fills_places_and_joins_neighbours() {
        let memory = Arc::new(Memory::default());
        let output = Output::over(Arc::clone(&memory), "memory");
        let progress = Progress::default();
        let mut piece = OutputPiece::new(Buffers::new(8).take(8));
        assert_eq!((piece.add(b"ab", 1), piece.add(b"cd", 3), piece.add(b"efghijk", 7)), (2, 2, 4));
        assert_eq!((piece.is_full(), piece.add(b"x", 20), piece.places.len()), (true, 0, 2));
        WriteTurns::new(&output, &progress, 0).write(piece).unwrap();
        assert_eq!(memory.lock().unwrap().get_ref(), b"\0abcd\0\0efgh");
        assert_eq!(progress.written.load(Relaxed), 8);
    }

    #[test]
    fn an_error_reaches_every_thread_and_blocks_none() {
        for most in [0, 25, 1 << 20] {
            let (_, results) = written(4, most, 7);
            let kinds: Vec<_> =
                results.iter().filter_map(|result| result.as_ref().err()).map(io::Error::kind).collect();
            assert!(kinds.iter().all(|kind| *kind == io::ErrorKind::StorageFull));
            // With room for all, the others may be done before it happens.
            assert!(kinds.len() >= if most > 1000 { 1 } else { 4 }, "{most}: {} errors", kinds.len());
        }
    }

    /// A storage that panics once others wait for it.
    #[derive(Debug)]
    struct PanickingStorage(std::sync::mpsc::SyncSender<()>, Mutex<std::sync::mpsc::Receiver<()>>);

    impl Storage for PanickingStorage {
        fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            self.0.send(()).unwrap();
            self.1.lock().unwrap().recv().unwrap();
            panic!("as the test wants");
        }

        fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_blocks_nobody() {
        let ((begun, begins), (go, goes)) = (std::sync::mpsc::sync_channel(1), std::sync::mpsc::sync_channel(1));
        let output = Output::over(PanickingStorage(begun, Mutex::new(goes)), "panicking");
        let progress = Progress::default();
        let buffers = Buffers::new(10);
        let turns = WriteTurns::new(&output, &progress, 0);
        let write = || turns.write(OutputPiece::whole(buffers.take(10), 0));
        std::thread::scope(|scope| {
            let first = scope.spawn(write);
            begins.recv().unwrap();
            let second = scope.spawn(write);
            while mutex::lock(&turns.state).blocked == 0 {
                std::thread::yield_now();
            }
            go.send(()).unwrap();
            assert!(first.join().is_err());
            assert!(second.join().unwrap().is_err());
        });
        assert!(write().is_err(), "nothing is written behind a piece that is missing");
    }
}
