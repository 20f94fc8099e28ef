//! Which chunks came before, within bounded memory: the latest are remembered, the oldest forgotten.

use std::collections::HashMap;

use packfs_blocks::Digest;

/// What a chunk takes in a map that is half full, as maps are on average.
const ENTRY: u64 = 96;

/// Places of chunks by their digest, in two generations: when the young one is full, it becomes the old one, and the
/// old one is forgotten.
#[derive(Debug)]
pub(super) struct Seen {
    young: HashMap<Digest, u64>,
    old: HashMap<Digest, u64>,
    most: usize,
}

impl Seen {
    /// Its share of all memory that may be taken.
    pub(super) fn memory(all: u64) -> u64 {
        all / 16
    }

    /// Remembers what `memory` bytes can hold.
    pub(super) fn new(memory: u64) -> Self {
        let most = usize::try_from(memory / ENTRY / 2).unwrap_or(usize::MAX).max(1);
        Seen { young: HashMap::new(), old: HashMap::new(), most }
    }

    /// Where the same chunk was before; if nowhere, it is from now on at `offset`.
    pub(super) fn find_or_add(&mut self, digest: Digest, offset: u64) -> Option<u64> {
        let found = self.young.get(&digest).or_else(|| self.old.get(&digest)).copied();
        // What comes again stays remembered.
        let place = found.unwrap_or(offset);
        if self.young.len() >= self.most && !self.young.contains_key(&digest) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, place);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_and_what_comes_often_is_remembered() {
        let mut seen = Seen::new(ENTRY * 2 * 10);
        let digest = |n: u64| Digest::of(&n.to_le_bytes());
        for n in 0..100 {
            assert_eq!(seen.find_or_add(digest(n), n), None);
            assert_eq!(seen.find_or_add(digest(0), 999), Some(0), "after {n}");
            assert!(seen.young.len() <= 10 && seen.old.len() <= 10);
        }
        assert_eq!(seen.find_or_add(digest(95), 7), Some(95));
        assert_eq!(seen.find_or_add(digest(20), 7), None, "long forgotten");
    }
}
