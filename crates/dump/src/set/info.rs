//! Facts about a set that are known without reading its data.

use std::path::PathBuf;

use packfs_blocks::ReadAt;
use packfs_blocks::hex::to_hex;
use serde::Serialize;

use super::map::ABSENT;
use super::{AvailablePart, ExtentContent, LostRange, Set};
use crate::format::PartState;

/// Facts about a set.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SetInfo {
    /// Id of the set, in hexadecimal digits.
    pub set: String,
    /// The codec with its options.
    pub codec: String,
    /// Maximum decoded length of a chunk.
    pub chunk: u32,
    /// Maximum length of a segment.
    pub segment: u32,
    /// Number of parts that may be lost.
    pub parity: u16,
    /// True if an available part says that the split reached the end of its input. Otherwise it was
    /// interrupted, or all available parts were cut off.
    pub finished: bool,
    /// True if the input can be read again, so that an unfinished split can be resumed: it was no stream.
    pub seekable: bool,
    /// Length of the dump in bytes, as far as known.
    pub size: u64,
    /// Reason why it may be longer.
    pub open_end: Option<&'static str>,
    /// True if all of it can be read, apart from damage.
    pub restorable: bool,
    /// Ranges that cannot be read.
    pub lost: Vec<LostRange>,
    /// Bytes of the dump that repeat eight bytes, and take no room.
    pub fill_bytes: u64,
    /// Number of these that are zeros.
    pub zero_bytes: u64,
    /// Total length of all available parts.
    pub stored_bytes: u64,
    /// All parts of the set, by number.
    pub parts: Vec<PartInfo>,
}

/// Facts about a part.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PartInfo {
    /// Number, counted from 1; `None` if superblock and footer are both lost.
    pub number: Option<u16>,
    /// Path, if it is available.
    pub path: Option<PathBuf>,
    /// State.
    pub status: PartStatus,
    /// Description of its defect.
    pub why: Option<String>,
    /// Length in bytes. For a missing part, its length in another part's manifest, without index and footer.
    pub len: Option<u64>,
    /// Number of data and parity segments.
    pub segments: Option<u64>,
}

/// State of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PartStatus {
    /// Superblock, index and footer are sound.
    Whole,
    /// It was retired while it was written because its disk was full or failing. Its contents are good.
    Retired,
    /// It has no trailer: it was cut off, or not finished.
    Unfinished,
    /// Its superblock or index is damaged.
    Damaged,
    /// It is not available.
    Missing,
}

impl PartStatus {
    /// Returns the state as one word.
    pub fn name(self) -> &'static str {
        match self {
            PartStatus::Whole => "whole",
            PartStatus::Retired => "retired",
            PartStatus::Unfinished => "unfinished",
            PartStatus::Damaged => "damaged",
            PartStatus::Missing => "missing",
        }
    }
}

impl Set {
    /// Returns facts about the set. Reads header and records of each segment.
    pub fn info(&self) -> SetInfo {
        let mut fill_bytes = 0;
        let mut zero_bytes = 0;
        for extent in self.extents() {
            if let ExtentContent::Fill(pattern) = extent.content {
                fill_bytes += extent.end - extent.start;
                zero_bytes += if pattern == [0; 8] { extent.end - extent.start } else { 0 };
            }
        }
        let lost = self.lost();
        let mut parts: Vec<PartInfo> = self.parts.iter().zip(0..).map(|(part, at)| self.part_info(part, at)).collect();
        parts.extend(self.missing().into_iter().map(|number| self.missing_info(number)));
        parts.sort_by_key(|part| part.number.unwrap_or(u16::MAX));
        SetInfo {
            set: to_hex(&self.superblock.set),
            codec: self.superblock.codec.to_string(),
            chunk: self.superblock.chunk,
            segment: self.superblock.segment,
            parity: self.superblock.parity,
            finished: self.parts.iter().filter_map(|part| part.foot.as_ref()).any(|foot| foot.complete),
            seekable: self.superblock.size.is_some(),
            size: self.size,
            open_end: self.open_end,
            restorable: lost.is_empty() && self.open_end.is_none(),
            lost,
            fill_bytes,
            zero_bytes,
            stored_bytes: self.parts.iter().map(|part| part.source.len()).sum(),
            parts,
        }
    }

    fn part_info(&self, part: &AvailablePart, at: u16) -> PartInfo {
        let (status, why) = self.status(part);
        let places = self.map.data().iter().chain(self.map.parity());
        PartInfo {
            number: part.number.map(|number| number + 1),
            path: Some(part.path.clone()),
            status,
            why,
            len: Some(part.source.len()),
            segments: Some(places.filter(|place| place.part == at && at != ABSENT).count() as u64),
        }
    }

    fn missing_info(&self, number: u16) -> PartInfo {
        let manifests = self.parts.iter().filter_map(|part| part.foot.as_ref());
        let entry =
            manifests.filter_map(|foot| foot.manifest.get(usize::from(number))).find(|entry| entry.state.is_some());
        PartInfo {
            number: Some(number + 1),
            path: None,
            status: PartStatus::Missing,
            why: None,
            len: entry.map(|entry| entry.len),
            segments: entry.map(|entry| entry.segments),
        }
    }

    /// Returns the state of an available part, with its defect.
    pub(super) fn status(&self, part: &AvailablePart) -> (PartStatus, Option<String>) {
        let retired = |foot: &crate::part::PartFooter| {
            let entry = part.number.and_then(|number| foot.manifest.get(usize::from(number)));
            entry.is_some_and(|entry| entry.state == Some(PartState::Retired))
        };
        let retired = self.parts.iter().filter_map(|other| other.foot.as_ref()).any(retired);
        match (&part.flaw, &part.foot, &part.scanned) {
            (Some(flaw), ..) => (PartStatus::Damaged, Some(format!("its superblock is damaged: {flaw}"))),
            (None, Some(_), Some(why)) => (PartStatus::Damaged, Some(why.clone())),
            _ if retired => (PartStatus::Retired, None),
            (None, None, why) => (PartStatus::Unfinished, why.clone()),
            (None, Some(_), None) => (PartStatus::Whole, None),
        }
    }
}
