//! Which settings to build with: predicts size, build time and read speed of candidates from a sample of the source.
//!
//! The real writers do the measuring. A quick reference codec builds an image of the whole source (of a very large
//! one, of a part), which settles what no sample can: duplicates, ends of files packed together, metadata. Each
//! candidate and the reference then build the same sample, and the candidate's image of the whole is the reference's,
//! times what one is for the other on the sample. Blocks that shrink well with one codec do so with all, so that this
//! ratio is known from far less data than the size itself.
//!
//! [`sample`] takes the parts, [`real`] builds and reads them, [`predict`] computes, [`choose`] picks.

pub mod candidates;
pub mod choose;
pub mod predict;
pub mod real;
pub mod sample;

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use packfs_codec::{Choice, Codec};
use packfs_image::erofs::Kernel;
use packfs_image::{erofs, squashfs};
use serde::Serialize;

use self::choose::{Goal, Limits};
use self::predict::{Prediction, Reference};
use crate::executor::Timing;
use crate::{Error, Result};

/// What a user chooses between.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Settings {
    /// `squashfs` or `erofs`.
    pub format: String,
    /// The codec as a user writes it.
    pub codec: String,
    /// Bytes of a block or of the largest cluster.
    pub block: u32,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { format, codec, block } = self;
        write!(f, "{format} {codec} {}", crate::report::size(*block as usize))
    }
}

/// How a writer is to build.
#[derive(Debug, Clone)]
pub enum Options {
    /// SquashFS.
    Squashfs(squashfs::Options),
    /// EROFS.
    Erofs(erofs::Options),
}

/// One way to build.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// What tells it from others.
    pub settings: Settings,
    /// What the writer is asked for.
    pub options: Options,
}

impl Candidate {
    /// A way to build; its settings are read off its options.
    pub fn new(options: Options) -> Self {
        let (format, codec, block) = match &options {
            Options::Squashfs(options) => ("squashfs", &options.codec, options.block_size),
            Options::Erofs(options) => ("erofs", &options.codec, options.cluster_size),
        };
        let settings = Settings { format: format.into(), codec: codec.to_string(), block };
        Candidate { settings, options }
    }

    /// Codec, level and options.
    pub fn codec(&self) -> &Choice {
        match &self.options {
            Options::Squashfs(options) => &options.codec,
            Options::Erofs(options) => &options.codec,
        }
    }

    /// Compression threads.
    pub fn threads(&self) -> usize {
        match &self.options {
            Options::Squashfs(options) => options.threads,
            Options::Erofs(options) => options.threads,
        }
    }

    /// The same with a quick codec: equal in all that is not the codec's doing.
    fn reference(&self) -> Self {
        let mut options = self.options.clone();
        // Alike in whether there is an entropy coder: that is what sizes differ by most.
        let plain =
            matches!(self.codec().codec(), Codec::None | Codec::Lz4 | Codec::Lz4hc | Codec::Lzo | Codec::Snappy);
        let quick = if plain { Choice::new(Codec::Lz4) } else { "zstd:1".parse().unwrap_or(Choice::new(Codec::Zstd)) };
        match &mut options {
            Options::Squashfs(options) => options.codec = quick,
            Options::Erofs(options) => {
                options.codec = quick;
                // It is not to be mounted.
                options.target_kernel = options.target_kernel.max(WITH_ZSTD);
            }
        }
        Candidate::new(options)
    }

    /// Candidates of the same group share a reference.
    fn group(&self) -> (Settings, u32) {
        let features = match &self.options {
            Options::Squashfs(_) => 0,
            Options::Erofs(options) => options.features.bits(),
        };
        (self.reference().settings, features)
    }
}

/// How much of the source is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// About so many bytes of file data.
    Sample(u64),
    /// Everything.
    Whole,
}

/// What building came to.
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
    /// What reading the image came to, where that was asked for.
    pub read: Option<Reading>,
}

/// What reading an image came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// MB a second when one thread reads all files one after the other.
    pub speed: f64,
    /// Seconds for 4 KiB somewhere when nothing is cached.
    pub random: f64,
}

/// Builds and reads images: the real writers, or in tests a mock.
pub trait Builder {
    /// Builds an image of a part of the source, and where that is asked for reads it.
    fn build(&mut self, candidate: &Candidate, part: Part, read: bool) -> Result<Built>;
}

/// What to try.
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

/// What happens, for a display.
#[derive(Debug)]
pub enum Event<'e> {
    /// A build begins. `done` and `of` are in the seconds that [`Plan::forecast`] reckons with.
    Step {
        /// What is built.
        settings: &'e Settings,
        /// How much of the work is done.
        done: f64,
        /// All of it.
        of: f64,
    },
    /// A candidate failed and is left out.
    Failed(&'e Settings, &'e Error),
}

