//! The pages of a kdump-compressed dump, in one file or in the parts made by `makedumpfile
//! --split`: located through bitmap and descriptor, read in long stretches and decoded. Any thread
//! may read any page.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use packfs_blocks::name::display;
use packfs_blocks::stock::ToolStock;
use packfs_codec::{Codec, Decoder};
use zerocopy::{FromZeros, IntoBytes};

use super::bitmap::{self, BLOCK_PAGES, BitmapBlock, PageBitmap, WORDS};
use super::format::{LZO, PageDesc, SNAPPY, ZLIB, ZSTD};
use super::header::{self, KdumpHeaders};
use crate::{Error, Result};

/// Number of descriptors read at once: 12 KiB of them, for 2 MiB of memory in pages of 4 KiB.
const DESCRIPTORS_PER_READ: usize = 512;
/// Number of bytes of pages read at once.
const PAGES_READ_LEN: u64 = 256 << 10;

/// A whole dump.
#[derive(Debug)]
pub(crate) struct DumpPages {
    parts: Vec<SplitFile>,
    memory: PageBitmap,
    workers: ToolStock<PageDecoder>,
}

/// One file, with the range of pages it contains.
#[derive(Debug)]
struct SplitFile {
    headers: KdumpHeaders,
    dumped: PageBitmap,
    /// Number of 1 bits of `dumped` before this part's first page, which have no descriptors here.
    before: u64,
    /// Offset of the page shared by all pages of zeros, once it is known.
    zero: AtomicU64,
}

/// Decoder and buffers of one thread.
#[derive(Default)]
struct PageDecoder {
    decoders: Vec<(Codec, Box<dyn Decoder>)>,
    window: Vec<u8>,
    /// The part and file offset of the window.
    window_at: (usize, u64),
    descs: Vec<PageDesc>,
}

impl fmt::Debug for PageDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageDecoder").finish_non_exhaustive()
    }
}

impl DumpPages {
    /// Fails if a file of the dump has changed since it was opened.
    pub(super) fn check_unchanged(&self) -> std::io::Result<()> {
        self.parts.iter().try_for_each(|part| part.headers.file.check_unchanged())
    }

    /// Assembles the files of a dump, in any order.
    pub(crate) fn new(mut files: Vec<KdumpHeaders>) -> Result<DumpPages> {
        files.sort_by_key(|headers| (headers.own.start, headers.own.end));
        check(&files)?;
        // After `check`, which has nothing to say about an empty list.
        let Some(first) = files.first() else {
            return Err(Error::option("files", 0, "at least one is needed"));
        };
        // The first bitmap is the same in all parts.
        let memory = PageBitmap::read(first.file.clone(), first.bitmaps[0], first.pages);
        let memory = memory.map_err(|error| first.io(error))?;
        let mut parts = Vec::with_capacity(files.len());
        for headers in files {
            let read = || {
                let dumped = PageBitmap::read(headers.file.clone(), headers.bitmaps[1], headers.pages)?;
                // A part without pages may begin at the end of memory, for which the bitmap has no block.
                let before = if headers.own.start < headers.pages { dumped.rank(headers.own.start)? } else { 0 };
                Ok((dumped, before))
            };
            let (dumped, before) = read().map_err(|error| headers.io(error))?;
            parts.push(SplitFile { headers, dumped, before, zero: AtomicU64::new(u64::MAX) });
        }
        Ok(DumpPages { parts, memory, workers: ToolStock::default() })
    }

    /// Returns the headers of the first file, which apply to all.
    pub(crate) fn headers(&self) -> &KdumpHeaders {
        &self.parts[0].headers
    }

    /// Returns the number of files.
    pub(crate) fn files(&self) -> usize {
        self.parts.len()
    }

