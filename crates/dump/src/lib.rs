//! One big stream, such as a crash dump or a disk image, compressed over several files at once, and back.
//!
//! The stream is cut into chunks, these are packed into segments, and whichever output is free takes the
//! next segment: a fast disk holds more than a slow one, and none waits for another. What lies where is said
//! by the segments themselves, so that any of them is found again with nothing but the bytes of its part.
//! The format is in docs/formats/dump.md.

mod error;
pub mod format;
mod input;
pub mod join;
pub mod part;
pub mod set;
mod split;

pub use error::{Error, Result};
pub use input::{FileSource, Input, Source};
pub use set::Set;
pub use split::{Chunks, PartReport, SplitOptions, SplitReport, Times, shared_disks, split};