/// What trying all candidates came to, and what was chosen.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// What is to be packed.
    pub source: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its entries.
    pub inodes: u64,
    /// What matters.
    pub goal: Goal,
    /// What it may not exceed.
    pub limits: Limits,
    /// All predictions.
    pub predictions: Vec<Prediction>,
    /// Which of them.
    pub choice: choose::Choice,
    /// The words of the command that builds it.
    pub command: Vec<OsString>,
}

impl Tuning {
    /// The prediction chosen, or the one nearest to the limits, and whether it is within them.
    pub fn chosen(&self) -> Option<(&Prediction, bool)> {
        match self.choice {
            choose::Choice::Best(at) => Some((self.predictions.get(at)?, true)),
            choose::Choice::Nearest(at) => Some((self.predictions.get(at)?, false)),
            choose::Choice::Nothing => None,
        }
    }
}

/// One build to be made.
#[derive(Debug)]
struct Step<'p> {
    candidate: &'p Candidate,
    reference: Candidate,
    part: Part,
}

/// Any Linux that reads what the reference codecs make.
const WITH_ZSTD: Kernel = Kernel { major: 6, minor: 10 };
/// Of larger sources the reference builds this much.
const REFERENCE_MAX: u64 = 256 << 20;

impl Plan {
    /// The part of the source that a candidate is tried on.
    fn part(&self, candidate: &Candidate) -> Part {
        // The reference is built of the whole anyway.
        if candidate.settings == candidate.reference().settings {
            return self.at_most(REFERENCE_MAX);
        }
        self.at_most(self.sample.saturating_mul(candidates::share(candidate)))
    }

    fn at_most(&self, bytes: u64) -> Part {
        if bytes >= self.bytes { Part::Whole } else { Part::Sample(bytes) }
    }

    /// Seconds that it will take, about: by speeds that codecs commonly have.
    pub fn forecast(&self) -> f64 {
        self.steps().iter().map(|step| self.seconds(step.candidate, step.part)).sum::<f64>()
            + self.references().iter().map(|(reference, part)| self.seconds(reference, *part)).sum::<f64>()
    }

    fn seconds(&self, candidate: &Candidate, part: Part) -> f64 {
        let bytes = match part {
            Part::Sample(bytes) => bytes,
            Part::Whole => self.bytes,
        };
        let speed = candidates::speed(candidate) * candidate.threads().max(1) as f64;
        // Listing, opening and flushing take their time however little there is.
        0.02 + bytes as f64 / 1e6 / speed
    }

    fn steps(&self) -> Vec<Step<'_>> {
        let step =
            |candidate| Step { candidate, reference: Candidate::reference(candidate), part: self.part(candidate) };
        self.candidates.iter().map(step).collect()
    }

    /// Builds of references that predictions rest on, each once.
    fn references(&self) -> Vec<(Candidate, Part)> {
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

    fn stopped(&self) -> Result<()> {
        if self.stop.load(Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Tries all candidates. One that fails is told and left out; [`Error::Interrupted`] when it was asked to stop.
pub fn tune(plan: &Plan, builder: &mut dyn Builder, watch: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Prediction>> {
    let (of, mut done) = (plan.forecast(), 0.0);
    let mut build = |candidate: &Candidate, part: Part, read: bool, watch: &mut dyn FnMut(Event<'_>)| {
        watch(Event::Step { settings: &candidate.settings, done, of });
        done += plan.seconds(candidate, part);
        let built = builder.build(candidate, part, read);
        // What was interrupted is incomplete, or failed for no other reason.
        plan.stopped()?;
        Ok::<_, Error>(built)
    };
    let mut references = Vec::new();
    for (reference, part) in plan.references() {
        // Without its reference nothing can be said of a group.
        let built = build(&reference, part, false, watch)??;
        references.push((reference.group(), part, built));
    }
    let find = |step: &Step<'_>, part: Part| {
        let group = step.candidate.group();
        references.iter().find(|(other, at, _)| *at == part && *other == group).map(|(.., built)| *built)
    };
    let mut predictions = Vec::new();
    for step in plan.steps() {
        let built = match build(step.candidate, step.part, true, watch)? {
            Ok(built) => built,
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => {
                watch(Event::Failed(&step.candidate.settings, &error));
                continue;
            }
        };
        let most = plan.at_most(REFERENCE_MAX);
        let complete = most == Part::Whole;
        let both = find(&step, most).zip(find(&step, step.part)).filter(|_| step.part != Part::Whole);
        let reference = both.map(|(most, part)| Reference { most, complete, part });
        predictions.push(predict::predict(plan, step.candidate, &built, reference));
    }
    Ok(predictions)
}

#[cfg(test)]
mod tests;
