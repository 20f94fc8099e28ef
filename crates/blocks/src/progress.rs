//! Progress counters of a long operation, which a user interface may poll, and the way to cancel it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::stages::Stages;
use crate::threads;

/// Phase of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Listing the source.
    Scan,
    /// Reading, compressing and writing file data.
    Data,
    /// Writing inodes, directories and tables.
    Metadata,
    /// Flushing to disk.
    Flush,
    /// Reading an image (extract, tar, check).
    Read,
    /// Finished.
    Done,
}

const PHASES: [Phase; 6] = [Phase::Scan, Phase::Data, Phase::Metadata, Phase::Flush, Phase::Read, Phase::Done];

/// Live counters, in bytes except those of entries. Reading them gives no consistent snapshot.
///
/// Contract: workers only add, so each counter grows. Different counters are not synchronised:
/// `done` may exceed `total` for a moment, or stay below it if files were left out. Observers poll;
/// workers never wait for them. One operation has one `Progress`. If it is reused, counting
/// continues from the earlier values, and a cancelled `Progress` ends the next operation as soon as
/// it begins.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    cancelled: AtomicBool,
    /// Inodes listed while scanning, or finished while reading.
    pub entries: AtomicU64,
    /// Total entries to read; 0 if unknown.
    pub entries_total: AtomicU64,
    /// Total file bytes of this phase; 0 if unknown (a stream).
    pub total: AtomicU64,
    /// File bytes done so far (holes and duplicates included).
    pub done: AtomicU64,
    /// Bytes of `done` that are duplicates or holes, and so cost nothing.
    pub saved: AtomicU64,
    /// Bytes of `done` that went through the codec or were stored.
    pub packed: AtomicU64,
    /// Bytes written to the output.
    pub written: AtomicU64,
    /// Bytes per file, if the operation spans several files.
    pub files: FileCounters,
    /// Time spent per stage.
    pub stages: Stages,
}

/// Bytes that were read from, or written to, each of several files.
#[derive(Debug, Default)]
pub struct FileCounters(OnceLock<Vec<Arc<AtomicU64>>>);

impl FileCounters {
    /// Sets the counters, to which readers and writers of the files add. Only the first call counts.
    pub fn set(&self, counters: Vec<Arc<AtomicU64>>) {
        let _ = self.0.set(counters);
    }

    /// Returns the bytes of each file; empty if the operation does not span several files.
    pub fn bytes(&self) -> Vec<u64> {
        self.0.get().map_or_else(Vec::new, |files| files.iter().map(|bytes| bytes.load(Relaxed)).collect())
    }
}

impl Progress {
    /// Marks the beginning of a phase. It reads no clock: readers in browsers, which have none, call it, too.
    pub fn enter(&self, phase: Phase) {
        let at = PHASES.iter().position(|p| *p == phase).unwrap_or(0);
        self.phase.store(u8::try_from(at).unwrap_or(0), Relaxed);
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        PHASES[usize::from(self.phase.load(Relaxed)).min(PHASES.len() - 1)]
    }

    /// Asks the operation to stop; it fails with a distinct error at the next block. Any thread may
    /// call this at any time, and it cannot be undone. An operation that was about to finish may
    /// still succeed.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// Returns true if the operation was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// Runs `work`, which counts here, and calls `watcher` on a second thread every `interval` until it ends, then once
    /// more. The watcher may [cancel](Progress::cancel). If the system starts no more threads, only the last call remains.
    pub fn watch<T>(
        &self,
        interval: Duration,
        mut watcher: impl FnMut(&Progress) + Send,
        work: impl FnOnce() -> T,
    ) -> T {
        let watching = &mut watcher;
        let result = thread::scope(|scope| {
            let (running, ended) = mpsc::channel::<()>();
            let poll = move || {
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(interval) {
                    watching(self);
                }
            };
            // Without this thread, the watcher is called less often, and nothing else is lost.
            let _ = threads::named("packfs-progress").start_in(scope, poll);
            let result = work();
            // The thread ends at once, without waiting for the rest of the interval. A panic has the same effect.
            drop(running);
            result
        });
        watcher(self);
        result
    }

    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_called_while_work_runs_and_after_it() {
        let progress = Progress::default();
        let mut seen = Vec::new();
        let see = |progress: &Progress| {
            seen.push(progress.done.load(Relaxed));
            progress.cancel();
        };
        let result = progress.watch(Duration::from_millis(1), see, || {
            while !progress.is_cancelled() {
                thread::yield_now();
            }
            Progress::add(&progress.done, 7);
            "result"
        });
        assert_eq!(result, "result");
        assert_eq!((seen.first(), seen.last()), (Some(&0), Some(&7)));
    }
}
