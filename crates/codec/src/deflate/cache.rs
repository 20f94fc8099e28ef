//! The matches of every position of a stretch of input: found once, used by each pass of the parser.

use super::dense::STRETCH;
use super::symbols::{LEN_MAX, LEN_MIN, REACH};
use crate::matching::common;
use crate::trees::{TreeMatch, TreeMatchFinder};

/// Most earlier positions that are compared at a position.
const DEPTH: u32 = 100;
/// Sequences of three bytes of which the last position is known, as a logarithm. A window may have as many as bytes.
const THREE_BITS: u32 = 18;
/// Matches for which there is room, for each byte of a stretch.
pub(super) const ROOM: usize = 8;

/// A match, with its distance less one.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedMatch {
    pub(super) len: u16,
    pub(super) distance: u16,
}

pub(super) struct MatchCache {
    finder: TreeMatchFinder,
    found: Vec<TreeMatch>,
    /// Matches of all positions, both lengths and distances rising.
    matches: Vec<CachedMatch>,
    /// Where the matches of each position begin, and where the last ones end.
    starts: Vec<u32>,
    /// Longest match of the present position beyond [`LEN_MAX`]: its distance less one, and the bytes left of it.
    long: Option<(u32, usize)>,
}

impl MatchCache {
    pub(super) fn new() -> MatchCache {
        let finder = TreeMatchFinder::new(LEN_MAX, DEPTH, THREE_BITS);
        MatchCache { finder, found: Vec::new(), matches: Vec::new(), starts: Vec::new(), long: None }
    }

    /// Begins another input.
    pub(super) fn start(&mut self, src: &[u8]) {
        self.finder.start(src, REACH);
        self.long = None;
        let stretch = src.len().min(STRETCH);
        self.matches.clear();
        self.matches.reserve_exact(ROOM * stretch + LEN_MAX);
        self.starts.clear();
        self.starts.reserve_exact(stretch + 1);
    }

    /// Finds the matches of a stretch from `at` on, of at most [`STRETCH`] bytes and up to `end`, that leave room for
    /// those of one more position. Returns its length.
    pub(super) fn fill(&mut self, at: usize, end: usize) -> usize {
        let room = ROOM * self.finder.len().min(STRETCH);
        self.matches.clear();
        self.starts.clear();
        for at in at..end.min(at + STRETCH) {
            if self.matches.len() > room {
                break;
            }
            self.starts.push(self.matches.len() as u32);
            match self.long {
                Some((distance, left)) => self.go_on(distance, left),
                None => self.look(at),
            }
        }
        let len = self.starts.len();
        self.starts.push(self.matches.len() as u32);
        len
    }

    fn look(&mut self, at: usize) {
        self.finder.find(&mut self.found);
        for TreeMatch { len, distance } in self.found.iter().filter(|found| found.len >= LEN_MIN) {
            self.matches.push(CachedMatch { len: *len as u16, distance: *distance as u16 });
        }
        let Some(TreeMatch { len: LEN_MAX, distance }) = self.found.last().copied() else { return };
        // What is repeated for longer is not searched at every position: the same distance is as good.
        let from = at - distance as usize - 1;
        let len = common(self.finder.data(), at, from, LEN_MAX, self.finder.len() - at);
        self.long = Some((distance, len - 1)).filter(|(_, left)| *left >= LEN_MIN);
    }

    /// Uses a long match at the next position, too.
    fn go_on(&mut self, distance: u32, left: usize) {
        self.finder.skip(1);
        self.matches.push(CachedMatch { len: left.min(LEN_MAX) as u16, distance: distance as u16 });
        self.long = Some((distance, left - 1)).filter(|(_, left)| *left >= LEN_MIN);
    }

    /// Returns the matches of a position of the stretch.
    #[inline(always)]
    pub(super) fn at(&self, position: usize) -> &[CachedMatch] {
        &self.matches[self.starts[position] as usize..self.starts[position + 1] as usize]
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.finder.allocated()
            + size_of::<TreeMatch>() * self.found.capacity()
            + size_of::<CachedMatch>() * self.matches.capacity()
            + size_of::<u32>() * self.starts.capacity()
    }
}
