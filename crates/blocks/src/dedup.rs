//! Which blocks, runs of blocks and tails are already down: decided by digest alone, on the conductor,
//! before anything is compressed.

use std::collections::HashMap;

use crate::Digest;

/// Number of a block in the order blocks were put down.
pub type Seq = u32;

/// How many places of a run's first block are looked at for a run inside other files. A file equal to a
/// whole earlier one is always found; this bounds the search for the rest.
const CANDIDATES: usize = 16;
const NONE: Seq = Seq::MAX;

/// Blocks put down so far, one after the other; finds blocks and runs of blocks.
///
/// About 60 bytes a block.
#[derive(Debug, Default)]
pub struct Runs {
    /// Digest of every block, and the previous block with the same digest.
    blocks: Vec<(Digest, Seq)>,
    last: HashMap<Digest, Seq>,
    whole: HashMap<Digest, Seq>,
}

impl Runs {
    /// The latest block equal to this one.
    pub fn block(&self, digest: &Digest) -> Option<Seq> {
        self.last.get(digest).copied()
    }

    /// Records one more block.
    ///
    /// # Panics
    /// After 4,294,967,294 blocks; callers stop long before, at the format's limits.
    pub fn push(&mut self, digest: Digest) -> Seq {
        let seq = self.next();
        let earlier = self.last.insert(digest, seq);
        self.blocks.push((digest, earlier.unwrap_or(NONE)));
        seq
    }

    /// Records something else put down between blocks, which no run may span.
    pub fn push_other(&mut self) -> Seq {
        let seq = self.next();
        self.blocks.push((Digest::NONE, NONE));
        seq
    }

    fn next(&self) -> Seq {
        Seq::try_from(self.blocks.len()).ok().filter(|seq| *seq != NONE).expect("fewer than 2^32 blocks")
    }

    /// Records that the blocks from `first` on are a whole file with these digests.
    pub fn push_whole(&mut self, run: &[Digest], first: Seq) {
        if run.len() > 1 {
            self.whole.entry(Digest::of_all(run)).or_insert(first);
        }
    }

    /// Where these blocks lie one behind the other, if they do.
    pub fn run(&self, run: &[Digest]) -> Option<Seq> {
        let first = run.first()?;
        if run.len() == 1 {
            return self.block(first);
        }
        if let Some(seq) = self.whole.get(&Digest::of_all(run)) {
            return Some(*seq);
        }
        let mut seq = self.block(first)?;
        for _ in 0..CANDIDATES {
            let here = &self.blocks[seq as usize..];
            if here.len() >= run.len() && here.iter().zip(run).all(|((known, _), wanted)| known == wanted) {
                return Some(seq);
            }
            seq = self.blocks[seq as usize].1;
            if seq == NONE {
                break;
            }
        }
        None
    }
}

/// Tails put down so far: digest to wherever the caller put them.
#[derive(Debug)]
pub struct Tails<P> {
    places: HashMap<Digest, P>,
}

impl<P: Copy> Default for Tails<P> {
    fn default() -> Self {
        Tails { places: HashMap::new() }
    }
}

impl<P: Copy> Tails<P> {
    /// Where an equal tail lies.
    pub fn find(&self, digest: &Digest) -> Option<P> {
        self.places.get(digest).copied()
    }

    /// Records a tail.
    pub fn push(&mut self, digest: Digest, place: P) {
        self.places.insert(digest, place);
    }
}

/// Bytes that a block takes in a map that is half full, as maps are on average.
const ENTRY: u64 = 96;

/// Places of the latest blocks by their digest, within bounded memory. There are two generations: when the young one is full, it becomes the old one, and the
/// old one is forgotten.
#[derive(Debug)]
pub struct Recent {
    young: HashMap<Digest, u64>,
    old: HashMap<Digest, u64>,
    most: usize,
}

impl Recent {
    /// Its share of all memory that may be taken, in bytes.
    pub fn memory(all: u64) -> u64 {
        all / 16
    }

    /// Remembers as many blocks as `memory` bytes hold.
    pub fn new(memory: u64) -> Self {
        let most = usize::try_from(memory / ENTRY / 2).unwrap_or(usize::MAX).max(1);
        Recent { young: HashMap::new(), old: HashMap::new(), most }
    }

    /// Returns where the same block was before; if nowhere, it is from now on at `offset`.
    pub fn find_or_add(&mut self, digest: Digest, offset: u64) -> Option<u64> {
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

    fn digests(bytes: &[u8]) -> Vec<Digest> {
        bytes.iter().map(|b| Digest::of(&[*b])).collect()
    }

    fn put(runs: &mut Runs, bytes: &[u8]) -> Seq {
        let run = digests(bytes);
        let first = run.iter().map(|d| runs.push(*d)).collect::<Vec<_>>()[0];
        runs.push_whole(&run, first);
        first
    }

    #[test]
    fn runs_are_found_whole_within_and_across_files_but_not_scattered() {
        let mut runs = Runs::default();
        put(&mut runs, b"abc"); // 0..3
        put(&mut runs, b"xbd"); // 3..6
        runs.push_other();
        put(&mut runs, b"q"); // 7
        let cases: [(&[u8], Option<Seq>); 9] = [
            (b"abc", Some(0)),
            (b"bc", Some(1)),
            (b"bd", Some(4)),
            (b"cx", Some(2)), // across two files: legal, the bytes are adjacent
            (b"ab", Some(0)),
            (b"ac", None),
            (b"bdz", None),
            (b"d", Some(5)),
            (b"dq", None), // something else lies between
        ];
        for (bytes, at) in cases {
            assert_eq!(runs.run(&digests(bytes)), at, "{}", bytes.escape_ascii());
        }
        assert_eq!(runs.run(&[]), None);
    }

    #[test]
    fn a_whole_file_is_found_however_often_its_first_block_came_since() {
        let mut runs = Runs::default();
        put(&mut runs, b"ab");
        for n in 0..100 {
            put(&mut runs, &[b'a', 200, n]);
        }
        assert_eq!(runs.run(&digests(b"ab")), Some(0));
        assert_eq!(runs.run(&digests(&[b'a', 200, 99])), Some(2 + 99 * 3));
    }

    #[test]
    fn tails_are_found_by_digest() {
        let mut tails = Tails::default();
        tails.push(Digest::of(b"tail"), (3u32, 40u32));
        assert_eq!(tails.find(&Digest::of(b"tail")), Some((3, 40)));
        assert_eq!(tails.find(&Digest::of(b"tai1")), None);
    }

    #[test]
    fn the_latest_and_what_comes_often_is_remembered() {
        let mut seen = Recent::new(ENTRY * 2 * 10);
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
