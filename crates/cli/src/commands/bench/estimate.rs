//! The expected cost of a measurement, told before it begins.

use std::path::{Path, PathBuf};
use std::time::Duration;

use packfs_bench::corpus::DataSet;
use packfs_bench::estimate::CodecRates;
use packfs_bench::executor::MeasuredCell;
use packfs_blocks::Progress;
use packfs_image::name::display;

use crate::output::units;

/// Bytes of files that codecs are tried on.
const SAMPLE: u64 = 1 << 20;
/// Seconds that starting a program, mounting and the like take.
pub(super) const START: f64 = 0.02;

/// Expected cost.
#[derive(Debug, Default)]
pub(super) struct ExpectedCost {
    /// Seconds of one round: of every cell once.
    pub(super) round: f64,
    /// Most bytes at once in a directory for what is made.
    pub(super) scratch: Option<(u64, PathBuf)>,
}

impl ExpectedCost {
    /// Adds up the seconds of cells.
    pub(super) fn of<S: MeasuredCell>(cells: &[S], seconds: impl Fn(&S) -> f64) -> Self {
        ExpectedCost { round: cells.iter().map(seconds).sum(), scratch: None }
    }

    /// Adds the room that is needed.
    pub(super) fn with_scratch(self, bytes: u64, path: &Path) -> Self {
        ExpectedCost { scratch: Some((bytes, path.to_owned())), ..self }
    }

    /// Expected time of `steps` steps, of which a round has `cells`.
    pub(super) fn time(&self, steps: usize, cells: usize) -> Duration {
        let rounds = steps as f64 / cells.max(1) as f64;
        Duration::try_from_secs_f64(self.round * rounds).unwrap_or(Duration::MAX)
    }

    /// In words, to follow the number of steps; nothing if nothing is known.
    pub(super) fn words(&self, time: Duration) -> String {
        let room = match &self.scratch {
            Some((bytes, path)) => format!(", up to {} in {}", units::bytes(*bytes), display(path)),
            None => String::new(),
        };
        match self.round > 0.0 {
            true => format!("; roughly {}{room}", units::span(whole_seconds(time))),
            false => String::new(),
        }
    }
}

/// Whole seconds: an estimate has no hundredths.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and 1 or more")]
pub(super) fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs_f64().round().max(1.0) as u64)
}

/// Measures codecs on a sample of the files in a directory, or of one file.
pub(super) fn measure_rates<'c>(path: &Path, codecs: impl IntoIterator<Item = &'c str>) -> CodecRates {
    // Where nothing can be read, measuring says so.
    let sample = DataSet::read(path, SAMPLE, &Progress::default()).map(|data| data.files.concat()).unwrap_or_default();
    CodecRates::of(&sample, codecs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_told_in_whole_seconds() {
        let expected = ExpectedCost { round: 90.4, scratch: None };
        assert_eq!(expected.words(expected.time(4, 2)), "; roughly 3 min 01 s");
        let roomy = ExpectedCost { round: 0.1, scratch: None }.with_scratch(3 << 20, Path::new("/tmp"));
        assert_eq!(roomy.words(roomy.time(2, 2)), "; roughly 1 s, up to 3.00 MiB in /tmp");
        assert_eq!(ExpectedCost::default().words(Duration::ZERO), "");
    }
}
