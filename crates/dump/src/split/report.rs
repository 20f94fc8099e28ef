//! Result of a split.

use std::ops::AddAssign;
use std::path::PathBuf;

use serde::Serialize;

use crate::format::PAGE;

/// Result of a split: amounts, positions, and problems that did not stop it.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SplitReport {
    /// Name of the set, 32 hexadecimal digits.
    pub set: String,
    /// Length of the dump in bytes.
    pub bytes: u64,
    /// True if the set contains the whole input, which did not change meanwhile.
    pub complete: bool,
    /// Reason why the input was not read completely, or has changed; `None` if neither happened.
    pub input_error: Option<String>,
    /// Bytes of the dump that `resume` found in the parts.
    pub resumed_bytes: u64,
    /// Bytes of the dump that were written again because a part had failed.
    pub redone_bytes: u64,
    /// Statistics of the chunks, including those found by `resume`.
    pub chunks: ChunkBytes,
    /// The parts, by number; not serialised, as their paths need not be text.
    #[serde(skip)]
    pub parts: Vec<PartReport>,
    /// Number of stripes with less protection than requested.
    pub weak_stripes: u64,
    /// Ranges of the dump that may be lost: a part that contained them failed, and the input cannot be read again. Pairs
    /// of the first byte and the byte after the last.
    pub suspect: Vec<(u64, u64)>,
    /// Notes for the user although nothing failed.
    pub notes: Vec<String>,
    /// Time spent per activity.
    pub times: SplitTimes,
}

impl SplitReport {
    /// Returns true if there were no problems.
    pub fn is_clean(&self) -> bool {
        self.complete
            && self.suspect.is_empty()
            && self.weak_stripes == 0
            && self.parts.iter().all(|part| part.error.is_none())
    }
}

/// Statistics of the chunks, in bytes of the dump unless noted otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ChunkBytes {
    /// Bytes stored uncompressed.
    pub raw_bytes: u64,
    /// Bytes stored compressed.
    pub coded_bytes: u64,
    /// Bytes of repetitions of eight bytes, including zeros and holes.
    pub fill_bytes: u64,
    /// Bytes of pages of zeros left out of other chunks, which also count as uncompressed or compressed.
    pub squeezed_bytes: u64,
    /// Bytes of chunks that equal an earlier one.
    pub same_bytes: u64,
    /// Length of all data segments in the parts.
    pub segment_bytes: u64,
    /// Length of all parity segments in the parts.
    pub parity_bytes: u64,
}

impl ChunkBytes {
    /// Counts a stored chunk of `len` bytes; `map` has a bit for each stored page, and is empty if all are stored.
    pub(super) fn add_stored(&mut self, len: u64, coded: bool, map: &[u8]) {
        if !map.is_empty() {
            let there: u64 = map.iter().map(|byte| u64::from(byte.count_ones())).sum();
            self.squeezed_bytes += len.div_ceil(PAGE as u64).saturating_sub(there) * PAGE as u64;
        }
        *(if coded { &mut self.coded_bytes } else { &mut self.raw_bytes }) += len;
    }
}

impl AddAssign for ChunkBytes {
    fn add_assign(&mut self, other: Self) {
        self.raw_bytes += other.raw_bytes;
        self.coded_bytes += other.coded_bytes;
        self.fill_bytes += other.fill_bytes;
        self.squeezed_bytes += other.squeezed_bytes;
        self.same_bytes += other.same_bytes;
        self.segment_bytes += other.segment_bytes;
        self.parity_bytes += other.parity_bytes;
    }
}

/// Report of a part.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PartReport {
    /// Its path; not serialised, as it need not be text.
    #[serde(skip)]
    pub path: PathBuf,
    /// Length of the part in bytes.
    pub bytes: u64,
    /// Bytes of the part that `resume` found.
    pub resumed_bytes: u64,
    /// Number of data and parity segments in it.
    pub segments: u64,
    /// Seconds spent writing to it.
    pub busy_seconds: f64,
    /// Seconds spent waiting for the disk at checkpoints and at the end.
    pub sync_seconds: f64,
    /// True if it has an index and a footer; otherwise it must be scanned.
    pub finished: bool,
    /// Reason why it was abandoned; `None` if it was not.
    pub error: Option<String>,
}

/// Time spent per activity, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SplitTimes {
    /// Time until everything was passed to the system.
    pub to_cache: f64,
    /// Time until everything was on disk.
    pub to_disk: f64,
    /// Time of reading, summed over threads.
    pub read: f64,
    /// Time of classifying, compressing and verifying chunks, summed over threads.
    pub code: f64,
    /// Time in which the conductor waited for chunks.
    pub wait_for_chunks: f64,
    /// Time in which the conductor waited for parts.
    pub wait_for_parts: f64,
}
