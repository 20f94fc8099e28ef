//! A kdump-compressed dump presented as the ELF core it was made from: the headers are synthesised,
//! the memory is decoded when it is read.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::cache::BlockCache;
use packfs_blocks::name::display;
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use super::bitmap::{self, BLOCK_PAGES};
use super::flat::FlattenedFile;
use super::header::{KdumpHeaders, text};
use super::pages::DumpPages;
use super::vaddr;
use crate::elf::{LoadedMemory, NoteIter, VmcoreInfo, layout};
use crate::input::hash_samples;
use crate::{Error, Result, Source};

/// Maximum number of program headers of a core: readers search memory in them one after the other.
const LOADS_MAX: u64 = 1 << 17;
/// Longest stretch of left-out pages that may be stored as zeros, to need fewer program headers.
const GAP_MAX: usize = 4096;
/// Number of bytes of decoded pages that are cached for reads of less than a page.
const CACHE: u64 = 4 << 20;

/// A kdump-compressed dump, read as an ELF core.
///
/// The core has a program header for each stretch of memory in which dumped pages are followed by
/// left-out pages: the former are in the file (`p_filesz`), the latter only in memory (`p_memsz`).
/// Left-out pages read as zeros; [`Source::data_from`] skips them.
#[derive(Debug)]
pub struct CoreView {
    head: Vec<u8>,
    pieces: Vec<PageRun>,
    len: u64,
    pages: DumpPages,
    cache: BlockCache,
    info: KdumpInfo,
}

/// Pages that are consecutive in memory and in the core.
#[derive(Debug, Clone, Copy)]
struct PageRun {
    offset: u64,
    pfn: u64,
    len: u64,
}

/// Facts about a dump.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct KdumpInfo {
    /// Number of its files.
    pub files: usize,
    /// Version of the format.
    pub version: u32,
    /// Page size in bytes.
    pub page_size: u64,
    /// Number of pages with memory.
    pub memory_pages: u64,
    /// Number of pages in the dump.
    pub dumped_pages: u64,
    /// True if pages were lost when the dump was written.
    pub incomplete: bool,
    /// Types of pages left out, as given to makedumpfile.
    pub dump_level: u32,
    /// Release of the kernel.
    pub release: String,
    /// Architecture of the machine.
    pub machine: String,
    /// Time of the crash, in seconds since 1970; 0 if unknown.
    pub time: u64,
    /// Stretches of left-out pages up to this many pages are stored as zeros in the core; 0 for none.
    pub filled_gap: u64,
}

impl CoreView {
    /// Opens a dump from its files, plain or flattened; several are the parts of `makedumpfile
    /// --split`, in any order. The paths are for errors.
    pub fn open(files: Vec<(PathBuf, Arc<dyn ReadAt>)>) -> Result<CoreView> {
        let headers = files.into_iter().map(|(path, file)| headers(&path, file)).collect::<Result<_>>()?;
        CoreView::new(DumpPages::new(headers)?)
    }

