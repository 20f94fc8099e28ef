//! Code shared by tests of this crate and its users: random trees, trees on disk, and a comparison.
//!
//! A [`Spec`] describes a tree; [`Spec::create`] creates it in a directory and [`Spec::tree`] in
//! memory, and [`specs`] is a proptest strategy for them. [`snapshot`] records everything about a
//! directory, [`snapshot_tree`] and [`snapshot_image`] about a tree and an image, and
//! [`differences`] lists where two of them differ.

mod content;
mod create;
mod everything;
#[cfg(test)]
mod flipped;
#[cfg(test)]
mod fuse;
mod mount;
#[cfg(test)]
pub mod mutate;
#[cfg(test)]
pub mod probe;
mod random;
#[cfg(test)]
mod readings;
#[cfg(test)]
mod sharing;
mod snapshot;
mod spec;
mod strategy;
#[cfg(test)]
pub mod streams;
mod tools;
#[cfg(test)]
pub mod verdict;

pub use content::{ByteStream, Memory, Piece};
pub use everything::{everything, one_of_each, owned};
#[cfg(test)]
pub use flipped::Flipped;
#[cfg(test)]
pub use fuse::{FuseMount, can_mount_by_fuse};
#[cfg(test)]
pub use mount::kernel_reads;
pub use mount::{LoopDevice, Mount, can_mount, disagreements, kernel_disagreements, reader_disagreements, said_by};
pub use random::random_images;
#[cfg(test)]
pub use readings::misreadings;
#[cfg(test)]
pub use sharing::sharing_files;
#[cfg(test)]
pub use snapshot::snapshot_without_xattrs;
pub use snapshot::{Entry, Snapshot, differences, snapshot, snapshot_image, snapshot_tree, whole_seconds};
pub use spec::{Attrs, Node, Spec, What, deep, wide};
pub use strategy::{Shape, specs};
pub use tools::{Source, damage, erofs_utils, exercise, findings, have, sh};

/// Returns true if devices, foreign owners and privileged xattrs can be created here.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Reports that a test cannot run because `tool` is missing; fails if no test may be skipped.
///
/// # Panics
/// If the environment contains `PACKFS_REQUIRE_ORACLES`.
#[allow(clippy::print_stderr, reason = "a test that does not run says so")]
pub fn skipped(test: &str, tool: &str) {
    let line = format!("SKIPPED {test}: {tool} is not installed");
    assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{line}");
    eprintln!("{line}");
}
