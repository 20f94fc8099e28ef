//! Orders files so that each follows one that it resembles.
//!
//! Files with the same value in a bin are linked in a list. From the file placed last, the lists are followed a few
//! files in both directions, and the file met most often is placed next. If none was met often enough, the first
//! remaining file is placed next. Work and memory are bounded by the number of files and bins.

use std::collections::HashMap;

use super::sketch::NONE;

/// Minimum number of equal bins for one file to follow another out of order. With 4 or 12, the small files of a Debian
/// root get 0.1 and 0.2 to 0.4 % larger (docs/design/order-of-file-data.md).
const LEAST: u8 = 8;
/// Number of files visited in each list and direction: it bounds the time where many files have a bin in common. Not
/// measured.
const REACH: usize = 32;
/// End of a list; every window has fewer files.
const END: u16 = u16::MAX;

/// Lists of one bin: for each file the next and the previous one with the same value.
#[derive(Debug)]
pub(super) struct BinLinks {
    next: Vec<u16>,
    back: Vec<u16>,
}

impl BinLinks {
    /// Links fewer than 65,536 files by their values of one bin.
    pub(super) fn of(values: &[u32]) -> Self {
        let mut next = vec![END; values.len()];
        let mut back = vec![END; values.len()];
        let mut last: HashMap<u32, u16> = HashMap::new();
        for (n, value) in (0u16..).zip(values).filter(|(_, value)| **value != NONE) {
            if let Some(before) = last.insert(*value, n) {
                (next[before as usize], back[n as usize]) = (n, before);
            }
        }
        BinLinks { next, back }
    }

    /// Removes a file from its list.
    fn remove(&mut self, n: usize) {
        let next = self.next[n];
        let back = self.back[n];
        if back != END {
            self.next[back as usize] = next;
        }
        if next != END {
            self.back[next as usize] = back;
        }
    }
}

/// Returns the order of `count` files, as indices in the previous order.
pub(super) fn order(mut bins: Vec<BinLinks>, count: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(count);
    let mut placed = vec![false; count];
    let mut met = vec![0u8; count];
    let mut seen = Vec::new();
    let mut first = 0;
    let mut nearest = None;
    while order.len() < count {
        let n = nearest.unwrap_or_else(|| {
            first += placed[first..].iter().take_while(|placed| **placed).count();
            first
        });
        placed[n] = true;
        order.push(n);
        for links in &mut bins {
            for list in [&links.next, &links.back] {
                let mut at = list[n];
                for _ in 0..REACH {
                    if at == END {
                        break;
                    }
                    let times = &mut met[at as usize];
                    if *times == 0 {
                        seen.push(at);
                    }
                    *times += 1;
                    at = list[at as usize];
                }
            }
            links.remove(n);
        }
        // Of files met as often, the one that came first: the order must not depend on how the lists were
        // walked.
        let often = |n: &u16| (met[*n as usize], std::cmp::Reverse(*n));
        let best = seen.iter().copied().filter(|n| met[*n as usize] >= LEAST).max_by_key(often);
        nearest = best.map(|n| n as usize);
        // Only what was met: clearing all counts for each file would make the work quadratic.
        seen.drain(..).for_each(|n| met[n as usize] = 0);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order of files whose sketches have these values in every bin.
    fn ordered(values: &[u32]) -> Vec<usize> {
        order((0..LEAST).map(|_| BinLinks::of(values)).collect(), values.len())
    }

    #[test]
    fn each_file_follows_one_that_it_resembles() {
        let table: [(&[u32], &[usize]); 5] = [
            (&[], &[]),
            (&[1, 2, 3], &[0, 1, 2]),
            (&[1, 2, 1, 2, 1], &[0, 2, 4, 1, 3]),
            (&[NONE, 5, NONE, 5], &[0, 1, 3, 2]),
            (&[7, 7, 7], &[0, 1, 2]),
        ];
        for (values, expected) in table {
            assert_eq!(ordered(values), expected, "{values:?}");
        }
    }

    #[test]
    fn what_agrees_in_more_bins_is_nearer() {
        let (one, other) = ([9, 9, 1], [9, 1, 9]);
        let links = |bins: &[&[u32; 3]]| bins.iter().map(|bin| BinLinks::of(*bin)).collect::<Vec<_>>();
        assert_eq!(order(links(&[[&one; 8].as_slice(), &[&other; 9]].concat()), 3), [0, 2, 1]);
        assert_eq!(order(links(&[&other; 7]), 3), [0, 1, 2], "a few bins are chance");
    }
}
