//! Metrics, computed from the times and sizes of one pass.
//!
//! A block of `s` bytes is stored in `stored` bytes; `e` is 1 if it is kept compressed, else 0. Sums are over all
//! blocks. MB are millions of bytes.

use serde::{Deserialize, Serialize};

/// Sizes of a pass, which depend neither on the machine nor on the number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PassSizes {
    /// sum(s), the length of the data in bytes.
    pub raw: u64,
    /// sum(stored), the bytes of all blocks as stored.
    pub stored: u64,
    /// sum(e s), the bytes to decode when reading.
    pub decoded: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of blocks kept compressed.
    pub kept: u64,
}

impl PassSizes {
    /// R = sum(stored) / sum(s). Below 1 is a gain.
    pub fn ratio(&self) -> f64 {
        over(self.stored as f64, self.raw as f64).unwrap_or(1.0)
    }

    /// G = sum(s) - sum(stored). Rounding to sectors can make it negative.
    pub fn saved(&self) -> f64 {
        self.raw as f64 - self.stored as f64
    }

    /// p, the share of the data that is kept compressed.
    pub fn share(&self) -> f64 {
        over(self.decoded as f64, self.raw as f64).unwrap_or(0.0)
    }

    /// V_c = sum(s) / T_c, the speed of encoding all blocks, including those that do not shrink, in MB/s.
    pub fn encode_speed(&self, seconds: f64) -> Option<f64> {
        over(self.raw as f64 / 1e6, seconds)
    }

    /// V_d = sum(e s) / T_d, the speed of decoding the compressed blocks, in MB/s. `None` if there are none.
    pub fn decode_speed(&self, seconds: f64) -> Option<f64> {
        (self.decoded > 0).then(|| over(self.decoded as f64 / 1e6, seconds)).flatten()
    }

    /// E_c = G / T_c, in MB/s. On a slower device, writing compressed data is faster.
    pub fn encode_savings(&self, seconds: f64) -> Option<f64> {
        over(self.saved() / 1e6, seconds)
    }

    /// E_d = G / T_d, in MB/s. On a slower device, reading compressed data is faster.
    pub fn decode_savings(&self, seconds: f64) -> Option<f64> {
        (self.decoded > 0).then(|| over(self.saved() / 1e6, seconds)).flatten()
    }
}

fn over(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

/// Returns the speed-up of n threads over one: T(1) / T(n).
pub fn speedup(one: f64, many: f64) -> Option<f64> {
    over(one, many)
}

/// Returns the speed-up divided by the number of threads.
pub fn efficiency(one: f64, many: f64, threads: usize) -> Option<f64> {
    over(speedup(one, many)?, threads as f64)
}

/// Returns the Pareto front of points (cost, gain): those for which no other has at most the cost and at least the
/// gain. Of equal points the first is kept.
pub fn front(points: &[(f64, f64)]) -> Vec<bool> {
    // Equal points do not beat each other; the first of them stays.
    let beats = |a: &(f64, f64), b: &(f64, f64)| a.0 <= b.0 && a.1 >= b.1 && a != b;
    let on = |(at, point): (usize, &(f64, f64))| {
        !points.iter().any(|other| beats(other, point)) && !points[..at].contains(point)
    };
    points.iter().enumerate().map(on).collect()
}

/// Returns the points that are worth using if the blocks may be divided between two of them, or between one and no
/// compression: those on the upper hull of (time, savings) that begins at (0, 0), sorted by time.
pub fn hull(points: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).filter(|at| points[*at].1 > 0.0).collect();
    // Of equal times, the greatest savings first: the others are then skipped.
    order.sort_by(|a, b| points[*a].0.total_cmp(&points[*b].0).then(points[*b].1.total_cmp(&points[*a].1)));
    let at = |index: Option<usize>| index.map_or((0.0, 0.0), |index| points[index]);
    let mut hull: Vec<usize> = Vec::new();
    for next in order {
        // Later points take longer, so one that saves no more is never worth it.
        if points[next].1 <= at(hull.last().copied()).1 {
            continue;
        }
        // Remove points below the line between their neighbours.
        while let Some(last) = hull.last().copied() {
            let before = at(hull.len().checked_sub(2).map(|index| hull[index]));
            let last = points[last];
            let next = points[next];
            // Slopes are compared by products, as two points may have the same time.
            let below = (last.1 - before.1) * (next.0 - before.0) <= (next.1 - before.1) * (last.0 - before.0);
            if !below {
                break;
            }
            hull.pop();
        }
        hull.push(next);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four blocks of 1 MB: three shrink to 250, 500 and 750 kB, one does not. Encoding takes 2 s, decoding 0.5 s.
    const SIZES: PassSizes = PassSizes { raw: 4_000_000, stored: 2_500_000, decoded: 3_000_000, blocks: 4, kept: 3 };

    #[test]
    fn metrics_are_those_computed_by_hand() {
        assert_eq!((SIZES.ratio(), SIZES.saved(), SIZES.share()), (0.625, 1_500_000.0, 0.75));
        assert_eq!(SIZES.encode_speed(2.0), Some(2.0));
        assert_eq!(SIZES.decode_speed(0.5), Some(6.0));
        assert_eq!(SIZES.encode_savings(2.0), Some(0.75));
        // Equivalent: (1 - R) V_c.
        assert_eq!(SIZES.encode_savings(2.0), Some((1.0 - 0.625) * 2.0));
        assert_eq!(SIZES.decode_savings(0.5), Some(3.0));
    }

    #[test]
    fn nothing_and_nothing_kept_give_no_speed() {
        let nothing = PassSizes::default();
        assert_eq!((nothing.ratio(), nothing.share()), (1.0, 0.0));
        assert_eq!(SIZES.encode_speed(0.0), None);
        let plain = PassSizes { decoded: 0, kept: 0, stored: 4_096_000, ..SIZES };
        assert_eq!((plain.decode_speed(1.0), plain.decode_savings(1.0)), (None, None));
        // Rounding to sectors makes it larger than the data.
        assert_eq!(plain.encode_savings(1.0), Some(-0.096));
    }

    #[test]
    fn speedups_are_not_inverted() {
        assert_eq!(speedup(10.0, 2.5), Some(4.0));
        assert_eq!(efficiency(10.0, 2.5, 8), Some(0.5));
        assert_eq!(speedup(10.0, 0.0), None);
    }

    #[test]
    fn the_front_has_what_nothing_beats() {
        // Cost, gain: the second beats the third, and the fifth equals the first.
        let points = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0), (1.0, 1.0)];
        assert_eq!(front(&points), [true, true, false, true, false]);
        assert_eq!(front(&[]), [false; 0]);
    }

    #[test]
    fn the_hull_has_what_no_mixture_beats() {
        // (1,4) and (4,8); half of each at (2.5,6) beats (2,5), and (5,8) is slower than (4,8) for nothing.
        let points = [(4.0, 8.0), (2.0, 5.0), (1.0, 4.0), (5.0, 8.0), (0.5, -1.0)];
        assert_eq!(hull(&points), [2, 0]);
        // A point above the line is kept.
        assert_eq!(hull(&[(4.0, 8.0), (2.0, 5.5), (1.0, 4.0)]), [2, 1, 0]);
        // A mixture of no compression and the second beats the first.
        assert_eq!(hull(&[(1.0, 1.0), (2.0, 4.0)]), [1]);
        assert_eq!(hull(&[]), [0; 0]);
    }
}
