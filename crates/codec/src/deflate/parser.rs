//! The cheapest literals and matches for a stretch of input, by prices of symbols.

use super::cache::MatchCache;
use super::symbols::{
    DISTANCES, DeflateCounts, DeflateItem, END, LEN_MAX, LEN_MIN, LITERALS, distance_bits, distance_symbol, of_len,
};
use crate::logarithm::{BIT, log2};

/// Prices of literals, lengths and distances, with their plain bits.
#[derive(Debug)]
pub(super) struct DeflatePrices {
    literals: [u32; 256],
    lens: [u32; LEN_MAX + 1],
    distances: [u32; DISTANCES],
}

impl DeflatePrices {
    /// Returns what symbols cost that are used as often as `counts` tell: the logarithm of their share. A whole number of
    /// bits would hide which of two codes is about to become longer.
    pub(super) fn of(counts: &DeflateCounts) -> DeflatePrices {
        let mut literals = [0; LITERALS];
        let mut distances = [0; DISTANCES];
        shares(&counts.literals, &mut literals);
        shares(&counts.distances, &mut distances);
        DeflatePrices::from_symbols(&literals, &distances)
    }

    /// Returns prices for the first pass over `data`: literals as often as each byte occurs there, but one bit more, because
    /// matches will replace the frequent ones; lengths and distances by experience.
    pub(super) fn first(data: &[u8]) -> DeflatePrices {
        let mut literals = [0; LITERALS];
        shares(&DeflateCounts::of_literals(data).literals, &mut literals);
        literals.iter_mut().for_each(|price| *price += BIT);
        literals[END + 1..].fill(6 * BIT);
        DeflatePrices::from_symbols(&literals, &[5 * BIT; DISTANCES])
    }

    /// Returns prices from those of symbols.
    fn from_symbols(symbols: &[u32; LITERALS], distances: &[u32; DISTANCES]) -> DeflatePrices {
        let mut literals = [0; 256];
        literals.copy_from_slice(&symbols[..END]);
        let mut lens = [0; LEN_MAX + 1];
        for (len, price) in lens.iter_mut().enumerate().skip(LEN_MIN) {
            let coded = of_len(len);
            *price = symbols[coded.symbol] + coded.extra_bits * BIT;
        }
        let mut distances = *distances;
        (0..).zip(&mut distances).for_each(|(symbol, price)| *price += distance_bits(symbol) * BIT);
        DeflatePrices { literals, lens, distances }
    }
}

fn shares(counts: &[u32], prices: &mut [u32]) {
    let sum = log2(counts.iter().sum::<u32>().max(1));
    for (count, price) in counts.iter().zip(prices) {
        *price = sum - log2((*count).max(1)).min(sum);
    }
}

/// Finds the cheapest items.
#[derive(Debug, Default)]
pub(super) struct DeflateParser {
    /// Cost of the rest of the stretch from each position on.
    costs: Vec<u32>,
    /// The best item at each position.
    best: Vec<DeflateItem>,
}

impl DeflateParser {
    /// Replaces `items` by the cheapest ones for positions of the cached stretch, whose bytes are `data`.
    pub(super) fn parse(
        &mut self,
        cache: &MatchCache,
        data: &[u8],
        positions: std::ops::Range<usize>,
        prices: &DeflatePrices,
        items: &mut Vec<DeflateItem>,
    ) {
        let count = positions.len();
        self.costs.clear();
        self.costs.resize(count + 1, 0);
        self.best.clear();
        self.best.resize(count, DeflateItem::literal(0));
        // From the end on: the cost of everything after an item is known then.
        for here in (0..count).rev() {
            let byte = data[positions.start + here];
            let mut least = prices.literals[usize::from(byte)] + self.costs[here + 1];
            let mut best = DeflateItem::literal(byte);
            let matches = cache.at(positions.start + here);
            let longest = matches.last().map_or(0, |found| usize::from(found.len).min(count - here));
            if longest >= LEN_MIN {
                // A repeat that goes on for so long is not cut short: that would take most of the time, and gain nothing.
                let (mut at, shortest) = if longest == LEN_MAX { (matches.len() - 1, LEN_MAX) } else { (0, LEN_MIN) };
                let lens = &prices.lens[shortest..=longest];
                let rests = &self.costs[here + shortest..=here + longest];
                let mut price = prices.distances[distance_symbol(matches[at].distance.into())];
                for ((len, of_len), rest) in (shortest..).zip(lens).zip(rests) {
                    // The nearest match that is long enough.
                    if len > usize::from(matches[at].len) {
                        at += 1;
                        price = prices.distances[distance_symbol(matches[at].distance.into())];
                    }
                    let cost = price + of_len + rest;
                    // Lengths rise, so of items that cost the same the longest is taken.
                    if cost <= least {
                        (least, best) = (cost, DeflateItem::matching(len, matches[at].distance.into()));
                    }
                }
            }
            self.costs[here] = least;
            self.best[here] = best;
        }
        items.clear();
        let mut at = 0;
        while let Some(item) = self.best.get(at) {
            items.push(*item);
            at += item.len();
        }
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        4 * self.costs.capacity() + size_of::<DeflateItem>() * self.best.capacity()
    }
}
