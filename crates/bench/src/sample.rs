//! Samples of codecs and of trials (a build, read or split).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::metrics::PassSizes;

/// A sample of a codec on blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CodecSample {
    /// Sizes of the data and the result.
    pub sizes: PassSizes,
    /// Time to encode all blocks.
    pub encode: PassTiming,
    /// Time to decode the blocks kept compressed; `None` if there are none.
    pub decode: Option<PassTiming>,
}

/// Time of a pass: the mean over all passes of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PassTiming {
    /// Elapsed nanoseconds.
    pub wall: u64,
    /// Nanoseconds of processor time, summed over all threads.
    pub cpu: u64,
    /// Number of passes.
    pub passes: u32,
}

impl PassTiming {
    /// Creates the timing of a single pass.
    pub fn of(wall: Duration, cpu: Duration) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        PassTiming { wall: nanos(wall), cpu: nanos(cpu), passes: 1 }
    }

    /// Returns the elapsed time in seconds.
    pub fn seconds(&self) -> f64 {
        self.wall as f64 / 1e9
    }

    /// Returns the processor time in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu as f64 / 1e9
    }
}

/// A sample of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TrialSample {
    /// Time of the trial.
    pub time: PassTiming,
    /// Bytes of the input: the files packed, read or split.
    pub bytes: u64,
    /// Bytes of the image or of all parts.
    pub made: u64,
    /// Peak memory of the program in bytes; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Seconds of each stage, summed over all threads; absent if the program does not report them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, f64>,
}
