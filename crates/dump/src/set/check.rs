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
use packfs_blocks::units::{Size, Span};
use packfs_blocks::{Progress, ReadAt};
use serde::Serialize;

use super::map::{ABSENT, Number, Place};
use super::read::{Opened, Origin, Run};
use super::stripe::Stripe;
use super::{Lost, Part, PartStatus, Scratch, Set};
use crate::format::{ALIGN, SegmentKind, sum};
use crate::part::{Found as Met, Scan, What};
use crate::{Error, Result};

/// A defect of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The affected part.
    pub part: Option<PathBuf>,
    /// Offset in the part.
    pub offset: Option<u64>,
    /// Description of the defect.
    pub what: String,
    /// Effect on the dump.
    pub harm: Harm,
}

/// Effect of a finding on the dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Harm {
    /// No byte of the dump is affected.
    None,
    /// These bytes can be read from another copy, or restored from parity.
    Repairable {
        /// First byte of the dump.
        start: u64,
        /// End of the range.
        end: u64,
    },
    /// Some of these bytes are lost.
    Lost {
        /// First byte of the dump.
        start: u64,
        /// End of the range.
        end: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(part) = &self.part {
            write!(f, "{}: ", display(part))?;
        }
        if let Some(offset) = self.offset {
            write!(f, "byte {offset}: ")?;
        }
        write!(f, "{}", self.what)?;
        match &self.harm {
            Harm::None => Ok(()),
            Harm::Repairable { start, end } => write!(f, "; {} of the dump can be repaired", Span(*start..*end)),
            Harm::Lost { start, end } => write!(f, "; some of {} of the dump are lost", Span(*start..*end)),
        }
    }
}

/// Result of a check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Checked {
    /// Number of data and parity segments verified.
    pub segments: u64,
    /// Lost ranges of the dump, including damaged ones.
    pub lost: Vec<Lost>,
}

/// Result of one job.
type Found = (Vec<Finding>, Vec<Lost>);

/// A job: the item to verify.
#[derive(Clone, Copy)]
enum Job {
    Data(Number),
    Stripe(u64),
}

