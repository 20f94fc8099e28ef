//! Where blocks end: a block has codes of its own, which pay where the symbols that are used change.
//!
//! Ends are first chosen from a grid, by the shortest path through all blocks between two of its points, and then moved
//! by ever smaller steps.

use super::symbols::{DeflateCounts, DeflateItem};
use crate::logarithm::{BIT, log2};

/// Fewest items between two points of the grid, and most points.
const STEP: usize = 256;
const POINTS: usize = 40;
/// Smallest step by which the end of a block is moved.
const LAST_STEP: usize = 16;
/// Estimated bits of a header: in all, for a length of a code like the one before, for another one, and for a run of
/// unused symbols.
const HEADER: u32 = 40 * BIT;
const SAME: u32 = BIT * 2;
const OTHER: u32 = BIT * 7 / 2;
const UNUSED: u32 = BIT * 8;

/// Finds the ends of blocks; keeps its memory.
#[derive(Debug, Default)]
pub(super) struct BlockSplitter {
    /// Counts of everything before each point of the grid.
    before: Vec<DeflateCounts>,
    /// For each point, the cost of the best blocks before it, and where the last one of them begins.
    best: Vec<(u64, usize)>,
}

impl BlockSplitter {
    /// Returns where blocks of `items` should end.
    pub(super) fn ends(&mut self, items: &[DeflateItem]) -> Vec<usize> {
        let step = items.len().div_ceil(POINTS).max(STEP);
        self.before.clear();
        let mut counts = DeflateCounts::new();
        self.before.push(counts.clone());
        for part in items.chunks(step) {
            part.iter().for_each(|item| counts.add(*item));
            self.before.push(counts.clone());
        }
        let points = self.before.len();
        self.best.clear();
        self.best.push((0, 0));
        for end in 1..points {
            let blocks =
                (0..end).map(|start| (self.best[start].0 + between(&self.before[start], &self.before[end]), start));
            let best = blocks.min().unwrap_or_default();
            self.best.push(best);
        }
        let mut ends = Vec::new();
        let mut point = points - 1;
        while point > 0 {
            ends.push(items.len().min(point * step));
            point = self.best[point].1;
        }
        ends.reverse();
        move_ends(items, &mut ends, step / 2);
        remove_ends(items, &mut ends);
        ends
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        size_of::<DeflateCounts>() * self.before.capacity() + size_of::<(u64, usize)>() * self.best.capacity()
    }
}

/// Returns what a block costs that has what one count has more than another.
fn between(before: &DeflateCounts, after: &DeflateCounts) -> u64 {
    let literals = after.literals.iter().zip(&before.literals).map(|(after, before)| after - before);
    let distances = after.distances.iter().zip(&before.distances).map(|(after, before)| after - before);
    u64::from(HEADER) + of_symbols(literals) + of_symbols(distances)
}

/// Moves each end between two blocks while that makes them cheaper.
fn move_ends(items: &[DeflateItem], ends: &mut [usize], step: usize) {
    for n in 0..ends.len().saturating_sub(1) {
        let start = if n == 0 { 0 } else { ends[n - 1] };
        let stop = ends[n + 1];
        let both =
            |end: usize| cost(&DeflateCounts::of(&items[start..end])) + cost(&DeflateCounts::of(&items[end..stop]));
        let mut least = both(ends[n]);
        let mut step = step;
        while step >= LAST_STEP {
            let nearby = [ends[n].saturating_sub(step), ends[n] + step];
            let moved =
                nearby.into_iter().filter(|end| (start + 1..stop).contains(end)).map(|end| (both(end), end)).min();
            match moved.filter(|(cost, _)| *cost < least) {
                Some((cost, end)) => (least, ends[n]) = (cost, end),
                None => step /= 2,
            }
        }
    }
}

/// Removes each end between two blocks that are no cheaper than one.
fn remove_ends(items: &[DeflateItem], ends: &mut Vec<usize>) {
    let mut n = 0;
    let mut start = 0;
    while n + 1 < ends.len() {
        let [end, stop] = [ends[n], ends[n + 1]];
        let [one, other, both] =
            [start..end, end..stop, start..stop].map(|block| cost(&DeflateCounts::of(&items[block])));
        if both <= one + other {
            ends.remove(n);
        } else {
            (n, start) = (n + 1, end);
        }
    }
}

/// Returns what a block costs, without the plain bits after its symbols, which are the same in any block.
fn cost(counts: &DeflateCounts) -> u64 {
    u64::from(HEADER) + of_symbols(counts.literals.iter().copied()) + of_symbols(counts.distances.iter().copied())
}

fn of_symbols(counts: impl Iterator<Item = u32> + Clone) -> u64 {
    let sum = log2(counts.clone().sum::<u32>().max(1));
    let mut symbols = 0;
    let mut header = 0;
    let mut last = 0;
    for count in counts {
        let len = match count {
            0 => {
                header += if last == 0 { 0 } else { UNUSED };
                last = 0;
                continue;
            }
            count => {
                let price = sum - log2(count).min(sum);
                symbols += u64::from(count) * u64::from(price);
                // One more than the length of the code, as 0 stands for unused symbols.
                (price + BIT / 2) / BIT + 1
            }
        };
        header += if len == last { SAME } else { OTHER };
        last = len;
    }
    symbols + u64::from(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_where_symbols_change() {
        let literals = |from: u8| (0..3000_u32).map(move |n| DeflateItem::literal(from + (n * 7 % 16) as u8));
        let items: Vec<DeflateItem> = literals(0).chain(literals(100)).collect();
        let mut splitter = BlockSplitter::default();
        let ends = splitter.ends(&items);
        assert_eq!(ends.len(), 2, "{ends:?}");
        assert!(ends[0].abs_diff(3000) < LAST_STEP && ends[1] == 6000, "{ends:?}");
        assert_eq!(splitter.ends(&items[..3000]), [3000]);
        assert_eq!(splitter.ends(&items[..1]), [1]);
        assert_eq!(splitter.ends(&[]), [] as [usize; 0]);
    }
}
