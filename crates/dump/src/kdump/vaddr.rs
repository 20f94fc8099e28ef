//! Where the kernel saw physical memory. A kdump-compressed file does not say, but on x86-64 the kernel's own page
//! tables do: they are asked for an address that the kernel gave away and that is known to lie in its direct map.

use super::machine::{Machine, X86_64, X86_64_IMAGE};
use super::pages::Pages;
use crate::elf::{Notes, VmcoreInfo};

/// What the start of the direct map is a multiple of, wherever the kernel was told to put it at random.
const ALIGN: u64 = 1 << 30;
/// Bits of an entry of a page table: it is there; it is a page and no further table; its address.
const PRESENT: u64 = 1;
const LARGE: u64 = 0x80;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The mapping of all memory at one place, if it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Map {
    base: Option<u64>,
}

impl Map {
    pub(crate) fn of(pages: &Pages, notes: &[u8]) -> Map {
        Map { base: direct_map(pages, notes) }
    }

    /// The kernel's address of the physical one; 0 where it is not known.
    pub(crate) fn vaddr(&self, paddr: u64) -> u64 {
        self.base.map_or(0, |base| base.wrapping_add(paddr))
    }
}

fn direct_map(pages: &Pages, notes: &[u8]) -> Option<u64> {
    let number = pages.headers().machine;
    let info = VmcoreInfo::new(Notes::named(notes, b"VMCOREINFO")?.desc);
    let machine = Machine { number, info };
    // Kernels with memory that may be anywhere keep this table in memory of its own, not in their image.
    let vaddr = info.symbol("mem_section").filter(|vaddr| number == X86_64 && *vaddr < X86_64_IMAGE)?;
    let table = ["init_top_pgt", "init_level4_pgt", "swapper_pg_dir"].iter().find_map(|name| info.symbol(name))?;
    let base = vaddr.checked_sub(walk(pages, &machine, machine.image(table)?, vaddr)?)?;
    base.is_multiple_of(ALIGN).then_some(base)
}

/// The physical address that page tables, of which the first is at `table`, have for `vaddr`.
fn walk(pages: &Pages, machine: &Machine<'_>, mut table: u64, vaddr: u64) -> Option<u64> {
    let levels = if machine.info.number("NUMBER(pgtable_l5_enabled)") == Some(1) { 5 } else { 4 };
    // Set in addresses of memory that is encrypted.
    let mask = ADDRESS & !machine.info.number("NUMBER(sme_mask)").unwrap_or(0);
    for level in (0..levels).rev() {
        let shift = 12 + 9 * level;
        let entry = number_at(pages, table.checked_add((vaddr >> shift) % 512 * 8)?)?;
        if entry & PRESENT == 0 {
            return None;
        }
        let size = 1u64 << shift;
        if level == 0 || (level <= 2 && entry & LARGE != 0) {
            return Some((entry & mask & !(size - 1)) + vaddr % size);
        }
        table = entry & mask;
    }
    None
}

/// The eight bytes of memory at `paddr`, which do not cross a page.
fn number_at(pages: &Pages, paddr: u64) -> Option<u64> {
    let size = pages.headers().page;
    let mut page = vec![0; usize::try_from(size).ok()?];
    pages.read(paddr / size, &mut page).ok()?;
    let (number, _) = page.get(usize::try_from(paddr % size).ok()?..)?.split_first_chunk()?;
    Some(u64::from_le_bytes(*number))
}
