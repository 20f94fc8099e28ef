//! Patches from one file system image to the next.
//!
//! A patch cuts the new image into segments: ranges that are copied from the old image, blocks that are compressed again
//! from plain bytes, and bytes as they are. The plain bytes are compressed by zstd against the decompressed blocks of the
//! old image that changed, so a patch is smaller than one between the compressed bytes. See [`format`](mod@format) for the
//! bytes of a patch.
//!
//! ```
//! use std::sync::Arc;
//!
//! use packfs_blocks::ReadAt;
//! use packfs_delta::{DeltaOptions, Patch, PatchEffort, apply_patch, make_patch};
//! # use packfs_image::{Builder, source::Entry};
//! # let image = |text: &str| {
//! #     let builder = Builder::squashfs().entries([Entry::file("etc/motd", text.repeat(9000))]);
//! #     builder.write_to(std::io::Cursor::new(Vec::new())).unwrap().0.into_inner()
//! # };
//! # let old_image = image("Hello.");
//! # let new_image = image("Hello, world.");
//! let old: Arc<dyn ReadAt> = Arc::new(old_image);
//! let new: Arc<dyn ReadAt> = Arc::new(new_image.clone());
//! let effort = PatchEffort::default();
//! let mut patch = Vec::new();
//! make_patch(&old, &new, &mut patch, &DeltaOptions::default(), &effort)?;
//!
//! let mut result = Vec::new();
//! apply_patch(&*old, &Patch::open(Arc::new(patch))?, &mut result, &effort)?;
//! assert!(result == new_image);
//! # Ok::<(), packfs_delta::Error>(())
//! ```

mod apply;
mod candidates;
mod coding;
mod error;
pub mod format;
mod group;
mod identity;
mod make;
mod recipes;
mod reference;
mod units;
pub mod zsync;

use std::sync::Arc;

use packfs_blocks::Progress;

pub use apply::{AppliedPatch, apply_patch};
pub use error::{Error, Result};
pub use format::Patch;
pub use identity::FileIdentity;
pub use make::{DeltaOptions, PatchSummary, make_patch, verify_patch};

/// Threads of an operation, and its progress.
#[derive(Debug, Clone, Default)]
pub struct PatchEffort {
    /// Number of worker threads; 0 does all work on the calling thread. The result does not depend on it.
    pub threads: usize,
    /// Counters, and the way to cancel.
    pub progress: Arc<Progress>,
}

impl PatchEffort {
    /// Fails if the operation was cancelled.
    pub(crate) fn check(&self) -> Result<()> {
        if self.progress.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
