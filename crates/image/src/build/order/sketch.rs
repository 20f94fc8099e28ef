//! A sketch of a file in a few bytes, by one-permutation hashing: it tells how much two files have in common.
//!
//! Each run of eight bytes is hashed; the hash names one of [`BINS`] bins and a value, and each bin keeps the least of its
//! values. The share of bins in which two sketches are equal estimates the share of their runs that are equal.

use crate::source::Contents;

/// Bins of a sketch.
pub(super) const BINS: usize = 64;
/// Bytes looked at, from the end on: the beginnings of many types are headers that all have in common.
const LEN: usize = 128 << 10;
/// A bin that is empty.
pub(super) const NONE: u32 = u32::MAX;
/// Bytes of a run.
const RUN: usize = 8;

/// The least values of each bin.
pub(super) type Sketch = [u32; BINS];

/// The sketch of a file's end; an empty one if that cannot be read: reading the file's data says why.
pub(super) fn of_file(from: &dyn Contents, key: u64, size: u64) -> Sketch {
    let len = usize::try_from(size).unwrap_or(LEN).min(LEN);
    let mut bytes = vec![0; len];
    let read = from.open(key).and_then(|mut file| file.read_exact_at(&mut bytes, size - len as u64));
    read.map_or([NONE; BINS], |()| of(&bytes))
}

fn of(bytes: &[u8]) -> Sketch {
    let mut sketch = [NONE; BINS];
    for run in bytes.windows(RUN) {
        let run = u64::from_le_bytes(run.try_into().expect("as long as a run"));
        // Zeros are everywhere and say nothing.
        if run != 0 {
            let hash = mix(run);
            let bin = &mut sketch[usize::try_from(hash >> 58).expect("six bits")];
            *bin = (*bin).min(u32::try_from(hash >> 16 & 0xffff_ffff).expect("32 bits"));
        }
    }
    sketch
}

/// Spreads bytes that differ little over all values.
fn mix(run: u64) -> u64 {
    let hash = run.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, len: u64) -> Vec<u8> {
        (0..len / 8).flat_map(|n| mix(mix(seed) ^ n).to_le_bytes()).collect()
    }

    fn equal(a: &[u8], b: &[u8]) -> usize {
        of(a).iter().zip(of(b)).filter(|(a, b)| **a == *b && *b != NONE).count()
    }

    #[test]
    fn bins_agree_by_what_is_in_common() {
        let (a, b) = (noise(1, 40_000), noise(2, 40_000));
        let half = [&a[..20_000], &b[..20_000]].concat();
        assert_eq!(equal(&a, &a), BINS);
        assert!(equal(&a, &b) <= 2);
        // A third of the runs of both together.
        assert!((8..40).contains(&equal(&a, &half)), "{}", equal(&a, &half));
        assert!(equal(&a, &[&b[..1001], &a[..]].concat()) > 48, "a shift changes little");
    }

    #[test]
    fn short_files_and_zeros_have_empty_bins() {
        assert_eq!(of(b"seven b"), [NONE; BINS]);
        assert_eq!(of(&[0; 5000]), [NONE; BINS]);
        assert_eq!(of(b"eight by").iter().filter(|least| **least != NONE).count(), 1);
    }
}
