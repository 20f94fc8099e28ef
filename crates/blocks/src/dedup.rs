//! Dedup indexes: places of files, blocks, clusters, tails and chunks already written, by their
//! digests. Everything is decided by digest alone, on the conductor, before anything is compressed.
//!
//! [`PlaceIndex`] remembers every key; [`RecentPlaces`] remembers the latest keys within bounded memory;
//! [`RunIndex`] remembers blocks in their order, so that it finds several in a row. All three find keys
//! through one hash table of numbers, which takes 8 to 16 bytes per key: a build of a million files
//! has a million digests to remember.

mod table;

use self::table::IndexTable;
use crate::Digest;
use crate::hash::HalfDigest;

/// Number of a block in the order in which blocks were written.
pub type BlockNumber = u32;

/// Number of places of a run's first block at which a run inside other files is searched. A file
/// equal to a whole earlier one is always found; this bounds the search for the rest.
const CANDIDATES: usize = 16;
const NONE: BlockNumber = BlockNumber::MAX;

/// A digest, or half of one, that identifies a block. All its bits are uniformly distributed.
pub trait DedupKey: Copy + Eq {
    /// Returns the first 64 bits.
    fn bits(&self) -> u64;
}

impl DedupKey for Digest {
    fn bits(&self) -> u64 {
        self.half().bits()
    }
}

impl DedupKey for HalfDigest {
    fn bits(&self) -> u64 {
        u64::from_le_bytes(*self.as_bytes().first_chunk().expect("8 of 16 bytes"))
    }
}

/// Returns the index of the next entry of a list.
fn next_number(len: usize) -> u32 {
    u32::try_from(len).ok().filter(|number| *number != IndexTable::EMPTY).expect("fewer than 2^32 entries")
}

/// Places by key: the place where the data with each digest was written.
#[derive(Debug)]
pub struct PlaceIndex<P, K = Digest> {
    entries: Vec<(K, P)>,
    table: IndexTable,
}

impl<P, K> Default for PlaceIndex<P, K> {
    fn default() -> Self {
        PlaceIndex { entries: Vec::new(), table: IndexTable::default() }
    }
}

impl<P: Copy, K: DedupKey> PlaceIndex<P, K> {
    /// Returns the latest place with this key.
    pub fn find(&self, key: &K) -> Option<P> {
        let number = self.table.find(key.bits(), |number| self.entries[number as usize].0 == *key)?;
        Some(self.entries[number as usize].1)
    }