impl Set {
    /// Verifies everything in the available parts, on `threads` threads, calling `finding` for each
    /// defect. Ends with [`Error::Cancelled`] at the next segment after [`Progress::cancel`].
    pub fn check(&self, threads: usize, progress: &Progress, finding: &mut dyn FnMut(Finding)) -> Result<Checked> {
        progress.enter(Phase::Read);
        for number in self.missing() {
            let what = format!("part {} of {} is missing", number + 1, self.superblock.parts);
            finding(Finding { part: None, offset: None, what, harm: Harm::None });
        }
        for (at, part) in (0..).zip(&self.parts) {
            self.structures(part, finding);
            self.strangers(at, part, finding)?;
        }
        if let Some(why) = self.open_end {
            finding(Finding { part: None, offset: None, what: why.into(), harm: Harm::None });
        }
        let jobs = self.jobs();
        let bytes = self.map.data().iter().chain(self.map.parity()).map(|place| u64::from(place.len)).sum();
        progress.total.store(bytes, std::sync::atomic::Ordering::Relaxed);
        let mut lost = self.lost();
        let state = || (Scratch::default(), Vec::new());
        pipeline::scope(threads, state, |pool| {
            let mut window = Window::new(4 * threads);
            let mut take = |(findings, gone): Found| {
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
        Ok(Checked { segments: jobs.len() as u64, lost: merged(lost) })
    }

    /// Returns the data segments in the order of the parts, then the stripes.
    fn jobs(&self) -> Vec<Job> {
        let mut numbers: Vec<Number> = (0..).zip(self.map.data()).map(|(number, _)| number).collect();
        numbers.sort_unstable_by_key(|n| (self.map.get(*n).part, self.map.get(*n).position));
        let stripes =
            self.map.parity().chunk_by(|a, b| a.stripe == b.stripe).map(|parity| Job::Stripe(parity[0].stripe));
        numbers.into_iter().map(Job::Data).chain(stripes).collect()
    }

    fn verify(&self, job: Job, scratch: &mut Scratch, bytes: &mut Vec<u8>, progress: &Progress) -> Found {
        match job {
            Job::Data(number) => {
                Progress::add(&progress.done, self.map.get(number).len.into());
                self.verify_data(number, scratch, bytes)
            }
            Job::Stripe(stripe) => {
                let len: u64 = self.map.parity_of(stripe).iter().map(|place| u64::from(place.len)).sum();
                Progress::add(&progress.done, len);
                (self.verify_parity(stripe), Vec::new())
            }
        }
    }

    fn verify_data(&self, number: Number, scratch: &mut Scratch, bytes: &mut Vec<u8>) -> Found {
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
                let run = Run { opened: &opened, wanted: place.start..place.end, same: true };
                let head_len = u64::from(opened.segment.head_len);
                let rest = &bytes[opened.segment.head_len as usize..];
                let (payload, padding) = rest.split_at(opened.segment.payload as usize);
                let mut chunk = Vec::new();
                for stretch in opened.stretches() {
                    let (What::Stored { payload, .. } | What::Same { payload }) = &stretch.what else { continue };
                    chunk.resize(usize::try_from(stretch.range.end - stretch.range.start).unwrap_or(0), 0);
                    if let Err(error) = self.chunk(&run, stretch, scratch, &mut chunk) {
                        wrong.push((head_len + u64::from(payload.start), reason(error), stretch.range.clone()));
                    }
                }
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
            Finding { part: Some(part.clone()), offset: Some(place.position + at), what, harm }
        });
        (findings.collect(), lost)
    }

    /// Opens a segment with all its bytes in memory, which are also in `bytes`.
    fn open_whole(&self, number: Number, scratch: &mut Scratch, bytes: &mut Vec<u8>) -> Result<Opened> {
        let place = self.map.get(number);
        let part = &self.parts[usize::from(place.part)];
        let opened = self.open_segment(number, Origin::Part, scratch)?;
        bytes.resize(place.len as usize, 0);
        part.source.read_exact_at(bytes, place.position).map_err(Error::io("cannot read", &part.path))?;
        let whole = Some(Arc::from(bytes.as_slice()));
        Ok(Opened { number, origin: Origin::Part, segment: opened.segment.clone(), bytes: whole })
    }

    /// Determines the effect of damaged bytes of the dump: whether they can be read from elsewhere.
    fn harm(&self, range: Range<u64>, scratch: &mut Scratch, lost: &mut Vec<Lost>) -> Harm {
        let start = range.start;
        let end = range.end.min(self.size);
        if start >= end {
            return Harm::None;
        }
        let gone = self.walk(start..end, scratch, &mut |_, _| Ok(())).unwrap_or_default();
        let harm = if gone.is_empty() { Harm::Repairable { start, end } } else { Harm::Lost { start, end } };
        lost.extend(gone);
        harm
    }

    fn verify_parity(&self, stripe: u64) -> Vec<Finding> {
        let places = self.map.parity_of(stripe);
        let mut wrong: Vec<(Place, String)> =
            places.iter().filter_map(|place| Some((*place, self.flaw_of_parity(place)?))).collect();
        if wrong.is_empty() {
            let verdicts = Stripe::read(self, stripe).and_then(|stripe| stripe.recompute(self));
            let differ = verdicts.ok().flatten().unwrap_or_default().into_iter().filter(|(_, same)| !same);
            wrong.extend(differ.map(|(place, _)| (place, "it is not the parity of its stripe".into())));
        }
        let finding = |(place, why): (Place, String)| Finding {
            part: Some(self.parts[usize::from(place.part)].path.clone()),
            offset: Some(place.position),
            what: format!("parity segment: {why}"),
            harm: Harm::None,
        };
        wrong.into_iter().map(finding).collect()
    }

    /// Checks superblock, footer, index and manifest of a part.
    fn structures(&self, part: &Part, finding: &mut dyn FnMut(Finding)) {
        let mut found = |offset: u64, what: String| {
            finding(Finding { part: Some(part.path.clone()), offset: Some(offset), what, harm: Harm::None });
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
        let mine = |place: &&Place| self.parts.get(usize::from(place.part)).is_some_and(|of| of.path == part.path);
        let segments = places.filter(mine).count() as u64;
        let said = part.number.and_then(|number| foot.manifest.get(usize::from(number)));
        if let Some((_, said, len)) = said
            && (*said, *len) != (segments, foot.index)
        {
            let here = format!("{segments} segments in {} bytes", foot.index);
            found(foot.index, format!("footer: the manifest has {said} segments in {len} bytes, the part {here}"));
        }
    }

    /// Checks the gaps between indexed segments for unknown segments and stray bytes.
    fn strangers(&self, at: u16, part: &Part, finding: &mut dyn FnMut(Finding)) -> Result<()> {
        let places = self.map.data().iter().chain(self.map.parity());
        let known: HashSet<u64> = places.filter(|place| place.part == at).map(|place| place.position).collect();
        let to = part.foot.as_ref().map_or(u64::MAX, |foot| foot.index);
        let (status, _) = self.status(part);
        for step in Scan::new(&part.source, &self.superblock, ALIGN as u64..to) {
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
            finding(Finding { part: Some(part.path.clone()), offset: Some(offset), what, harm: Harm::None });
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
fn merged(mut lost: Vec<Lost>) -> Vec<Lost> {
    lost.sort_by_key(|lost| (lost.start, lost.end));
    let mut merged: Vec<Lost> = Vec::new();
    for mut next in lost {
        if let Some(last) = merged.last() {
            next.start = next.start.max(last.end);
        }
        if next.start < next.end {
            Lost::push(&mut merged, next);
        }
    }
    merged
}