    fn new(pages: DumpPages) -> Result<CoreView> {
        let headers = pages.headers();
        let census = RunCensus::take(&pages)?;
        // Even with the longest gaps filled.
        let gap = census.gap().ok_or_else(|| {
            Error::Unsupported(format!("{}: its memory is in too many pieces", display(&headers.path)))
        })?;
        let notes = headers.notes()?;
        let info = KdumpInfo {
            files: pages.files(),
            version: headers.main.header_version.get(),
            page_size: headers.page,
            memory_pages: census.memory,
            // What is reported is what is in the dump, whether or not gaps are filled.
            dumped_pages: census.data,
            incomplete: pages.is_incomplete(),
            dump_level: headers.sub.dump_level.get(),
            release: release(&notes).unwrap_or_else(|| text(&headers.main.utsname.release)),
            machine: text(&headers.main.utsname.machine),
            time: headers.main.seconds.get(),
            filled_gap: gap - 1,
        };

        let map = vaddr::KernelMap::of(&pages, &notes);
        let page = headers.page;
        // A second pass over the bitmaps: the first one found how long gaps may be. Keeping all runs would
        // take more memory than the headers.
        let mut builder = ViewBuilder::new(gap);
        each_run(&pages, |run| builder.add(run))?;
        let stretches = builder.finish();
        let loads: Vec<LoadedMemory> = stretches
            .iter()
            .map(|stretch| {
                let paddr = stretch.pfn * page;
                let filesz = stretch.data * page;
                let memsz = stretch.memory * page;
                LoadedMemory { paddr, vaddr: map.vaddr(paddr), filesz, memsz }
            })
            .collect();
        let head = layout(headers.machine, info.incomplete, &notes, &loads, page);
        let mut len = head.len() as u64;
        let mut pieces = Vec::new();
        for stretch in &stretches {
            if stretch.data > 0 {
                pieces.push(PageRun { offset: len, pfn: stretch.pfn, len: stretch.data * page });
            }
            // By `memory`: left-out pages are holes of the core.
            len += stretch.memory * page;
        }
        Ok(CoreView { head, pieces, len, cache: BlockCache::new(CACHE, page), pages, info })
    }

    /// Returns facts about the dump.
    pub fn info(&self) -> &KdumpInfo {
        &self.info
    }

    /// Reads from one piece, which contains the whole range of `buf` from `at` on.
    fn read_piece(&self, piece: &PageRun, buf: &mut [u8], at: u64) -> Result<()> {
        let page = usize::try_from(self.info.page_size).unwrap_or(usize::MAX);
        let pfn = piece.pfn + at / self.info.page_size;
        // The bytes before the first whole page, and later those after the last.
        let within = usize::try_from(at % self.info.page_size).unwrap_or(0);
        // Only there a page is decoded for less than its length, and cached in case that the rest is asked
        // for.
        let first = if within > 0 || buf.len() < page { buf.len().min(page - within) } else { 0 };
        let (start, rest) = buf.split_at_mut(first);
        let pfn = if first > 0 { self.read_some(pfn, within, start)? } else { pfn };
        let (whole, end) = rest.split_at_mut(rest.len() / page * page);
        self.pages.read(pfn, whole)?;
        if !end.is_empty() {
            self.read_some(pfn + (whole.len() / page) as u64, 0, end)?;
        }
        Ok(())
    }

    /// Reads a part of one page and returns the number of the next page.
    fn read_some(&self, pfn: u64, within: usize, buf: &mut [u8]) -> Result<u64> {
        let page = self.cache.get(pfn, || {
            let mut page = vec![0; usize::try_from(self.info.page_size).unwrap_or(usize::MAX)];
            self.pages.read(pfn, &mut page).map(|()| Arc::<[u8]>::from(page))
        })?;
        buf.copy_from_slice(&page[within..within + buf.len()]);
        Ok(pfn + 1)
    }
}

fn release(notes: &[u8]) -> Option<String> {
    let note = NoteIter::named(notes, b"VMCOREINFO")?;
    VmcoreInfo::new(note.desc).text("OSRELEASE").map(str::to_owned)
}

/// Reads the headers of a file, plain or flattened.
fn headers(path: &Path, file: Arc<dyn ReadAt>) -> Result<KdumpHeaders> {
    let mut start = [0; 16];
    let got = file.read_at(&mut start, 0).map_err(Error::io("cannot read", path))?;
    match FlattenedFile::is_one(&start[..got]) {
        true => KdumpHeaders::read(path, Arc::new(FlattenedFile::read(path, file)?)),
        false => KdumpHeaders::read(path, file),
    }
}

