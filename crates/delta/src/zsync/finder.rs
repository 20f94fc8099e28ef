//! Finds blocks of the new file in an old one, at any offset.
//!
//! A window of two blocks rolls over the old file. Where its two weak sums are those of two consecutive blocks of the new
//! file, MD4 confirms both. Short sums are only meant to be trusted in such pairs; an index with longer ones says so, and
//! then the window is one block. Blocks with equal sums are one block here, so it is enough to find one of them.
//!
//! The old file is divided into segments of a fixed length that workers search on their own, so what is found does not
//! depend on their number.

use packfs_blocks::pipeline::{self, Window};
use packfs_blocks::{Progress, ReadAt};

use super::index::ZsyncIndex;
use super::plan::UpdatePlan;
use super::sums::{RollingSum, md4};
use crate::PatchEffort;
use crate::error::{Error, Result};

/// Bytes of the old file that a job searches. The two blocks after them, which it reads as well, are 0.1 % of that.
const SEGMENT_LEN: u64 = 4 << 20;

/// Odd multipliers that spread the bits of the two weak sums over a key. One is 2^64 divided by the golden ratio, the other
/// a prime of XXH64.
const SPREAD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

/// Finds missing blocks of a plan in an old file, and notes where they are. Counts bytes of the old file as done.
///
/// Memory is bounded by the number of blocks: about 20 bytes for each besides index and plan, and a few MiB for each worker.
///
/// # Errors
/// [`Error::Io`]; [`Error::Interrupted`].
pub fn find_blocks(index: &ZsyncIndex, old: &dyn ReadAt, plan: &mut UpdatePlan, effort: &PatchEffort) -> Result<()> {
    if index.blocks() == 0 {
        return Ok(());
    }
    let finder = BlockFinder::new(index);
    let mut found = vec![None; index.blocks()];
    let segment_len = SEGMENT_LEN.max(2 * u64::from(index.block_size()));
    let segment_room = usize::try_from(segment_len).unwrap_or(usize::MAX);
    pipeline::scope(
        effort.threads,
        || (),
        |pool| -> Result<()> {
            let mut window: Window<Result<Vec<FoundBlock>>> = Window::new((effort.threads + 1) * 2 * segment_room);
            let mut take = |segment: Result<Vec<FoundBlock>>| -> Result<()> {
                effort.check()?;
                for FoundBlock { block, offset } in segment? {
                    // The first place of several, so that the plan is the same on each run.
                    found[block as usize].get_or_insert(offset);
                }
                Ok(())
            };
            let mut start = 0;
            while start < old.len() {
                let end = old.len().min(start + segment_len);
                let finder = &finder;
                window.push(pool.submit(move |_| finder.search_segment(old, start, end, effort)), segment_room);
                if window.is_full() {
                    window.pop().map_or(Ok(()), &mut take)?;
                }
                start = end;
            }
            while let Some(segment) = window.pop() {
                take(segment)?;
            }
            Ok(())
        },
    )?;
    for (block, first_equal) in finder.first_equal.iter().enumerate() {
        if let Some(offset) = found[*first_equal as usize] {
            plan.copy(block, offset);
        }
    }
    Ok(())
}

/// A block of the new file, and its place in the old one.
#[derive(Debug, Clone, Copy)]
struct FoundBlock {
    block: u32,
    offset: u64,
}

/// The blocks of an index, by their weak sums.
struct BlockFinder<'i> {
    index: &'i ZsyncIndex,
    block_size: usize,
    block_bits: u32,
    weak_mask: u32,
    is_paired: bool,
    /// Of each block, the first one that has the same sums.
    first_equal: Vec<u32>,
    /// Blocks with different sums, or pairs of them, by their first; in the order of keys, then of their sums.
    sorted: Vec<u32>,
    /// Where the blocks of a key begin in `sorted`, by the first bits of the key; one more at the end.
    starts: Vec<u32>,
    /// Bits for the keys that there are, by their first bits: most windows end here, in memory that stays in the cache.
    filter: Vec<u64>,
    starts_shift: u32,
    filter_shift: u32,
}

