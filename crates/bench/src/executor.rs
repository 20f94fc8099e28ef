//! Executors and the cells they measure. The executor is the machine, or in tests a mock whose samples are known.

use std::time::{Duration, Instant};

use crate::Result;
use crate::record::{KeySample, RecordedKey};

/// A cell of a matrix, which is measured repeatedly.
pub trait MeasuredCell {
    /// Type of the key that identifies its results.
    type Key: RecordedKey;

    /// Returns the key.
    fn key(&self) -> Self::Key;
}

/// Measures cells of one kind.
pub trait CellExecutor<C: MeasuredCell> {
    /// Measures a cell once. Short work is repeated until `min_time` has passed.
    fn run(&mut self, cell: &C, min_time: Duration) -> Result<KeySample<C::Key>>;

    /// Warms up for a cell, so that its first measurement resembles the others. Returns the expected time of a
    /// measurement.
    fn warm_up(&mut self, cell: &C) -> Result<Duration> {
        let begun = Instant::now();
        // No minimum time: one pass is enough to fill caches.
        self.run(cell, Duration::ZERO)?;
        Ok(begun.elapsed())
    }
}
