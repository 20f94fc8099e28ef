//! Prefix codes of bounded length, shortest in all for given counts.
//!
//! Sources: Larmore and Hirschberg, "A fast algorithm for optimal length-limited Huffman codes", 1990 (package-merge);
//! RFC 1951, section 3.2.2 (the codes that belong to lengths).

/// Longest code of a literal, a length or a distance.
pub(super) const LIMIT: usize = 15;

/// Items of one level of package-merge: its weight, and whether it is a pair of the level before.
type MergeLevel = Vec<(u64, bool)>;

/// Finds the lengths of codes; keeps its memory.
#[derive(Debug, Default)]
pub(super) struct PrefixCoder {
    /// Counts and symbols of the symbols that are used.
    used: Vec<(u32, u16)>,
    levels: Vec<MergeLevel>,
    /// The tree of a code without a limit: counts of the nodes, then their depths.
    nodes: Vec<u64>,
    parents: Vec<u16>,
}

impl PrefixCoder {
    /// Sets the lengths of codes of at most `limit` bits for symbols that are used as often as `counts` tell; unused ones
    /// get none. At least two symbols get a code: some decoders refuse a code of one.
    pub(super) fn lengths(&mut self, counts: &[u32], limit: usize, lengths: &mut [u8]) {
        lengths.fill(0);
        self.used.clear();
        self.used.extend((0..).zip(counts).filter(|(_, count)| **count > 0).map(|(symbol, count)| (*count, symbol)));
        if self.used.len() < 2 {
            let only = self.used.first().map_or(0, |(_, symbol)| usize::from(*symbol));
            lengths[only] = 1;
            lengths[usize::from(only == 0)] = 1;
            return;
        }
        // By count, then by symbol, so that the code does not depend on the order of equal counts.
        self.used.sort_unstable();
        // Huffman's method takes less time, and its codes are seldom too long.
        if !self.unlimited(limit, lengths) {
            self.limited(limit, lengths);
        }
    }

    /// Sets the lengths of Huffman's code; returns false if one is longer than `limit`.
    fn unlimited(&mut self, limit: usize, lengths: &mut [u8]) -> bool {
        let leaves = self.used.len();
        let last = 2 * leaves - 2;
        self.nodes.clear();
        self.nodes.extend(self.used.iter().map(|(count, _)| u64::from(*count)));
        self.parents.clear();
        self.parents.resize(last + 1, 0);
        // Both leaves and pairs are in the order of their counts, so the least ones are at the front of either.
        let mut leaf = 0;
        let mut pair = leaves;
        while self.nodes.len() <= last {
            let mut sum = 0;
            for _ in 0..2 {
                let of_leaves = leaf < leaves && (pair >= self.nodes.len() || self.nodes[leaf] <= self.nodes[pair]);
                let least = if of_leaves { &mut leaf } else { &mut pair };
                sum += self.nodes[*least];
                self.parents[*least] = self.nodes.len() as u16;
                *least += 1;
            }
            self.nodes.push(sum);
        }
        self.nodes[last] = 0;
        // Each node comes before its parent, so depths are set from the root on.
        for node in (0..last).rev() {
            self.nodes[node] = self.nodes[usize::from(self.parents[node])] + 1;
        }
        for ((_, symbol), depth) in self.used.iter().zip(&self.nodes) {
            if *depth > limit as u64 {
                return false;
            }
            lengths[usize::from(*symbol)] = *depth as u8;
        }
        true
    }

    /// Sets the lengths by package-merge.
    fn limited(&mut self, limit: usize, lengths: &mut [u8]) {
        lengths.fill(0);
        self.levels.resize(limit, MergeLevel::new());
        for level in 0..limit {
            let (before, rest) = self.levels.split_at_mut(level);
            let pairs = before.last().map_or(&[][..], |level| level);
            let mut pairs = pairs.chunks_exact(2).map(|pair| pair[0].0 + pair[1].0).peekable();
            rest[0].clear();
            for (count, _) in &self.used {
                let count = u64::from(*count);
                while let Some(pair) = pairs.next_if(|pair| *pair < count) {
                    rest[0].push((pair, true));
                }
                rest[0].push((count, false));
            }
            rest[0].extend(pairs.map(|pair| (pair, true)));
        }
        // Of a level, each leaf taken makes the code of its symbol one bit longer, and each pair takes two
        // items of the level before. Of the last level, 2n - 2 items make the shortest code.
        let mut take = 2 * self.used.len() - 2;
        for level in self.levels.iter().rev() {
            let pairs = level[..take].iter().filter(|(_, is_pair)| *is_pair).count();
            self.used[..take - pairs].iter().for_each(|(_, symbol)| lengths[usize::from(*symbol)] += 1);
            take = 2 * pairs;
        }
    }
}

/// Returns the code of each symbol, its first bit lowest.
pub(super) fn codes<const COUNT: usize>(lengths: &[u8; COUNT]) -> [u16; COUNT] {
    let mut next = [0_u16; LIMIT + 2];
    lengths.iter().filter(|len| **len > 0).for_each(|len| next[usize::from(*len) + 1] += 1);
    for len in 1..=LIMIT {
        next[len] = (next[len] + next[len - 1]) << 1;
    }
    lengths.map(|len| {
        if len == 0 {
            return 0;
        }
        // The first code of a length is twice the one after the last of the length before.
        let code = &mut next[usize::from(len)];
        *code += 1;
        // RFC 1951, section 3.1.1: codes begin with their highest bit, everything else with its lowest.
        (*code - 1).reverse_bits() >> (16 - u32::from(len))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(counts: &[u32], limit: usize) -> Vec<u8> {
        let mut lengths = vec![0; counts.len().max(2)];
        PrefixCoder::default().lengths(counts, limit, &mut lengths);
        lengths
    }

    #[test]
    fn lengths_are_the_best_within_the_limit() {
        for (counts, limit, expected) in [
            (&[5, 0, 5][..], 15, &[1, 0, 1][..]),
            (&[1, 1, 2, 4, 8], 15, &[4, 4, 3, 2, 1]),
            (&[1, 1, 2, 4, 8], 3, &[3, 3, 3, 3, 1]),
            (&[1, 1, 1, 1], 2, &[2, 2, 2, 2]),
            (&[0, 0, 0], 15, &[1, 1, 0]),
            (&[7, 0, 0], 15, &[1, 1, 0]),
            (&[0, 0, 7], 15, &[1, 0, 1]),
        ] {
            assert_eq!(lengths(counts, limit), expected, "{counts:?}, {limit}");
        }
    }

    #[test]
    fn rising_counts_need_the_limit_and_fill_the_code() {
        let mut counts = vec![1, 1];
        (2..30).for_each(|n| counts.push(counts[n - 1] + counts[n - 2]));
        for limit in [5, 7, 15] {
            let lengths = lengths(&counts, limit);
            assert_eq!(usize::from(*lengths.iter().max().unwrap()), limit);
            assert_eq!(lengths.iter().map(|len| 1_u32 << (15 - len)).sum::<u32>(), 1 << 15);
        }
    }

    /// The example of RFC 1951, section 3.2.2.
    #[test]
    fn codes_are_those_of_the_standard() {
        let codes = codes(&[3, 3, 3, 3, 3, 2, 4, 4]);
        let expected = [0b010, 0b110, 0b001, 0b101, 0b011, 0b00, 0b0111, 0b1111];
        assert_eq!(codes, expected);
    }
}
