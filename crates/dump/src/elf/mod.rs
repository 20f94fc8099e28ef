//! ELF cores of whole machines, as written by `/proc/vmcore`, makedumpfile and virtual machine monitors.
//!
//! [`ElfCore`] reads and checks a core; [`NoteIter`] and [`VmcoreInfo`] describe its machine. Only 64-bit
//! little-endian cores are supported.

mod core;
// For tests and fuzzing: raw structs, not part of the interface.
#[doc(hidden)]
pub mod format;
mod layout;
mod notes;

pub use core::{ElfCore, MemorySegment};
pub(crate) use layout::{LoadedMemory, layout};
pub(crate) use notes::note;
pub use notes::{ElfNote, NoteIter, VmcoreInfo};
