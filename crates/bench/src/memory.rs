//! Test data that resembles the memory of a machine: pages of zeros, of one repeated word, of text, of pointer tables,
//! of machine code and of noise, in given shares.
//!
//! Each page depends only on the seed and its number. So a stream can have any length, any part of it can be generated
//! alone, and no page except the zero page occurs twice.

use std::fmt::{self, Write as _};
use std::io::{self, Read};
use std::str::FromStr;

use crate::Error;
use crate::rng::{SeededRng, mix};

/// Size of a page in bytes.
pub const PAGE: usize = 4096;

/// Contents of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Zeros.
    Zero,
    /// A repeated word of 8 bytes, different in each page.
    Same,
    /// Lines of a log.
    Text,
    /// Structures of kernel pointers, counters and flags.
    Pointers,
    /// Machine code.
    Code,
    /// Noise, like encrypted and compressed pages.
    Random,
}

impl PageKind {
    /// All kinds, in the order of [`PageShares`].
    pub const ALL: [PageKind; 6] =
        [PageKind::Zero, PageKind::Same, PageKind::Text, PageKind::Pointers, PageKind::Code, PageKind::Random];

    /// Returns the name in a list of shares.
    pub fn name(self) -> &'static str {
        match self {
            PageKind::Zero => "zero",
            PageKind::Same => "same",
            PageKind::Text => "text",
            PageKind::Pointers => "pointers",
            PageKind::Code => "code",
            PageKind::Random => "random",
        }
    }
}

/// Shares of the kinds of pages, such as `zero=30,text=20,random=10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageShares([u16; 6]);

/// Typical shares: much free memory, caches of text and code, and data of programs.
impl Default for PageShares {
    fn default() -> Self {
        PageShares([30, 5, 20, 20, 15, 10])
    }
}

/// Maximum sum of shares, so that a group of pages stays short and the shares hold for small amounts of data.
const MAX_SUM: usize = 1000;

impl PageShares {
    fn sum(&self) -> usize {
        self.0.iter().map(|share| usize::from(*share)).sum()
    }

    /// Returns the kinds of the pages of a group, in random order. A group has as many pages as the sum of the shares.
    fn shuffled_kinds(&self, rng: &mut SeededRng) -> Vec<PageKind> {
        let mut kinds = Vec::new();
        for (kind, share) in PageKind::ALL.into_iter().zip(self.0) {
            kinds.extend(std::iter::repeat_n(kind, usize::from(share)));
        }
        rng.shuffle(&mut kinds);
        kinds
    }
}

impl FromStr for PageShares {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let names = PageKind::ALL.map(PageKind::name).join(", ");
        let wrong = |what: String| Error::Usage(format!("{what}; accepted: KIND=SHARE,..., where KIND is of {names}"));
        let mut shares = PageShares([0; 6]);
        for part in text.split(',') {
            let (name, share) = part.split_once('=').ok_or_else(|| wrong(format!("`{part}` is not a share")))?;
            let at = PageKind::ALL.iter().position(|kind| kind.name() == name);
            let at = at.ok_or_else(|| wrong(format!("unknown kind `{name}`")))?;
            shares.0[at] = share.parse().map_err(|_| wrong(format!("`{share}` is not a whole number")))?;
        }
        match shares.sum() {
            1..=MAX_SUM => Ok(shares),
            sum => Err(wrong(format!("the shares' sum is {sum}, and has to be from 1 to {MAX_SUM}"))),
        }
    }
}

impl fmt::Display for PageShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = PageKind::ALL.iter().zip(self.0).filter(|(_, share)| *share > 0);
        let parts: Vec<_> = given.map(|(kind, share)| format!("{}={share}", kind.name())).collect();
        f.write_str(&parts.join(","))
    }
}

/// An endless reader of memory-like data.
#[derive(Debug)]
pub struct MemoryReader {
    seed: u64,
    shares: PageShares,
    /// Kinds of the pages of the current group.
    group: Vec<PageKind>,
    next: u64,
    page: Box<[u8; PAGE]>,
    /// Number of bytes of `page` already read.
    read: usize,
}

impl MemoryReader {
    /// Creates a reader for a seed.
    pub fn new(seed: u64, shares: PageShares) -> Self {
        MemoryReader { seed, shares, group: Vec::new(), next: 0, page: Box::new([0; PAGE]), read: PAGE }
    }

    /// Generates `len` bytes.
    pub fn bytes(seed: u64, shares: PageShares, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut memory = MemoryReader::new(seed, shares);
        for page in bytes.chunks_mut(PAGE) {
            memory.generate_page();
            page.copy_from_slice(&memory.page[..page.len()]);
        }
        bytes
    }

