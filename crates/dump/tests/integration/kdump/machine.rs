//! A simulated machine: its memory, made of typical pages, and its ELF core.
#![allow(clippy::cast_possible_truncation, reason = "the machines of these tests are small")]

use std::ops::Range;
use std::path::Path;

use packfs_blocks::ReadAt;
use packfs_blocks::testing::Random;
use packfs_dump::elf::ElfCore;
use packfs_dump::elf::format::{ElfHeader, IDENT, ProgramHeader};
use zerocopy::{FromZeros, IntoBytes};

pub(crate) const PAGE: u64 = 4096;

/// A range of a machine's memory.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) paddr: u64,
    pub(crate) filesz: u64,
    pub(crate) memsz: u64,
}

/// A machine.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) number: u16,
    pub(crate) loads: Vec<Load>,
    pub(crate) vmcoreinfo: String,
}

impl Machine {
    /// Makes an x86-64 machine with `pages` pages after its first megabyte, none of them left out.
    pub(crate) fn new(pages: u64) -> Self {
        let all = |paddr, len| Load { paddr, filesz: len, memsz: len };
        let lines = [
            "OSRELEASE=6.1.0-test",
            "PAGESIZE=4096",
            "SYMBOL(init_uts_ns)=ffffffff80001000",
            "OFFSET(uts_namespace.name)=0",
            "NUMBER(phys_base)=0",
            "SYMBOL(init_top_pgt)=ffffffff80002000",
            "SYMBOL(mem_section)=ffff888000100000",
            // Fields that makedumpfile requires before anything else.
            "SYMBOL(mem_map)=ffffffff80001800",
            "SIZE(page)=64",
            "OFFSET(page.flags)=0",
            "OFFSET(page.lru)=8",
            "OFFSET(page.mapping)=24",
            "OFFSET(page.private)=40",
            "OFFSET(page._mapcount)=48",
            "OFFSET(page._refcount)=52",
            "CRASHTIME=1700000000",
        ];
        Machine {
            number: 62,
            loads: vec![all(PAGE, 0x9e * PAGE), all(1 << 20, pages * PAGE), all(1 << 25, 7 * PAGE)],
            vmcoreinfo: lines.iter().flat_map(|line| [line, "\n"]).collect(),
        }
    }

    /// Leaves out pages: of memory from one megabyte on, in stretches of many lengths.
    pub(crate) fn with_pages_left_out(mut self) -> Self {
        let (mut at, end) = (1 << 20, (1 << 20) + self.loads[1].memsz);
        let mut loads = Vec::new();
        for n in 1.. {
            let (data, memory) = (n % 7 * PAGE, (n % 7 + n * n % 11) * PAGE);
            if at + memory > end {
                break;
            }
            loads.push(Load { paddr: at, filesz: data, memsz: memory });
            at += memory;
        }
        self.loads.splice(1..2, loads);
        self
    }

    /// Returns the bytes of memory in a range.
    pub(crate) fn memory(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes: Vec<u8> = (range.start / PAGE..range.end.div_ceil(PAGE)).flat_map(page).collect();
        bytes.drain(..(range.start % PAGE) as usize);
        bytes.truncate((range.end - range.start) as usize);
        bytes
    }

    /// Returns notes as a kernel writes them.
    pub(crate) fn notes(&self) -> Vec<u8> {
        let mut notes = Vec::new();
        for cpu in 0..2 {
            put_note(&mut notes, "CORE", 1, &[cpu + 1; 336]);
        }
        put_note(&mut notes, "VMCOREINFO", 0, self.vmcoreinfo.as_bytes());
        notes
    }

