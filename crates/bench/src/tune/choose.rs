//! Chooses a prediction for a goal, within limits.

use std::fmt;
use std::str::FromStr;

use super::predict::ImagePrediction;
use crate::{Error, Result};

/// The goal of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TuneGoal {
    /// The smallest image.
    Size,
    /// The shortest build.
    Speed,
    /// The fastest sequential reads.
    Read,
    /// A compromise between all three.
    Balanced,
}

impl TuneGoal {
    const ALL: [(TuneGoal, &str); 4] = [
        (TuneGoal::Size, "size"),
        (TuneGoal::Speed, "speed"),
        (TuneGoal::Read, "read"),
        (TuneGoal::Balanced, "balanced"),
    ];

    /// Returns the names of all goals.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.map(|(_, name)| name).to_vec()
    }
}

impl FromStr for TuneGoal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(goal, _)| *goal);
        found.ok_or_else(|| Error::Usage("accepted: size, speed, read, balanced".into()))
    }
}

impl fmt::Display for TuneGoal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(goal, _)| goal == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// Limits that an image has to meet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct TuneLimits {
    /// Maximum size of the image in bytes.
    pub size: Option<u64>,
    /// Maximum build time in seconds.
    pub seconds: Option<f64>,
    /// Minimum speed of sequential reads in MB/s.
    pub read: Option<f64>,
}

impl TuneLimits {
    /// Returns the largest factor by which a limit is exceeded; at most 1 if all are met.
    fn excess(&self, prediction: &ImagePrediction) -> f64 {
        // Limits may be 0, but must not divide by it.
        let size = self.size.map(|most| prediction.size as f64 / (most as f64).max(1.0));
        let seconds = self.seconds.map(|most| prediction.seconds / most.max(1e-9));
        let read = self.read.map(|least| least / prediction.read_speed.max(1e-9));
        [size, seconds, read].into_iter().flatten().fold(0.0, f64::max)
    }
}

/// Returns the costs of a prediction; less is better in each.
fn costs(prediction: &ImagePrediction) -> [f64; 3] {
    [prediction.size as f64, prediction.seconds, 1.0 / prediction.read_speed.max(1e-9)]
}

/// Returns the Pareto front by size, build time and read speed. Of equal predictions the first is kept.
pub fn front(predictions: &[ImagePrediction]) -> Vec<bool> {
    let all: Vec<[f64; 3]> = predictions.iter().map(costs).collect();
    let beats = |a: &[f64; 3], b: &[f64; 3]| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
    let on = |at: usize| !all.iter().any(|other| beats(other, &all[at])) && !all[..at].contains(&all[at]);
    (0..all.len()).map(on).collect()
}

/// Chooses at most `count` of the predictions `among`, in their order: those `kept`, then each time the one that
/// differs most from all chosen before, by the factors between sizes, build times and read speeds.
pub(crate) fn most_different(
    predictions: &[ImagePrediction],
    among: &[usize],
    kept: &[usize],
    count: usize,
) -> Vec<usize> {
    // As logarithms, a factor counts alike in bytes, seconds and MB/s.
    let log_costs = |at: usize| costs(&predictions[at]).map(|cost| cost.max(1e-9).ln());
    let distance = |a: usize, b: usize| -> f64 {
        let squares = log_costs(a).into_iter().zip(log_costs(b)).map(|(a, b)| (a - b).powi(2));
        squares.sum()
    };
    let mut chosen: Vec<usize> = among.iter().copied().filter(|at| kept.contains(at)).collect();
    while chosen.len() < count.min(among.len()) {
        let nearest = |at: usize| chosen.iter().map(|other| distance(at, *other)).fold(f64::INFINITY, f64::min);
        let left = among.iter().copied().filter(|at| !chosen.contains(at));
        let Some(next) = left.max_by(|a, b| nearest(*a).total_cmp(&nearest(*b))) else { break };
        chosen.push(next);
    }
    among.iter().copied().filter(|at| chosen.contains(at)).collect()
}

