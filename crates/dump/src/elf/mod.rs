//! ELF cores of whole machines: what `/proc/vmcore`, makedumpfile and virtual machine monitors write.
//!
//! [`Core`] is the checked reading of one, [`Notes`] and [`VmcoreInfo`] what it says of the machine. Only 64-bit
//! little-endian cores are read and made.

mod core;
// For tests and fuzzing: raw structs, no part of the interface.
#[doc(hidden)]
pub mod format;
mod layout;
mod notes;

pub use core::{Core, Segment};
pub(crate) use layout::{Load, layout};
pub(crate) use notes::note;
pub use notes::{Note, Notes, VmcoreInfo};
