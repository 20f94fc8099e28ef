//! Ranges of a dump that cannot be read.

use std::fmt;

use packfs_blocks::units::ByteSpan;
use serde::Serialize;

/// Bytes of the dump that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LostRange {
    /// Position of the first byte.
    pub start: u64,
    /// Position of the byte after the last one.
    pub end: u64,
    /// Reason.
    pub why: String,
}

impl LostRange {
    /// Adds a range to an ordered list, merging it with the range before.
    pub(crate) fn push(list: &mut Vec<LostRange>, lost: LostRange) {
        match list.last_mut() {
            Some(last) if last.end == lost.start && last.why == lost.why => last.end = lost.end,
            _ => list.push(lost),
        }
    }
}

impl fmt::Display for LostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", ByteSpan(self.start..self.end), self.why)
    }
}