/// Result of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TuneChoice {
    /// The best within the limits.
    Best(usize),
    /// The prediction that exceeds the limits least; none is within them.
    Nearest(usize),
    /// There are no predictions.
    Nothing,
}

impl TuneChoice {
    /// Returns the index of the chosen prediction.
    pub(crate) fn index(self) -> Option<usize> {
        match self {
            TuneChoice::Best(at) | TuneChoice::Nearest(at) => Some(at),
            TuneChoice::Nothing => None,
        }
    }
}

/// Chooses a prediction. Those within the precision of the best count as equal, and the most balanced of them is taken,
/// so that a hundredth of the size does not cost twice the time.
pub fn choose(predictions: &[ImagePrediction], goal: TuneGoal, limits: &TuneLimits) -> TuneChoice {
    let within: Vec<usize> = (0..predictions.len()).filter(|at| limits.excess(&predictions[*at]) <= 1.0).collect();
    if within.is_empty() {
        let excess = |at: &usize| limits.excess(&predictions[*at]);
        let nearest = (0..predictions.len()).min_by(|a, b| excess(a).total_cmp(&excess(b)));
        return nearest.map_or(TuneChoice::Nothing, TuneChoice::Nearest);
    }
    let cost = |at: usize, which: usize| costs(&predictions[at])[which];
    let (which, tie_factor) = match goal {
        TuneGoal::Size => (0, SIZE_TIE_FACTOR),
        TuneGoal::Speed => (1, TIME_TIE_FACTOR),
        TuneGoal::Read => (2, TIME_TIE_FACTOR),
        TuneGoal::Balanced => return most_balanced(predictions, &within),
    };
    let least = within.iter().map(|at| cost(*at, which)).fold(f64::INFINITY, f64::min);
    let tied: Vec<usize> = within.into_iter().filter(|at| cost(*at, which) <= least * tie_factor).collect();
    most_balanced(predictions, &tied)
}

/// Factor between sizes that count as equal.
const SIZE_TIE_FACTOR: f64 = 1.005;
/// Factor between build times, or read speeds, that count as equal. They vary from run to run, which sizes do not.
const TIME_TIE_FACTOR: f64 = 1.05;

