//! Where the kernel saw physical memory: its direct map, as far as the dump tells.

use super::pages::Pages;

/// A mapping of all of memory at one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Map {
    base: Option<u64>,
}

impl Map {
    pub(crate) fn of(_pages: &Pages, _notes: &[u8]) -> Map {
        Map { base: None }
    }

    /// The kernel's address of the physical one; 0 where it is not known.
    pub(crate) fn vaddr(&self, paddr: u64) -> u64 {
        self.base.map_or(0, |base| base.wrapping_add(paddr))
    }
}
