//! An ELF core, checked: where in the file each piece of physical memory is.

use std::io;
use std::ops::Range;
use std::path::Path;

use packfs_blocks::ReadAt;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::format::{
    ET_CORE, Header, IDENT, INCOMPLETE, MACHINES, NT_PRSTATUS, PN_XNUM, PT_LOAD, PT_NOTE, ProgramHeader, SectionHeader,
};
use super::{Note, Notes, VmcoreInfo};
use crate::{Error, Result};

/// Most program headers that are read.
const HEADERS_MAX: u64 = 1 << 22;
/// Most bytes of notes that are read.
const NOTES_MAX: u64 = 256 << 20;
/// Program headers that are read at once.
const BATCH: usize = 4096;

/// A piece of memory that a program header speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Byte of the file.
    pub offset: u64,
    /// Physical address.
    pub paddr: u64,
    /// Where the kernel saw it; 0 where that is not known.
    pub vaddr: u64,
    /// Bytes in the file.
    pub filesz: u64,
    /// Bytes of memory, no fewer than in the file.
    pub memsz: u64,
}

/// The headers and notes of an ELF core.
#[derive(Debug)]
pub struct Core {
    machine: u16,
    incomplete: bool,
    notes: Vec<u8>,
    segments: Vec<Segment>,
    data: Vec<Extent>,
    memory: Vec<Range<u64>>,
}

/// Physical memory that is in the file.
#[derive(Debug, Clone, Copy)]
struct Extent {
    paddr: u64,
    len: u64,
    offset: u64,
}

impl Core {
    /// Whether these first bytes of a file are those of an ELF core that can be read.
    pub fn is_one(bytes: &[u8]) -> bool {
        Header::read_from_prefix(bytes)
            .is_ok_and(|(header, _)| header.ident.starts_with(&IDENT) && header.e_type.get() == ET_CORE)
    }

    /// Reads and checks the headers of `file`; `path` names it in errors.
    pub fn read(path: &Path, file: &dyn ReadAt) -> Result<Core> {
        let mut header = Header::new_zeroed();
        read(path, file, header.as_mut_bytes(), 0)?;
        if !Core::is_one(header.as_bytes()) {
            return Err(Error::corrupt(path, "ELF header", 0, "not a core of 64 bits in little-endian order"));
        }
        if usize::from(header.phentsize.get()) != size_of::<ProgramHeader>() {
            return Err(Error::corrupt(path, "ELF header", 0, "program headers of another size"));
        }
        let count = number_of_headers(path, file, &header)?;
        let mut core = Core {
            machine: header.machine.get(),
            incomplete: header.flags.get() & INCOMPLETE != 0,
            notes: Vec::new(),
            segments: Vec::new(),
            data: Vec::new(),
            memory: Vec::new(),
        };
        let mut batch = vec![ProgramHeader::new_zeroed(); BATCH.min(usize::try_from(count).unwrap_or(BATCH))];
        let (mut at, mut left) = (header.phoff.get(), count);
        while left > 0 {
            let some = batch.len().min(usize::try_from(left).unwrap_or(BATCH));
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
        let (offset, filesz) = (header.offset.get(), header.filesz.get());
        let kind = header.p_type.get();
        if kind != PT_LOAD && kind != PT_NOTE {
            return Ok(());
        }
        let there = file.len().saturating_sub(offset);
        if filesz > there && !self.incomplete {
            return Err(corrupt("what it describes goes beyond the end of the file"));
        }
        let filesz = filesz.min(there);
        if kind == PT_NOTE {
            let len = usize::try_from(filesz).unwrap_or(usize::MAX);
            if self.notes.len() as u64 + filesz > NOTES_MAX {
                return Err(corrupt("too many bytes of notes"));
            }
            let from = self.notes.len();
            self.notes.resize(from + len, 0);
            return read(path, file, &mut self.notes[from..], offset);
        }
        let (paddr, vaddr) = (header.paddr.get(), header.vaddr.get());
        let memsz = header.memsz.get().max(filesz);
        if paddr == u64::MAX || memsz == 0 {
            return Ok(());
        }
        if paddr.checked_add(memsz).is_none() {
            return Err(corrupt("memory beyond the last address"));
        }
        self.segments.push(Segment { offset, paddr, vaddr, filesz, memsz });
        Ok(())
    }

    /// Sorts out what overlaps: a core of Linux has the kernel's text twice.
    fn arrange(&mut self) {
        self.segments.sort_by_key(|segment| segment.paddr);
        let mut end = 0;
        for segment in self.segments.iter().filter(|segment| segment.filesz > 0) {
            let skip = end.max(segment.paddr) - segment.paddr;
            if skip < segment.filesz {
                let len = segment.filesz - skip;
                self.data.push(Extent { paddr: segment.paddr + skip, len, offset: segment.offset + skip });
                end = segment.paddr + segment.filesz;
            }
        }
        for segment in &self.segments {
            let end = segment.paddr + segment.memsz;
            match self.memory.last_mut() {
                Some(last) if last.end >= segment.paddr => last.end = last.end.max(end),
                _ => self.memory.push(segment.paddr..end),
            }
        }
    }

    /// `e_machine`.
    pub fn machine(&self) -> u16 {
        self.machine
    }

    /// What `uname -m` says on such a machine; `None` where that is not known.
    pub fn machine_name(&self) -> Option<&'static str> {
        MACHINES.iter().find(|(machine, _)| *machine == self.machine).map(|(_, name)| *name)
    }