/// Chooses the prediction that is nearest to the best in every respect, on a logarithmic scale where the range of the
/// front is 1.
fn most_balanced(predictions: &[ImagePrediction], among: &[usize]) -> TuneChoice {
    let logs: Vec<[f64; 3]> = among.iter().map(|at| costs(&predictions[*at]).map(|cost| cost.max(1e-9).ln())).collect();
    let on = front(&among.iter().map(|at| predictions[*at].clone()).collect::<Vec<_>>());
    let scale = |which: usize| {
        let values = || logs.iter().zip(&on).filter(|(_, on)| **on).map(|(log, _)| log[which]);
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(f64::NEG_INFINITY, f64::max);
        // A front of one prediction has no range.
        (least, (most - least).max(1e-9))
    };
    let scales = [scale(0), scale(1), scale(2)];
    let distance = |log: &[f64; 3]| {
        let squares = log.iter().zip(&scales).map(|(log, (least, range))| ((log - least) / range).powi(2));
        squares.sum::<f64>()
    };
    let nearest = among.iter().zip(&logs).min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
    nearest.map_or(TuneChoice::Nothing, |(at, _)| TuneChoice::Best(*at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::predict::tests::made_up;

    /// Bytes, seconds, MB/s.
    fn all() -> Vec<ImagePrediction> {
        vec![
            made_up("lz4", 900_000, 1.0, 1000.0),
            made_up("zstd:3", 600_000, 2.0, 500.0),
            made_up("zstd:15", 520_000, 20.0, 480.0),
            made_up("xz:6", 500_000, 60.0, 50.0),
            // Worse than zstd:3 in every respect.
            made_up("gzip:6", 610_000, 4.0, 300.0),
            // Larger than xz:6 by a thousandth, and built in half the time.
            made_up("zstd:22", 500_500, 30.0, 470.0),
        ]
    }

    fn name(choice: TuneChoice, of: &[ImagePrediction]) -> String {
        match choice {
            TuneChoice::Best(at) => of[at].settings.codec.clone(),
            TuneChoice::Nearest(at) => format!("nearest {}", of[at].settings.codec),
            TuneChoice::Nothing => "nothing".into(),
        }
    }

    #[test]
    fn of_many_those_remain_that_differ_most() {
        // Two groups of three that hardly differ, and one between them.
        let all: Vec<ImagePrediction> =
            [(1000, 1.0), (1001, 1.01), (1002, 1.02), (3000, 0.5), (9000, 0.1), (9001, 0.1)]
                .map(|(size, seconds)| made_up("lz4", size, seconds, 100.0))
                .into();
        let among: Vec<usize> = (0..all.len()).collect();
        assert_eq!(most_different(&all, &among, &[1], 3), [1, 3, 5]);
        assert_eq!(most_different(&all, &among, &[], 1).len(), 1);
        assert_eq!(most_different(&all, &among, &[0], 10), among);
        assert_eq!(most_different(&all, &[0, 4], &[], 1), [4]);
        assert!(most_different(&all, &[], &[], 3).is_empty());
    }

    #[test]
    fn the_front_has_what_no_other_beats_in_all_three() {
        let on: Vec<_> = all().into_iter().zip(front(&all())).filter(|(_, on)| *on).collect();
        let names: Vec<_> = on.iter().map(|(one, _)| one.settings.codec.as_str()).collect();
        assert_eq!(names, ["lz4", "zstd:3", "zstd:15", "xz:6", "zstd:22"]);
        let twins = [made_up("a", 1, 1.0, 1.0), made_up("b", 1, 1.0, 1.0)];
        assert_eq!(front(&twins), [true, false]);
    }

    #[test]
    fn goals_and_limits_decide() {
        let none = TuneLimits::default();
        let size = |most| TuneLimits { size: Some(most), ..none };
        let seconds = |most| TuneLimits { seconds: Some(most), ..none };
        let read = |least| TuneLimits { read: Some(least), ..none };
        let table = [
            // Larger by a thousandth, better otherwise.
            (TuneGoal::Size, none, "zstd:22"),
            (TuneGoal::Speed, none, "lz4"),
            (TuneGoal::Read, none, "lz4"),
            (TuneGoal::Balanced, none, "zstd:3"),
            (TuneGoal::Size, seconds(25.0), "zstd:15"),
            (TuneGoal::Size, seconds(2.0), "zstd:3"),
            (TuneGoal::Speed, size(600_000), "zstd:3"),
            (TuneGoal::Speed, size(599_999), "zstd:15"),
            (TuneGoal::Size, read(475.0), "zstd:15"),
            (TuneGoal::Read, TuneLimits { size: Some(510_000), seconds: Some(40.0), read: None }, "zstd:22"),
            // No candidate is within the limit.
            (TuneGoal::Balanced, size(100_000), "nearest xz:6"),
            (TuneGoal::Size, seconds(0.5), "nearest lz4"),
            (TuneGoal::Size, read(2000.0), "nearest lz4"),
            // Each limit can be met, but not both: zstd:3 exceeds them 1.09 times, lz4 1.64 times.
            (TuneGoal::Size, TuneLimits { size: Some(550_000), seconds: Some(5.0), read: None }, "nearest zstd:3"),
        ];
        for (goal, limits, want) in table {
            assert_eq!(name(choose(&all(), goal, &limits), &all()), want, "{goal}: {limits:?}");
        }
        assert_eq!(choose(&[], TuneGoal::Size, &none), TuneChoice::Nothing);
    }

    #[test]
    fn goals_are_read_and_written() {
        for text in ["size", "speed", "read", "balanced"] {
            assert_eq!(text.parse::<TuneGoal>().unwrap().to_string(), text);
        }
        assert!("small".parse::<TuneGoal>().unwrap_err().to_string().contains("accepted: size"));
    }
}
