//! Verifies all parts of a set: every structure, every chunk by decoding it, and parity by
//! recomputing it. Each finding states its effect on the dump, which is determined by reading the
//! bytes in question from elsewhere.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::name::display;
use packfs_blocks::pipeline::{self, Window};
use packfs_blocks::progress::Phase;
use packfs_blocks::units::{ByteSpan, Size};
use packfs_blocks::{Progress, ReadAt};
use serde::Serialize;

use super::map::{ABSENT, SegmentNumber, SegmentPlace};
use super::read::{OpenedSegment, SegmentOrigin, SegmentRun};
use super::stripe::ParityStripe;
use super::{AvailablePart, LostRange, PartStatus, ReadScratch, Set};
use crate::format::{ALIGN, SegmentKind, sum};
use crate::part::{ScanStep as Met, SegmentScan, StretchStorage};
use crate::{Error, Result};

/// A defect of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetFinding {
    /// The affected part.
    pub part: Option<PathBuf>,
    /// Offset in the part.
    pub offset: Option<u64>,
    /// Description of the defect.
    pub what: String,
    /// Effect on the dump.
    pub harm: FindingHarm,
}

/// Effect of a finding on the dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum FindingHarm {
    /// No byte of the dump is affected.
    None,
    /// These bytes can be read from another copy, or restored from parity.
    Repairable {
        /// Position of the first byte in the dump.
        start: u64,
        /// Position of the byte after the last one.
        end: u64,
    },
    /// Some of these bytes are lost.
    Lost {
        /// Position of the first byte in the dump.
        start: u64,
        /// Position of the byte after the last one.
        end: u64,
    },
}

impl fmt::Display for SetFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(part) = &self.part {
            write!(f, "{}: ", display(part))?;
        }
        if let Some(offset) = self.offset {
            write!(f, "byte {offset}: ")?;
        }
        write!(f, "{}", self.what)?;
        match &self.harm {
            FindingHarm::None => Ok(()),
            FindingHarm::Repairable { start, end } => {
                write!(f, "; {} of the dump can be repaired", ByteSpan(*start..*end))
            }
            FindingHarm::Lost { start, end } => write!(f, "; some of {} of the dump are lost", ByteSpan(*start..*end)),
        }
    }
}

/// Result of a check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckedSet {
    /// Number of data and parity segments verified.
    pub segments: u64,
    /// Lost ranges of the dump, including damaged ones.
    pub lost: Vec<LostRange>,
}

/// Result of one job.
type JobFindings = (Vec<SetFinding>, Vec<LostRange>);

/// A job: the item to verify.
#[derive(Clone, Copy)]
enum CheckJob {
    Data(SegmentNumber),
    Stripe(u64),
}

impl Set {
    /// Verifies everything in the available parts, on `threads` threads, calling `finding` for each
    /// defect. Ends with [`Error::Cancelled`] at the next segment after [`Progress::cancel`].
    pub fn check(
        &self,
        threads: usize,
        progress: &Progress,
        finding: &mut dyn FnMut(SetFinding),
    ) -> Result<CheckedSet> {
        progress.enter(Phase::Read);
        for number in self.missing() {
            let what = format!("part {} of {} is missing", number + 1, self.superblock.parts);
            finding(SetFinding { part: None, offset: None, what, harm: FindingHarm::None });
        }
        for (at, part) in (0..).zip(&self.parts) {
            self.structures(part, finding);
            self.strangers(at, part, finding)?;
        }
        if let Some(why) = self.open_end {
            finding(SetFinding { part: None, offset: None, what: why.into(), harm: FindingHarm::None });
        }
        let jobs = self.jobs();
        let bytes = self.map.data().iter().chain(self.map.parity()).map(|place| u64::from(place.len)).sum();
        progress.total.store(bytes, std::sync::atomic::Ordering::Relaxed);
        let mut lost = self.lost();
        let state = || (ReadScratch::default(), Vec::new());
        pipeline::scope(threads, state, |pool| {
            let mut window = Window::new(4 * threads);
            let mut take = |(findings, gone): JobFindings| {
                findings.into_iter().for_each(&mut *finding);
                lost.extend(gone);
            };
            for job in &jobs {
                Error::unless_cancelled(progress)?;
                if window.is_full() {
                    window.pop().map(&mut take);
                }
                let job = *job;
                window.push(pool.submit(move |(scratch, bytes)| self.verify(job, scratch, bytes, progress)), 1);
            }
            while let Some(found) = window.pop() {
                Error::unless_cancelled(progress)?;
                take(found);
            }
            Ok::<_, Error>(())
        })?;
        progress.enter(Phase::Done);
        Ok(CheckedSet { segments: jobs.len() as u64, lost: merged(lost) })
    }

