//! An ELF core with checked headers: locates each piece of physical memory in the file.

use std::io;
use std::ops::Range;
use std::path::Path;

use packfs_blocks::ReadAt;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::format::{
    ET_CORE, ElfHeader, IDENT, INCOMPLETE, MACHINES, NT_PRSTATUS, PN_XNUM, PT_LOAD, PT_NOTE, ProgramHeader,
    SectionHeader,
};
use super::{ElfNote, NoteIter, VmcoreInfo};
use crate::{Error, Result};

/// Maximum number of program headers read. What they say is kept in memory, so a hostile count must not decide how
/// much.
const HEADERS_MAX: u64 = 1 << 22;
/// Maximum number of bytes of notes read: unlike the rest of a core, they are held in memory.
const NOTES_MAX: u64 = 256 << 20;
/// Number of program headers read at once.
const HEADERS_PER_READ: usize = 4096;

/// A piece of memory described by a program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySegment {
    /// Offset in the file.
    pub offset: u64,
    /// Physical address.
    pub paddr: u64,
    /// Virtual address in the kernel; 0 if unknown.
    pub vaddr: u64,
    /// Number of bytes in the file.
    pub filesz: u64,
    /// Number of bytes of memory, at least as many as in the file.
    pub memsz: u64,
}

/// The headers and notes of an ELF core.
#[derive(Debug)]
pub struct ElfCore {
    machine: u16,
    incomplete: bool,
    notes: Vec<u8>,
    segments: Vec<MemorySegment>,
    data: Vec<FileExtent>,
    memory: Vec<Range<u64>>,
}

/// Physical memory that is in the file.
#[derive(Debug, Clone, Copy)]
struct FileExtent {
    paddr: u64,
    len: u64,
    offset: u64,
}

impl ElfCore {
    /// Returns true if these first bytes of a file are those of a supported ELF core.
    pub fn is_one(bytes: &[u8]) -> bool {
        ElfHeader::read_from_prefix(bytes)
            .is_ok_and(|(header, _)| header.ident.starts_with(&IDENT) && header.e_type.get() == ET_CORE)
    }

    /// Reads and checks the headers of `file`; `path` is for errors.
    pub fn read(path: &Path, file: &dyn ReadAt) -> Result<ElfCore> {
        let mut header = ElfHeader::new_zeroed();
        read(path, file, header.as_mut_bytes(), 0)?;
        if !ElfCore::is_one(header.as_bytes()) {
            return Err(Error::corrupt(path, "ELF header", 0, "not a core of 64 bits in little-endian order"));
        }
        if usize::from(header.phentsize.get()) != size_of::<ProgramHeader>() {
            return Err(Error::corrupt(path, "ELF header", 0, "program headers of another size"));
        }
        // From here on the count is checked: all its headers are in the file, so that the loop is bounded by
        // the file's length.
        let count = number_of_headers(path, file, &header)?;
        let mut core = ElfCore {
            machine: header.machine.get(),
            incomplete: header.flags.get() & INCOMPLETE != 0,
            notes: Vec::new(),
            segments: Vec::new(),
            data: Vec::new(),
            memory: Vec::new(),
        };
        let mut batch =
            vec![ProgramHeader::new_zeroed(); HEADERS_PER_READ.min(usize::try_from(count).unwrap_or(HEADERS_PER_READ))];
        let mut at = header.phoff.get();
        let mut left = count;
        while left > 0 {
            let some = batch.len().min(usize::try_from(left).unwrap_or(HEADERS_PER_READ));
            let batch = &mut batch[..some];
            read(path, file, batch.as_mut_bytes(), at)?;
            for header in &*batch {
                core.take(path, file, header, at)?;
                at += size_of::<ProgramHeader>() as u64;
            }
            left -= some as u64;
        }
        core.arrange();
        Ok(core)
    }

    fn take(&mut self, path: &Path, file: &dyn ReadAt, header: &ProgramHeader, at: u64) -> Result<()> {
        let corrupt = |why: &str| Error::corrupt(path, "program header", at, why);
        let offset = header.offset.get();
        let filesz = header.filesz.get();
        let kind = header.p_type.get();
        // Only memory and notes matter. Other types may have offsets that are not checked.
        if kind != PT_LOAD && kind != PT_NOTE {
            return Ok(());
        }
        let there = file.len().saturating_sub(offset);
        // makedumpfile marks a core for which its disk was too small, and leaves the headers as they would
        // have been.
        if filesz > there && !self.incomplete {
            return Err(corrupt("its range extends beyond the end of the file"));
        }
        let filesz = filesz.min(there);
        if kind == PT_NOTE {
            let len = usize::try_from(filesz).unwrap_or(usize::MAX);
            // Notes are held in memory, unlike the rest.
            if self.notes.len() as u64 + filesz > NOTES_MAX {
                return Err(corrupt("too many bytes of notes"));
            }
            let from = self.notes.len();
            self.notes.resize(from + len, 0);
            return read(path, file, &mut self.notes[from..], offset);
        }
        let paddr = header.paddr.get();
        let vaddr = header.vaddr.get();
        // No more of memory can be in the file than there is.
        let memsz = header.memsz.get().max(filesz);
        // Memory without a physical address cannot be placed: /proc/kcore has such segments for the kernel's
        // own mappings.
        if paddr == u64::MAX || memsz == 0 {
            return Ok(());
        }
        if paddr.checked_add(memsz).is_none() {
            return Err(corrupt("memory beyond the last address"));
        }
        self.segments.push(MemorySegment { offset, paddr, vaddr, filesz, memsz });
        Ok(())
    }

