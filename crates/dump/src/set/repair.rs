//! Records of segments that parity restored while a dump was read.

use std::path::PathBuf;

use super::map::{ABSENT, RESTORED};
use super::{AvailablePart, Set};

/// Segments of one part, or of all missing parts, that were restored from their stripes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredSegments {
    /// The part with the damage; `None` for missing parts.
    pub part: Option<PathBuf>,
    /// Number of segments.
    pub segments: u64,
    /// Number of bytes of the dump in them.
    pub bytes: u64,
    /// The first of these bytes.
    pub start: u64,
}

impl Set {
    /// Returns everything restored since the set was opened, in the order of the parts; missing ones are last.
    pub fn repairs(&self) -> Vec<RestoredSegments> {
        // The last one is for missing parts.
        let mut found: Vec<Option<RestoredSegments>> = vec![None; self.parts.len() + 1];
        for (number, place) in (0..).zip(self.map.data()) {
            if !self.map.is(number, RESTORED) {
                continue;
            }
            let at = if place.part == ABSENT { self.parts.len() } else { usize::from(place.part) };
            let part = self.parts.get(at).map(|AvailablePart { path, .. }| path.clone());
            let begun = RestoredSegments { part, segments: 0, bytes: 0, start: place.start };
            let repair = found[at].get_or_insert(begun);
            repair.segments += 1;
            repair.bytes += place.end - place.start;
        }
        found.into_iter().flatten().collect()
    }
}
