//! Compresses one big stream, such as a crash dump or a disk image, over several files at once, and restores it.
//!
//! The stream is cut into chunks, these are packed into segments, and whichever output is free
//! takes the next segment: a fast disk stores more than a slow one, and none waits for another.
//! Segments describe their own contents, so that each can be found with nothing but the bytes of
//! its part. docs/formats/dump.md describes the format.
//!
//! ```
//! use packfs_blocks::{Progress, ReadAt};
//! use packfs_dump::{Input, Set, SplitOptions, set, split};
//! # let dir = tempfile::tempdir()?;
//! let (core, parts) = (dir.path().join("core"), ["a", "b", "c"].map(|name| dir.path().join(name)));
//! std::fs::write(&core, [7; 100_000])?;
//! let options = SplitOptions::default().set(|all| all.parity = 1);
//! assert!(split(Input::open(&core)?, &parts, &options, &Progress::default())?.is_clean());
//! // One part may be lost.
//! let set = Set::open(&parts[1..], &set::SetOptions::default())?;
//! let mut bytes = [0; 3];
//! set.read_exact_at(&mut bytes, 99_997)?;
//! assert_eq!(bytes, [7; 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod codec_name;
pub mod elf;
mod error;
// For tests and fuzzing: raw structs, not part of the interface.
#[doc(hidden)]
pub mod format;
mod input;
pub mod join;
pub mod kdump;
mod lost;
pub mod part;
pub mod set;
mod split;

pub use codec_name::fastest_form;
pub use error::{Error, Result};
pub use input::{FileSource, Input, Source};
pub use set::Set;
packfs_blocks::options!(SplitOptions, join::JoinOptions, kdump::KdumpOptions, set::SetOptions);

pub use split::{ChunkBytes, PartReport, SplitOptions, SplitReport, SplitTimes, check, shared_disks, split};
