//! The densest encoder of deflate: the cheapest parse by the prices of its own codes, found again and again, in blocks
//! that end where that pays.
//!
//! | step | module |
//! |---|---|
//! | the matches of every position | [`cache`](super::cache) |
//! | the cheapest literals and matches by given prices | [`parser`](super::parser) |
//! | where blocks end | [`split`](super::split) |
//! | codes of a block, and writing it | [`block`](super::block), [`codes`](super::codes), [`header`](super::header) |
//!
//! Prices come from codes, and codes from what was chosen by the last prices. That is the method of zopfli, which this
//! encoder shares with it, and which is described in that project's documents. docs/design/gzip.md has figures.

use std::ops::Range;

use super::bits::BitWriter;
use super::block::BlockCodes;
use super::cache::MatchCache;
use super::codes::PrefixCoder;
use super::parser::{DeflateParser, DeflatePrices};
use super::split::BlockSplitter;
use super::symbols::{DeflateCounts, DeflateItem};

/// Most bytes that are parsed at once. A block ends with them.
pub(super) const STRETCH: usize = 1 << 17;
/// Most passes over each block before blocks are cut again, and after that.
const EARLY: usize = 2;
const LATE: usize = 3;

/// An encoder of whole streams; keeps its memory.
pub(crate) struct DenseDeflate {
    cache: MatchCache,
    parser: DeflateParser,
    coder: PrefixCoder,
    splitter: BlockSplitter,
    /// The items that stand for the stretch, and those that will after the next pass over all blocks.
    items: Vec<DeflateItem>,
    improved: Vec<DeflateItem>,
    /// The best items of a block, and those of the last pass.
    best: Vec<DeflateItem>,
    last: Vec<DeflateItem>,
}

