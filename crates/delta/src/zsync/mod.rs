//! Updates over HTTP by an index of zsync: the index lists sums of the new file's blocks, and whoever has an older file
//! finds most blocks there and fetches the others by ranges.
//!
//! [`ZsyncIndex`] is the index, [`find_blocks`] looks for its blocks in an old file, and the [`UpdatePlan`] that this gives
//! says what is copied and what is fetched. Nothing here opens a connection: [`BlockReceiver`] takes what the caller
//! fetches.
//!
//! ```
//! use packfs_delta::PatchEffort;
//! use packfs_delta::zsync::{BlockReceiver, IndexOptions, ZsyncIndex, find_blocks, verify};
//!
//! let old = b"one ".repeat(5000);
//! let new = [&old[..9000], b"changed", &old[9000..]].concat();
//! let effort = PatchEffort::default();
//! let index = ZsyncIndex::of_file(&new, &IndexOptions::default(), &effort)?.encode();
//!
//! // Elsewhere, with the old file and the index:
//! let index = ZsyncIndex::read(&index)?;
//! let mut plan = index.plan();
//! find_blocks(&index, &old, &mut plan, &effort)?;
//! let target = std::sync::Mutex::new(std::io::Cursor::new(Vec::new()));
//! plan.copy_blocks(&old, &target, &effort)?;
//! for range in plan.missing_ranges() {
//!     let mut receiver = BlockReceiver::new(&index, &target, range.clone());
//!     receiver.take(&new[range.start as usize..range.end as usize]);
//!     receiver.finish()?;
//! }
//! verify(&index, &target, &effort)?;
//! assert!(target.into_inner().unwrap().into_inner() == new);
//! # Ok::<(), packfs_delta::Error>(())
//! ```

mod finder;
mod header;
mod index;
mod plan;
mod receive;
mod sums;

pub use finder::find_blocks;
pub use index::{IndexOptions, ZsyncIndex};
pub use plan::UpdatePlan;
pub use receive::{BlockReceiver, find_kept_blocks, verify};