impl<'i> BlockFinder<'i> {
    fn new(index: &'i ZsyncIndex) -> Self {
        let blocks = u32::try_from(index.blocks()).expect("indexes are bounded");
        // A filter of 8 to 16 bits for each block lets a tenth of the windows through that nothing matches.
        let starts_bits = blocks.next_power_of_two().ilog2().max(1);
        let filter_bits = starts_bits + 3;
        let mut finder = BlockFinder {
            index,
            block_size: index.block_size() as usize,
            block_bits: index.block_size().ilog2(),
            weak_mask: index.lengths().weak_mask(),
            is_paired: index.lengths().consecutive == 2,
            first_equal: (0..blocks).collect(),
            sorted: (0..blocks).collect(),
            starts: vec![0; (1 << starts_bits) + 1],
            filter: vec![0; 1 << filter_bits.saturating_sub(6)],
            starts_shift: 64 - starts_bits,
            filter_shift: 64 - filter_bits,
        };
        finder.find_equal_blocks();
        finder.sort_keys(blocks);
        finder
    }

    /// Finds the first of equal blocks.
    fn find_equal_blocks(&mut self) {
        let sums = |block: u32| (self.index.weak(block as usize), self.index.strong(block as usize));
        // By number as well, so that the first of equal ones comes first.
        self.sorted.sort_unstable_by(|one, other| sums(*one).cmp(&sums(*other)).then(one.cmp(other)));
        for run in self.sorted.chunk_by(|one, other| sums(*one) == sums(*other)) {
            for block in run {
                self.first_equal[*block as usize] = run[0];
            }
        }
    }

    /// Sorts pairs of blocks, or blocks, by their keys, and leaves out those that are equal.
    fn sort_keys(&mut self, blocks: u32) {
        let mut sorted = std::mem::take(&mut self.sorted);
        // The last block begins no pair.
        sorted.retain(|block| !self.is_paired || block + 1 < blocks);
        let order = |block: &u32| {
            let weak = self.weak_of(*block);
            (self.key(weak), weak, self.sums_order(*block))
        };
        sorted.sort_unstable_by(|one, other| order(one).cmp(&order(other)));
        sorted.dedup_by(|one, other| order(one) == order(other));
        for block in &sorted {
            let key = self.key(self.weak_of(*block));
            self.starts[slot(key >> self.starts_shift) + 1] += 1;
            let bit = key >> self.filter_shift;
            self.filter[slot(bit >> 6)] |= 1 << (bit & 63);
        }
        for at in 1..self.starts.len() {
            self.starts[at] += self.starts[at - 1];
        }
        self.sorted = sorted;
    }

    /// Returns what orders blocks of one key: their digests, which a search compares one after the other.
    fn sums_order(&self, block: u32) -> (&[u8], &[u8]) {
        let second = if self.is_paired { self.index.strong(block as usize + 1) } else { &[] };
        (self.index.strong(block as usize), second)
    }

    /// Returns the weak sums of a block and of the one after it, 0 where one block is enough.
    fn weak_of(&self, block: u32) -> [u32; 2] {
        let second = if self.is_paired { self.index.weak(block as usize + 1) } else { 0 };
        [self.index.weak(block as usize), second]
    }

    #[inline(always)]
    fn key(&self, weak: [u32; 2]) -> u64 {
        let [first, second] = weak.map(u64::from);
        let mixed = first.wrapping_mul(SPREAD[0]) ^ second.wrapping_mul(SPREAD[1]).rotate_left(32);
        // The first bits of a product depend on all of its factor's bits.
        mixed.wrapping_mul(SPREAD[1])
    }

    #[inline(always)]
    fn may_have(&self, key: u64) -> bool {
        let bit = key >> self.filter_shift;
        self.filter[slot(bit >> 6)] >> (bit & 63) & 1 == 1
    }

