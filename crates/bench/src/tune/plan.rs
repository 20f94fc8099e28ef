//! The plan of a tuning run: which candidate or reference builds which part of the source, and an estimate of the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::candidate::Candidate;
use super::candidates;
use crate::sample::Timing;
use crate::{Error, Result};

/// Part of the source that is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A sample of about this many bytes of file data.
    Sample(u64),
    /// Everything.
    Whole,
}

/// Result of a build.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Built {
    /// Bytes of its files.
    pub bytes: u64,
    /// Number of its inodes.
    pub inodes: u64,
    /// Bytes of file data in the image.
    pub data: u64,
    /// Other bytes of the image.
    pub metadata: u64,
    /// File bytes that were passed to the codec.
    pub packed: u64,
    /// Time of the build.
    pub time: Timing,
    /// Result of reading the image, if requested.
    pub read: Option<Reading>,
}

/// Result of reading an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Speed in MB/s of reading all files in order with one thread.
    pub speed: f64,
    /// Seconds to read 4 KiB at a random place with empty caches.
    pub random: f64,
}

/// The plan of a tuning run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Candidates to try.
    pub candidates: Vec<Candidate>,
    /// Sample size of the slowest codecs in bytes; faster ones get a larger sample.
    pub sample: u64,
    /// Bytes of file data outside holes in the source.
    pub bytes: u64,
    /// Number of inodes in the source.
    pub inodes: u64,
    /// Time taken to scan the source.
    pub scan: Timing,
    /// Set to stop the run.
    pub stop: Arc<AtomicBool>,
}

/// A build to make.
#[derive(Debug)]
pub(super) struct Step<'p> {
    pub(super) candidate: &'p Candidate,
    pub(super) reference: Candidate,
    pub(super) part: Part,
}

/// The reference builds at most this many bytes of the source.
pub(super) const REFERENCE_MAX: u64 = 256 << 20;

impl Plan {
    /// Returns the part of the source that a candidate builds.
    fn part(&self, candidate: &Candidate) -> Part {
        // The reference builds the whole source anyway.
        if candidate.settings == candidate.reference().settings {
            return self.at_most(REFERENCE_MAX);
        }
        self.at_most(self.sample.saturating_mul(candidates::share(candidate)))
    }

    pub(super) fn at_most(&self, bytes: u64) -> Part {
        if bytes >= self.bytes { Part::Whole } else { Part::Sample(bytes) }
    }

    /// Returns the estimated time of all builds in seconds, based on typical speeds of codecs.
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
        // Scanning, opening and flushing take constant time.
        0.02 + bytes as f64 / 1e6 / speed
    }

    pub(super) fn steps(&self) -> Vec<Step<'_>> {
        let step =
            |candidate| Step { candidate, reference: Candidate::reference(candidate), part: self.part(candidate) };
        self.candidates.iter().map(step).collect()
    }

    /// Returns the builds of references that the predictions need, each once.
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
