//! Virtual addresses of physical memory in the kernel. A kdump-compressed file does not contain
//! them, but on x86-64 the kernel's own page tables do: they are looked up for an address that the
//! kernel published and that is known to be in its direct map.

use super::machine::{MachineFacts, X86_64, X86_64_IMAGE};
use super::pages::DumpPages;
use crate::elf::{NoteIter, VmcoreInfo};

/// Alignment of the start of the direct map, even with address space randomisation.
const ALIGN: u64 = 1 << 30;
/// Bit of a page table entry that is set if the entry is in use.
const PRESENT_BIT: u64 = 1;
/// Bit of an entry that refers to a page and not to a further table.
const LARGE_PAGE_BIT: u64 = 0x80;
/// Bits of the address in an entry.
const ADDRESS_BITS: u64 = 0x000f_ffff_ffff_f000;

/// The mapping of all memory, if it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelMap {
    base: Option<u64>,
}

impl KernelMap {
    pub(crate) fn of(pages: &DumpPages, notes: &[u8]) -> KernelMap {
        KernelMap { base: direct_map(pages, notes) }
    }

    /// Returns the kernel's address of a physical one; 0 if unknown.
    pub(crate) fn vaddr(&self, paddr: u64) -> u64 {
        self.base.map_or(0, |base| base.wrapping_add(paddr))
    }
}

fn direct_map(pages: &DumpPages, notes: &[u8]) -> Option<u64> {
    let number = pages.headers().machine;
    let info = VmcoreInfo::new(NoteIter::named(notes, b"VMCOREINFO")?.desc);
    let machine = MachineFacts { number, info };
    // Kernels with sparse memory allocate this table outside of their image.
    let vaddr = info.symbol("mem_section").filter(|vaddr| number == X86_64 && *vaddr < X86_64_IMAGE)?;
    // Kernels before 4.13 call it `init_level4_pgt`.
    let table = ["init_top_pgt", "init_level4_pgt", "swapper_pg_dir"].iter().find_map(|name| info.symbol(name))?;
    let base = vaddr.checked_sub(walk(pages, &machine, machine.image(table)?, vaddr)?)?;
    // A page table that was overwritten leads to an address that is not aligned like this, by all odds.
    base.is_multiple_of(ALIGN).then_some(base)
}

/// Returns the physical address of `vaddr` in the page tables whose top is at `table`.
fn walk(pages: &DumpPages, machine: &MachineFacts<'_>, mut table: u64, vaddr: u64) -> Option<u64> {
    // Set by kernels that use five levels, whatever the processor could do.
    let levels = if machine.info.number("NUMBER(pgtable_l5_enabled)") == Some(1) { 5 } else { 4 };
    // Set in addresses of encrypted memory.
    let mask = ADDRESS_BITS & !machine.info.number("NUMBER(sme_mask)").unwrap_or(0);
    for level in (0..levels).rev() {
        let shift = 12 + 9 * level;
        let entry = number_at(pages, table.checked_add((vaddr >> shift) % 512 * 8)?)?;
        if entry & PRESENT_BIT == 0 {
            return None;
        }
        let size = 1u64 << shift;
        // In the levels above, the bit is reserved.
        if level == 0 || (level <= 2 && entry & LARGE_PAGE_BIT != 0) {
            return Some((entry & mask & !(size - 1)) + vaddr % size);
        }
        table = entry & mask;
    }
    None
}

/// Reads eight bytes of memory at `paddr`, which do not cross a page.
fn number_at(pages: &DumpPages, paddr: u64) -> Option<u64> {
    let size = pages.headers().page;
    let mut page = vec![0; usize::try_from(size).ok()?];
    pages.read(paddr / size, &mut page).ok()?;
    let (number, _) = page.get(usize::try_from(paddr % size).ok()?..)?.split_first_chunk()?;
    Some(u64::from_le_bytes(*number))
}
