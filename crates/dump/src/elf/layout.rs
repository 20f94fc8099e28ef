//! Layout of the headers of a new ELF core.

use zerocopy::IntoBytes;

use super::format::{ET_CORE, ElfHeader, IDENT, INCOMPLETE, PN_XNUM, PT_LOAD, PT_NOTE, ProgramHeader, SectionHeader};

/// A piece of memory for a program header of a new core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoadedMemory {
    /// Physical address.
    pub(crate) paddr: u64,
    /// Virtual address in the kernel; 0 if unknown.
    pub(crate) vaddr: u64,
    /// Number of bytes in the file.
    pub(crate) filesz: u64,
    /// Number of bytes of memory.
    pub(crate) memsz: u64,
}

/// Makes the head of a core. The memory follows it, piece after piece; the head is padded to
/// `align`, so that pages of memory are pages of the file. Memory that is not stored takes room in
/// the file too, as a hole: when makedumpfile maps a file, it expects such memory after the stored
/// bytes.
pub(crate) fn layout(machine: u16, incomplete: bool, notes: &[u8], loads: &[LoadedMemory], align: u64) -> Vec<u8> {
    let count = loads.len() + 1;
    let extended = count >= usize::from(PN_XNUM);
    let phoff = size_of::<ElfHeader>();
    // makedumpfile assumes that the program headers follow the ELF header directly, whatever it says.
    // So the section header, which only a long table needs, comes after them.
    let after = phoff + count * size_of::<ProgramHeader>();
    let notes_at = if extended { after + size_of::<SectionHeader>() } else { after };
    let data = (notes_at + notes.len()).next_multiple_of(usize::try_from(align).unwrap_or(1).max(1));

    let mut ident = [0; 16];
    ident[..IDENT.len()].copy_from_slice(&IDENT);
    let header = ElfHeader {
        ident,
        e_type: ET_CORE.into(),
        machine: machine.into(),
        version: 1.into(),
        entry: 0.into(),
        phoff: (phoff as u64).into(),
        shoff: (if extended { after as u64 } else { 0 }).into(),
        flags: (if incomplete { INCOMPLETE } else { 0 }).into(),
        ehsize: 64.into(),
        phentsize: 56.into(),
        phnum: u16::try_from(count).unwrap_or(PN_XNUM).into(),
        shentsize: (if extended { 64 } else { 0 }).into(),
        shnum: u16::from(extended).into(),
        shstrndx: 0.into(),
    };
    let mut bytes = Vec::with_capacity(data);
    bytes.extend_from_slice(header.as_bytes());
    let note = LoadedMemory { paddr: 0, vaddr: 0, filesz: notes.len() as u64, memsz: notes.len() as u64 };
    bytes.extend_from_slice(program_header(PT_NOTE, 0, notes_at as u64, note).as_bytes());
    let mut at = data as u64;
    for load in loads {
        bytes.extend_from_slice(program_header(PT_LOAD, 7, at, *load).as_bytes());
        // By `memsz`: what is not stored is a hole of the file.
        at += load.memsz;
    }
    if extended {
        let info = u32::try_from(count).unwrap_or(u32::MAX).into();
        bytes.extend_from_slice(SectionHeader { info, size: 1.into(), ..SectionHeader::default() }.as_bytes());
    }
    bytes.extend_from_slice(notes);
    bytes.resize(data, 0);
    bytes
}

fn program_header(p_type: u32, flags: u32, offset: u64, load: LoadedMemory) -> ProgramHeader {
    ProgramHeader {
        p_type: p_type.into(),
        flags: flags.into(),
        offset: offset.into(),
        vaddr: load.vaddr.into(),
        paddr: load.paddr.into(),
        filesz: load.filesz.into(),
        memsz: load.memsz.into(),
        align: 0.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::elf::{ElfCore, note};

    #[test]
    fn a_core_has_its_headers_however_many_they_are() {
        let notes = note("VMCOREINFO", 0, b"PAGESIZE=4096\n").unwrap();
        for count in [0, 1, 65_533, 65_534, 65_535, 70_000] {
            let load = |n| LoadedMemory { paddr: 8192 * n, vaddr: 0, filesz: 0, memsz: 4096 };
            let loads: Vec<LoadedMemory> = (0..count).map(load).collect();
            let head = layout(62, count % 2 == 1, &notes, &loads, 4096);
            assert!(head.len().is_multiple_of(4096));
            let core = ElfCore::read(Path::new("core"), &head).unwrap();
            assert_eq!((core.machine_name(), core.is_incomplete()), (Some("x86_64"), count % 2 == 1));
            assert_eq!((core.segments().len() as u64, core.memory().len() as u64), (count, count));
            assert_eq!(core.vmcoreinfo().unwrap().number("PAGESIZE"), Some(4096));
        }
    }
}
