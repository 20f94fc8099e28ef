//! What there is to say of a set without reading its data.

use std::path::PathBuf;

use packfs_blocks::ReadAt;
use serde::Serialize;

use super::map::ABSENT;
use super::{Content, Lost, Part, Set};
use crate::format::PartState;

/// A set of parts in numbers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Info {
    /// The set's name, in hexadecimal digits.
    pub set: String,
    /// The codec with its options.
    pub codec: String,
    /// Most bytes a chunk decodes to.
    pub chunk: u32,
    /// Most bytes of a segment.
    pub segment: u32,
    /// So many parts may be lost.
    pub parity: u16,
    /// True if a part at hand says that the split went through to the end of its input. Otherwise it was interrupted, or
    /// all parts at hand were cut off.
    pub finished: bool,
    /// True if the input can be read again, so that an unfinished split can be resumed: it was no stream.
    pub seekable: bool,
    /// Bytes of the dump, as far as is known.
    pub size: u64,
    /// Why there may be more.
    pub open_end: Option<&'static str>,
    /// Whether all of it can be had, damage aside.
    pub restorable: bool,
    /// What cannot.
    pub lost: Vec<Lost>,
    /// Bytes of the dump that repeat eight bytes, and take no room.
    pub fill_bytes: u64,
    /// Of these: zeros.
    pub zero_bytes: u64,
    /// Bytes of all parts at hand together.
    pub stored_bytes: u64,
    /// All parts there should be, by number.
    pub parts: Vec<PartInfo>,
}

/// A part in numbers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PartInfo {
    /// Counted from 1; not known where its superblock and its footer are lost.
    pub number: Option<u16>,
    /// Its file, if it is at hand.
    pub path: Option<PathBuf>,
    /// How it is.
    pub status: PartStatus,
    /// What is wrong with it.
    pub why: Option<String>,
    /// Bytes of it; of a part that is missing, as the manifest of another has it, without index and footer.
    pub len: Option<u64>,
    /// Data and parity segments.
    pub segments: Option<u64>,
}

/// How a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartStatus {
    /// Superblock, index and footer are sound.
    Whole,
    /// It was given up while it was written, its disk being full or failing. What is in it is good.
    Retired,
    /// It has no end: it was cut off, or not finished.
    Unfinished,
    /// Its superblock or index is damaged.
    Damaged,
    /// It is not at hand.
    Missing,
}

impl PartStatus {
    /// In one word.
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
    /// What there is to say of the set. Reads header and records of each segment.
    pub fn info(&self) -> Info {
        let (mut fill_bytes, mut zero_bytes) = (0, 0);
        for extent in self.extents() {
            if let Content::Fill(pattern) = extent.content {
                fill_bytes += extent.end - extent.start;
                zero_bytes += if pattern == [0; 8] { extent.end - extent.start } else { 0 };
            }
        }
        let lost = self.lost();
        let mut parts: Vec<PartInfo> = self.parts.iter().zip(0..).map(|(part, at)| self.part_info(part, at)).collect();
        parts.extend(self.missing().into_iter().map(|number| self.missing_info(number)));
        parts.sort_by_key(|part| part.number.unwrap_or(u16::MAX));
        Info {
            set: self.superblock.set.iter().map(|byte| format!("{byte:02x}")).collect(),
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

    fn part_info(&self, part: &Part, at: u16) -> PartInfo {
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
        let entry = manifests.filter_map(|foot| foot.manifest.get(usize::from(number))).find(|entry| entry.0.is_some());
        PartInfo {
            number: Some(number + 1),
            path: None,
            status: PartStatus::Missing,
            why: None,
            len: entry.map(|(_, _, len)| *len),
            segments: entry.map(|(_, segments, _)| *segments),
        }
    }

    /// How a part at hand is, and what is wrong with it.
    pub(super) fn status(&self, part: &Part) -> (PartStatus, Option<String>) {
        let retired = |foot: &crate::part::Foot| {
            let entry = part.number.and_then(|number| foot.manifest.get(usize::from(number)));
            entry.is_some_and(|(state, ..)| *state == Some(PartState::Retired))
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
