//! Layout of a new kdump-compressed file, computed before the first byte is written: headers,
//! notes, both bitmaps and all offsets.

use std::ops::Range;
use std::path::Path;

use packfs_blocks::ReadAt;
use packfs_blocks::name::display;
use zerocopy::{FromZeros, IntoBytes};

use super::format::{INCOMPLETE, MAGIC, MainHeader, PAGE, PageDesc, SubHeader, VERSION, ZERO_SHARED};
use super::header::PAGES_MAX;
use super::machine::MachineFacts;
use crate::elf::ElfCore;
use crate::{Error, Result};

/// Layout of a new file.
#[derive(Debug)]
pub(crate) struct FileLayout {
    pub(crate) core: ElfCore,
    main: MainHeader,
    sub: SubHeader,
    /// Page size in bytes.
    pub(crate) page: u64,
    /// Pages with memory, in order and disjoint.
    memory: Vec<Range<u64>>,
    /// Pages that will be in the file.
    pub(crate) dumped: Vec<Range<u64>>,
    /// Length of one bitmap.
    bitmap: u64,
}

impl FileLayout {
    /// Reads the headers of an ELF core; `status` is the compression of pages.
    pub(crate) fn new(path: &Path, file: &dyn ReadAt, status: u32) -> Result<FileLayout> {
        let core = ElfCore::read(path, file)?;
        let unsupported = |why: &str| Error::Unsupported(format!("{}: {why}", display(path)));
        let info =
            core.vmcoreinfo().ok_or_else(|| unsupported("a core without VMCOREINFO: not a crash dump of Linux"))?;
        let name = core.machine_name().ok_or_else(|| unsupported("a core of an unknown machine"))?;
        // It decides all offsets of the file, and comes from the memory of a crashed machine.
        let size = info
            .number("PAGESIZE")
            .and_then(|size| u32::try_from(size).ok())
            .filter(|size| PAGE.contains(size) && size.is_power_of_two());
        let size = size.ok_or_else(|| unsupported("its VMCOREINFO has no valid PAGESIZE"))?;
        let page = u64::from(size);

        let memory = whole_pages(core.memory().iter().cloned(), page);
        let dumped = whole_pages(core.data(), page);
        let pages = memory.last().map_or(0, |range| range.end);
        if pages == 0 || pages > PAGES_MAX {
            return Err(unsupported("it has no memory, or memory at invalid addresses"));
        }
        // In whole blocks, as the format counts them.
        let bitmap = pages.div_ceil(8 * page) * page;
        let notes = core.notes().len() as u64;
        let sub_blocks = (size_of::<SubHeader>() as u64 + notes).div_ceil(page);

        let machine = MachineFacts { number: core.machine(), info };
        let utsname = machine.utsname(name, |buf, paddr| core.read_memory(file, buf, paddr).unwrap_or(false));
        let main = MainHeader {
            magic: MAGIC,
            header_version: VERSION.into(),
            utsname,
            seconds: info.number("CRASHTIME").unwrap_or(0).into(),
            status: (status | if core.is_incomplete() { INCOMPLETE } else { 0 }).into(),
            block_size: size.into(),
            sub_hdr_size: block_count(sub_blocks)?.into(),
            bitmap_blocks: block_count(2 * bitmap / page)?.into(),
            // Readers of version 6 take the other field.
            max_mapnr: u32::try_from(pages).unwrap_or(u32::MAX).into(),
            nr_cpus: u32::try_from(core.processors().max(1)).unwrap_or(u32::MAX).into(),
            ..MainHeader::new_zeroed()
        };
        let notes_at = page + size_of::<SubHeader>() as u64;
        // Both are located among the notes.
        let within = |name| core.note(name).map(|note| (notes_at + note.desc_at as u64, note.desc.len() as u64));
        let (offset_vmcoreinfo, size_vmcoreinfo) = within("VMCOREINFO").unwrap_or_default();
        let (offset_eraseinfo, size_eraseinfo) = within("ERASEINFO").unwrap_or_default();
        let sub = SubHeader {
            phys_base: machine.phys_base().unwrap_or(0).into(),
            dump_level: ZERO_SHARED.into(),
            offset_vmcoreinfo: offset_vmcoreinfo.into(),
            size_vmcoreinfo: size_vmcoreinfo.into(),
            offset_note: notes_at.into(),
            size_note: notes.into(),
            offset_eraseinfo: offset_eraseinfo.into(),
            size_eraseinfo: size_eraseinfo.into(),
            max_mapnr_64: pages.into(),
            ..SubHeader::new_zeroed()
        };
        Ok(FileLayout { core, main, sub, page, memory, dumped, bitmap })
    }

