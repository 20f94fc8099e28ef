//! What came of a split.

use std::ops::AddAssign;
use std::path::PathBuf;

use serde::Serialize;

use crate::format::PAGE;

/// What came of a split: how much of what, where it is, and what went wrong without stopping it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SplitReport {
    /// Name of the set, 32 hexadecimal digits.
    pub set: String,
    /// Bytes of the dump.
    pub bytes: u64,
    /// All of the input is in the set, and was the same from beginning to end.
    pub complete: bool,
    /// Why the input was not all read, or not the same throughout.
    pub input_error: Option<String>,
    /// Of `bytes`: found in the parts by `resume`.
    pub resumed_bytes: u64,
    /// Of `bytes`: done again because a part had failed.
    pub redone_bytes: u64,
    /// What became of the chunks, those found by `resume` included.
    pub chunks: Chunks,
    /// The parts, by number; not serialised, as their paths need not be text.
    #[serde(skip)]
    pub parts: Vec<PartReport>,
    /// Stripes with less protection than asked for.
    pub weak_stripes: u64,
    /// Ranges of the dump whose bytes may be lost: a part failed that had them, and the input cannot be read again.
    pub suspect: Vec<(u64, u64)>,
    /// What the user should know although nothing failed.
    pub notes: Vec<String>,
    /// Where the time went.
    pub times: Times,
}

impl SplitReport {
    /// Whether there is nothing to worry about.
    pub fn is_clean(&self) -> bool {
        self.complete
            && self.suspect.is_empty()
            && self.weak_stripes == 0
            && self.parts.iter().all(|part| part.error.is_none())
    }
}

/// What became of the chunks, in bytes of the dump unless it says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Chunks {
    /// Put down as they are.
    pub raw_bytes: u64,
    /// Coded.
    pub coded_bytes: u64,
    /// Eight bytes repeated, holes included.
    pub fill_bytes: u64,
    /// Pages of zeros left out of other chunks; these count as raw or coded as well.
    pub squeezed_bytes: u64,
    /// Equal to an earlier chunk.
    pub same_bytes: u64,
    /// Bytes of all data segments.
    pub segment_bytes: u64,
    /// Bytes of all parity segments.
    pub parity_bytes: u64,
}

impl Chunks {
    /// Counts a stored chunk of `len` bytes; `map` has a bit for each page that is there, and is empty if all are.
    pub(super) fn add_stored(&mut self, len: u64, coded: bool, map: &[u8]) {
        if !map.is_empty() {
            let there: u64 = map.iter().map(|byte| u64::from(byte.count_ones())).sum();
            self.squeezed_bytes += len.div_ceil(PAGE as u64).saturating_sub(there) * PAGE as u64;
        }
        *(if coded { &mut self.coded_bytes } else { &mut self.raw_bytes }) += len;
    }
}

impl AddAssign for Chunks {
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

/// A part.
#[derive(Debug, Clone, Serialize)]
pub struct PartReport {
    /// Its path; not serialised, as it need not be text.
    #[serde(skip)]
    pub path: PathBuf,
    /// Length of it.
    pub bytes: u64,
    /// Of `bytes`: found by `resume`.
    pub resumed_bytes: u64,
    /// Data and parity segments in it.
    pub segments: u64,
    /// Seconds in which something was being written to it.
    pub busy_seconds: f64,
    /// Seconds spent waiting for the disk at checkpoints and at the end.
    pub sync_seconds: f64,
    /// It has an index and a footer; without them it is scanned.
    pub finished: bool,
    /// Why it was retired.
    pub error: Option<String>,
}

/// Where the time went, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Times {
    /// Until all was handed to the system.
    pub to_cache: f64,
    /// Until all had reached the disks.
    pub to_disk: f64,
    /// Reading, summed over threads.
    pub read: f64,
    /// Finding out what chunks are, coding and proving them, summed over threads.
    pub code: f64,
    /// The conductor waited for chunks to be ready.
    pub wait_for_chunks: f64,
    /// The conductor waited for parts to take what was ready.
    pub wait_for_parts: f64,
}