    /// Returns the data segments in the order of the parts, then the stripes.
    fn jobs(&self) -> Vec<CheckJob> {
        let mut numbers: Vec<SegmentNumber> = (0..).zip(self.map.data()).map(|(number, _)| number).collect();
        numbers.sort_unstable_by_key(|n| (self.map.get(*n).part, self.map.get(*n).position));
        let stripes =
            self.map.parity().chunk_by(|a, b| a.stripe == b.stripe).map(|parity| CheckJob::Stripe(parity[0].stripe));
        numbers.into_iter().map(CheckJob::Data).chain(stripes).collect()
    }

    fn verify(
        &self,
        job: CheckJob,
        scratch: &mut ReadScratch,
        bytes: &mut Vec<u8>,
        progress: &Progress,
    ) -> JobFindings {
        match job {
            CheckJob::Data(number) => {
                Progress::add(&progress.done, self.map.get(number).len.into());
                self.verify_data(number, scratch, bytes)
            }
            CheckJob::Stripe(stripe) => {
                let len: u64 = self.map.parity_of(stripe).iter().map(|place| u64::from(place.len)).sum();
                Progress::add(&progress.done, len);
                (self.verify_parity(stripe), Vec::new())
            }
        }
    }

    fn verify_data(&self, number: SegmentNumber, scratch: &mut ReadScratch, bytes: &mut Vec<u8>) -> JobFindings {
        let place = self.map.get(number);
        if place.part == ABSENT {
            // Whether it can be restored is known only by restoring it.
            let lost = self.walk(place.start..place.end, scratch, &mut |_, _| Ok(()));
            return (Vec::new(), lost.unwrap_or_default());
        }
        let mut wrong = Vec::new();
        match self.open_whole(number, scratch, bytes) {
            Err(error) => wrong.push((0, error.to_string(), place.start..place.end)),
            Ok(opened) => {
                let run = SegmentRun { opened: &opened, wanted: place.start..place.end, same: true };
                let head_len = u64::from(opened.segment.head_len);
                let rest = &bytes[opened.segment.head_len as usize..];
                let (payload, padding) = rest.split_at(opened.segment.payload as usize);
                let mut chunk = Vec::new();
                for stretch in opened.stretches() {
                    let (StretchStorage::Stored { payload, .. } | StretchStorage::Same { payload }) = &stretch.what
                    else {
                        continue;
                    };
                    chunk.resize(usize::try_from(stretch.range.end - stretch.range.start).unwrap_or(0), 0);
                    if let Err(error) = self.chunk(&run, stretch, scratch, &mut chunk) {
                        wrong.push((head_len + u64::from(payload.start), reason(error), stretch.range.clone()));
                    }
                }
                // Otherwise the damaged chunk explains it.
                if wrong.is_empty() && sum(payload) != opened.segment.payload_sum {
                    wrong.push((head_len, "the checksum of the segment's payload does not match".into(), 0..0));
                }
                if padding.iter().any(|byte| *byte != 0) {
                    let at = head_len + payload.len() as u64;
                    wrong.push((at, "the padding after the payload of the segment is not all zeros".into(), 0..0));
                }
            }
        }
        let part = &self.parts[usize::from(place.part)].path;
        let mut lost = Vec::new();
        let findings = wrong.into_iter().map(|(at, what, range)| {
            let harm = self.harm(range, scratch, &mut lost);
            SetFinding { part: Some(part.clone()), offset: Some(place.position + at), what, harm }
        });
        (findings.collect(), lost)
    }

    /// Opens a segment with all its bytes in memory, which are also in `bytes`.
    fn open_whole(
        &self,
        number: SegmentNumber,
        scratch: &mut ReadScratch,
        bytes: &mut Vec<u8>,
    ) -> Result<OpenedSegment> {
        let place = self.map.get(number);
        let part = &self.parts[usize::from(place.part)];
        let opened = self.open_segment(number, SegmentOrigin::Part, scratch)?;
        bytes.resize(place.len as usize, 0);
        part.source.read_exact_at(bytes, place.position).map_err(Error::io("cannot read", &part.path))?;
        let whole = Some(Arc::from(bytes.as_slice()));
        Ok(OpenedSegment { number, origin: SegmentOrigin::Part, segment: opened.segment.clone(), bytes: whole })
    }

    /// Determines the effect of damaged bytes of the dump: whether they can be read from elsewhere.
    fn harm(&self, range: Range<u64>, scratch: &mut ReadScratch, lost: &mut Vec<LostRange>) -> FindingHarm {
        let start = range.start;
        let end = range.end.min(self.size);
        if start >= end {
            return FindingHarm::None;
        }
        let gone = self.walk(start..end, scratch, &mut |_, _| Ok(())).unwrap_or_default();
        let harm =
            if gone.is_empty() { FindingHarm::Repairable { start, end } } else { FindingHarm::Lost { start, end } };
        lost.extend(gone);
        harm
    }

