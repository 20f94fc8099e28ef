//! Statistics of repeated measurements: medians, spreads, and a significance test.

use serde::Serialize;

/// Median and spread of samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SampleSummary {
    /// Median: the middle sample, or the mean of the two in the middle.
    pub median: f64,
    /// Median absolute deviation.
    pub mad: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Number of samples.
    pub count: usize,
}

/// Relative spread above which samples vary too much: typical differences would not be significant.
pub const WIDE_SPREAD: f64 = 0.05;

/// Factor from the median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_SIGMA: f64 = 1.4826;

impl SampleSummary {
    /// Summarises samples; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let min = *sorted.first()?;
        let max = *sorted.last()?;
        let median = median_of_sorted(&sorted);
        let mut distances: Vec<f64> = sorted.iter().map(|sample| (sample - median).abs()).collect();
        distances.sort_by(f64::total_cmp);
        Some(SampleSummary { median, mad: median_of_sorted(&distances), min, max, count: sorted.len() })
    }

    /// Returns the relative spread: a robust estimate of the standard deviation, divided by the median. `None` for a
    /// single sample.
    pub fn spread(&self) -> Option<f64> {
        (self.count > 1).then(|| if self.median == 0.0 { 0.0 } else { MAD_TO_SIGMA * self.mad / self.median })
    }

    /// Returns true if the samples vary too much, or are too few, for a conclusion.
    pub fn is_wide(&self) -> bool {
        self.count < 3 || self.spread().is_some_and(|spread| spread > WIDE_SPREAD)
    }

    /// Returns the summary in another unit.
    pub fn scaled(&self, factor: f64) -> Self {
        let SampleSummary { median, mad, min, max, count } = *self;
        SampleSummary { median: median * factor, mad: mad * factor, min: min * factor, max: max * factor, count }
    }

    /// Returns true if the medians differ by more than the wider spread of the two. An unknown spread is assumed to be
    /// [`WIDE_SPREAD`].
    pub fn is_apart_from(&self, other: &SampleSummary) -> bool {
        let noise = |one: &SampleSummary| one.spread().unwrap_or(WIDE_SPREAD) * one.median.abs();
        (self.median - other.median).abs() > noise(self).max(noise(other))
    }
}

/// Returns the median of at least one sample.
fn median_of_sorted(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[half - 1] + sorted[half]) / 2.0 } else { sorted[half] }
}

/// Returns the geometric mean, the correct average of ratios.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    // By logarithms: a product of many ratios could leave the range.
    (!values.is_empty()).then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp())
}

/// Returns the arithmetic mean, which older comparisons used.
pub fn arithmetic_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Maximum number of samples for which the Mann-Whitney test is exact. Beyond it, counting takes ever longer, and the
/// approximation is good.
const MAX_EXACT_SAMPLES: usize = 50;

/// Returns the two-sided p-value of the Mann-Whitney U test: the probability that two sets of samples of the same
/// distribution differ at least as much as these. It assumes nothing about the distribution.
///
/// Exact, including ties, for up to 50 samples in total; beyond that the normal approximation with corrections for ties
/// and continuity. `None` if either set is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let ranks = doubled_ranks(a, b);
    let sum: usize = ranks[..a.len()].iter().sum();
    Some(if ranks.len() <= MAX_EXACT_SAMPLES {
        exact_probability(&ranks, a.len(), sum)
    } else {
        normal_probability(&ranks, a.len(), sum)
    })
}

/// Returns the smallest p-value that [`mann_whitney`] can give for these numbers of samples, that of sets without
/// overlap.
pub fn least_probability(a: usize, b: usize) -> f64 {
    // Each of the ways to divide the samples is equally likely; two of them have no overlap.
    let ways = (1..=a.min(b)).fold(1.0, |ways, k| ways * (a + b + 1 - k) as f64 / k as f64);
    f64::min(1.0, 2.0 / ways)
}

/// Returns twice the rank of each sample, those of `a` first; equal samples have the mean of their ranks.
fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let rank = |sample: &f64| {
        let below = all.iter().filter(|other| *other < sample).count();
        let equal = all.iter().filter(|other| *other == sample).count();
        // Doubled, so that the means of ranks are whole numbers.
        2 * below + equal + 1
    };
    all.iter().map(rank).collect()
}

/// Returns the probability by counting the ways to choose `count` of the ranks, by their sum.
fn exact_probability(ranks: &[usize], count: usize, sum: usize) -> f64 {
    let max_sum: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0; max_sum + 1]; count + 1];
    ways[0][0] = 1.0;
    // From the greatest down, so that each rank is chosen at most once.
    for &rank in ranks {
        for chosen in (1..=count).rev() {
            for total in (rank..=max_sum).rev() {
                ways[chosen][total] += ways[chosen - 1][total - rank];
            }
        }
    }
    let by_sum = &ways[count];
    let all: f64 = by_sum.iter().sum();
    // The observed sum belongs to both tails.
    let low: f64 = by_sum[..=sum].iter().sum();
    let high: f64 = by_sum[sum..].iter().sum();
    (2.0 * low.min(high) / all).min(1.0)
}

/// Returns the probability by the normal approximation.
fn normal_probability(ranks: &[usize], count: usize, sum: usize) -> f64 {
    let n = ranks.len() as f64;
    let a = count as f64;
    let b = n - a;
    let mean = a * (n + 1.0) / 2.0;
    // Each of t equal ranks adds t^2 - 1, so all of them add t^3 - t.
    let equal = |rank: &usize| ranks.iter().filter(|other| *other == rank).count() as f64;
    let ties: f64 = ranks.iter().map(|rank| equal(rank).powi(2) - 1.0).sum();
    let variance = a * b / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    // If all samples are equal, nothing can differ.
    if variance <= 0.0 {
        return 1.0;
    }
    // Half a rank less: the sum is a whole number, the normal distribution is not (continuity).
    let z = ((sum as f64 / 2.0 - mean).abs() - 0.5).max(0.0) / variance.sqrt();
    // Both tails of the normal distribution.
    erfc(z / std::f64::consts::SQRT_2)
}

