//! Code shared by tests of this crate and its users: random trees, trees on disk, and a comparison.
//!
//! A [`Spec`] describes a tree; [`Spec::create`] creates it in a directory and [`Spec::tree`] in
//! memory, and [`specs`] is a proptest strategy for them. [`snapshot`] records everything about a
//! directory, [`snapshot_tree`] and [`snapshot_image`] about a tree and an image, and
//! [`differences`] lists where two of them differ.

mod content;
mod create;
mod everything;
mod mount;
mod random;
mod snapshot;
mod spec;
mod strategy;
mod tools;

pub use content::{ByteStream, Memory, Piece, mix, noise, text};
pub use everything::{everything, one_of_each, owned};
pub use mount::{
    LoopDevice, Mount, can_mount, disagreements, kernel_disagreements, kernel_reads, reader_disagreements, said_by,
};
pub use random::random_images;
pub use snapshot::{
    Entry, Snapshot, differences, snapshot, snapshot_image, snapshot_tree, snapshot_without_xattrs, whole_seconds,
};
pub use spec::{Attrs, Node, Spec, What, deep, plain, wide};
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