    fn verify_parity(&self, stripe: u64) -> Vec<SetFinding> {
        let places = self.map.parity_of(stripe);
        let mut wrong: Vec<(SegmentPlace, String)> =
            places.iter().filter_map(|place| Some((*place, self.flaw_of_parity(place)?))).collect();
        // Only parity that is sound itself can be compared.
        if wrong.is_empty() {
            let verdicts = ParityStripe::read(self, stripe).and_then(|stripe| stripe.recompute(self));
            let differ = verdicts.ok().flatten().unwrap_or_default().into_iter().filter(|(_, same)| !same);
            wrong.extend(differ.map(|(place, _)| (place, "it is not the parity of its stripe".into())));
        }
        let finding = |(place, why): (SegmentPlace, String)| SetFinding {
            part: Some(self.parts[usize::from(place.part)].path.clone()),
            offset: Some(place.position),
            what: format!("parity segment: {why}"),
            harm: FindingHarm::None,
        };
        wrong.into_iter().map(finding).collect()
    }

    /// Checks superblock, footer, index and manifest of a part.
    fn structures(&self, part: &AvailablePart, finding: &mut dyn FnMut(SetFinding)) {
        let mut found = |offset: u64, what: String| {
            finding(SetFinding { part: Some(part.path.clone()), offset: Some(offset), what, harm: FindingHarm::None });
        };
        if let Some(flaw) = &part.flaw {
            found(0, format!("superblock: {flaw}"));
        }
        let (status, _) = self.status(part);
        let Some(foot) = &part.foot else {
            if status != PartStatus::Retired {
                found(part.source.len(), part.scanned.clone().unwrap_or_default());
            }
            return;
        };
        if let Some(why) = &part.scanned {
            found(foot.index, why.clone());
        }
        if foot.complete && foot.size != self.size {
            found(foot.index, format!("footer: it says {} bytes of the dump instead of {}", foot.size, self.size));
        }
        let places = self.map.data().iter().chain(self.map.parity());
        let mine =
            |place: &&SegmentPlace| self.parts.get(usize::from(place.part)).is_some_and(|of| of.path == part.path);
        let segments = places.filter(mine).count() as u64;
        let said = part.number.and_then(|number| foot.manifest.get(usize::from(number)));
        if let Some(entry) = said
            && (entry.segments != segments || entry.len != foot.index)
        {
            let listed = format!("{} segments in {} bytes", entry.segments, entry.len);
            let present = format!("{segments} segments in {} bytes", foot.index);
            found(foot.index, format!("footer: the manifest has {listed}, the part {present}"));
        }
    }

    /// Checks the gaps between indexed segments for unknown segments and stray bytes.
    fn strangers(&self, at: u16, part: &AvailablePart, finding: &mut dyn FnMut(SetFinding)) -> Result<()> {
        let places = self.map.data().iter().chain(self.map.parity());
        let known: HashSet<u64> = places.filter(|place| place.part == at).map(|place| place.position).collect();
        let to = part.foot.as_ref().map_or(u64::MAX, |foot| foot.index);
        let (status, _) = self.status(part);
        for step in SegmentScan::new(&part.source, &self.superblock, ALIGN as u64..to) {
            let (offset, what) = match step.map_err(Error::io("cannot read", &part.path))? {
                Met::Segment { position, segment } => match segment.head.kind {
                    SegmentKind::Data | SegmentKind::Parity => {
                        if known.contains(&position) {
                            continue;
                        }
                        (position, "a segment missing from the index".to_owned())
                    }
                    _ => continue,
                },
                // An unfinished part may end with an incomplete segment, which is no defect; and a
                // damaged segment in the index is reported where it is verified.
                Met::Gap(gap) => {
                    let open = part.foot.is_none() && gap.end >= part.source.len();
                    let of_known = known.iter().any(|position| gap.contains(position));
                    if of_known || (open && status != PartStatus::Whole) {
                        continue;
                    }
                    (gap.start, format!("{} that belong to no segment", Size(gap.end - gap.start)))
                }
            };
            finding(SetFinding { part: Some(part.path.clone()), offset: Some(offset), what, harm: FindingHarm::None });
        }
        Ok(())
    }
}

/// Returns an error as short text, if its position is already stated.
fn reason(error: Error) -> String {
    match error {
        Error::Corrupt { structure, why, .. } => format!("{structure}: {why}"),
        Error::Lost { why, .. } => why,
        error => error.to_string(),
    }
}

/// Merges ranges: in order, without duplicates.
fn merged(mut lost: Vec<LostRange>) -> Vec<LostRange> {
    lost.sort_by_key(|lost| (lost.start, lost.end));
    let mut merged: Vec<LostRange> = Vec::new();
    for mut next in lost {
        if let Some(last) = merged.last() {
            next.start = next.start.max(last.end);
        }
        if next.start < next.end {
            LostRange::push(&mut merged, next);
        }
    }
    merged
}
