//! Statistics of repeated measurements: medians, spreads, and whether two sets of samples differ by more than chance.

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
    /// Number of samples.
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
    /// One sample has none.
    pub fn spread(&self) -> Option<f64> {
        (self.count > 1).then(|| if self.median == 0.0 { 0.0 } else { MAD_TO_SIGMA * self.mad / self.median })
    }

    /// True if the samples lie too far apart, or are too few, to conclude anything from.
    pub fn is_wide(&self) -> bool {
        self.count < 3 || self.spread().is_some_and(|spread| spread > WIDE)
    }

    /// The same in another unit, by a factor.
    pub fn scaled(&self, factor: f64) -> Self {
        let Summary { median, mad, min, max, count } = *self;
        Summary { median: median * factor, mad: mad * factor, min: min * factor, max: max * factor, count }
    }

    /// True if the medians differ by more than the wider spread of the two. Where there is no spread to go by, it is
    /// taken for [`WIDE`].
    pub fn is_apart_from(&self, other: &Summary) -> bool {
        let noise = |one: &Summary| one.spread().unwrap_or(WIDE) * one.median.abs();
        (self.median - other.median).abs() > noise(self).max(noise(other))
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

/// Up to so many samples in all, the test of Mann and Whitney counts every way to share them out.
const EXACT: usize = 50;

/// The probability that two sets of samples of the same thing are at least as far apart as these two, in either
/// direction: the U test of Mann and Whitney. It asks nothing of how the samples are distributed.
///
/// Exact, with ties, for up to 50 samples together; beyond that by the normal approximation with corrections for ties
/// and continuity. `None` if either set is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let ranks = doubled_ranks(a, b);
    let sum: usize = ranks[..a.len()].iter().sum();
    Some(if ranks.len() <= EXACT { exact(&ranks, a.len(), sum) } else { approximate(&ranks, a.len(), sum) })
}

/// The least probability that [`mann_whitney`] can give for so many samples: of sets that do not overlap.
pub fn least_probability(a: usize, b: usize) -> f64 {
    let ways = (1..=a.min(b)).fold(1.0, |ways, k| ways * (a + b + 1 - k) as f64 / k as f64);
    f64::min(1.0, 2.0 / ways)
}

/// Twice the rank of each sample among all of them, those of `a` first; equal samples share the mean of their ranks.
fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let rank = |sample: &f64| {
        let below = all.iter().filter(|other| *other < sample).count();
        let equal = all.iter().filter(|other| *other == sample).count();
        2 * below + equal + 1
    };
    all.iter().map(rank).collect()
}

/// Counts the ways to choose `count` of the ranks, by their sum.
fn exact(ranks: &[usize], count: usize, sum: usize) -> f64 {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0; most + 1]; count + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for chosen in (1..=count).rev() {
            for total in (rank..=most).rev() {
                ways[chosen][total] += ways[chosen - 1][total - rank];
            }
        }
    }
    let of = &ways[count];
    let (all, low, high): (f64, f64, f64) = (of.iter().sum(), of[..=sum].iter().sum(), of[sum..].iter().sum());
    (2.0 * low.min(high) / all).min(1.0)
}

fn approximate(ranks: &[usize], count: usize, sum: usize) -> f64 {
    let (n, a) = (ranks.len() as f64, count as f64);
    let b = n - a;
    let mean = a * (n + 1.0) / 2.0;
    // Each of t equal ranks adds t^2 - 1: all of them t^3 - t.
    let equal = |rank: &usize| ranks.iter().filter(|other| *other == rank).count() as f64;
    let ties: f64 = ranks.iter().map(|rank| equal(rank).powi(2) - 1.0).sum();
    let variance = a * b / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((sum as f64 / 2.0 - mean).abs() - 0.5).max(0.0) / variance.sqrt();
    // Both tails of the normal distribution.
    erfc(z / std::f64::consts::SQRT_2)
}

