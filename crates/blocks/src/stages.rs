//! How long each stage of building an image took: clocks that any thread may add to. A look at the clock a block
//! costs nothing beside what is done to the block, and changes nothing about the order of things.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Listing the source, on the conductor, with what it does meanwhile for data that comes at once ([`Stage::Put`]).
    Scan,
    /// All that the conductor does for data that comes while sources are listed.
    Put,
    /// All that the conductor does for the rest of the data.
    Data,
    /// Reading what only the conductor can read: streams.
    Stream,
    /// Reading files.
    Read,
    /// Looking for zeros and hashing.
    Hash,
    /// Compressing, and proving what was compressed.
    Compress,
    /// The conductor's waiting for workers.
    Wait,
    /// Writing file data, on the conductor.
    Write,
    /// Writing file data, on workers.
    WriteApart,
    /// Inodes, directories and tables.
    Metadata,
    /// Until all has reached the disk.
    Flush,
}

const COUNT: usize = Stage::Flush as usize + 1;

/// Time of each stage, all threads together.
#[derive(Debug, Default)]
pub struct Stages([AtomicU64; COUNT]);

impl Stages {
    /// Does some work, and adds the time it takes to a stage.
    pub fn time<R>(&self, stage: Stage, work: impl FnOnce() -> R) -> R {
        let begun = Instant::now();
        let result = work();
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0[stage as usize].fetch_add(nanos, Relaxed);
        result
    }

    /// Time of a stage so far.
    pub fn of(&self, stage: Stage) -> Duration {
        Duration::from_nanos(self.0[stage as usize].load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up_by_stage() {
        let stages = Stages::default();
        let nap = Duration::from_millis(2);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| stages.time(Stage::Flush, || std::thread::sleep(nap)));
            }
        });
        assert_eq!(stages.time(Stage::Scan, || 7), 7);
        assert!(stages.of(Stage::Flush) >= 3 * nap, "{stages:?}");
        assert_eq!(stages.of(Stage::Data), Duration::ZERO);
    }
}