/// Computes the complementary error function of a non-negative number: by a series where it converges quickly, else
/// by a continued fraction.
fn erfc(x: f64) -> f64 {
    let scale = (-x * x).exp() / std::f64::consts::PI.sqrt();
    // The series needs few terms for small x, the fraction for large ones.
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
        let odd = SampleSummary::of(&[3.0, 1.0, 2.0, 10.0, 2.0]).unwrap();
        // Distances 1, 1, 0, 8, 0: sorted 0, 0, 1, 1, 8.
        assert_eq!(odd, SampleSummary { median: 2.0, mad: 1.0, min: 1.0, max: 10.0, count: 5 });
        assert!((odd.spread().unwrap() - 0.7413).abs() < 1e-9 && odd.is_wide());
        let even = SampleSummary::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((even.median, even.mad), (2.5, 1.0));
        let close = SampleSummary::of(&[100.0, 101.0, 100.5, 500.0, 100.2]).unwrap();
        // A single outlier does not increase the spread.
        assert!(!close.is_wide(), "{close:?}");
        assert!(SampleSummary::of(&[1.0, 1.0]).unwrap().is_wide());
        assert_eq!(SampleSummary::of(&[]), None);
    }

    #[test]
    fn means_are_those_computed_by_hand() {
        assert!((geometric_mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(arithmetic_mean(&[2.0, 8.0]), Some(5.0));
        assert_eq!((geometric_mean(&[]), arithmetic_mean(&[])), (None, None));
    }

    #[test]
    fn one_sample_has_no_spread_and_ties_are_told() {
        let of = |samples: &[f64]| SampleSummary::of(samples).unwrap();
        assert_eq!((of(&[2.0]).spread(), of(&[2.0, 2.0]).spread()), (None, Some(0.0)));
        // Spreads of 1.4826 %: medians that differ by 2 % are apart, by 1 % are not.
        let a = of(&[0.99, 1.0, 1.01]);
        let b = of(&[1.01, 1.02, 1.03]);
        let c = of(&[1.0, 1.01, 1.02]);
        assert!(a.is_apart_from(&b) && b.is_apart_from(&a) && !a.is_apart_from(&c));
        // Single samples have no spread; 5 % is assumed.
        assert!(!of(&[1.0]).is_apart_from(&of(&[1.04])) && of(&[1.0]).is_apart_from(&of(&[1.06])));
    }

    /// Probabilities from tables of the U test and from other programs.
    #[test]
    fn probabilities_are_those_of_the_tables() {
        let near = |p: Option<f64>, want: f64| (p.unwrap() - want).abs() < 1e-6;
        // 5 and 5 without overlap: 2 of 252 ways. 3 and 3: 2 of 20.
        assert!(near(mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]), 2.0 / 252.0));
        assert!(near(mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.1));
        // U = 1 with 3 and 4: (1 + 1) / 35, twice.
        assert!(near(mann_whitney(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0, 7.0]), 4.0 / 35.0));
        // All equal.
        assert!(near(mann_whitney(&[1.0; 4], &[1.0; 6]), 1.0));
        // Ties, by counting: the 6 ways to choose two of 1, 2, 2, 3 have the sums 3, 3, 4, 4, 5, 5; 1 + 2 is the least.
        assert!(near(mann_whitney(&[1.0, 2.0], &[2.0, 3.0]), 4.0 / 6.0));
        assert_eq!((mann_whitney(&[], &[1.0]), mann_whitney(&[1.0], &[])), (None, None));
        for (a, b) in [(3, 3), (4, 4), (5, 5), (3, 8), (1, 9)] {
            let low: Vec<f64> = (0..a).map(f64::from).collect();
            let high: Vec<f64> = (100..100 + b).map(f64::from).collect();
            assert!(near(mann_whitney(&low, &high), least_probability(low.len(), high.len())), "{a} {b}");
        }
    }

    /// For numbers of samples that allow both, the approximation is close to the exact value. Its tails are those of
    /// the normal distribution.
    #[test]
    fn many_samples_are_told_apart_too() {
        let set = |from: u32, step: f64| (0..25).map(|n| f64::from(from) + step * f64::from(n)).collect::<Vec<_>>();
        for (a, b) in [(set(0, 1.0), set(5, 1.0)), (set(0, 1.0), set(1, 1.1)), (set(0, 1.0), set(0, 1.0))] {
            let ranks = doubled_ranks(&a, &b);
            let sum = ranks[..25].iter().sum();
            let exact = exact_probability(&ranks, 25, sum);
            let approximate = normal_probability(&ranks, 25, sum);
            assert!((exact - approximate).abs() < 0.01, "{exact} {approximate}");
        }
        let a: Vec<f64> = (0..60).map(f64::from).collect();
        let b: Vec<f64> = (30..90).map(f64::from).collect();
        assert!(mann_whitney(&a, &b).unwrap() < 1e-6 && mann_whitney(&a, &a).unwrap() > 0.99);
        for (z, tail) in [(0.0, 1.0), (1.0, 0.157_299_21), (1.959_963_98 / 2f64.sqrt(), 0.05), (3.0, 2.209_05e-5)] {
            assert!((erfc(z) - tail).abs() < 1e-7, "{z}: {}", erfc(z));
        }
    }
}
