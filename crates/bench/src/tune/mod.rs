//! Advice on settings: predicts size, build time and read speed of candidates from a sample of the source.
//!
//! The real writers build everything. A fast reference codec builds an image of the whole source, or of a part if it is
//! very large. This covers what a sample cannot show: duplicates, fragments, metadata. The candidate and the reference
//! then build the same sample. The predicted image is the reference's image of the whole, multiplied by the ratio of the
//! two on the sample. Data that compresses well with one codec does so with all, so this ratio needs far less data than
//! the size itself.
//!
//! [`TunePlan`] has the builds to make, [`sample`] selects the data, [`real`] builds and reads images, [`predict`] computes,
//! and [`choose`] selects a candidate.

mod candidate;
pub mod candidates;
pub mod choose;
mod plan;
pub mod predict;
pub mod real;
pub mod sample;

use std::ffi::OsString;
use std::sync::atomic::Ordering::Relaxed;

use self::choose::{TuneGoal, TuneLimits};
use self::plan::{BuildStep, REFERENCE_MAX};
use self::predict::{ImagePrediction, ReferenceBuilds};
use crate::{Error, Result};

pub use candidate::{TuneCandidate, TuneSettings};
pub use plan::{BuiltImage, ImageReading, SourcePart, TunePlan};

/// Builds and reads images: the real writers, or a mock in tests.
pub trait TrialBuilder {
    /// Builds an image of a part of the source, and reads it if `read` is set.
    fn build(&mut self, candidate: &TuneCandidate, part: SourcePart, read: bool) -> Result<BuiltImage>;
}

/// Progress of a tuning run.
#[derive(Debug)]
pub enum TuneEvent<'e> {
    /// A build begins. `done` and `of` are seconds as estimated by [`TunePlan::forecast`].
    Step {
        /// Settings of the build.
        settings: &'e TuneSettings,
        /// Estimated seconds of completed work.
        done: f64,
        /// Estimated seconds of all work.
        of: f64,
    },
    /// A candidate failed and is omitted.
    Failed(&'e TuneSettings, &'e Error),
}

/// Result of a tuning run.
#[derive(Debug, Clone)]
pub struct TuneResult {
    /// Name of the source.
    pub source: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Number of its entries.
    pub inodes: u64,
    /// Goal of the choice.
    pub goal: TuneGoal,
    /// Limits of the image.
    pub limits: TuneLimits,
    /// All predictions.
    pub predictions: Vec<ImagePrediction>,
    /// The chosen prediction.
    pub choice: choose::TuneChoice,
    /// Words of the command that builds the choice.
    pub command: Vec<OsString>,
}

impl TuneResult {
    /// Returns the chosen prediction, or the one nearest to the limits, and whether it is within them.
    pub fn chosen(&self) -> Option<(&ImagePrediction, bool)> {
        let is_within = matches!(self.choice, choose::TuneChoice::Best(_));
        Some((self.predictions.get(self.choice.index()?)?, is_within))
    }
}

/// Tries all candidates. Those that fail are reported and omitted. Returns [`Error::Interrupted`] after a request to
/// stop.
pub fn tune(
    plan: &TunePlan,
    builder: &mut dyn TrialBuilder,
    watch: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<Vec<ImagePrediction>> {
    let all_seconds = plan.forecast();
    let mut done_seconds = 0.0;
    let mut build = |candidate: &TuneCandidate, part: SourcePart, read: bool, watch: &mut dyn FnMut(TuneEvent<'_>)| {
        watch(TuneEvent::Step { settings: &candidate.settings, done: done_seconds, of: all_seconds });
        done_seconds += plan.seconds(candidate, part);
        let built = builder.build(candidate, part, read);
        // An interrupted build is incomplete, or failed because of the interruption.
        if plan.stop.load(Relaxed) { Err(Error::Interrupted) } else { Ok(built) }
    };
    let mut references = Vec::new();
    for (reference, part) in plan.references() {
        // Without its reference, a group cannot be predicted.
        let built = build(&reference, part, false, watch)??;
        references.push((reference.group(), part, built));
    }
    let find_reference = |step: &BuildStep<'_>, part: SourcePart| {
        let group = step.candidate.group();
        let found = references.iter().find(|(other_group, other_part, _)| *other_part == part && *other_group == group);
        found.map(|(.., built)| *built)
    };
    let mut predictions = Vec::new();
    for step in plan.steps() {
        let built = match build(step.candidate, step.part, true, watch)? {
            Ok(built) => built,
            // A full disk, for instance, would fail the other candidates as well.
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => {
                watch(TuneEvent::Failed(&step.candidate.settings, &error));
                continue;
            }
        };
        let most = plan.at_most(REFERENCE_MAX);
        let complete = most == SourcePart::Whole;
        // Builds of the whole source are measurements, and need no reference.
        let needs_reference = step.part != SourcePart::Whole;
        let builds = find_reference(&step, most).zip(find_reference(&step, step.part)).filter(|_| needs_reference);
        let reference = builds.map(|(most, part)| ReferenceBuilds { most, complete, part });
        predictions.push(predict::predict(plan, step.candidate, &built, reference));
    }
    Ok(predictions)
}

#[cfg(test)]
mod tests;
