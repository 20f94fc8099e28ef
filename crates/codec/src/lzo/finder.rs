//! The dense encoder's match finder: binary trees of earlier positions, one tree a hash value.
//!
//! A tree orders the positions of a hash by the bytes that follow them, with the newest at the
//! root, so that a walk down sees candidates from near to far. Looking a position up inserts it.

use super::{
    FAR_DISTANCE, MID_DISTANCE, NEAR2_DISTANCE, NEAR3_DISTANCE, SHORT_DISTANCE, SHORT_LEN, chunk, common_len, low_word,
};

const TREE_BITS: u32 = 15;
const TRIPLE_BITS: u32 = 15;
/// Positions kept in trees: the power of two above the farthest distance.
const WINDOW: usize = 1 << 16;
/// Trees hold matches of at least this length.
const TREE_LEN: usize = 4;

/// The matches at one position, as far as the format can make a difference between them: for each
/// limit of distance the longest one. A length of zero is no match.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// Within reach of a short repeat, cut to its greatest length.
    pub(super) short: Match,
    /// Within reach of a mid repeat.
    pub(super) mid: Match,
    /// At any distance.
    pub(super) far: Match,
    /// Distance of a match of two bytes within reach of near2, or zero.
    pub(super) near2: u16,
    /// Distance of a match of three bytes within reach of near3, or zero.
    pub(super) near3: u16,
}

/// A match.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Match {
    pub(super) len: u16,
    pub(super) distance: u16,
}

impl Match {
    #[inline(always)]
    fn new(len: usize, distance: usize) -> Self {
        Match { len: low_word(len), distance: low_word(distance) }
    }
}

impl Found {
    /// Adds a match longer than all before, found farther away.
    #[inline(always)]
    fn add(&mut self, len: usize, distance: usize) {
        if distance <= SHORT_DISTANCE {
            self.short = Match::new(len.min(SHORT_LEN), distance);
        }
        if distance <= MID_DISTANCE {
            self.mid = Match::new(len, distance);
        }
        self.far = Match::new(len, distance);
    }
}

/// Tables of the match finder.
#[derive(Debug)]
pub(super) struct Finder {
    /// Low words of the last position of each pair of bytes.
    pairs: Box<[u16]>,
    /// The last position of each hash of three bytes, plus one.
    triples: Box<[u32]>,
    /// The root of the tree of each hash of four bytes: position plus one.
    roots: Box<[u32]>,
    /// Two children for each position of the window, smaller and greater: position plus one.
    children: Box<[[u32; 2]]>,
    /// Steps down a tree.
    depth: usize,
    /// Length from which a match is good enough to end the search.
    nice: usize,
    /// End and distance of a match longer than `nice` that still goes on.
    running: (usize, usize),
}

impl Finder {
    pub(super) fn new(depth: usize, nice: usize) -> Self {
        Finder {
            pairs: vec![0; 1 << 16].into(),
            triples: vec![0; 1 << TRIPLE_BITS].into(),
            roots: vec![0; 1 << TREE_BITS].into(),
            children: vec![[0; 2]; WINDOW].into(),
            depth,
            nice,
            running: (0, 0),
        }
    }

    /// Forgets the block before.
    pub(super) fn reset(&mut self) {
        self.pairs.fill(0);
        self.triples.fill(0);
        self.roots.fill(0);
        self.running = (0, 0);
    }

    /// Finds the matches at `at`, and inserts it. Every position is to be looked up in turn.
    /// Matches do not go beyond `end`, which is at most `at` + 65,535.
    #[inline]
    pub(super) fn look_up(&mut self, src: &[u8], at: usize, end: usize) -> Found {
        let mut found = Found::default();
        if src.len() - at < TREE_LEN {
            return found;
        }
        let head = u32::from_le_bytes(chunk(src, at));
        self.look_up_pair(src, at, head, &mut found);
        self.look_up_triple(src, at, head, &mut found);
        self.look_up_tree(src, at, end, head, &mut found);
        found
    }

    #[inline(always)]
    fn look_up_pair(&mut self, src: &[u8], at: usize, head: u32, found: &mut Found) {
        let slot = &mut self.pairs[(head & 0xFFFF) as usize];
        let distance = low_word(at).wrapping_sub(*slot);
        *slot = low_word(at);
        let back = usize::from(distance);
        if back.wrapping_sub(1) < NEAR2_DISTANCE
            && back <= at
            && src[at - back] == src[at]
            && src[at + 1 - back] == src[at + 1]
        {
            found.near2 = distance;
        }
    }

