//! A sketch of a file by one-permutation hashing, which estimates the similarity of two files from a few bytes.
//!
//! Each run of eight bytes is hashed. The hash selects one of [`BINS`] bins and a value, and each bin keeps the
//! smallest value. The share of equal bins of two sketches estimates the share of their common runs.

use crate::source::Contents;

/// Number of bins of a sketch, four bytes each. With 16 or 32, the small files of a Debian root get 0.1 to 0.4 % larger
/// in blocks of 128K, and 0.4 to 1 % in blocks of 1M (docs/design/order-of-file-data.md).
pub(super) const BINS: usize = 64;
/// Number of bytes examined at the end of a file: the beginnings of many types are common headers. Sketches of whole
/// files up to 1M made images no smaller and read 1.5 times as much.
const LEN: usize = 128 << 10;
/// An empty bin.
pub(super) const NONE: u32 = u32::MAX;
/// Length of a run in bytes. With 4 or 6, images are 0.1 to 0.4 % larger; with 16, larger than in the order of
/// names in blocks of 1M.
const RUN: usize = 8;

/// Smallest value of each bin.
pub(super) type ContentSketch = [u32; BINS];

/// Returns the sketch of a file's end; empty if it cannot be read, because reading its data will report the error.
pub(super) fn of_file(from: &dyn Contents, key: u64, size: u64) -> ContentSketch {
    let len = usize::try_from(size).unwrap_or(LEN).min(LEN);
    let mut bytes = vec![0; len];
    let read = from.open(key).and_then(|mut file| file.read_exact_at(&mut bytes, size - len as u64));
    read.map_or([NONE; BINS], |()| of(&bytes))
}

fn of(bytes: &[u8]) -> ContentSketch {
    let mut sketch = [NONE; BINS];
    for run in bytes.windows(RUN) {
        let run = u64::from_le_bytes(run.try_into().expect("as long as a run"));
        // Runs of zeros are too common to mean anything.
        if run != 0 {
            let hash = mix(run);
            let bin = &mut sketch[usize::try_from(hash >> 58).expect("six bits")];
            *bin = (*bin).min(u32::try_from(hash >> 16 & 0xffff_ffff).expect("32 bits"));
        }
    }
    sketch
}

/// Spreads similar inputs over all values.
fn mix(run: u64) -> u64 {
    let hash = run.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use packfs_blocks::testing::noise;

    use super::*;

    fn equal(a: &[u8], b: &[u8]) -> usize {
        of(a).iter().zip(of(b)).filter(|(a, b)| **a == *b && *b != NONE).count()
    }

    #[test]
    fn bins_agree_by_what_is_in_common() {
        let a = noise(40_000, 1);
        let b = noise(40_000, 2);
        let half = [&a[..20_000], &b[..20_000]].concat();
        assert_eq!(equal(&a, &a), BINS);
        assert!(equal(&a, &b) <= 2);
        // They share a third of all runs.
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