    /// Loads what [`PlaceIndex::find`] and others need for keys that are looked up next: a large table lies anywhere in
    /// memory, but it takes little longer to load for many keys than for one.
    pub fn touch<'k>(&self, keys: impl Iterator<Item = &'k K>)
    where
        K: 'k,
    {
        let first = |key: &K| self.entries.get(self.table.first(key.bits())? as usize);
        std::hint::black_box(keys.filter_map(first).fold(0, |all, (key, _)| all ^ key.bits()));
    }

    /// Records a place, replacing the key's earlier one.
    ///
    /// # Panics
    /// After 4,294,967,294 keys. Callers stop long before, at the limits of their formats.
    pub fn insert(&mut self, key: K, place: P) {
        if let Some(number) = self.add(key, place) {
            self.entries[number as usize].1 = place;
        }
    }

    /// Returns the place with this key; records `place` if there is none.
    ///
    /// # Panics
    /// As [`PlaceIndex::insert`].
    pub fn find_or_insert(&mut self, key: K, place: P) -> Option<P> {
        let number = self.add(key, place)?;
        Some(self.entries[number as usize].1)
    }

    /// Records a place unless there is one with this key; returns the number of that.
    fn add(&mut self, key: K, place: P) -> Option<u32> {
        let PlaceIndex { entries, table } = self;
        let number = next_number(entries.len());
        let is_it = |number: u32| entries[number as usize].0 == key;
        let known = table.find_or_insert((key.bits(), number), is_it, |number| entries[number as usize].0.bits());
        if known.is_none() {
            entries.push((key, place));
        }
        known
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The blocks written so far, in order; finds single blocks and runs of blocks.
///
/// Takes about 50 bytes per block.
#[derive(Debug, Default)]
pub struct RunIndex {
    /// Digest of every block, and the previous block with the same digest.
    blocks: Vec<(Digest, BlockNumber)>,
    /// The latest block of each digest.
    last: IndexTable,
    whole: PlaceIndex<BlockNumber>,
}

impl RunIndex {
    /// Returns the latest block equal to this one.
    pub fn block(&self, digest: &Digest) -> Option<BlockNumber> {
        self.last.find(digest.bits(), |seq| self.blocks[seq as usize].0 == *digest)
    }

    /// Records one more block.
    ///
    /// # Panics
    /// After 4,294,967,294 blocks. Callers stop long before, at the format's limits.
    pub fn push(&mut self, digest: Digest) -> BlockNumber {
        let RunIndex { blocks, last, .. } = self;
        let seq = next_number(blocks.len());
        let is_it = |seq: BlockNumber| blocks[seq as usize].0 == digest;
        let earlier = last.insert((digest.bits(), seq), is_it, |seq| blocks[seq as usize].0.bits());
        blocks.push((digest, earlier.unwrap_or(NONE)));
        seq
    }

    /// Records other data written between blocks, which no run may span.
    pub fn push_other(&mut self) -> BlockNumber {
        let seq = next_number(self.blocks.len());
        // No block has this digest, so no run leads across it.
        self.blocks.push((Digest::NONE, NONE));
        seq
    }

    /// Records that the blocks from `first` on form a whole file with these digests.
    pub fn push_whole(&mut self, run: &[Digest], first: BlockNumber) {
        if run.len() > 1 {
            let whole = Digest::of_all(run);
            if self.whole.find(&whole).is_none() {
                self.whole.insert(whole, first);
            }
        }
    }

    /// Returns the first of the consecutive blocks with these digests, if there are any.
    pub fn run(&self, run: &[Digest]) -> Option<BlockNumber> {
        let first = run.first()?;
        if run.len() == 1 {
            return self.block(first);
        }
        if let Some(seq) = self.whole.find(&Digest::of_all(run)) {
            return Some(seq);
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

/// Upper bound of the bytes that an entry takes, including room for growth.
const ENTRY: u64 = 96;

/// Places of the latest blocks by key, within bounded memory. There are two generations: when the
/// young one is full it becomes the old one, and the previous old one is forgotten.
#[derive(Debug)]
pub struct RecentPlaces<P = u64, K = Digest> {
    young: PlaceIndex<P, K>,
    old: PlaceIndex<P, K>,
    /// Maximum number of keys of a generation.
    most: usize,
}

impl<P: Copy, K: DedupKey> RecentPlaces<P, K> {
    /// Makes an index that remembers at least the latest `most` keys, and at most twice as many.
    pub fn with_most(most: usize) -> Self {
        RecentPlaces { young: PlaceIndex::default(), old: PlaceIndex::default(), most: most.max(1) }
    }

    /// Returns the place of the first block with this key, if it is remembered.
    pub fn find(&self, key: &K) -> Option<P> {
        self.young.find(key).or_else(|| self.old.find(key))
    }

    /// Returns the place where this key was recorded before; a new key is recorded with `place`.
    pub fn find_or_add(&mut self, key: K, place: P) -> Option<P> {
        let found = self.young.find(&key);
        if found.is_some() {
            return found;
        }
        // A key that is found again stays remembered.
        let found = self.old.find(&key);
        if self.young.len() >= self.most {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, found.unwrap_or(place));
        found
    }
}

impl RecentPlaces {
    /// Returns the share of this index, in bytes, of a memory budget of `all` bytes.
    pub fn memory(all: u64) -> u64 {
        all / 16
    }

    /// Makes an index that remembers as many blocks as `memory` bytes hold.
    pub fn new(memory: u64) -> Self {
        RecentPlaces::with_most(usize::try_from(memory / ENTRY / 2).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(bytes: &[u8]) -> Vec<Digest> {
        bytes.iter().map(|b| Digest::of(&[*b])).collect()
    }

    fn put(runs: &mut RunIndex, bytes: &[u8]) -> BlockNumber {
        let run = digests(bytes);
        let first = run.iter().map(|d| runs.push(*d)).collect::<Vec<_>>()[0];
        runs.push_whole(&run, first);
        first
    }

    #[test]
    fn runs_are_found_whole_within_and_across_files_but_not_scattered() {
        let mut runs = RunIndex::default();
        put(&mut runs, b"abc"); // 0..3
        put(&mut runs, b"xbd"); // 3..6
        runs.push_other();
        put(&mut runs, b"q"); // 7
        let cases: [(&[u8], Option<BlockNumber>); 9] = [
            (b"abc", Some(0)),
            (b"bc", Some(1)),
            (b"bd", Some(4)),
            (b"cx", Some(2)), // across two files: valid, the bytes are adjacent
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
        let mut runs = RunIndex::default();
        put(&mut runs, b"ab");
        for n in 0..100 {
            put(&mut runs, &[b'a', 200, n]);
        }
        assert_eq!(runs.run(&digests(b"ab")), Some(0));
        assert_eq!(runs.run(&digests(&[b'a', 200, 99])), Some(2 + 99 * 3));
    }

    #[test]
    fn the_latest_place_of_each_of_many_keys_is_found() {
        let mut digests = PlaceIndex::<u32>::default();
        let mut halves = PlaceIndex::<(u32, u32), HalfDigest>::default();
        let digest = |n: u32| Digest::of(&n.to_le_bytes());
        assert_eq!(digests.find(&digest(0)), None);
        for n in 0..5000 {
            digests.insert(digest(n), n);
            halves.insert(digest(n).half(), (n, 1));
            // Every third place changes.
            if n % 3 == 0 {
                digests.insert(digest(n / 2), n + 10_000);
                halves.insert(digest(n / 2).half(), (n, 2));
            }
        }
        assert_eq!((digests.len(), halves.len()), (5000, 5000));
        for n in 0..5000 {
            let changed = (2 * n..2 * n + 2).rfind(|n| n % 3 == 0 && *n < 5000);
            assert_eq!(digests.find(&digest(n)), Some(changed.map_or(n, |n| n + 10_000)), "{n}");
            assert_eq!(halves.find(&digest(n).half()), Some(changed.map_or((n, 1), |n| (n, 2))), "{n}");
            assert_eq!(digests.find(&digest(n + 5000)), None);
        }
    }

    /// Keys with equal bits, which occur only if somebody crafts them.
    #[test]
    fn keys_that_collide_are_told_apart() {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        struct SameSlot(u32);
        impl DedupKey for SameSlot {
            fn bits(&self) -> u64 {
                u64::MAX
            }
        }
        let mut places = PlaceIndex::<u32, SameSlot>::default();
        (0..300).for_each(|n| places.insert(SameSlot(n), n + 1));
        assert!((0..300).all(|n| places.find(&SameSlot(n)) == Some(n + 1)));
        assert_eq!(places.find(&SameSlot(300)), None);
    }

    #[test]
    fn the_latest_and_the_frequent_keys_are_remembered() {
        let mut seen = RecentPlaces::new(ENTRY * 2 * 10);
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