    /// Generates the next page.
    fn generate_page(&mut self) {
        let index = self.next;
        let sum = self.shares.sum() as u64;
        if index.is_multiple_of(sum) {
            // Another stream of numbers than that of the pages: `!seed` keeps the two apart.
            self.group = self.shares.shuffled_kinds(&mut SeededRng::for_item(!self.seed, index / sum));
        }
        let kind = usize::try_from(index % sum).ok().and_then(|at| self.group.get(at)).copied();
        fill_page(kind.unwrap_or(PageKind::Zero), self.seed, index, &mut self.page);
        self.next = index + 1;
        self.read = 0;
    }
}

impl Read for MemoryReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == PAGE {
            self.generate_page();
        }
        let len = buffer.len().min(PAGE - self.read);
        buffer[..len].copy_from_slice(&self.page[self.read..self.read + len]);
        self.read += len;
        Ok(len)
    }
}

fn fill_page(kind: PageKind, seed: u64, index: u64, page: &mut [u8; PAGE]) {
    let mut rng = SeededRng::for_item(seed, index);
    match kind {
        PageKind::Zero => page.fill(0),
        PageKind::Same => {
            // A bijection, so no two pages have the same word, and none has zeros.
            let word = mix(index + 1).to_le_bytes();
            page.chunks_exact_mut(8).for_each(|slot| slot.copy_from_slice(&word));
        }
        PageKind::Text => fill_text(&mut rng, page),
        PageKind::Pointers => fill_pointers(&mut rng, page),
        PageKind::Code => fill_code(&mut rng, page),
        PageKind::Random => rng.fill(page),
    }
}

/// Words of log lines, the most frequent first.
const WORDS: [&str; 32] = [
    "the",
    "of",
    "connection",
    "to",
    "failed",
    "request",
    "and",
    "from",
    "with",
    "started",
    "service",
    "user",
    "session",
    "closed",
    "opened",
    "for",
    "error",
    "kernel",
    "device",
    "timeout",
    "received",
    "packet",
    "memory",
    "process",
    "reading",
    "configuration",
    "file",
    "no",
    "such",
    "directory",
    "warning",
    "completed",
];

/// Writes lines of a log: time, process, words.
fn fill_text(rng: &mut SeededRng, page: &mut [u8; PAGE]) {
    let mut lines = String::with_capacity(PAGE + 200);
    let mut time = 1_700_000_000 + rng.below(50_000_000);
    while lines.len() < PAGE {
        time += rng.below(90);
        let process = WORDS[rng.below(WORDS.len())];
        let number = rng.below(40_000);
        // Writing to a String cannot fail.
        let _ = write!(lines, "{time}.{:06} {process}[{number}]:", rng.below(1_000_000));
        for _ in 0..3 + rng.below(9) {
            // The lesser of two draws: low ranks are frequent, as in language.
            let rank = rng.below(WORDS.len()).min(rng.below(WORDS.len()));
            let _ = write!(lines, " {}", WORDS[rank]);
        }
        let _ = writeln!(lines, " 0x{:x}", rng.below(1 << 20));
    }
    page.copy_from_slice(&lines.as_bytes()[..PAGE]);
}

