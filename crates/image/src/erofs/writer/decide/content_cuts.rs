//! Divides the data of small files, which are packed together, so that an update of the image costs what changed.
//!
//! Small files and tails of files fill clusters of the packed inode one after the other. If only full pieces are sent to the
//! encoders, one changed length shifts everything after it, and all later clusters of the new image differ from the old
//! ones: zsync, casync and the like then fetch them all. With content cuts, a file begins a piece if its own content says
//! so, whatever comes before it, so that clusters are the same again soon after a change. `gzip --rsyncable` and
//! `zstd --rsyncable` do the same within a stream. Fragment blocks of SquashFS need no cuts: they end with a file, so they
//! are soon the same again anyway.

use packfs_blocks::Digest;

/// Number of bytes between two cuts on average, if nothing else is said. Each cut costs half a block of the image, and each
/// change costs the rest of its piece. The largest distance that still saves a fifth of an update; docs/design/updates.md
/// has the measurements.
pub(crate) const CUT_DISTANCE: &str = "1M";
/// Smallest average distance: with less, most pieces would be shorter than a cluster.
pub(crate) const CUT_DISTANCE_MIN: u32 = 16 << 10;

/// Decides which files and tails begin a new piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentCuts {
    /// Average number of bytes between two cuts, not 0; `None` for no cuts.
    distance: Option<u32>,
}

impl ContentCuts {
    /// Cuts every `distance` bytes on average, or nowhere.
    pub(crate) fn new(distance: Option<u32>) -> Self {
        ContentCuts { distance }
    }

    /// Returns true if `len` bytes with this digest begin a piece: with a probability of `len / distance`, so that the lengths
    /// of files do not matter to the distance between cuts.
    pub(crate) fn come_before(self, digest: &Digest, len: usize) -> bool {
        let Some(distance) = self.distance else { return false };
        let first_bytes = digest.as_bytes().first_chunk().expect("a digest has more than 8 bytes");
        let drawn = u64::from_le_bytes(*first_bytes) % u64::from(distance);
        drawn < len as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_have_the_distance_that_was_asked_for() {
        for (distance, file_len) in [(64 << 10, 500), (64 << 10, 9000), (1 << 20, 9000)] {
            let cuts = ContentCuts::new(Some(distance));
            let files = 100_000u32;
            let begun = (0..files).filter(|n| cuts.come_before(&Digest::of(&n.to_le_bytes()), file_len)).count();
            let expected = f64::from(files) * file_len as f64 / f64::from(distance);
            assert!((begun as f64 / expected - 1.0).abs() < 0.1, "{begun} cuts, {expected} expected");
        }
    }

    #[test]
    fn without_a_distance_nothing_is_cut() {
        assert!((0..1000u32).all(|n| !ContentCuts::new(None).come_before(&Digest::of(&n.to_le_bytes()), 1 << 20)));
    }
}