    /// Resolves overlaps: a core of Linux contains the kernel's text twice.
    fn arrange(&mut self) {
        self.segments.sort_by_key(|segment| segment.paddr);
        // In the order of addresses, each segment can only overlap what comes before it.
        let mut end = 0;
        for segment in self.segments.iter().filter(|segment| segment.filesz > 0) {
            let skip = end.max(segment.paddr) - segment.paddr;
            if skip < segment.filesz {
                let len = segment.filesz - skip;
                self.data.push(FileExtent { paddr: segment.paddr + skip, len, offset: segment.offset + skip });
                end = segment.paddr + segment.filesz;
            }
        }
        // Contiguous segments become one range: the number of ranges is what callers pay for.
        for segment in &self.segments {
            let end = segment.paddr + segment.memsz;
            match self.memory.last_mut() {
                Some(last) if last.end >= segment.paddr => last.end = last.end.max(end),
                _ => self.memory.push(segment.paddr..end),
            }
        }
    }

    /// Returns `e_machine`.
    pub fn machine(&self) -> u16 {
        self.machine
    }

    /// Returns the name that `uname -m` prints on such a machine; `None` if unknown.
    pub fn machine_name(&self) -> Option<&'static str> {
        MACHINES.iter().find(|(machine, _)| *machine == self.machine).map(|(_, name)| *name)
    }

    /// Returns true if makedumpfile could not write everything.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Returns all notes as stored in the file.
    pub fn notes(&self) -> &[u8] {
        &self.notes
    }

    /// Returns the note with this name.
    pub fn note(&self, name: &str) -> Option<ElfNote<'_>> {
        NoteIter::named(&self.notes, name.as_bytes())
    }

    /// Returns the kernel's description of itself.
    pub fn vmcoreinfo(&self) -> Option<VmcoreInfo<'_>> {
        self.note("VMCOREINFO").map(|note| VmcoreInfo::new(note.desc))
    }

    /// Returns the number of processors whose registers are stored.
    pub fn processors(&self) -> usize {
        NoteIter::new(&self.notes).filter(|note| note.name == b"CORE" && note.kind == NT_PRSTATUS).count()
    }

    /// Returns the segments in the order of their physical addresses. They may overlap.
    pub fn segments(&self) -> &[MemorySegment] {
        &self.segments
    }

    /// Returns the ranges of physical addresses with memory, in order and disjoint.
    pub fn memory(&self) -> &[Range<u64>] {
        &self.memory
    }

    /// Returns the ranges of physical addresses that are in the file, in order and disjoint.
    pub fn data(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.data.iter().map(|extent| extent.paddr..extent.paddr + extent.len)
    }

    /// Reads physical memory; memory that is not in the file reads as zeros. Returns true if any of
    /// it is in the file.
    pub fn read_memory(&self, file: &dyn ReadAt, buf: &mut [u8], paddr: u64) -> io::Result<bool> {
        let end = paddr.saturating_add(buf.len() as u64);
        // `data` is disjoint and in order, so a binary search finds the first one that reaches the address.
        let first = self.data.partition_point(|extent| extent.paddr + extent.len <= paddr);
        let mut done = 0;
        let mut any = false;
        for extent in self.data[first..].iter().take_while(|extent| extent.paddr < end) {
            let from = extent.paddr.max(paddr);
            let to = (extent.paddr + extent.len).min(end);
            let start = index(from - paddr);
            let stop = index(to - paddr);
            buf[done..start].fill(0);
            file.read_exact_at(&mut buf[start..stop], extent.offset + (from - extent.paddr))?;
            (done, any) = (stop, true);
        }
        buf[done..].fill(0);
        Ok(any)
    }
}

/// Returns a distance within a buffer.
fn index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}

fn number_of_headers(path: &Path, file: &dyn ReadAt, header: &ElfHeader) -> Result<u64> {
    let mut count = u64::from(header.phnum.get());
    if header.phnum.get() == PN_XNUM {
        let mut section = SectionHeader::default();
        read(path, file, section.as_mut_bytes(), header.shoff.get())?;
        count = u64::from(section.info.get());
    }
    let size = count * size_of::<ProgramHeader>() as u64;
    // An invalid count would reserve gigabytes before the first header fails to be read.
    let fits = header.phoff.get().checked_add(size).is_some_and(|end| end <= file.len());
    match fits && count <= HEADERS_MAX {
        true => Ok(count),
        false => Err(Error::corrupt(path, "ELF header", 0, format!("invalid number of program headers: {count}"))),
    }
}

fn read(path: &Path, file: &dyn ReadAt, buf: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(buf, at).map_err(|error| match error.kind() {
        // A core that is too short is damaged, which is another matter than a disk that fails.
        io::ErrorKind::UnexpectedEof => Error::corrupt(path, "ELF core", at, "the file ends early"),
        _ => Error::io("cannot read", path)(error),
    })
}
