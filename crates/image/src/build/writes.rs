//! Writing on workers: the conductor says where bytes go and does not wait until they are there.

use std::fmt;
use std::io;

use packfs_blocks::Progress;
use packfs_blocks::pipeline::Window;
use packfs_blocks::stages::Stage;

use super::BuildTools;
use crate::{Error, Result};

/// Number of bytes that make a job of their own. To wake a worker takes as long as writing a few KiB.
const BATCH: usize = 256 << 10;
/// Number of jobs that write at a time. The kernel lets one thread at a time write to a file through the page cache,
/// and the others spin for its lock: in a profile with 16 threads, spinning took 63 % of all processor time of an
/// uncompressed build, and 39 % with lz4. Two keep the lock busy: while one writes, the next is ready. Pieces gather in
/// the meantime.
const MAX_WRITERS: usize = 2;

/// Pieces of an image of type `B` on their way to the output, in the order of their positions.
pub(crate) struct PendingWrites<'p, 'env, W, B> {
    tools: BuildTools<'p, 'env, W>,
    /// Not given to a worker yet: pieces with their offsets, and their length.
    batch: Vec<(B, u64)>,
    len: usize,
    /// Maximum number of bytes that wait or are being written.
    budget: usize,
    /// Writes in progress; the result of each is the end of its last piece.
    window: Window<io::Result<u64>>,
    /// Everything in front of this offset is written.
    written: u64,
}

impl<W, B> fmt::Debug for PendingWrites<'_, '_, W, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingWrites").field("written", &self.written).finish_non_exhaustive()
    }
}

impl<'p, 'env, W, B: AsRef<[u8]> + Send + 'env> PendingWrites<'p, 'env, W, B> {
    /// `budget` bounds the bytes that wait or are being written.
    pub(crate) fn new(tools: BuildTools<'p, 'env, W>, budget: usize) -> Self {
        PendingWrites { tools, batch: Vec::new(), len: 0, budget, window: Window::new(budget), written: 0 }
    }

    /// Has `piece` written at an offset of the output. Offsets must ascend.
    pub(crate) fn write(&mut self, piece: B, at: u64) -> Result<()> {
        self.len += piece.as_ref().len();
        self.batch.push((piece, at));
        if self.len < BATCH {
            return Ok(());
        }
        while let Some(done) = self.window.pop_ready() {
            self.done(done)?;
        }
        // Both writers are busy: pieces gather, so that the next job is longer, until memory says otherwise.
        if self.window.len() >= MAX_WRITERS {
            if self.window.bytes() + self.len < self.budget {
                return Ok(());
            }
            self.oldest()?;
        }
        self.send();
        Ok(())
    }

    /// Gives all pieces that wait to a worker.
    fn send(&mut self) {
        let BuildTools { output, progress, pool, .. } = self.tools;
        let batch = std::mem::take(&mut self.batch);
        let len = std::mem::take(&mut self.len);
        let write = move |_: &mut W| {
            let mut end = 0;
            for (piece, at) in batch {
                let piece = piece.as_ref();
                progress.stages.time(Stage::Write, || output.write_all_at(piece, at))?;
                end = at + piece.len() as u64;
            }
            Progress::add(&progress.written, len as u64);
            Ok(end)
        };
        // Before all encoding that waits: written pieces give their memory back, jobs of encoding take more.
        self.window.push(pool.submit_first(write), len);
    }

    /// Waits until everything in front of offset `end` is written, so that it can be read back.
    pub(crate) fn until(&mut self, end: u64) -> Result<()> {
        // The bytes may lie in pieces that still gather, for which nobody would wait.
        if self.batch.first().is_some_and(|(_, at)| *at < end) {
            self.send();
        }
        while self.written < end && !self.window.is_empty() {
            self.oldest()?;
        }
        Ok(())
    }

    /// Waits until everything is written.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.until(u64::MAX)
    }

    fn oldest(&mut self) -> Result<()> {
        let done = self.tools.progress.stages.time(Stage::Wait, || self.window.pop());
        done.map_or(Ok(()), |done| self.done(done))
    }

    fn done(&mut self, done: io::Result<u64>) -> Result<()> {
        self.written = done.map_err(Error::io("cannot write", self.tools.output.target()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use packfs_blocks::io::faults::{FaultKind, FaultyFiles};
    use packfs_blocks::{Output, pipeline};

    use super::*;

    /// Runs with writers on 0 to 3 workers into a file system that delays and fails as told.
    fn on(files: &FaultyFiles, threads: usize, run: impl FnOnce(PendingWrites<'_, '_, (), Vec<u8>>, &Output)) {
        let dir = tempfile::tempdir().unwrap();
        let output = Output::create_on(Arc::new(files.clone()), &dir.path().join("image"), 0o600, false).unwrap();
        let progress = Progress::default();
        let run = |pool: &_| {
            run(
                PendingWrites::new(BuildTools { pool, output: &output, blob: None, progress: &progress }, BATCH),
                &output,
            )
        };
        pipeline::scope(threads, || (), run);
    }

    /// Pieces of many lengths, so that some make a job alone and others do so together.
    fn pieces() -> Vec<(Vec<u8>, u64)> {
        let lens = (0..40).map(|n| 1 + n * n * 300 % 400_000);
        lens.scan(0, |at, len| {
            let piece = (vec![u8::try_from(*at % 251).unwrap(); len], *at);
            *at += len as u64 + 3;
            Some(piece)
        })
        .collect()
    }

    #[test]
    fn what_is_waited_for_can_be_read_back() {
        for threads in [0, 1, 3] {
            on(&FaultyFiles::new().slow(Duration::from_millis(3)), threads, |mut writes, output| {
                for (n, (piece, at)) in pieces().into_iter().enumerate() {
                    let (wanted, mut back) = (piece.clone(), vec![0; piece.len()]);
                    writes.write(piece, at).unwrap();
                    if n % 7 == 3 {
                        writes.until(at + back.len() as u64).unwrap();
                        output.read_exact_at(&mut back, at).unwrap();
                        assert!(back == wanted, "piece {n} with {threads} workers");
                    }
                }
                writes.finish().unwrap();
                for (piece, at) in pieces() {
                    let mut back = vec![0; piece.len()];
                    output.read_exact_at(&mut back, at).unwrap();
                    assert!(back == piece, "at {at} with {threads} workers");
                }
            });
        }
    }

    #[test]
    fn a_write_that_fails_is_an_error_at_the_end_at_the_latest() {
        let all = FaultyFiles::new();
        on(&all, 0, |mut writes, _| {
            pieces().into_iter().try_for_each(|(piece, at)| writes.write(piece, at)).unwrap();
            writes.finish().unwrap();
        });
        for (threads, number) in
            [0, 1, 3].into_iter().flat_map(|threads| (1..all.operations()).map(move |n| (threads, n)))
        {
            on(&FaultyFiles::failing(number, FaultKind::Io), threads, |mut writes, output| {
                let written = pieces().into_iter().try_for_each(|(piece, at)| writes.write(piece, at));
                let error = written.and_then(|()| writes.finish()).unwrap_err();
                assert!(error.to_string().contains(&*output.target().to_string_lossy()), "{error}");
            });
        }
    }
}