impl ReadAt for CoreView {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let buf = &mut buf[..len];
        let mut done = 0;
        if let Some(head) = usize::try_from(offset).ok().and_then(|offset| self.head.get(offset..)) {
            done = head.len().min(len);
            buf[..done].copy_from_slice(&head[..done]);
        }
        // Head and pieces are in order, so what remains is between or in them.
        let mut next = self.pieces.partition_point(|piece| piece.offset + piece.len <= offset);
        while done < len {
            let from = offset + done as u64;
            let start = self.pieces.get(next).map_or(self.len, |piece| piece.offset);
            if from < start {
                let hole = usize::try_from(start - from).unwrap_or(usize::MAX).min(len - done);
                buf[done..done + hole].fill(0);
                done += hole;
                continue;
            }
            let Some(piece) = self.pieces.get(next) else { break };
            let at = from - piece.offset;
            let some = usize::try_from(piece.len - at).unwrap_or(usize::MAX).min(len - done);
            self.read_piece(piece, &mut buf[done..done + some], at).map_err(io::Error::other)?;
            done += some;
            next += 1;
        }
        Ok(done)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.pages.check_unchanged()
    }
}

impl Source for CoreView {
    /// Holes are the pages that are not in the dump.
    fn data_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let head = self.head.len() as u64;
        // The head counts as data, however many zeros it has.
        if offset < head {
            return Ok(Some(offset..head));
        }
        let next = self.pieces.partition_point(|piece| piece.offset + piece.len <= offset);
        Ok(self.pieces.get(next).map(|piece| offset.max(piece.offset)..piece.offset + piece.len))
    }

    /// Computed from headers and notes, including the registers of all processors, and from samples of the memory, as
    /// two dumps of a machine may have equal headers.
    fn fingerprint(&self) -> io::Result<u64> {
        let mut hasher = Xxh3::new();
        hasher.update(&self.head);
        hash_samples(&mut hasher, self);
        Ok(hasher.digest().max(1))
    }
}

/// A run of consecutive pages of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PresenceRun {
    kind: PagePresence,
    pfn: u64,
    len: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PagePresence {
    /// No memory.
    Nothing,
    /// Memory that is not in the dump.
    LeftOut,
    /// Memory that is in the dump.
    Data,
}

/// Visits all of memory, one run after the other.
fn each_run(pages: &DumpPages, mut f: impl FnMut(PresenceRun)) -> Result<()> {
    // An empty run, so that the first real one has something to differ from. Receivers ignore it.
    let mut last = PresenceRun { kind: PagePresence::Nothing, pfn: 0, len: 0 };
    pages.each_block(|number, memory, data| {
        let mut pfn = number * BLOCK_PAGES;
        let end = (number + 1) * BLOCK_PAGES;
        while pfn < end {
            let (is_memory, memory_len) = bitmap::run(memory, pfn);
            let (is_data, data_len) = bitmap::run(data, pfn);
            let kind = match (is_memory, is_data) {
                (_, true) => PagePresence::Data,
                (true, false) => PagePresence::LeftOut,
                (false, false) => PagePresence::Nothing,
            };
            let len = memory_len.min(data_len);
            if kind == last.kind {
                last.len += len;
            } else {
                f(std::mem::replace(&mut last, PresenceRun { kind, pfn, len }));
            }
            pfn += len;
        }
        Ok(())
    })?;
    f(last);
    Ok(())
}

/// Statistics that determine the number of program headers.
struct RunCensus {
    memory: u64,
    data: u64,
    /// Number of stretches of memory.
    regions: u64,
    /// Runs of left-out pages followed by data, by length; the last entry counts all longer ones.
    gaps: Vec<u64>,
}

