//! Who measures a cell: the machine, or in tests a mock whose samples are known.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::metrics::Sizes;
use crate::subject::Subject;

/// Measures cells of one kind.
pub trait Executor<S: Subject> {
    /// Measures a cell once. What takes little time is done again until `least` has gone by.
    fn run(&mut self, cell: &S, least: Duration) -> Result<S::Sample>;

    /// Gets ready for a cell, so that its first measurement is like the others; gives how long one will take, or about.
    fn warm_up(&mut self, cell: &S) -> Result<Duration> {
        let begun = Instant::now();
        self.run(cell, Duration::ZERO)?;
        Ok(begun.elapsed())
    }
}

/// One measurement of a codec on some blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// What it came to.
    pub sizes: Sizes,
    /// Encoding all blocks.
    pub encode: Timing,
    /// Decoding those kept compressed; nothing where none is.
    pub decode: Option<Timing>,
}

/// Time of one pass: the mean of the passes of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timing {
    /// Nanoseconds by the clock.
    pub wall: u64,
    /// Nanoseconds on processors, all threads together.
    pub cpu: u64,
    /// Number of passes.
    pub passes: u32,
}

impl Timing {
    /// Of one pass.
    pub fn of(wall: Duration, cpu: Duration) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Timing { wall: nanos(wall), cpu: nanos(cpu), passes: 1 }
    }

    /// Seconds by the clock.
    pub fn seconds(&self) -> f64 {
        self.wall as f64 / 1e9
    }

    /// Seconds on processors.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu as f64 / 1e9
    }
}
