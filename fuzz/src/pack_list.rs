//! Any bytes as a pack list. Lists can name files of the running system, so the first call goes to a root directory
//! with nothing in it.

use std::path::Path;
use std::sync::OnceLock;

use packfs_image::Tree;
use packfs_image::source::dir::Options;
use packfs_image::source::{PackList, Source, Store};
use packfs_image::testing::snapshot_tree;
use packfs_image::tree::Time;

struct Nowhere;

impl Store for Nowhere {
    fn put(&mut self, _: &mut dyn std::io::Read, _: u64, _: &[(u64, u64)]) -> packfs_image::Result<u32> {
        unreachable!("a pack list hands nothing over")
    }
}

/// Leaves the system behind. Relative paths still begin where the fuzzer keeps its corpus.
fn alone() {
    static ALONE: OnceLock<()> = OnceLock::new();
    ALONE.get_or_init(|| {
        let empty = tempfile::tempdir().expect("a directory").keep();
        rustix::process::chroot(&empty).expect("chroot: run this target as root");
    });
}

/// Reads it into a tree, twice with the same result.
pub fn look(bytes: &[u8]) {
    alone();
    let scan = || {
        let time = Time { secs: 0, nanos: 0 };
        let mut tree = Tree::default();
        let mut list = PackList::from_bytes(Path::new("/list"), bytes.to_vec(), Options::default(), time);
        list.scan(&mut tree, &mut Nowhere).ok()?;
        snapshot_tree(&tree).ok()
    };
    assert!(scan() == scan(), "the same list, the same tree");
}
