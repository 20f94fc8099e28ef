//! ELF cores of whole machines, as written by `/proc/vmcore`, makedumpfile and virtual machine monitors.
//!
//! [`Core`] reads and checks a core; [`Notes`] and [`VmcoreInfo`] describe its machine. Only 64-bit
//! little-endian cores are supported.

mod core;
// For tests and fuzzing: raw structs, not part of the interface.
#[doc(hidden)]
pub mod format;
mod layout;
mod notes;

pub use core::{Core, Segment};
pub(crate) use layout::{Load, layout};
pub(crate) use notes::note;
pub use notes::{Note, Notes, VmcoreInfo};