/// The complementary error function of a number that is not negative: by its series where that converges fast, by its
/// continued fraction elsewhere.
fn erfc(x: f64) -> f64 {
    let scale = (-x * x).exp() / std::f64::consts::PI.sqrt();
    if x < 2.0 {
        let mut term = x;
        let mut sum = x;
        for n in 1..60 {
            term *= 2.0 * x * x / f64::from(2 * n + 1);
            sum += term;
        }
        return 1.0 - 2.0 * scale * sum;
    }
    let fraction = (1..60).rev().fold(0.0, |below, n| f64::from(n) / 2.0 / (x + below));
    scale / (x + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads_are_those_computed_by_hand() {
        let odd = Summary::of(&[3.0, 1.0, 2.0, 10.0, 2.0]).unwrap();
        // Distances 1, 1, 0, 8, 0: sorted 0, 0, 1, 1, 8.
        assert_eq!(odd, Summary { median: 2.0, mad: 1.0, min: 1.0, max: 10.0, count: 5 });
        assert!((odd.spread().unwrap() - 0.7413).abs() < 1e-9 && odd.is_wide());
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

    #[test]
    fn one_sample_has_no_spread_and_ties_are_told() {
        let of = |samples: &[f64]| Summary::of(samples).unwrap();
        assert_eq!((of(&[2.0]).spread(), of(&[2.0, 2.0]).spread()), (None, Some(0.0)));
        // Spreads of 1.4826 %: medians 2 % apart are apart, 1 % are not.
        let (a, b, c) = (of(&[0.99, 1.0, 1.01]), of(&[1.01, 1.02, 1.03]), of(&[1.0, 1.01, 1.02]));
        assert!(a.is_apart_from(&b) && b.is_apart_from(&a) && !a.is_apart_from(&c));
        // Of single samples nobody knows; 5 % are assumed.
        assert!(!of(&[1.0]).is_apart_from(&of(&[1.04])) && of(&[1.0]).is_apart_from(&of(&[1.06])));
    }

    /// Probabilities as tables of the U test and other programs have them.
    #[test]
    fn probabilities_are_those_of_the_tables() {
        let near = |p: Option<f64>, want: f64| (p.unwrap() - want).abs() < 1e-6;
        // 5 and 5 that do not overlap: 2 of 252 ways. 3 and 3: 2 of 20.
        assert!(near(mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]), 2.0 / 252.0));
        assert!(near(mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.1));
        // U = 1 of 3 and 4: (1 + 1) / 35, twice.
        assert!(near(mann_whitney(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0, 7.0]), 4.0 / 35.0));
        // All equal: nothing.
        assert!(near(mann_whitney(&[1.0; 4], &[1.0; 6]), 1.0));
        // Ties, by counting: of the 6 ways to choose two of 1, 2, 2, 3 the sums are 3, 3, 4, 4, 5, 5; 1 + 2 is the least.
        assert!(near(mann_whitney(&[1.0, 2.0], &[2.0, 3.0]), 4.0 / 6.0));
        assert_eq!((mann_whitney(&[], &[1.0]), mann_whitney(&[1.0], &[])), (None, None));
        for (a, b) in [(3, 3), (4, 4), (5, 5), (3, 8), (1, 9)] {
            let (low, high): (Vec<f64>, Vec<f64>) =
                ((0..a).map(f64::from).collect(), (100..100 + b).map(f64::from).collect());
            assert!(near(mann_whitney(&low, &high), least_probability(low.len(), high.len())), "{a} {b}");
        }
    }

    /// Where both can be had, the approximation is near the exact value; its tails are those of the normal distribution.
    #[test]
    fn many_samples_are_told_apart_too() {
        let set = |from: u32, step: f64| (0..25).map(|n| f64::from(from) + step * f64::from(n)).collect::<Vec<_>>();
        for (a, b) in [(set(0, 1.0), set(5, 1.0)), (set(0, 1.0), set(1, 1.1)), (set(0, 1.0), set(0, 1.0))] {
            let ranks = doubled_ranks(&a, &b);
            let sum = ranks[..25].iter().sum();
            let (exact, approximate) = (exact(&ranks, 25, sum), approximate(&ranks, 25, sum));
            assert!((exact - approximate).abs() < 0.01, "{exact} {approximate}");
        }
        let (a, b): (Vec<f64>, Vec<f64>) = ((0..60).map(f64::from).collect(), (30..90).map(f64::from).collect());
        assert!(mann_whitney(&a, &b).unwrap() < 1e-6 && mann_whitney(&a, &a).unwrap() > 0.99);
        for (z, tail) in [(0.0, 1.0), (1.0, 0.157_299_21), (1.959_963_98 / 2f64.sqrt(), 0.05), (3.0, 2.209_05e-5)] {
            assert!((erfc(z) - tail).abs() < 1e-7, "{z}: {}", erfc(z));
        }
    }
}
