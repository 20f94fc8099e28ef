//! Executors and the cells they measure. The executor is the machine, or in tests a mock whose samples are known.

use std::time::{Duration, Instant};

use crate::Result;
use crate::record::{Recorded, Sample};

/// A cell of a matrix: something that is measured again and again.
pub trait Subject {
    /// The key its measurements are recorded under.
    type Key: Recorded;

    /// Returns its key.
    fn key(&self) -> Self::Key;
}

/// Measures cells of one kind.
pub trait Executor<S: Subject> {
    /// Measures a cell once. What takes little time is done again until `least` has gone by.
    fn run(&mut self, cell: &S, least: Duration) -> Result<Sample<S::Key>>;

    /// Gets ready for a cell, so that its first measurement is like the others; returns about how long one will take.
    fn warm_up(&mut self, cell: &S) -> Result<Duration> {
        let begun = Instant::now();
        self.run(cell, Duration::ZERO)?;
        Ok(begun.elapsed())
    }
}