impl DenseDeflate {
    pub(crate) fn new() -> DenseDeflate {
        DenseDeflate {
            cache: MatchCache::new(),
            parser: DeflateParser::default(),
            coder: PrefixCoder::default(),
            splitter: BlockSplitter::default(),
            items: Vec::new(),
            improved: Vec::new(),
            best: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Compresses `src`; returns the length, or `None` if the result does not fit.
    pub(crate) fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let mut out = BitWriter::new(dst);
        self.cache.start(src);
        let mut at = 0;
        while at < src.len() && !out.is_full() {
            let end = at + self.cache.fill(at, src.len());
            self.stretch(&src[at..end], end == src.len(), &mut out);
            at = end;
        }
        if src.is_empty() {
            // A stream has at least one block.
            BlockCodes::best(&DeflateCounts::new(), &mut self.coder).write(&[], src, true, &mut out);
        }
        out.finish()
    }

    /// Compresses the cached stretch, whose bytes are `data`.
    fn stretch(&mut self, data: &[u8], is_last: bool, out: &mut BitWriter<'_>) {
        self.parser.parse(&self.cache, data, 0..data.len(), &DeflatePrices::first(data), &mut self.items);
        // This round writes nothing. It improves the items by which the next one cuts better blocks.
        self.blocks(data, EARLY, |_, _, _, _| {});
        self.blocks(data, LATE, |codes, items, data, is_end| codes.write(items, data, is_last && is_end, out));
    }

    /// Cuts what stands for the stretch into blocks, improves each in some passes, and hands it on: its codes, items and
    /// data, and whether the stretch ends there.
    fn blocks(&mut self, data: &[u8], passes: usize, mut done: impl FnMut(&BlockCodes, &[DeflateItem], &[u8], bool)) {
        let ends = self.splitter.ends(&self.items);
        let mut start = 0;
        let mut at = 0;
        self.improved.clear();
        for end in ends {
            let len: usize = self.items[start..end].iter().map(|item| item.len()).sum();
            let codes = self.improve(data, at..at + len, start..end, passes);
            done(&codes, &self.best, &data[at..at + len], end == self.items.len());
            self.improved.extend_from_slice(&self.best);
            (start, at) = (end, at + len);
        }
        std::mem::swap(&mut self.items, &mut self.improved);
    }

    /// Finds the best items for the bytes `range` of the stretch, for which some items stand now; returns their codes.
    fn improve(&mut self, data: &[u8], range: Range<usize>, items: Range<usize>, passes: usize) -> BlockCodes {
        self.best.clear();
        self.best.extend_from_slice(&self.items[items]);
        let mut counts = DeflateCounts::of(&self.best);
        let mut codes = BlockCodes::best(&counts, &mut self.coder);
        for _ in 0..passes {
            self.parser.parse(&self.cache, data, range.clone(), &DeflatePrices::of(&counts), &mut self.last);
            counts = DeflateCounts::of(&self.last);
            let now = BlockCodes::best(&counts, &mut self.coder);
            if now.bits >= codes.bits {
                break;
            }
            codes = now;
            std::mem::swap(&mut self.best, &mut self.last);
        }
        codes
    }

    /// Returns the memory held, in bytes.
    #[cfg(test)]
    fn allocated(&self) -> usize {
        let items = [&self.items, &self.improved, &self.best, &self.last];
        let items: usize = items.into_iter().map(|items| size_of::<DeflateItem>() * items.capacity()).sum();
        self.cache.allocated() + self.parser.allocated() + self.splitter.allocated() + items
    }
}

/// Returns an upper bound of the memory of an encoder of streams of `len` bytes.
pub(crate) fn memory(len: usize) -> usize {
    // The finder's tables and the counts of the splitter; the finder's copy of the input; for each byte of a stretch the
    // matches, where they begin, two numbers of the parser, and items, whose lists may have grown to twice their length.
    (1760 << 10) + len + len.min(STRETCH) * (4 * super::cache::ROOM + 4 + 8 + 4 * 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::letters;

    fn compress(dense: &mut DenseDeflate, src: &[u8]) -> Vec<u8> {
        let mut dst = vec![0; src.len() + 64];
        let len = dense.compress(src, &mut dst).expect("room");
        let mut back = vec![0; src.len()];
        libdeflater::Decompressor::new().deflate_decompress(&dst[..len], &mut back).expect("a stream");
        assert!(back == src);
        dst.truncate(len);
        dst
    }

    /// Each kind of data, with the greatest length it may have.
    #[test]
    fn every_kind_of_data_comes_back_and_is_small() {
        let noise = letters(70_000, 1, 255);
        let words = letters(300_000, 2, 4);
        let periods: Vec<u8> = (0..200_000_u32).map(|n| (n % 1000 % 251) as u8).collect();
        let half: Vec<u8> = [&noise[..40_000], &words[..40_000]].concat();
        for (name, data, most) in [
            ("nothing", &[][..], 2),
            ("one byte", b"x", 3),
            ("zeros", &[0; 300_000], 400),
            ("noise", &noise, 70_000 + 5 * 2 + 1),
            // One of four codes of two bits is needed for the end and for matches.
            ("two bits a byte", &words, 300_000 * 9 / 32),
            ("a period", &periods, 1400),
            ("noise, then words", &half, 40_000 + 40_000 * 9 / 32 + 400),
        ] {
            let mut dense = DenseDeflate::new();
            let first = compress(&mut dense, data);
            assert!(first.len() <= most, "{name}: {}", first.len());
            assert!(compress(&mut dense, data) == first, "{name}: depends on what was encoded before");
        }
    }

    #[test]
    fn what_does_not_fit_is_none() {
        let data = letters(10_000, 3, 16);
        let mut dense = DenseDeflate::new();
        let len = compress(&mut dense, &data).len();
        for room in [0, 1, 100, len - 1] {
            assert_eq!(dense.compress(&data, &mut vec![0; room]), None, "{room}");
        }
        assert_eq!(dense.compress(&data, &mut vec![0; len]), Some(len));
    }

    #[test]
    fn memory_is_bounded() {
        for len in [1000, 1 << 17, 1 << 20] {
            for data in [letters(len, 4, 2), letters(len, 5, 20), letters(len, 6, 255)] {
                let mut dense = DenseDeflate::new();
                compress(&mut dense, &data);
                let held = dense.allocated();
                let bound = memory(len);
                assert!(held <= bound, "{held} of {bound}");
            }
        }
    }
}
