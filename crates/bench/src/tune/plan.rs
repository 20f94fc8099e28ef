//! The plan of a tuning run: which candidate or reference builds which part of the source, and an estimate of the time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::candidate::TuneCandidate;
use super::candidates;
use crate::sample::PassTiming;

/// Part of the source that is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourcePart {
    /// A sample of about this many bytes of file data.
    Sample(u64),
    /// Everything.
    Whole,
}

/// Result of a build.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BuiltImage {
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
    pub time: PassTiming,
    /// Result of reading the image, if requested.
    pub read: Option<ImageReading>,
}

/// Result of reading an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImageReading {
    /// Speed in MB/s of reading all files in order with one thread.
    pub speed: f64,
    /// Seconds to read 4 KiB at a random place with empty caches.
    pub random: f64,
}

/// The plan of a tuning run.
#[derive(Debug, Clone)]
pub struct TunePlan {
    /// Candidates to try.
    pub candidates: Vec<TuneCandidate>,
    /// Sample size of the slowest codecs in bytes; faster ones get a larger sample. Sizes of a Debian root predicted
    /// from 6 MB were up to 6 % off, from 12 MB up to 2.6 %.
    pub sample: u64,
    /// Bytes of file data outside holes in the source.
    pub bytes: u64,
    /// Number of inodes in the source.
    pub inodes: u64,
    /// Time taken to scan the source.
    pub scan: PassTiming,
    /// Set to stop the run.
    pub stop: Arc<AtomicBool>,
}

/// A build to make.
#[derive(Debug)]
pub(super) struct BuildStep<'p> {
    pub(super) candidate: &'p TuneCandidate,
    pub(super) reference: TuneCandidate,
    pub(super) part: SourcePart,
}

/// The reference builds at most this many bytes of the source. More would show duplicates that are farther apart, but
/// take longer.
pub(super) const REFERENCE_MAX: u64 = 256 << 20;

impl TunePlan {
    /// Returns the part of the source that a candidate builds.
    fn part(&self, candidate: &TuneCandidate) -> SourcePart {
        // The reference builds the whole source anyway.
        if candidate.settings == candidate.reference().settings {
            return self.at_most(REFERENCE_MAX);
        }
        self.at_most(self.sample.saturating_mul(candidates::sample_factor(candidate)))
    }

    /// Returns a sample of this many bytes, or everything if that is not more.
    pub(super) fn at_most(&self, bytes: u64) -> SourcePart {
        if bytes >= self.bytes { SourcePart::Whole } else { SourcePart::Sample(bytes) }
    }

    /// Returns the estimated time of all builds in seconds, based on typical speeds of codecs.
    pub fn forecast(&self) -> f64 {
        let steps = self.steps();
        let references = self.references();
        let candidate_seconds = steps.iter().map(|step| self.seconds(step.candidate, step.part)).sum::<f64>();
        let reference_seconds = references.iter().map(|(reference, part)| self.seconds(reference, *part)).sum::<f64>();
        candidate_seconds + reference_seconds
    }

    /// Returns the estimated time of a build in seconds.
    pub(super) fn seconds(&self, candidate: &TuneCandidate, part: SourcePart) -> f64 {
        let bytes = match part {
            SourcePart::Sample(bytes) => bytes,
            SourcePart::Whole => self.bytes,
        };
        let speed = candidates::candidate_speed(candidate) * candidate.threads().max(1) as f64;
        // Scanning, opening and flushing take constant time.
        0.02 + bytes as f64 / 1e6 / speed
    }

    /// Returns the builds of all candidates.
    pub(super) fn steps(&self) -> Vec<BuildStep<'_>> {
        let step = |candidate| BuildStep {
            candidate,
            reference: TuneCandidate::reference(candidate),
            part: self.part(candidate),
        };
        self.candidates.iter().map(step).collect()
    }

    /// Returns the builds of references that the predictions need, each once.
    pub(super) fn references(&self) -> Vec<(TuneCandidate, SourcePart)> {
        let mut all: Vec<(TuneCandidate, SourcePart)> = Vec::new();
        for step in self.steps().into_iter().filter(|step| step.part != SourcePart::Whole) {
            for part in [self.at_most(REFERENCE_MAX), step.part] {
                let known =
                    |(other, at): &(TuneCandidate, SourcePart)| *at == part && other.group() == step.candidate.group();
                if !all.iter().any(known) {
                    all.push((step.reference.clone(), part));
                }
            }
        }
        all
    }
}