/// Writes objects of 64 bytes: two nearby pointers, one anywhere, counters, flags and unused fields.
fn fill_pointers(rng: &mut SeededRng, page: &mut [u8; PAGE]) {
    // Pointers of one page lie in one region, as those of a slab do.
    let near = 0xFFFF_8880_0000_0000 + (rng.next_u64() & 0xF_FFFF_F000);
    for object in page.chunks_exact_mut(64) {
        let flags = [0, 1, 0x40, 0x8000_0001][rng.below(4)];
        let words = [
            near + (rng.next_u64() & 0xFFC0),
            near + (rng.next_u64() & 0xFFC0),
            0xFFFF_8880_0000_0000 + (rng.next_u64() & 0xF_FFFF_FFC0),
            rng.below(4) as u64,
            flags,
            0,
            0,
            rng.below(1 << 12) as u64,
        ];
        for (slot, word) in object.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// First bytes of x86-64 instructions, and the number of displacement or immediate bytes after each.
const INSTRUCTIONS: [(&[u8], usize); 16] = [
    (&[0x48, 0x89], 1),
    (&[0x48, 0x8B], 2),
    (&[0xE8], 3),
    (&[0x0F, 0x84], 2),
    (&[0x48, 0x8D, 0x35], 3),
    (&[0x31, 0xC0], 0),
    (&[0x5B, 0x5D, 0x41, 0x5C, 0xC3], 0),
    (&[0x48, 0x83, 0xEC], 1),
    (&[0x74], 1),
    (&[0x85, 0xC0], 0),
    (&[0x66, 0x0F, 0x1F, 0x44, 0x00, 0x00], 0),
    (&[0x41, 0x57, 0x41, 0x56, 0x55, 0x53], 0),
    (&[0x83, 0xF8], 1),
    (&[0x48, 0x85, 0xC0], 0),
    (&[0xC7, 0x44, 0x24], 2),
    (&[0xEB], 1),
];

/// Writes instructions with registers, displacements and numbers; small values are more frequent.
fn fill_code(rng: &mut SeededRng, page: &mut [u8; PAGE]) {
    let mut at = 0;
    let mut put = |byte: u8| {
        if let Some(slot) = page.get_mut(at) {
            *slot = byte;
        }
        at += 1;
        at < PAGE
    };
    let mut more = true;
    while more {
        // The lesser of two draws, so that some instructions are frequent.
        let (opcode, operand) = INSTRUCTIONS[rng.below(INSTRUCTIONS.len()).min(rng.below(INSTRUCTIONS.len()))];
        opcode.iter().for_each(|byte| more = put(*byte));
        // Small numbers are frequent in code: a random shift gives each length the same chance.
        let number = rng.next_u64() >> (rng.next_u64() & 63);
        number.to_le_bytes()[..operand].iter().for_each(|byte| more = put(*byte));
        // The last bytes of a four-byte displacement are its sign.
        if operand > 1 {
            more = put(if number & 64 == 0 { 0 } else { 0xFF });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn kind_of(page: &[u8]) -> PageKind {
        match page {
            _ if page.iter().all(|byte| *byte == 0) => PageKind::Zero,
            _ if page.chunks_exact(8).all(|word| *word == page[..8]) => PageKind::Same,
            _ if page.is_ascii() => PageKind::Text,
            _ if page.chunks_exact(64).all(|object| object[40..56] == [0; 16]) => PageKind::Pointers,
            _ => PageKind::Code,
        }
    }

    #[test]
    fn pages_come_in_the_shares_asked_for() {
        let shares: PageShares = "zero=4,same=1,text=2,pointers=2,code=1".parse().unwrap();
        let bytes = MemoryReader::bytes(5, shares, 100 * PAGE);
        let count = |kind| bytes.chunks(PAGE).filter(|page| kind_of(page) == kind).count();
        let kinds = [PageKind::Zero, PageKind::Same, PageKind::Text, PageKind::Pointers, PageKind::Code];
        assert_eq!(kinds.map(count), [40, 10, 20, 20, 10]);
    }

    #[test]
    fn no_page_but_the_empty_ones_occurs_twice() {
        let bytes = MemoryReader::bytes(1, PageShares::default(), 4000 * PAGE);
        let mut seen = HashSet::new();
        let filled = bytes.chunks(PAGE).filter(|page| kind_of(page) != PageKind::Zero);
        assert_eq!(filled.map(|page| assert!(seen.insert(page))).count(), 2800);
        // No sector of the smallest size occurs twice either, except those of one word.
        let sectors = bytes.chunks(512).filter(|sector| kind_of(sector) != PageKind::Same && sector[0] != 0);
        let mut seen = HashSet::new();
        let mut all = 0;
        sectors.for_each(|sector| {
            all += 1;
            seen.insert(sector);
        });
        assert_eq!(seen.len(), all);
    }

    #[test]
    fn any_seed_and_any_way_to_read_give_the_bytes_of_that_seed() {
        let whole = MemoryReader::bytes(3, PageShares::default(), 3 * PAGE + 100);
        assert_ne!(whole, MemoryReader::bytes(4, PageShares::default(), 3 * PAGE + 100));
        let mut read = vec![0; whole.len()];
        let mut memory = MemoryReader::new(3, PageShares::default());
        for piece in read.chunks_mut(777) {
            memory.read_exact(piece).unwrap();
        }
        assert!(whole == read);
    }

    /// Each kind is characterised by how well it compresses.
    #[test]
    fn kinds_compress_as_their_models_do() {
        let cases = [
            ("text=1", 1.6, 3.5),
            ("pointers=1", 1.8, 5.0),
            ("code=1", 1.2, 2.6),
            ("random=1", 0.9, 1.01),
            ("same=1", 50.0, 300.0),
        ];
        for (shares, least, most) in cases {
            let bytes = MemoryReader::bytes(9, shares.parse().unwrap(), 64 * PAGE);
            let mut encoder = "lz4".parse::<packfs_codec::Choice>().unwrap().encoder(PAGE).unwrap();
            let mut dst = vec![0; 2 * PAGE];
            let lens = bytes.chunks(PAGE).map(|page| encoder.encode(page, &mut dst).unwrap().unwrap());
            let ratio = bytes.len() as f64 / lens.sum::<usize>() as f64;
            assert!((least..most).contains(&ratio), "{shares}: {ratio}");
        }
    }

    #[test]
    fn shares_are_read_and_written() {
        for text in ["zero=30,text=20,random=50", "code=1", "zero=999,random=1"] {
            assert_eq!(text.parse::<PageShares>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("", "is not a share"),
            ("zero", "is not a share"),
            ("holes=3", "unknown kind"),
            ("zero=x", "whole number"),
        ] {
            let error = text.parse::<PageShares>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("pointers"), "{text}: {error}");
        }
        for text in ["zero=0", "zero=1001", "zero=600,text=600"] {
            assert!(text.parse::<PageShares>().is_err(), "{text}");
        }
    }
}
