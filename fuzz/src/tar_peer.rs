//! A small tree as a tar archive: read by our reader and by the `tar` crate, both say what is in the tree.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_image::sink::tar::{TarOptions, write_tar};
use packfs_image::source::{Store, archive as source};
use packfs_image::testing::{Entry, Snapshot, differences, snapshot_tree};
use packfs_image::tree::TreeImage;
use packfs_image::{Result, Tree};

use crate::take::Take;

struct Nowhere;

impl Store for Nowhere {
    fn put(&mut self, _: &mut dyn Read, _: u64, _: &[(u64, u64)]) -> Result<u32> {
        unreachable!("an archive in memory is read in place")
    }
}

/// Writes an archive and reads it twice.
pub fn look(bytes: &[u8]) {
    let spec = crate::tree::tree(&mut Take(bytes), 4096, true);
    let Ok(tree) = spec.tree() else { return };
    let mut archive = Vec::new();
    let options = TarOptions::default().set(|all| all.threads = 0);
    write_tar(&TreeImage::new(&tree), &mut archive, &options, &Progress::default()).expect("it is in memory");

    let mut again = Tree::default();
    let mut ours = source::from_bytes(Arc::new(archive.clone()), Path::new("archive"), source::Options::default())
        .expect("an archive in memory");
    ours.scan(&mut again, &mut Nowhere).expect("we wrote it");
    let (want, got) = (snapshot_tree(&tree).expect("in memory"), snapshot_tree(&again).expect("in memory"));
    assert_eq!(differences(&want, &got), Vec::<String>::new());
    // The `tar` crate cuts extended headers at line feeds, wherever they are.
    let line_feed = |text: &String| text.contains("\\n");
    let plain = |(path, entry): (&String, &Entry)| !line_feed(path) && !entry.xattrs.values().any(line_feed);
    if want.iter().all(plain) {
        peer(&archive, &want);
    }
}

/// The other reader finds each name once, and as many bytes of files as there are.
fn peer(archive: &[u8], want: &Snapshot) {
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    let mut reader = tar::Archive::new(archive);
    for entry in reader.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let path = entry.path_bytes().strip_suffix(b"/").unwrap_or(&entry.path_bytes()).escape_ascii().to_string();
        let len = std::io::copy(&mut entry, &mut std::io::sink()).expect("its data");
        if !entry.header().entry_type().is_hard_link() {
            bytes += len;
        }
        // It does not know sparse files of pax, and gives them as they are stored.
        if path.starts_with("GNUSparseFile.0/") {
            continue;
        }
        assert!(path == "." || want.contains_key(&path), "{path} is not in the tree");
        assert!(seen.insert(path.clone()), "{path} twice");
    }
    let total = want.values().map(|entry| entry.size).sum();
    assert!(bytes <= total, "{bytes} bytes where there are {total}");
}