    /// Returns true if any file says that pages were lost when it was written.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.parts.iter().any(|part| part.headers.is_incomplete())
    }

    /// Visits all pages of memory in order: `f` receives, in blocks of bits, which pages have
    /// memory and which are in the dump. Pages that were lost when the dump was written do not
    /// count as dumped.
    pub(crate) fn each_block(&self, mut f: impl FnMut(u64, &BitmapBlock, &BitmapBlock) -> Result<()>) -> Result<()> {
        // Each part's descriptors are visited in the order of its pages, so that none is searched for.
        let mut lost: Vec<_> = self.parts.iter().map(LostPages::new).collect();
        for number in 0..self.headers().pages.div_ceil(BLOCK_PAGES) {
            let mut memory = self.memory.load(number).map_err(|error| self.headers().io(error))?;
            let mut data = [0; WORDS];
            let range = number * BLOCK_PAGES..(number + 1) * BLOCK_PAGES;
            for (part, lost) in self.parts.iter().zip(&mut lost) {
                // Its bitmap covers all memory, but would be read for nothing.
                if part.headers.own.end <= range.start || range.end <= part.headers.own.start {
                    continue;
                }
                let mut own = part.dumped.load(number).map_err(|error| part.headers.io(error))?;
                bitmap::keep(&mut own, number, &part.headers.own);
                lost.take_out(part, &mut own)?;
                data.iter_mut().zip(own).for_each(|(word, own)| *word |= own);
            }
            // Dumped pages are memory, whatever the first bitmap says.
            memory.iter_mut().zip(data).for_each(|(word, data)| *word |= data);
            f(number, &memory, &data)?;
        }
        Ok(())
    }

    /// Reads whole pages from page `pfn` on. Pages that are not in the dump are zeros.
    pub(crate) fn read(&self, pfn: u64, buf: &mut [u8]) -> Result<()> {
        self.workers.lend(PageDecoder::default, |worker| self.read_with(worker, pfn, buf))
    }

    fn read_with(&self, worker: &mut PageDecoder, mut pfn: u64, mut buf: &mut [u8]) -> Result<()> {
        let page = len(self.headers().page);
        while !buf.is_empty() {
            // The parts are in order and leave no gap, so this is the only one that can have the page.
            let number = self.parts.partition_point(|part| part.headers.own.end <= pfn);
            let Some(part) = self.parts.get(number) else {
                buf.fill(0);
                return Ok(());
            };
            let io = |error| part.headers.io(error);
            let (dumped, run) = bitmap::run(&part.dumped.block(pfn).map_err(io)?, pfn);
            // No longer than the block of the bitmap, the part, what was asked for, and the descriptors that
            // are read at once.
            let count =
                run.min(part.headers.own.end - pfn).min((buf.len() / page) as u64).min(DESCRIPTORS_PER_READ as u64);
            let (now, rest) = buf.split_at_mut(len(count) * page);
            if dumped {
                let first = part.dumped.rank(pfn).map_err(io)? - part.before;
                worker.pages(part, number, first, now)?;
            } else {
                now.fill(0);
            }
            buf = rest;
            pfn += count;
        }
        Ok(())
    }
}

/// Checks that several files are all the parts of one dump.
fn check(files: &[KdumpHeaders]) -> Result<()> {
    let Some(first) = files.first() else { return Ok(()) };
    if files.len() > 1 && files.iter().any(|file| file.sub.split.get() == 0) {
        return Err(Error::option("files", files.len(), "not all of them are parts of a dump"));
    }
    let mut at = 0;
    // Names and time of the crash tell dumps of one machine apart.
    for file in files {
        let same = (file.machine, file.page, file.pages) == (first.machine, first.page, first.pages)
            && file.main.utsname == first.main.utsname
            && (file.main.seconds, file.main.microseconds) == (first.main.seconds, first.main.microseconds);
        if !same {
            return Err(Error::unsuitable(&file.path, format!("not of the same dump as {}", display(&first.path))));
        }
        gap(at, file.own.start, file.page)?;
        // Overlaps would be harmless to read, but are a sign of a part given twice, with another missing.
        if file.own.start < at {
            return Err(Error::unsuitable(
                &file.path,
                "it has pages that another part has too; give each part only once",
            ));
        }
        at = file.own.end;
    }
    gap(at, first.pages, first.page)
}

fn gap(at: u64, next: u64, page: u64) -> Result<()> {
    match at < next {
        true => {
            let why = "no part with these physical addresses was given".to_owned();
            Err(Error::Lost { start: at * page, end: next * page, why })
        }
        false => Ok(()),
    }
}