    /// Returns the number of pages that will be in the file.
    pub(crate) fn count(&self) -> u64 {
        self.dumped.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns the headers and notes at the beginning of the file.
    pub(crate) fn head(&self) -> Vec<u8> {
        let page = usize::try_from(self.page).unwrap_or(usize::MAX);
        let mut bytes = self.main.as_bytes().to_vec();
        bytes.resize(page, 0);
        bytes.extend_from_slice(self.sub.as_bytes());
        bytes.extend_from_slice(self.core.notes());
        bytes.resize(bytes.len().next_multiple_of(page), 0);
        bytes
    }

    /// Returns the offset of the bitmaps.
    pub(crate) fn bitmaps_at(&self) -> u64 {
        self.page * (1 + u64::from(self.main.sub_hdr_size.get()))
    }

    /// Returns the offset of the page descriptors.
    pub(crate) fn descs_at(&self) -> u64 {
        self.bitmaps_at() + 2 * self.bitmap
    }

    /// Returns the offset of the pages.
    pub(crate) fn pages_at(&self) -> u64 {
        self.descs_at() + self.count() * size_of::<PageDesc>() as u64
    }

    /// Generates both bitmaps, in pieces of up to `len` bytes.
    pub(crate) fn bitmaps(&self, len: usize, mut f: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for ranges in [&self.memory, &self.dumped] {
            let mut at = 0;
            let mut bytes = Vec::new();
            while at < self.bitmap {
                let some = len.min(usize::try_from(self.bitmap - at).unwrap_or(len));
                bytes.clear();
                bytes.resize(some, 0);
                set(&mut bytes, 8 * at, ranges);
                f(&bytes)?;
                at += some as u64;
            }
        }
        Ok(())
    }
}

fn block_count(blocks: u64) -> Result<u32> {
    u32::try_from(blocks).map_err(|_| Error::Unsupported("a core with too many notes".to_owned()))
}

/// Returns the pages that ordered ranges of addresses touch.
fn whole_pages(ranges: impl Iterator<Item = Range<u64>>, page: u64) -> Vec<Range<u64>> {
    let mut pages: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        // A page that is stored in part is stored, with zeros for the rest.
        let range = range.start / page..range.end.div_ceil(page);
        match pages.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => pages.push(range),
        }
    }
    pages
}

/// Sets the bits of `ranges`, which are in order, in a piece of a bitmap that begins with bit `first`.
fn set(bytes: &mut [u8], first: u64, ranges: &[Range<u64>]) {
    let end = first + 8 * bytes.len() as u64;
    let from = ranges.partition_point(|range| range.end <= first);
    for range in ranges[from..].iter().take_while(|range| range.start < end) {
        let mut bit = range.start.max(first) - first;
        let stop = range.end.min(end) - first;
        while bit < stop {
            let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
            // Whole bytes at once: a range of memory has millions of bits.
            if bit.is_multiple_of(8) && stop - bit >= 8 {
                let last = usize::try_from(stop / 8).unwrap_or(usize::MAX);
                bytes[byte..last].fill(0xff);
                bit = stop / 8 * 8;
            } else {
                bytes[byte] |= 1 << (bit % 8);
                bit += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn partly_stored_pages_count() {
        let pages = |ranges: &[Range<u64>]| -> Vec<(u64, u64)> {
            whole_pages(ranges.iter().cloned(), 10).iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(pages(&[0..5, 7..9]), [(0, 1)]);
        assert_eq!(pages(&[0..10, 20..30]), [(0, 1), (2, 3)]);
        assert_eq!(pages(&[0..10, 10..30, 35..36]), [(0, 4)]);
    }

    proptest! {
        #[test]
        fn bits_are_set_whatever_the_pieces(
            steps in prop::collection::vec((1u64..40, 1u64..70), 0..20), len in 1usize..50
        ) {
            let mut ranges = Vec::new();
            let mut at = 0;
            for (gap, run) in steps {
                ranges.push(at + gap..at + gap + run);
                at += gap + run;
            }
            let mut first = 0;
            while first < at + 64 {
                let mut bytes = vec![0; len];
                set(&mut bytes, first, &ranges);
                for bit in 0..8 * len as u64 {
                    let want = ranges.iter().any(|range| range.contains(&(first + bit)));
                    prop_assert_eq!(bytes[usize::try_from(bit / 8).unwrap()] >> (bit % 8) & 1 == 1, want);
                }
                first += 8 * len as u64;
            }
        }
    }
}
