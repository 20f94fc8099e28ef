//! Who measures a cell: the machine, or in tests a mock whose samples are known.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::matrix::Cell;
use crate::metrics::Sizes;

/// Measures cells.
pub trait Executor {
    /// Measures a cell once: passes over its data until `least` has gone by, and at least one.
    fn run(&mut self, cell: &Cell, least: Duration) -> Result<Sample>;
}

/// One measurement of a cell.
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
    /// Seconds by the clock.
    pub fn seconds(&self) -> f64 {
        self.wall as f64 / 1e9
    }

    /// Seconds on processors.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu as f64 / 1e9
    }
}
