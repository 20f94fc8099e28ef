//! A bitmap of the pages of memory. It stays in the file: for a machine with 24 TiB it takes 768 MiB.

use std::io;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::cache::BlockCache;

/// Number of bytes read at once.
const BLOCK: usize = 4096;
/// Number of memory pages covered by these bytes.
pub(crate) const BLOCK_PAGES: u64 = 8 * BLOCK as u64;
/// Number of words in a block.
pub(crate) const WORDS: usize = BLOCK / 8;
/// Number of bytes of blocks that are cached.
const CACHE: u64 = 1 << 20;

/// A block: one bit for each page, from the lowest of the first word on.
pub(crate) type BitmapBlock = [u64; WORDS];

/// A bitmap with the number of 1 bits before each block.
#[derive(Debug)]
pub(crate) struct PageBitmap {
    file: Arc<dyn ReadAt>,
    at: u64,
    pages: u64,
    ranks: Vec<u64>,
    cache: BlockCache,
}

impl PageBitmap {
    /// Reads the bitmap of `pages` pages that begins at byte `at`.
    pub(crate) fn read(file: Arc<dyn ReadAt>, at: u64, pages: u64) -> io::Result<PageBitmap> {
        let cache = BlockCache::new(CACHE, BLOCK as u64);
        let mut bitmap = PageBitmap { file, at, pages, ranks: Vec::new(), cache };
        let mut rank = 0;
        for number in 0..pages.div_ceil(BLOCK_PAGES) {
            bitmap.ranks.push(rank);
            rank += bitmap.load(number)?.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        Ok(bitmap)
    }

    /// Reads a block from the file. Bits beyond the last page are 0.
    pub(crate) fn load(&self, number: u64) -> io::Result<BitmapBlock> {
        let mut bytes = [0; BLOCK];
        self.load_bytes(number, &mut bytes)?;
        Ok(words(&bytes))
    }

    fn load_bytes(&self, number: u64, bytes: &mut [u8; BLOCK]) -> io::Result<()> {
        let pages = self.pages.saturating_sub(number * BLOCK_PAGES).min(BLOCK_PAGES);
        let len = usize::try_from(pages.div_ceil(8)).unwrap_or(BLOCK);
        self.file.read_exact_at(&mut bytes[..len], self.at + number * BLOCK as u64)?;
        // The rest of the last byte may contain anything, and would count as pages.
        if !pages.is_multiple_of(8) {
            bytes[len - 1] &= (1 << (pages % 8)) - 1;
        }
        Ok(())
    }

    /// Returns the block with the bit of page `pfn`, from the cache if possible.
    pub(crate) fn block(&self, pfn: u64) -> io::Result<BitmapBlock> {
        let number = pfn / BLOCK_PAGES;
        let bytes = self.cache.get(number, || {
            let mut bytes = [0; BLOCK];
            self.load_bytes(number, &mut bytes).map(|()| Arc::<[u8]>::from(bytes))
        })?;
        Ok(words(&bytes))
    }

    /// Returns the number of 1 bits before that of page `pfn`.
    pub(crate) fn rank(&self, pfn: u64) -> io::Result<u64> {
        let block = self.block(pfn)?;
        let (word, bit) = place(pfn);
        // Only whole blocks have their rank in memory: a rank for each word would take as much as the bitmap.
        let before: u64 = block[..word].iter().map(|word| u64::from(word.count_ones())).sum();
        let number = usize::try_from(pfn / BLOCK_PAGES).unwrap_or(usize::MAX);
        let base = self.ranks.get(number).copied().unwrap_or_default();
        Ok(base + before + u64::from((block[word] & ((1 << bit) - 1)).count_ones()))
    }
}

fn words(bytes: &[u8]) -> BitmapBlock {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// Returns the word in a block and the bit in it for a page.
fn place(pfn: u64) -> (usize, u32) {
    let in_block = pfn % BLOCK_PAGES;
    (usize::try_from(in_block / 64).unwrap_or(0), u32::try_from(in_block % 64).unwrap_or(0))
}

/// Returns the bit of page `pfn` in its block, and how many pages from it on, within the block, have the same bit.
pub(crate) fn run(block: &BitmapBlock, pfn: u64) -> (bool, u64) {
    let (mut word, bit) = place(pfn);
    let set = block[word] >> bit & 1 == 1;
    // As 1 bits, whichever bit is counted: then the next one ends the run.
    let differs = |word: u64| if set { !word } else { word };
    let mut rest = differs(block[word]) >> bit;
    let mut len = 0;
    let mut left = u64::from(64 - bit);
    loop {
        if rest != 0 {
            return (set, len + u64::from(rest.trailing_zeros()));
        }
        len += left;
        word += 1;
        match block.get(word) {
            Some(next) => (rest, left) = (differs(*next), 64),
            // The run goes on in the next block, which the caller asks for.
            None => return (set, len),
        }
    }
}

/// Clears all bits except those of the pages of `range` in the block with this number.
pub(crate) fn keep(block: &mut BitmapBlock, number: u64, range: &std::ops::Range<u64>) {
    let first = number * BLOCK_PAGES;
    if range.start <= first && first + BLOCK_PAGES <= range.end {
        return;
    }
    for (word, start) in block.iter_mut().zip((first..).step_by(64)) {
        let from = range.start.clamp(start, start + 64) - start;
        let to = range.end.clamp(start, start + 64) - start;
        *word &= ones(to) & !ones(from);
    }
}

fn ones(count: u64) -> u64 {
    // A shift by 64 is not defined.
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(bytes: &[u8], pages: u64) -> Vec<bool> {
        (0..usize::try_from(pages).unwrap()).map(|n| bytes[n / 8] >> (n % 8) & 1 == 1).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn ranks_runs_and_ranges_are_those_of_the_bits(
            seed in prop::collection::vec((any::<u8>(), 1usize..3000), 1..20), cut in 0u64..8, pfns in prop::collection::vec(any::<u32>(), 20)
        ) {
            let bytes: Vec<u8> = seed.iter().flat_map(|(byte, n)| std::iter::repeat_n(*byte, *n)).collect();
            let pages = bytes.len() as u64 * 8 - cut;
            let all = bits(&bytes, pages);
            let mut file = vec![9; 100];
            file.extend(&bytes);
            let bitmap = PageBitmap::read(Arc::new(file), 100, pages).unwrap();
            for pfn in pfns {
                let pfn = u64::from(pfn) % pages;
                let at = usize::try_from(pfn).unwrap();
                prop_assert_eq!(bitmap.rank(pfn).unwrap(), all[..at].iter().filter(|bit| **bit).count() as u64);
                let mut block = bitmap.block(pfn).unwrap();
                let end = usize::try_from((pfn / BLOCK_PAGES + 1) * BLOCK_PAGES).unwrap();
                let mut rest: Vec<bool> = all[at..end.min(all.len())].to_vec();
                rest.resize(end - at, false);
                let len = rest.iter().take_while(|bit| **bit == rest[0]).count() as u64;
                prop_assert_eq!(run(&block, pfn), (rest[0], len));
                keep(&mut block, pfn / BLOCK_PAGES, &(pfn..pfn + 100));
                let count: u32 = block.iter().map(|word| word.count_ones()).sum();
                prop_assert_eq!(count as usize, rest.iter().take(100).filter(|bit| **bit).count());
            }
        }
    }
}
