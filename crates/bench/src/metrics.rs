//! Metrics of the times and sizes of one pass, a formula each.
//!
//! A block of `s` bytes is stored in `stored` bytes; `e` is 1 where it is kept compressed. Sums go over all blocks.
//! MB are millions of bytes.

use serde::{Deserialize, Serialize};

/// Sizes of a pass over data: they do not depend on the machine or on the number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sizes {
    /// Sum of s.
    pub raw: u64,
    /// Sum of stored.
    pub stored: u64,
    /// Sum of e s: bytes that reading has to decode.
    pub decoded: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of blocks kept compressed.
    pub kept: u64,
}

impl Sizes {
    /// Stored for raw: R. Below 1 is a gain.
    pub fn ratio(&self) -> f64 {
        over(self.stored as f64, self.raw as f64).unwrap_or(1.0)
    }

    /// Bytes saved: G. Rounding up to sectors may make it negative.
    pub fn saved(&self) -> f64 {
        self.raw as f64 - self.stored as f64
    }

    /// The share of the data that is kept compressed: p.
    pub fn share(&self) -> f64 {
        over(self.decoded as f64, self.raw as f64).unwrap_or(0.0)
    }

    /// MB a second at which all blocks are encoded, those included that do not shrink: V_c = sum(s) / T_c.
    pub fn encode_speed(&self, seconds: f64) -> Option<f64> {
        over(self.raw as f64 / 1e6, seconds)
    }

    /// MB a second at which the compressed blocks are decoded: V_d = sum(e s) / T_d. None if there are none.
    pub fn decode_speed(&self, seconds: f64) -> Option<f64> {
        (self.decoded > 0).then(|| over(self.decoded as f64 / 1e6, seconds)).flatten()
    }

    /// MB saved a second of encoding: E_c = G / T_c. A device slower than this writes sooner what is compressed.
    pub fn encode_savings(&self, seconds: f64) -> Option<f64> {
        over(self.saved() / 1e6, seconds)
    }

    /// MB saved a second of decoding: E_d = G / T_d. A device slower than this reads sooner what is compressed.
    pub fn decode_savings(&self, seconds: f64) -> Option<f64> {
        (self.decoded > 0).then(|| over(self.saved() / 1e6, seconds)).flatten()
    }
}

fn over(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

/// Speed-up of n threads over one: T(1) / T(n).
pub fn speedup(one: f64, many: f64) -> Option<f64> {
    over(one, many)
}

/// The speed-up for each of the threads.
pub fn efficiency(one: f64, many: f64, threads: usize) -> Option<f64> {
    over(speedup(one, many)?, threads as f64)
}

/// Returns the points that no other beats: of points (cost, gain) those with no other of at most the cost and at least the
/// gain. Of equal points the first stays.
pub fn front(points: &[(f64, f64)]) -> Vec<bool> {
    let beats = |a: &(f64, f64), b: &(f64, f64)| a.0 <= b.0 && a.1 >= b.1 && a != b;
    let on = |(at, point): (usize, &(f64, f64))| {
        !points.iter().any(|other| beats(other, point)) && !points[..at].contains(point)
    };
    points.iter().enumerate().map(on).collect()
}

/// Returns the points that are worth using when blocks may be shared out between two of them, or between one and no
/// compression at all: those on the upper hull of (time, savings) that begins at (0, 0). In the order of time.
pub fn hull(points: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).filter(|at| points[*at].1 > 0.0).collect();
    order.sort_by(|a, b| points[*a].0.total_cmp(&points[*b].0).then(points[*b].1.total_cmp(&points[*a].1)));
    let at = |index: Option<usize>| index.map_or((0.0, 0.0), |index| points[index]);
    let mut hull: Vec<usize> = Vec::new();
    for next in order {
        if points[next].1 <= at(hull.last().copied()).1 {
            continue;
        }
        // What lies below the line from the one before it to the next goes.
        while let Some(last) = hull.last().copied() {
            let before = at(hull.len().checked_sub(2).map(|index| hull[index]));
            let (last, next) = (points[last], points[next]);
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

    /// Four blocks of 1 MB: three come to 250, 500 and 750 kB, one does not shrink. Encoding takes 2 s, decoding
    /// 0.5 s.
    const SIZES: Sizes = Sizes { raw: 4_000_000, stored: 2_500_000, decoded: 3_000_000, blocks: 4, kept: 3 };

    #[test]
    fn metrics_are_those_computed_by_hand() {
        assert_eq!((SIZES.ratio(), SIZES.saved(), SIZES.share()), (0.625, 1_500_000.0, 0.75));
        assert_eq!(SIZES.encode_speed(2.0), Some(2.0));
        assert_eq!(SIZES.decode_speed(0.5), Some(6.0));
        assert_eq!(SIZES.encode_savings(2.0), Some(0.75));
        // The other way to say it: (1 - R) V_c.
        assert_eq!(SIZES.encode_savings(2.0), Some((1.0 - 0.625) * 2.0));
        assert_eq!(SIZES.decode_savings(0.5), Some(3.0));
    }

    #[test]
    fn nothing_and_nothing_kept_give_no_speed() {
        let nothing = Sizes::default();
        assert_eq!((nothing.ratio(), nothing.share()), (1.0, 0.0));
        assert_eq!(SIZES.encode_speed(0.0), None);
        let plain = Sizes { decoded: 0, kept: 0, stored: 4_096_000, ..SIZES };
        assert_eq!((plain.decode_speed(1.0), plain.decode_savings(1.0)), (None, None));
        // Rounded up to sectors: more than there was.
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
        // Cost, gain: the third is beaten by the second, the fifth is the first again.
        let points = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0), (1.0, 1.0)];
        assert_eq!(front(&points), [true, true, false, true, false]);
        assert_eq!(front(&[]), [false; 0]);
    }

    #[test]
    fn the_hull_has_what_no_mixture_beats() {
        // (1,4) and (4,8); half of each at (2.5,6) beats (2,5), and (5,8) is slower than (4,8) for nothing.
        let points = [(4.0, 8.0), (2.0, 5.0), (1.0, 4.0), (5.0, 8.0), (0.5, -1.0)];
        assert_eq!(hull(&points), [2, 0]);
        // Above the line it stays.
        assert_eq!(hull(&[(4.0, 8.0), (2.0, 5.5), (1.0, 4.0)]), [2, 1, 0]);
        // Steeper later: the first goes, as a mixture of none and the second beats it.
        assert_eq!(hull(&[(1.0, 1.0), (2.0, 4.0)]), [1]);
        assert_eq!(hull(&[]), [0; 0]);
    }
}