    /// Returns the ELF core, with its memory one range after the other.
    pub(crate) fn core(&self) -> Vec<u8> {
        let notes = self.notes();
        let notes_at = 64 + 56 * (self.loads.len() as u64 + 1);
        let mut header = ElfHeader::new_zeroed();
        header.ident[..IDENT.len()].copy_from_slice(&IDENT);
        (header.e_type, header.machine) = (4.into(), self.number.into());
        (header.version, header.phoff) = (1.into(), 64.into());
        (header.ehsize, header.phentsize) = (64.into(), 56.into());
        header.phnum = (self.loads.len() as u16 + 1).into();
        let mut core = header.as_bytes().to_vec();
        let mut note = ProgramHeader::new_zeroed();
        (note.p_type, note.offset) = (4.into(), notes_at.into());
        (note.filesz, note.memsz) = ((notes.len() as u64).into(), (notes.len() as u64).into());
        core.extend_from_slice(note.as_bytes());
        let mut at = (notes_at + notes.len() as u64).next_multiple_of(PAGE);
        for load in &self.loads {
            let mut header = ProgramHeader::new_zeroed();
            (header.p_type, header.offset, header.paddr) = (1.into(), at.into(), load.paddr.into());
            (header.filesz, header.memsz) = (load.filesz.into(), load.memsz.into());
            core.extend_from_slice(header.as_bytes());
            at += load.filesz;
        }
        core.extend_from_slice(&notes);
        core.resize(core.len().next_multiple_of(PAGE as usize), 0);
        for load in &self.loads {
            core.extend(self.memory(load.paddr..load.paddr + load.filesz));
        }
        core
    }

    /// Asserts that `core` is an ELF core of exactly this machine's memory.
    pub(crate) fn check(&self, core: &dyn ReadAt) {
        let found = ElfCore::read(Path::new("core"), core).unwrap();
        assert_eq!(found.machine(), self.number);
        let data = |loads: &[Load]| union(loads.iter().map(|load| load.paddr..load.paddr + load.filesz));
        assert_eq!(union(found.data()), data(&self.loads));
        assert_eq!(found.memory(), union(self.loads.iter().map(|load| load.paddr..load.paddr + load.memsz)));
        for range in data(&self.loads) {
            let mut bytes = vec![1; (range.end - range.start) as usize];
            found.read_memory(core, &mut bytes, range.start).unwrap();
            assert!(bytes == self.memory(range.clone()), "memory from {range:x?} differs");
        }
        assert_eq!(found.note("VMCOREINFO").unwrap().desc, self.vmcoreinfo.as_bytes());
        assert_eq!(found.processors(), 2);
    }
}

/// Merges ranges that touch.
fn union(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges.filter(|range| !range.is_empty()) {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    all
}

fn put_note(notes: &mut Vec<u8>, name: &str, kind: u32, desc: &[u8]) {
    for number in [name.len() as u32 + 1, desc.len() as u32, kind] {
        notes.extend(number.to_le_bytes());
    }
    notes.extend(name.bytes());
    notes.resize((notes.len() + 1).next_multiple_of(4), 0);
    notes.extend(desc);
    notes.resize(notes.len().next_multiple_of(4), 0);
}

/// Returns a page of memory: zeros, one repeated byte, text, pointers, or incompressible data. The
/// page that `init_uts_ns` points to has the names of the machine; some pages are page tables.
fn page(pfn: u64) -> Vec<u8> {
    let mut random = Random::new(pfn);
    let mut page: Vec<u8> = match random.number() % 8 {
        0..3 => vec![0; PAGE as usize],
        3 => vec![pfn as u8 | 1; PAGE as usize],
        4 => format!("page {pfn} has some text; ").bytes().cycle().take(PAGE as usize).collect(),
        5 | 6 => (0..512).flat_map(|_| (0xffff_8880_0000_0000 + random.number() % (1 << 25)).to_le_bytes()).collect(),
        _ => (0..512).flat_map(|_| random.number().to_le_bytes()).collect(),
    };
    let entry = |index: usize, value: u64| (8 * index, value.to_le_bytes().to_vec());
    let names = ["Linux", "host", "6.1.0-test", "#1 SMP", "x86_64", "(none)"];
    let name = |n: usize| (65 * n, names[n].as_bytes().to_vec());
    // The image is at 0, and the direct map, which begins at ffff888000000000, has one page of 1 GiB.
    let parts = match pfn {
        1 => (0..names.len()).map(name).chain([entry(256, 0xffff_8880_0020_0000)]).collect(),
        2 => vec![entry(511, 0x3063), entry(273, 0x5063)],
        3 => vec![entry(510, 0x4063)],
        4 => vec![entry(0, 0xe3)],
        5 => vec![entry(0, 0xe3)],
        _ => return page,
    };
    page.fill(0);
    for (at, bytes) in parts {
        page[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    page
}
