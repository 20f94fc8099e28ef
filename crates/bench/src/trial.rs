//! One measurement of work that is done as a whole: an image built or read, a dump split.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::executor::Timing;

/// What doing the work once came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// How long it took.
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