    #[inline(always)]
    fn look_up_triple(&mut self, src: &[u8], at: usize, head: u32, found: &mut Found) {
        let hash = (head << 8).wrapping_mul(0x9E37_79B1) >> (32 - TRIPLE_BITS);
        let slot = &mut self.triples[hash as usize];
        let last = *slot as usize;
        *slot = position_plus_one(at);
        let distance = (at + 1).wrapping_sub(last);
        if last == 0 || distance > FAR_DISTANCE {
            return;
        }
        if (u32::from_le_bytes(chunk(src, last - 1)) ^ head) << 8 == 0 {
            found.add(3, distance);
            if distance > SHORT_DISTANCE && distance <= NEAR3_DISTANCE {
                found.near3 = low_word(distance);
            }
        }
    }

    #[inline(always)]
    fn look_up_tree(&mut self, src: &[u8], at: usize, end: usize, head: u32, found: &mut Found) {
        let hash = head.wrapping_mul(0x9E37_79B1) >> (32 - TREE_BITS);
        let root = &mut self.roots[hash as usize];
        let mut next = *root as usize;
        *root = position_plus_one(at);

        let max = (src.len() - at).min(self.nice);
        let mut best = TREE_LEN - 1;
        // Where to hang the next smaller and the next greater candidate.
        let (mut smaller, mut greater) = ((at % WINDOW, 0), (at % WINDOW, 1));
        let (mut smaller_len, mut greater_len) = (0, 0);
        let mut depth = self.depth;
        loop {
            let distance = (at + 1).wrapping_sub(next);
            if next == 0 || distance > FAR_DISTANCE || depth == 0 {
                self.children[smaller.0][smaller.1] = 0;
                self.children[greater.0][greater.1] = 0;
                break;
            }
            depth -= 1;
            let from = next - 1;
            let node = from % WINDOW;
            let mut len = usize::min(smaller_len, greater_len);
            len += common_len(src, from + len, at + len, at + max);
            if len > best {
                best = len;
                found.add(len, distance);
                if len == max {
                    let [a, b] = self.children[node];
                    self.children[smaller.0][smaller.1] = a;
                    self.children[greater.0][greater.1] = b;
                    break;
                }
            }
            if src[from + len] < src[at + len] {
                self.children[smaller.0][smaller.1] = position_plus_one(from);
                smaller = (node, 1);
                smaller_len = len;
                next = self.children[node][1] as usize;
            } else {
                self.children[greater.0][greater.1] = position_plus_one(from);
                greater = (node, 0);
                greater_len = len;
                next = self.children[node][0] as usize;
            }
        }
        if best >= self.nice || self.running.0 > at + self.nice {
            self.extend(src, at, found);
        }
        found.cut(end - at);
    }

    /// Finds how far a match that ended the search really goes.
    #[cold]
    fn extend(&mut self, src: &[u8], at: usize, found: &mut Found) {
        let (run_end, run_distance) = self.running;
        if run_end > at + self.nice {
            let len = run_end - at;
            found.far = Match::new(len.min(0xFFFF), run_distance);
            if run_distance <= MID_DISTANCE {
                found.mid = found.far;
            }
            return;
        }
        let distance = usize::from(found.far.distance);
        let end = at + self.nice + common_len(src, at + self.nice - distance, at + self.nice, src.len());
        self.running = (end, distance);
        found.far.len = low_word((end - at).min(0xFFFF));
        if distance <= MID_DISTANCE {
            found.mid = found.far;
        }
    }
}

impl Found {
    /// Cuts all matches to a length.
    #[inline(always)]
    fn cut(&mut self, max: usize) {
        let max = low_word(max.min(0xFFFF));
        for found in [&mut self.short, &mut self.mid, &mut self.far] {
            found.len = found.len.min(max);
        }
        if max < 3 {
            self.near3 = 0;
        }
        if max < 2 {
            self.near2 = 0;
        }
    }
}

/// How tables hold a position, zero being none.
#[inline(always)]
fn position_plus_one(at: usize) -> u32 {
    let [a, b, c, d, ..] = (at + 1).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