    /// Searches for blocks that begin at the bytes from `start` to `end` of the old file.
    fn search_segment(&self, old: &dyn ReadAt, start: u64, end: u64, effort: &PatchEffort) -> Result<Vec<FoundBlock>> {
        let positions = usize::try_from(end - start).unwrap_or_default();
        // Zeros follow the old file, as they fill up the last block of the new one.
        let mut bytes = vec![0; positions + 2 * self.block_size];
        let stored_len = usize::try_from(old.len() - start).unwrap_or(usize::MAX).min(bytes.len());
        old.read_exact_at(&mut bytes[..stored_len], start).map_err(Error::io("cannot read the old file"))?;
        let mut found = Vec::new();
        self.search(&bytes, positions, effort, &mut |block, at| {
            found.push(FoundBlock { block: self.first_equal[block as usize], offset: start + at as u64 });
        })?;
        Progress::add(&effort.progress.done, end - start);
        Ok(found)
    }

    /// Calls `found` for the blocks that begin at the first `positions` bytes, which two blocks follow.
    fn search(
        &self,
        bytes: &[u8],
        positions: usize,
        effort: &PatchEffort,
        found: &mut dyn FnMut(u32, usize),
    ) -> Result<()> {
        let size = self.block_size;
        let mut at = 0;
        let mut checked = 0;
        let mut first = RollingSum::of(&bytes[..size]);
        let mut second = RollingSum::of(&bytes[size..2 * size]);
        while at < positions {
            let second_weak = if self.is_paired { second.value() & self.weak_mask } else { 0 };
            let weak = [first.value() & self.weak_mask, second_weak];
            let key = self.key(weak);
            if self.may_have(key) {
                // An index may have been made so that many windows match its weak sums; then this takes long.
                checked += 1;
                if checked % 4096 == 0 {
                    effort.check()?;
                }
                if let Some(block) = self.confirm(key, weak, &bytes[at..at + 2 * size]) {
                    found(block, at);
                    if self.is_paired {
                        found(block + 1, at + size);
                    }
                    // What overlaps a block that was found is not needed.
                    at += size;
                    if at < positions {
                        first = if self.is_paired { second } else { RollingSum::of(&bytes[at..at + size]) };
                        second = RollingSum::of(&bytes[at + size..at + 2 * size]);
                    }
                    continue;
                }
            }
            if at + 2 * size < bytes.len() {
                first.roll(bytes[at], bytes[at + size], self.block_bits);
                second.roll(bytes[at + size], bytes[at + 2 * size], self.block_bits);
            }
            at += 1;
        }
        Ok(())
    }

    /// Returns the block that a window is, if its digest is right, and if paired that of the block after it.
    fn confirm(&self, key: u64, weak: [u32; 2], window: &[u8]) -> Option<u32> {
        let at = slot(key >> self.starts_shift);
        let same_start = &self.sorted[self.starts[at] as usize..self.starts[at + 1] as usize];
        // Bounded, however many blocks an index gives the same weak sums: each search halves them.
        let same_weak = equal_range(same_start, |block| {
            let other = self.weak_of(block);
            (self.key(other), other).cmp(&(key, weak))
        });
        if same_weak.is_empty() {
            return None;
        }
        let strong_len = usize::from(self.index.lengths().strong_len);
        let digest_of = |window: &[u8]| md4(window)[..strong_len].to_vec();
        let (first, second) = window.split_at(self.block_size);
        let first = digest_of(first);
        let same_first = equal_range(same_weak, |block| self.sums_order(block).0.cmp(&first[..]));
        if !self.is_paired || same_first.is_empty() {
            return same_first.first().copied();
        }
        let second = digest_of(second);
        equal_range(same_first, |block| self.sums_order(block).1.cmp(&second[..])).first().copied()
    }
}

/// Converts the first bits of a key to an index.
#[inline(always)]
fn slot(bits: u64) -> usize {
    usize::try_from(bits).unwrap_or_default()
}