impl RunCensus {
    fn take(pages: &DumpPages) -> Result<RunCensus> {
        let mut census = RunCensus { memory: 0, data: 0, regions: 0, gaps: vec![0; GAP_MAX + 2] };
        let mut last = PresenceRun { kind: PagePresence::Nothing, pfn: 0, len: 0 };
        each_run(pages, |run| {
            if run.kind != PagePresence::Nothing {
                census.memory += run.len;
                census.regions += u64::from(last.kind == PagePresence::Nothing);
            }
            if run.kind == PagePresence::Data {
                census.data += run.len;
                if last.kind == PagePresence::LeftOut {
                    // Longer ones always get a header of their own, so their length does not matter.
                    let len = usize::try_from(last.len).unwrap_or(usize::MAX).min(GAP_MAX + 1);
                    census.gaps[len] += 1;
                }
            }
            last = run;
        })?;
        Ok(census)
    }

    /// Returns the minimum length of a run of left-out pages that gets its own program header.
    fn gap(&self) -> Option<u64> {
        let mut loads = self.regions + self.gaps.iter().sum::<u64>();
        // Raising the limit by one page saves the headers of all gaps of that length.
        for (gap, count) in (1..).zip(&self.gaps[1..]) {
            if loads <= LOADS_MAX {
                return Some(gap);
            }
            loads -= count;
        }
        None
    }
}

/// Memory with one program header: `data` dumped pages, followed by left-out pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MemoryStretch {
    pfn: u64,
    data: u64,
    memory: u64,
}

struct ViewBuilder {
    gap: u64,
    done: Vec<MemoryStretch>,
    open: Option<MemoryStretch>,
}

impl ViewBuilder {
    fn new(gap: u64) -> Self {
        ViewBuilder { gap, done: Vec::new(), open: None }
    }

    fn add(&mut self, run: PresenceRun) {
        match (run.kind, &mut self.open) {
            (PagePresence::Nothing, open) => self.done.extend(open.take()),
            (PagePresence::LeftOut, Some(open)) => open.memory += run.len,
            // A short gap is stored as zeros, which costs room in the core but saves a header.
            (PagePresence::Data, Some(open)) if open.memory - open.data < self.gap => {
                open.memory += run.len;
                open.data = open.memory;
            }
            (kind, open) => {
                let data = if kind == PagePresence::Data { run.len } else { 0 };
                self.done.extend(open.replace(MemoryStretch { pfn: run.pfn, data, memory: run.len }));
            }
        }
    }

    fn finish(mut self) -> Vec<MemoryStretch> {
        self.done.extend(self.open);
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_gaps_are_filled_where_there_would_be_too_many_headers() {
        let mut census = RunCensus { memory: 0, data: 0, regions: 10, gaps: vec![0; GAP_MAX + 2] };
        census.gaps[1] = LOADS_MAX;
        census.gaps[3] = LOADS_MAX - 10;
        census.gaps[7] = 5;
        assert_eq!(census.gap(), Some(4));
        census.gaps[GAP_MAX + 1] = LOADS_MAX - 9;
        assert_eq!(census.gap(), None);
        census.gaps = vec![0; GAP_MAX + 2];
        assert_eq!(census.gap(), Some(1));
    }

    #[test]
    fn a_stretch_is_data_followed_by_left_out_pages() {
        use PagePresence::{Data, LeftOut, Nothing};
        let runs =
            [(Nothing, 3), (LeftOut, 2), (Data, 4), (LeftOut, 1), (Data, 2), (LeftOut, 5), (Nothing, 9), (Data, 1)];
        let stretches = |gap| {
            let mut builder = ViewBuilder::new(gap);
            let mut pfn = 0;
            for (kind, len) in runs {
                builder.add(PresenceRun { kind, pfn, len });
                pfn += len;
            }
            builder.finish().iter().map(|s| (s.pfn, s.data, s.memory)).collect::<Vec<_>>()
        };
        assert_eq!(stretches(1), [(3, 0, 2), (5, 4, 5), (10, 2, 7), (26, 1, 1)]);
        assert_eq!(stretches(2), [(3, 0, 2), (5, 7, 12), (26, 1, 1)]);
        assert_eq!(stretches(3), [(3, 9, 14), (26, 1, 1)]);
    }
}
