//! Measurements of a codec on blocks, and of a trial (an image built or read, a dump split).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::metrics::Sizes;

/// One measurement of a codec on some blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecSample {
    /// Result.
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

/// Result of doing the work once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Duration.
    pub time: Timing,
    /// Bytes it was about: of the files packed, read or split.
    pub bytes: u64,
    /// Bytes that came of it, or that it came from: of the image or the parts.
    pub made: u64,
    /// Most bytes of memory that the program had at once, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Seconds of each stage, all threads together, where the program tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, f64>,
}
