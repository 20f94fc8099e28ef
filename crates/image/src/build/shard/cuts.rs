//! The cuts between shards. They depend on the lengths of the files and their order only, never on the machine.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;

use packfs_blocks::units::Size;

use crate::tree::{Ino, Tree};

/// Bytes that each file counts for besides its own: opening a file takes time, too. It decides where shards are cut,
/// and so the bytes of images. How much time it takes differs between file systems; not measured.
const PER_FILE: u64 = 4096;
/// Maximum number of shards. It bounds the tables of a plan and its files in one directory; no limit of a format.
pub(super) const MAX: u32 = 1 << 20;

/// Number of shards that the data of an image is cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shards {
    /// Number of shards, at most 1,048,576.
    Count(NonZeroU32),
    /// Approximate bytes of file data in each shard. A longer file is a shard by itself.
    Size(NonZeroU64),
}

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shards::Count(count) => count.fmt(f),
            Shards::Size(size) => write!(f, "of {}", Size(size.get())),
        }
    }
}

impl Shards {
    /// Returns the number of shards for files of this weight, which is asked for only if it matters.
    pub(in crate::build) fn count_for(self, weight: impl FnOnce() -> u128) -> u32 {
        self.count(if let Shards::Size(_) = self { weight() } else { 0 })
    }

    /// Returns the number of shards for files of this weight.
    fn count(self, weight: u128) -> u32 {
        match self {
            Shards::Count(count) => count.get().min(MAX),
            Shards::Size(size) => {
                let count = weight.div_ceil(u128::from(size.get())).max(1);
                u32::try_from(count).unwrap_or(MAX).min(MAX)
            }
        }
    }
}

/// Cuts `files` into ranges of about equal weight. A file belongs to the shard in which its first byte lies, so some
/// ranges may be empty.
pub(super) fn ranges(tree: &Tree, files: &[Ino], shards: Shards) -> Vec<Range<usize>> {
    let total = files.iter().map(|ino| weight(tree.file_len(*ino))).sum();
    let mut cutter = ShardCutter::new(total, shards);
    files.iter().for_each(|ino| cutter.add(tree.file_len(*ino)));
    let ends = |range: Range<u64>| usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
    let ranges = cutter.finish().into_iter().filter_map(ends);
    ranges.map(|(start, end)| start..end).collect()
}

/// Cuts a list of files, of which only the sum of all weights is known at the beginning.
#[derive(Debug)]
pub(super) struct ShardCutter {
    total: u128,
    count: u128,
    ranges: Vec<Range<u64>>,
    /// Number and weight of the files so far.
    at: u64,
    before: u128,
    start: u64,
}

impl ShardCutter {
    pub(super) fn new(total: u128, shards: Shards) -> ShardCutter {
        ShardCutter { total, count: shards.count(total).into(), ranges: Vec::new(), at: 0, before: 0, start: 0 }
    }

    /// Adds the next file, of `size` bytes.
    pub(super) fn add(&mut self, size: u64) {
        // A shard ends at the first position that belongs to the next one. 2^20 shards of less than 2^97 bytes fit.
        while (self.ranges.len() as u128) < self.count && self.before >= self.end_of_shard() {
            self.cut();
        }
        self.before += weight(size);
        self.at += 1;
    }

    /// Returns the position at which the shard after those that are cut ends.
    fn end_of_shard(&self) -> u128 {
        ((self.ranges.len() as u128 + 1) * self.total).div_ceil(self.count)
    }

    fn cut(&mut self) {
        self.ranges.push(self.start..self.at);
        self.start = self.at;
    }

    /// Returns the range of each shard.
    pub(super) fn finish(mut self) -> Vec<Range<u64>> {
        while (self.ranges.len() as u128) < self.count {
            self.cut();
        }
        self.ranges
    }
}

/// Returns the weight of a shard with `files` files of `bytes` bytes in all.
pub(super) fn load(bytes: u64, files: u32) -> u64 {
    bytes.saturating_add(u64::from(files) * PER_FILE)
}

/// Returns the weight of a file of `size` bytes.
pub(in crate::build) fn weight(size: u64) -> u128 {
    u128::from(size) + u128::from(PER_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Node, Piece, Spec};

    /// Cuts files of these lengths.
    fn cut(lens: &[u64], shards: Shards) -> Vec<Range<usize>> {
        let file = |(n, len): (usize, &u64)| (format!("{n:04}").into_bytes(), Node::file(vec![Piece::Hole(*len)]));
        let tree = Spec::of(lens.iter().enumerate().map(file)).tree().unwrap();
        let files: Vec<_> = (0..lens.len()).map(|n| tree.lookup(format!("{n:04}").as_bytes()).unwrap()).collect();
        ranges(&tree, &files, shards)
    }

    fn count(n: u32) -> Shards {
        Shards::Count(NonZeroU32::new(n).unwrap())
    }

    #[test]
    fn ranges_cover_all_files_once_and_have_about_equal_weight() {
        let lens: Vec<u64> = (0..500).map(|n| n * 7919 % 100_000).collect();
        let all: u64 = lens.iter().map(|len| len + PER_FILE).sum();
        for n in [1, 2, 3, 17, 499, 500, 2000] {
            let ranges = cut(&lens, count(n));
            assert_eq!((ranges.len(), ranges[0].start, ranges[ranges.len() - 1].end), (n as usize, 0, 500));
            assert!(ranges.windows(2).all(|two| two[0].end == two[1].start));
            for range in ranges {
                let weight: u64 = lens[range].iter().map(|len| len + PER_FILE).sum();
                assert!(weight <= all / u64::from(n) + 110_000, "{n} shards: {weight} of {all}");
            }
        }
    }

    #[test]
    fn a_long_file_leaves_shards_empty() {
        assert_eq!(cut(&[1 << 40, 1, 1], count(3)), [0..1, 1..1, 1..3]);
        assert_eq!(cut(&[], count(2)), [0..0, 0..0]);
        assert_eq!(cut(&[u64::MAX, u64::MAX], count(2)), [0..1, 1..2]);
    }

    #[test]
    fn a_size_gives_the_number() {
        let size = |size| Shards::Size(NonZeroU64::new(size).unwrap());
        assert_eq!(cut(&[100_000; 10], size(1 << 20)), vec![0..10; 1]);
        assert_eq!(cut(&[100_000; 10], size(300_000)), [0..3, 3..5, 5..8, 8..10]);
        assert_eq!(cut(&[], size(5)), vec![0..0; 1]);
        assert_eq!(cut(&[u64::MAX], size(1)).len(), MAX as usize);
    }
}