/// Returns the part of a sorted slice that `compare` finds equal.
fn equal_range(sorted: &[u32], compare: impl Fn(u32) -> std::cmp::Ordering) -> &[u32] {
    let from = sorted.partition_point(|block| compare(*block).is_lt());
    let len = sorted[from..].partition_point(|block| compare(*block).is_eq());
    &sorted[from..from + len]
}

#[cfg(test)]
mod tests {
    use packfs_blocks::testing::noise;

    use super::*;
    use crate::zsync::IndexOptions;

    fn index_of(new: &[u8], block_size: u32) -> ZsyncIndex {
        let options = IndexOptions::default().set(|all| all.block_size = Some(block_size));
        ZsyncIndex::of_file(&new.to_vec(), &options, &PatchEffort::default()).unwrap()
    }

    fn plan_for(new: &[u8], old: &[u8], block_size: u32, threads: usize) -> UpdatePlan {
        let index = index_of(new, block_size);
        let mut plan = index.plan();
        let effort = PatchEffort { threads, ..PatchEffort::default() };
        find_blocks(&index, &old.to_vec(), &mut plan, &effort).unwrap();
        plan
    }

    #[test]
    fn blocks_are_found_at_any_offset_and_in_pairs_only() {
        let new = noise(20 * 2048, 1);
        let block = |number: usize| &new[number * 2048..(number + 1) * 2048];
        let other = noise(5000, 2);
        let cases: [(&str, Vec<u8>, usize); 7] = [
            ("the same", new.clone(), 20),
            ("moved", [&other[..777], &new].concat(), 20),
            ("nothing", other.clone(), 0),
            ("a single block", [&other[..33], block(4), &other].concat(), 0),
            ("a pair", [&other[..33], block(4), block(5), &other].concat(), 2),
            ("pairs in another order", [block(6), block(7), &other[..1], block(0), block(1)].concat(), 4),
            ("empty", Vec::new(), 0),
        ];
        for (name, old, expected) in cases {
            let plan = plan_for(&new, &old, 2048, 0);
            assert_eq!(plan.copied_blocks(), expected, "{name}");
        }
    }

    #[test]
    fn the_last_block_is_found_at_the_end_of_the_old_file_and_within_it() {
        for tail_len in [1, 100, 2047] {
            let new = noise(4 * 2048 + tail_len, 1);
            assert_eq!(plan_for(&new, &new, 2048, 0).copied_blocks(), 5);
            assert_eq!(plan_for(&new, &[&new[..], &vec![0; 5000]].concat(), 2048, 0).copied_blocks(), 5);
            // The zeros that fill it up are not there.
            assert_eq!(plan_for(&new, &[&new[..], &[7; 5000]].concat(), 2048, 0).copied_blocks(), 4);
        }
        let short = noise(100, 1);
        assert_eq!(plan_for(&short, &short, 2048, 0).copied_blocks(), 1, "one block needs no other");
    }

    #[test]
    fn equal_blocks_are_found_once_and_copied_wherever_they_are() {
        let new = [vec![0; 1 << 20], noise(10_000, 1), vec![0; 1 << 20]].concat();
        let old = [noise(3000, 2), vec![0; 9000]].concat();
        let plan = plan_for(&new, &old, 2048, 0);
        assert_eq!(plan.blocks() - plan.copied_blocks(), 5, "the noise");
    }

    #[test]
    fn what_is_found_does_not_depend_on_the_number_of_threads() {
        let old = noise(5 << 20, 1);
        let mut new = old.clone();
        for at in (0..new.len()).step_by(300_001) {
            new.splice(at..at + 10, noise(77, at as u64));
        }
        let ranges = plan_for(&new, &old, 2048, 0).missing_ranges();
        assert!(ranges.len() >= 16);
        for threads in [1, 4] {
            assert_eq!(plan_for(&new, &old, 2048, threads).missing_ranges(), ranges);
        }
    }
}
