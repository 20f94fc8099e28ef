//! The plan of a tuning run: which parts of the source are built with which candidate and reference, and about how
//! long that takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::candidate::Candidate;
use super::candidates;
use crate::sample::Timing;
use crate::{Error, Result};

/// Part of the source that is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// About so many bytes of file data.
    Sample(u64),
    /// Everything.
    Whole,
}

/// Result of a build.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Built {
    /// Bytes of the files in it.
    pub bytes: u64,
    /// Inodes in it.
    pub inodes: u64,
    /// Bytes of file data in the image.
    pub data: u64,
    /// Bytes of everything else in the image.
    pub metadata: u64,
    /// File bytes that went to the codec.
    pub packed: u64,
    /// Time taken.
    pub time: Timing,
    /// Result of reading the image, where that was asked for.
    pub read: Option<Reading>,
}

/// Result of reading an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// MB a second when one thread reads all files one after the other.
    pub speed: f64,
    /// Seconds for 4 KiB somewhere when nothing is cached.
    pub random: f64,
}

/// The candidates to try.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The candidates.
    pub candidates: Vec<Candidate>,
    /// Bytes that the slowest codecs are tried on; quicker ones are tried on more.
    pub sample: u64,
    /// Bytes of file data in the source that are not in holes.
    pub bytes: u64,
    /// Inodes in the source.
    pub inodes: u64,
    /// Time it took to list the source.
    pub scan: Timing,
    /// Set when it is to stop.
    pub stop: Arc<AtomicBool>,
}

/// One build to be made.
#[derive(Debug)]
pub(super) struct Step<'p> {
    pub(super) candidate: &'p Candidate,
    pub(super) reference: Candidate,
    pub(super) part: Part,
}

/// Of larger sources the reference builds this much.
pub(super) const REFERENCE_MAX: u64 = 256 << 20;

impl Plan {
    /// The part of the source that a candidate is tried on.
    fn part(&self, candidate: &Candidate) -> Part {
        // The reference is built of the whole anyway.
        if candidate.settings == candidate.reference().settings {
            return self.at_most(REFERENCE_MAX);
        }
        self.at_most(self.sample.saturating_mul(candidates::share(candidate)))
    }

    pub(super) fn at_most(&self, bytes: u64) -> Part {
        if bytes >= self.bytes { Part::Whole } else { Part::Sample(bytes) }
    }

    /// Seconds that it will take, about: by speeds that codecs commonly have.
    pub fn forecast(&self) -> f64 {
        self.steps().iter().map(|step| self.seconds(step.candidate, step.part)).sum::<f64>()
            + self.references().iter().map(|(reference, part)| self.seconds(reference, *part)).sum::<f64>()
    }

    pub(super) fn seconds(&self, candidate: &Candidate, part: Part) -> f64 {
        let bytes = match part {
            Part::Sample(bytes) => bytes,
            Part::Whole => self.bytes,
        };
        let speed = candidates::speed(candidate) * candidate.threads().max(1) as f64;
        // Listing, opening and flushing take their time however little there is.
        0.02 + bytes as f64 / 1e6 / speed
    }

    pub(super) fn steps(&self) -> Vec<Step<'_>> {
        let step =
            |candidate| Step { candidate, reference: Candidate::reference(candidate), part: self.part(candidate) };
        self.candidates.iter().map(step).collect()
    }

    /// Builds of references that predictions rest on, each once.
    pub(super) fn references(&self) -> Vec<(Candidate, Part)> {
        let mut all: Vec<(Candidate, Part)> = Vec::new();
        for step in self.steps().into_iter().filter(|step| step.part != Part::Whole) {
            for part in [self.at_most(REFERENCE_MAX), step.part] {
                let known = |(other, at): &(Candidate, Part)| *at == part && other.group() == step.candidate.group();
                if !all.iter().any(known) {
                    all.push((step.reference.clone(), part));
                }
            }
        }
        all
    }

    pub(super) fn stopped(&self) -> Result<()> {
        if self.stop.load(Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}
