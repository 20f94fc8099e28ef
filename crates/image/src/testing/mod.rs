//! What tests of this crate and its users share: random trees, trees on disk, and a comparer.
//!
//! A [`Spec`] describes a tree; [`Spec::create`] makes it in a directory and [`Spec::tree`] in memory, and
//! [`specs`] is a proptest strategy for them. [`snapshot`] takes down everything there is to know of a
//! directory, [`snapshot_tree`] and [`snapshot_image`] the same of a tree and an image, and
//! [`differences`] says in words where two of them differ.

mod content;
mod create;
mod everything;
mod mount;
#[cfg(test)]
pub mod mutate;
#[cfg(test)]
pub mod probe;
mod random;
mod snapshot;
mod spec;
mod strategy;
#[cfg(test)]
pub mod streams;
mod tools;

pub use content::{Memory, Piece};
pub use everything::{everything, one_of_each, owned};
#[cfg(test)]
pub use mount::kernel_reads;
pub use mount::{Mount, can_mount, disagreements};
pub use random::random_images;
pub use snapshot::{Entry, Snapshot, differences, snapshot, snapshot_image, snapshot_tree, whole_seconds};
pub use spec::{Attrs, Node, Spec, What, deep, wide};
pub use strategy::{Shape, specs};
pub use tools::{Source, damage, erofs_utils, exercise, findings, have, sh};

/// Whether devices, foreign owners and privileged xattrs can be made here.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that a test cannot run because `tool` is missing; an error where none may be left out.
///
/// # Panics
/// If the environment has `PACKFS_REQUIRE_ORACLES`.
#[allow(clippy::print_stderr, reason = "a test that does not run says so")]
pub fn skipped(test: &str, tool: &str) {
    let line = format!("SKIPPED {test}: {tool} is not installed");
    assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{line}");
    eprintln!("{line}");
}
