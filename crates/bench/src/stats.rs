//! What several runs of one thing come to.

use serde::Serialize;

/// Median and spread of samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The middle sample, or the mean of the two in the middle.
    pub median: f64,
    /// Median of the distances from the median.
    pub mad: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// How many.
    pub count: usize,
}

/// Relative spread from which on a difference of the usual size cannot be told from chance.
pub const WIDE: f64 = 0.05;

/// By what the median distance is multiplied to estimate the standard deviation, were the samples normal.
const MAD_TO_SIGMA: f64 = 1.4826;

impl Summary {
    /// Of some samples; nothing of none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = middle(&sorted);
        let mut distances: Vec<f64> = sorted.iter().map(|sample| (sample - median).abs()).collect();
        distances.sort_by(f64::total_cmp);
        Some(Summary { median, mad: middle(&distances), min, max, count: sorted.len() })
    }

    /// The spread relative to the median: an estimate of the standard deviation that a single outlier does not move.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { MAD_TO_SIGMA * self.mad / self.median }
    }

    /// Whether the samples lie too far apart, or are too few, to conclude anything from.
    pub fn is_wide(&self) -> bool {
        self.count < 3 || self.spread() > WIDE
    }
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(half.wrapping_sub(1)), sorted.get(half)) {
        (0, Some(below), Some(above)) => (below + above) / 2.0,
        (_, _, Some(at)) => *at,
        _ => 0.0,
    }
}

/// The mean of factors: what relative values are to be averaged by.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    (!values.is_empty()).then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp())
}

/// The plain mean, by which the comparisons of old averaged.
pub fn arithmetic_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads_are_those_computed_by_hand() {
        let odd = Summary::of(&[3.0, 1.0, 2.0, 10.0, 2.0]).unwrap();
        // Distances 1, 1, 0, 8, 0: sorted 0, 0, 1, 1, 8.
        assert_eq!(odd, Summary { median: 2.0, mad: 1.0, min: 1.0, max: 10.0, count: 5 });
        assert!((odd.spread() - 0.7413).abs() < 1e-9 && odd.is_wide());
        let even = Summary::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((even.median, even.mad), (2.5, 1.0));
        let close = Summary::of(&[100.0, 101.0, 100.5, 500.0, 100.2]).unwrap();
        // One outlier does not make it wide.
        assert!(!close.is_wide(), "{close:?}");
        assert!(Summary::of(&[1.0, 1.0]).unwrap().is_wide());
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn means_are_those_computed_by_hand() {
        assert!((geometric_mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(arithmetic_mean(&[2.0, 8.0]), Some(5.0));
        assert_eq!((geometric_mean(&[]), arithmetic_mean(&[])), (None, None));
    }
}
