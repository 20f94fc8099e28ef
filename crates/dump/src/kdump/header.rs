//! Checked headers of one kdump-compressed file: everything except its pages.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::name::display;
use zerocopy::{FromZeros, IntoBytes};

use super::format::{INCOMPLETE, MAGIC, MainHeader, PAGE, PageDesc, SubHeader};
use crate::elf::format::MACHINES;
use crate::elf::{NoteIter, note};
use crate::{Error, Result};

/// Maximum number of memory pages: 256 TiB in pages of 4 KiB.
pub(crate) const PAGES_MAX: u64 = 1 << 36;
/// Maximum length of notes, and of the description of erased data: they are held in memory.
const TEXT_MAX: u64 = 256 << 20;

/// The headers of one file.
#[derive(Debug)]
pub(crate) struct KdumpHeaders {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn ReadAt>,
    pub(crate) main: MainHeader,
    pub(crate) sub: SubHeader,
    /// `e_machine`.
    pub(crate) machine: u16,
    /// Page size in bytes.
    pub(crate) page: u64,
    /// Number of pages of physical memory, from address 0 on.
    pub(crate) pages: u64,
    /// Range of pages that this file covers.
    pub(crate) own: Range<u64>,
    /// Offsets of the first and the second bitmap.
    pub(crate) bitmaps: [u64; 2],
    /// Offset of the first page descriptor.
    pub(crate) descs: u64,
}

impl KdumpHeaders {
    /// Reads and checks the headers of `file`, which is not flattened; `path` is for errors.
    pub(crate) fn read(path: &Path, file: Arc<dyn ReadAt>) -> Result<KdumpHeaders> {
        let mut main = MainHeader::new_zeroed();
        read(path, &*file, "main header", main.as_mut_bytes(), 0)?;
        let corrupt = |why: &str| Error::corrupt(path, "main header", 0, why);
        if main.magic != MAGIC {
            return Err(corrupt("not a kdump-compressed file"));
        }
        let machine = machine(path, &main)?;
        if !PAGE.contains(&main.block_size.get()) || !main.block_size.get().is_power_of_two() {
            return Err(corrupt("its block size is not a valid page size"));
        }
        let page = u64::from(main.block_size.get());
        let mut sub = SubHeader::new_zeroed();
        read(path, &*file, "sub header", sub.as_mut_bytes(), page)?;
        // Before anything in it is read.
        forget_unknown(&mut sub, main.header_version.get());
        let (pages, own) = extent(&main, &sub).ok_or_else(|| {
            Error::corrupt(
                path,
                "sub header",
                page,
                "its range of pages is outside of the memory, or the memory is empty or too large",
            )
        })?;

        let bitmap = pages.div_ceil(8 * page) * page;
        let first = page * (1 + u64::from(main.sub_hdr_size.get()));
        let both = page * u64::from(main.bitmap_blocks.get());
        // Each bitmap may have more blocks than it needs, so the numbers are compared, not required to be
        // equal.
        if both < 2 * bitmap || first + both > file.len() {
            return Err(corrupt("its bitmaps do not fit the memory or the file"));
        }
        // Both are of the same length by definition, whatever they need.
        let bitmaps = [first, first + both / 2];
        let descs = first + both;
        Ok(KdumpHeaders { path: path.to_owned(), file, main, sub, machine, page, pages, own, bitmaps, descs })
    }

