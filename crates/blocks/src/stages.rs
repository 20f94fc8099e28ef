//! Time spent in each stage of building or checking an image: clocks that any thread may add to. Reading the
//! clock once per block costs nothing compared with processing the block, and does not affect the
//! order of work.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A timed stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Listing the source, on the conductor, except for data handled meanwhile ([`Stage::Put`]).
    Scan,
    /// All work of the conductor on data that arrives while sources are listed.
    Put,
    /// All work of the conductor on the remaining data. Of a check: the verification of data, waiting included.
    Data,
    /// Reading streams, which only the conductor can read.
    Stream,
    /// Reading files.
    Read,
    /// Detecting zeros and hashing.
    Hash,
    /// Compressing, and verifying the result.
    Compress,
    /// The conductor waiting for workers.
    Wait,
    /// Writing file data, on workers.
    Write,
    /// Inodes, directories and tables: writing them, or checking them.
    Metadata,
    /// Flushing the output to disk.
    Flush,
}

const COUNT: usize = Stage::Flush as usize + 1;

/// Time of each stage, summed over all threads.
#[derive(Debug, Default)]
pub struct Stages([AtomicU64; COUNT]);

impl Stages {
    /// Runs some work and adds its duration to a stage. In WebAssembly, where there is no clock, it stays zero.
    pub fn time<R>(&self, stage: Stage, work: impl FnOnce() -> R) -> R {
        let begun = (!cfg!(target_family = "wasm")).then(Instant::now);
        let result = work();
        let elapsed = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.0[stage as usize].fetch_add(nanos, Relaxed);
        result
    }

    /// Returns the time of a stage so far.
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