/// Converts a number of bytes or pages that is known to fit in memory.
fn len(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Visits the descriptors of a part whose writer ran out of space, to find the pages that were lost.
struct LostPages {
    active: bool,
    next: u64,
    descs: Vec<PageDesc>,
}

impl LostPages {
    fn new(part: &SplitFile) -> Self {
        LostPages { active: part.headers.is_incomplete(), next: 0, descs: Vec::new() }
    }

    /// Clears the bits of lost pages in `block`, the next of this part.
    fn take_out(&mut self, part: &SplitFile, block: &mut BitmapBlock) -> Result<()> {
        if !self.active {
            return Ok(());
        }
        let count: u32 = block.iter().map(|word| word.count_ones()).sum();
        self.descs.resize(len(u64::from(count)), PageDesc::new_zeroed());
        let headers = &part.headers;
        let at = part.headers.desc_at(self.next);
        self.next += u64::from(count);
        // The file may end before its descriptors.
        let got = headers.file.read_at(self.descs.as_mut_bytes(), at);
        let got = got.map_err(|error| headers.io(error))?;
        self.descs.truncate(got / size_of::<PageDesc>());
        let mut descs = self.descs.iter();
        for word in block {
            let mut left = *word;
            while left != 0 {
                // The lowest 1 bit.
                let bit = left & left.wrapping_neg();
                left ^= bit;
                let there = descs.next().is_some_and(|desc| {
                    let end = desc.offset.get().checked_add(u64::from(desc.size.get()));
                    desc.offset.get() != 0 && end.is_some_and(|end| end <= headers.file.len())
                });
                if !there {
                    *word ^= bit;
                }
            }
        }
        Ok(())
    }
}

impl PageDecoder {
    /// Reads and decodes pages, starting with the descriptor numbered `first`, until `buf` is full.
    fn pages(&mut self, part: &SplitFile, number: usize, first: u64, buf: &mut [u8]) -> Result<()> {
        let headers = &part.headers;
        let page = len(part.headers.page);
        // Taken, as `page` needs the rest of the decoder too.
        let mut descs = std::mem::take(&mut self.descs);
        descs.resize(buf.len() / page, PageDesc::new_zeroed());
        let at = headers.desc_at(first);
        header::read(&headers.path, &*headers.file, "page descriptor", descs.as_mut_bytes(), at)?;
        for (n, buf) in buf.chunks_exact_mut(page).enumerate() {
            let at = headers.desc_at(first + n as u64);
            self.page(part, number, &descs[n..], at, buf)?;
        }
        self.descs = descs;
        Ok(())
    }

    /// Decodes the page of the first of `descs`, which is at offset `at`.
    fn page(&mut self, part: &SplitFile, number: usize, descs: &[PageDesc], at: u64, buf: &mut [u8]) -> Result<()> {
        let Some(desc) = descs.first() else { return Ok(()) };
        let headers = &part.headers;
        let offset = desc.offset.get();
        let size = u64::from(desc.size.get());
        // Before it is validated: a lost page has no valid descriptor.
        if offset == part.zero.load(Relaxed) || (offset == 0 && headers.is_incomplete()) {
            buf.fill(0);
            return Ok(());
        }
        let corrupt = |why: &str| Error::corrupt(&headers.path, "page descriptor", at, why);
        let codec = codec(desc.flags.get()).ok_or_else(|| corrupt("its page has an unknown compression"))?;
        let fits = offset.checked_add(size).is_some_and(|end| end <= headers.file.len());
        // Decoded it is a page, so a longer form is of no use to anybody.
        let good = if codec == Codec::None { size == buf.len() as u64 } else { (1..=buf.len() as u64).contains(&size) };
        if !fits || !good || offset == 0 {
            return Err(corrupt("the offset or length of its page is invalid"));
        }
        if !self.has(number, &(offset..offset + size)) {
            self.fetch(part, number, descs)?;
        }
        let start = len(offset - self.window_at.1);
        let stored = &self.window[start..start + len(size)];
        if codec == Codec::None {
            buf.copy_from_slice(stored);
            // The first page of zeros that is seen is the one that all share, as makedumpfile writes it once.
            if buf.iter().all(|byte| *byte == 0) {
                part.zero.store(offset, Relaxed);
            }
            return Ok(());
        }
        let damaged = |why: String| Error::corrupt(&headers.path, "page", offset, why);
        let decoded = decoder(&mut self.decoders, codec)?.decode(stored, buf);
        match decoded.map_err(|error| damaged(error.to_string()))? {
            all if all == buf.len() => Ok(()),
            some => Err(damaged(format!("decodes to {some} bytes"))),
        }
    }

    fn has(&self, number: usize, wanted: &Range<u64>) -> bool {
        let (part, at) = self.window_at;
        part == number && at <= wanted.start && wanted.end <= at + self.window.len() as u64
    }

    /// Reads the page of the first of `descs` and the pages that follow it in the file.
    fn fetch(&mut self, part: &SplitFile, number: usize, descs: &[PageDesc]) -> Result<()> {
        let headers = &part.headers;
        let zero = part.zero.load(Relaxed);
        let Some(first) = descs.first() else { return Ok(()) };
        let start = first.offset.get();
        // No overflow: `page` checked the first one.
        let mut end = start + u64::from(first.size.get());
        for desc in &descs[1..] {
            let next = end + u64::from(desc.size.get());
            // The pages of a run are stored one after the other, except for those of zeros, which refer to
            // the shared page.
            if desc.offset.get() == end && next - start <= PAGES_READ_LEN && next <= headers.file.len() {
                end = next;
            } else if desc.offset.get() != zero {
                break;
            }
        }
        self.window.resize(len(end - start), 0);
        self.window_at = (number, start);
        let read = header::read(&headers.path, &*headers.file, "page", &mut self.window, start);
        // Otherwise the next page would be taken from a window that was not read.
        read.inspect_err(|_| self.window.clear())
    }
}

/// Returns the compression of a descriptor's page.
fn codec(flags: u32) -> Option<Codec> {
    match flags {
        0 => Some(Codec::None),
        ZLIB => Some(Codec::Gzip),
        LZO => Some(Codec::Lzo),
        SNAPPY => Some(Codec::Snappy),
        ZSTD => Some(Codec::Zstd),
        _ => None,
    }
}

fn decoder(decoders: &mut Vec<(Codec, Box<dyn Decoder>)>, codec: Codec) -> Result<&mut Box<dyn Decoder>> {
    let at = match decoders.iter().position(|(known, _)| *known == codec) {
        Some(at) => at,
        None => {
            decoders.push((codec, codec.decoder()?));
            decoders.len() - 1
        }
    };
    Ok(&mut decoders[at].1)
}