    /// Returns true if pages were lost when the file was written.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.main.status.get() & INCOMPLETE != 0
    }

    /// Makes the error that the file could not be read.
    pub(crate) fn io(&self, error: io::Error) -> Error {
        Error::io("cannot read", &self.path)(error)
    }

    /// Returns the offset of the descriptor with this number.
    pub(crate) fn desc_at(&self, number: u64) -> u64 {
        self.descs + number * size_of::<PageDesc>() as u64
    }

    /// Returns notes as an ELF core has them. Texts that the file stores beside its notes become
    /// notes of their own.
    pub(crate) fn notes(&self) -> Result<Vec<u8>> {
        let mut notes = self.text("notes", self.sub.offset_note.get(), self.sub.size_note.get())?;
        let others = [
            ("VMCOREINFO", self.sub.offset_vmcoreinfo.get(), self.sub.size_vmcoreinfo.get()),
            ("ERASEINFO", self.sub.offset_eraseinfo.get(), self.sub.size_eraseinfo.get()),
        ];
        for (name, offset, size) in others {
            // If the notes contain the text, the fields refer to it there.
            if size > 0 && NoteIter::named(&notes, name.as_bytes()).is_none() {
                let text = self.text(name, offset, size)?;
                notes.resize(notes.len().next_multiple_of(4), 0);
                notes.extend(note(name, 0, &text).unwrap_or_default());
            }
        }
        Ok(notes)
    }

    fn text(&self, name: &'static str, offset: u64, size: u64) -> Result<Vec<u8>> {
        if size == 0 || offset == 0 {
            return Ok(Vec::new());
        }
        let fits = offset.checked_add(size).is_some_and(|end| end <= self.file.len());
        let len = usize::try_from(size).ok().filter(|_| fits && size <= TEXT_MAX);
        let len = len.ok_or_else(|| Error::corrupt(&self.path, name, offset, "too many bytes"))?;
        let mut text = vec![0; len];
        read(&self.path, &*self.file, name, &mut text, offset)?;
        Ok(text)
    }
}

/// Clears fields that a version does not have, as they may contain anything.
fn forget_unknown(sub: &mut SubHeader, version: u32) {
    let blank = SubHeader::new_zeroed();
    if version < 1 {
        sub.dump_level = blank.dump_level;
    }
    if version < 2 {
        (sub.split, sub.start_pfn, sub.end_pfn) = (blank.split, blank.start_pfn, blank.end_pfn);
    }
    if version < 3 {
        (sub.offset_vmcoreinfo, sub.size_vmcoreinfo) = (blank.offset_vmcoreinfo, blank.size_vmcoreinfo);
    }
    if version < 4 {
        (sub.offset_note, sub.size_note) = (blank.offset_note, blank.size_note);
    }
    if version < 5 {
        (sub.offset_eraseinfo, sub.size_eraseinfo) = (blank.offset_eraseinfo, blank.size_eraseinfo);
    }
    if version < 6 {
        (sub.start_pfn_64, sub.end_pfn_64) = (sub.start_pfn, sub.end_pfn);
        sub.max_mapnr_64 = blank.max_mapnr_64;
    }
}

/// Returns the number of memory pages, and the range of the file.
fn extent(main: &MainHeader, sub: &SubHeader) -> Option<(u64, Range<u64>)> {
    let pages = match main.header_version.get() {
        ..6 => u64::from(main.max_mapnr.get()),
        _ => sub.max_mapnr_64.get(),
    };
    // The bitmap of a part covers all memory, but pages outside its range are in other files.
    let own = match sub.split.get() {
        0 => 0..pages,
        _ => sub.start_pfn_64.get()..sub.end_pfn_64.get(),
    };
    let good = (1..=PAGES_MAX).contains(&pages) && own.start <= own.end && own.end <= pages;
    good.then_some((pages, own))
}

fn machine(path: &Path, main: &MainHeader) -> Result<u16> {
    // In a big-endian file this is the version too, with its bytes reversed.
    let swapped = main.header_version.get() > 0xffff;
    let name = text(&main.utsname.machine);
    match MACHINES.iter().find(|(_, known)| *known == name) {
        Some((machine, _)) if !swapped => Ok(*machine),
        _ => Err(Error::Unsupported(format!("{}: a kdump-compressed file of the machine {name:?}", display(path)))),
    }
}

/// Returns the text before the first NUL.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

pub(crate) fn read(path: &Path, file: &dyn ReadAt, structure: &'static str, buf: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(buf, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::corrupt(path, structure, at, "the file ends before or within it"),
        _ => Error::io("cannot read", path)(error),
    })
}
