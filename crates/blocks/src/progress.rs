//! Counters of a long piece of work, which any thread may add to and a user interface may watch, and the way to stop it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::stages::Stages;

/// What the work is busy with.
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
    /// Over.
    Done,
}

const PHASES: [Phase; 6] = [Phase::Scan, Phase::Data, Phase::Metadata, Phase::Flush, Phase::Read, Phase::Done];

/// Live counters; all in bytes but those of entries. Reading them is never more than a snapshot.
///
/// Contract: workers only ever add, so each counter grows; between two counters there is no order, and `done` may be seen
/// above `total` for a moment, or stay below it where files were left out. Whoever watches polls; nothing waits for that.
/// One piece of work has one `Progress`; using it for the next goes on from the counts of the last, and work whose
/// `Progress` is cancelled ends as soon as it begins.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    cancelled: AtomicBool,
    /// Inodes seen while scanning or finished while reading.
    pub entries: AtomicU64,
    /// Entries there are to do while reading; 0 when not known.
    pub entries_total: AtomicU64,
    /// File bytes there are to do in this phase; 0 when not known (a stream).
    pub total: AtomicU64,
    /// File bytes done so far (holes and duplicates included).
    pub done: AtomicU64,
    /// Of `done`: bytes found to be duplicates or holes, which cost nothing.
    pub saved: AtomicU64,
    /// Of `done`: bytes that went through the codec or were stored.
    pub packed: AtomicU64,
    /// Bytes written to the output.
    pub written: AtomicU64,
    /// Where work is spread over several files, those of each.
    pub files: Files,
    /// Where the time goes.
    pub stages: Stages,
}

/// Bytes that were read from, or written to, each of several files.
#[derive(Debug, Default)]
pub struct Files(OnceLock<Vec<Arc<AtomicU64>>>);

impl Files {
    /// The counters, which readers and writers of the files add to. Only the first call counts.
    pub fn set(&self, counters: Vec<Arc<AtomicU64>>) {
        let _ = self.0.set(counters);
    }

    /// The bytes of each file; empty where work is not spread.
    pub fn bytes(&self) -> Vec<u64> {
        self.0.get().map_or_else(Vec::new, |files| files.iter().map(|bytes| bytes.load(Relaxed)).collect())
    }
}

impl Progress {
    /// Says that a phase begins.
    pub fn enter(&self, phase: Phase) {
        let at = PHASES.iter().position(|p| *p == phase).unwrap_or(0);
        self.phase.store(u8::try_from(at).unwrap_or(0), Relaxed);
    }

    /// The phase under way.
    pub fn phase(&self) -> Phase {
        PHASES[usize::from(self.phase.load(Relaxed)).min(PHASES.len() - 1)]
    }

    /// Asks the work to stop: it ends with an error of its own at the next block. Any thread may ask, at any time, and
    /// nothing takes it back. Work that was about to be done may still end well.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// True if the work was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }
}