    /// Whether makedumpfile said that it could not write all.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// All notes as they are in the file.
    pub fn notes(&self) -> &[u8] {
        &self.notes
    }

    /// The note of this name.
    pub fn note(&self, name: &str) -> Option<Note<'_>> {
        Notes::named(&self.notes, name.as_bytes())
    }

    /// What the kernel said of itself.
    pub fn vmcoreinfo(&self) -> Option<VmcoreInfo<'_>> {
        self.note("VMCOREINFO").map(|note| VmcoreInfo::new(note.desc))
    }

    /// Processors there are registers of.
    pub fn processors(&self) -> usize {
        Notes::new(&self.notes).filter(|note| note.name == b"CORE" && note.kind == NT_PRSTATUS).count()
    }

    /// The segments in the order of their physical addresses. They may overlap.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Physical addresses of the memory the machine has, in order and apart.
    pub fn memory(&self) -> &[Range<u64>] {
        &self.memory
    }

    /// Physical addresses of the memory that is in the file, in order and apart.
    pub fn data(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.data.iter().map(|extent| extent.paddr..extent.paddr + extent.len)
    }

    /// Reads physical memory; what is not in the file is zeros. Says whether any of it was.
    pub fn read_memory(&self, file: &dyn ReadAt, buf: &mut [u8], paddr: u64) -> io::Result<bool> {
        let end = paddr.saturating_add(buf.len() as u64);
        let first = self.data.partition_point(|extent| extent.paddr + extent.len <= paddr);
        let (mut done, mut any) = (0, false);
        for extent in self.data[first..].iter().take_while(|extent| extent.paddr < end) {
            let from = extent.paddr.max(paddr);
            let to = (extent.paddr + extent.len).min(end);
            let (start, stop) = (index(from - paddr), index(to - paddr));
            buf[done..start].fill(0);
            file.read_exact_at(&mut buf[start..stop], extent.offset + (from - extent.paddr))?;
            (done, any) = (stop, true);
        }
        buf[done..].fill(0);
        Ok(any)
    }
}

/// A distance within a buffer.
fn index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}

fn number_of_headers(path: &Path, file: &dyn ReadAt, header: &Header) -> Result<u64> {
    let mut count = u64::from(header.phnum.get());
    if header.phnum.get() == PN_XNUM {
        let mut section = SectionHeader::default();
        read(path, file, section.as_mut_bytes(), header.shoff.get())?;
        count = u64::from(section.info.get());
    }
    let size = count * size_of::<ProgramHeader>() as u64;
    let fits = header.phoff.get().checked_add(size).is_some_and(|end| end <= file.len());
    match fits && count <= HEADERS_MAX {
        true => Ok(count),
        false => Err(Error::corrupt(path, "ELF header", 0, format!("it says it has {count} program headers"))),
    }
}

fn read(path: &Path, file: &dyn ReadAt, buf: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(buf, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::corrupt(path, "ELF core", at, "the file ends early"),
        _ => Error::io("cannot read", path)(error),
    })
}
