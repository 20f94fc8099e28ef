//! The annotated dump, pinned down for small images.

use super::hostile::have_mkfs;
use super::*;
use crate::testing::{Source, skipped};
use crate::tree::Device;

/// Attributes that do not depend on who runs the test.
fn owned(mut node: Node) -> Node {
    node.attrs.owner = (0, 1000);
    if let What::Dir(entries) = &mut node.what {
        let owned_entries = std::mem::take(entries).into_iter().map(|(name, node)| (name, owned(node)));
        *entries = owned_entries.collect();
    }
    node
}

fn dump(test: &str, spec: &Spec, options: &str) -> Option<String> {
    if !have_mkfs(test) {
        return None;
    }
    if !is_root() {
        skipped(test, "root, who may give files to others,");
        return None;
    }
    let source = Source::new(spec);
    let line = format!("mkfs.erofs --quiet -b512 -U00112233-4455-6677-8899-aabbccddeeff -T7 {options} $IMAGE $TREE");
    let bytes = std::fs::read(source.make(&line)).unwrap();
    Some(open(&bytes).unwrap().dump().unwrap())
}

#[test]
fn one_of_everything() {
    let mut named = Node::file(vec![noise(1, 512), Piece::Zeros(512), noise(2, 10)]);
    named.attrs.xattrs = BTreeMap::from([
        ("user.name".to_owned(), b"value".to_vec()),
        ("trusted.large".to_owned(), b"large ".repeat(5)),
        ("security.empty".to_owned(), vec![]),
    ]);
    let mut dir = Node::dir([(b"small".to_vec(), Node::file(vec![noise(3, 7)])), (b"again".to_vec(), named.clone())]);
    dir.attrs.xattrs = BTreeMap::from([("trusted.large".to_owned(), b"large ".repeat(5))]);
    let root = Node::dir([
        (b"block".to_vec(), plain(What::Block(Device { major: 4095, minor: 0xf_ffff }))),
        (b"char".to_vec(), plain(What::Char(Device { major: 1, minor: 3 }))),
        (b"dir".to_vec(), dir),
        (b"empty".to_vec(), Node::file(vec![])),
        (b"fifo".to_vec(), plain(What::Fifo)),
        (b"link".to_vec(), plain(What::Symlink(b"dir/small".to_vec()))),
        (b"named".to_vec(), named),
    ]);
    let spec = Spec { root: owned(root), links: vec![(b"dir/small".to_vec(), b"small".to_vec())] };
    if let Some(dump) = dump("one_of_everything", &spec, "-x1 -Lname") {
        insta::assert_snapshot!(dump);
    }
}

#[test]
fn compressed_files() {
    let file = Node::file(vec![text(1, 5000), noise(2, 700), Piece::Zeros(3000)]);
    let spec = Spec { root: owned(Node::dir([(b"file".to_vec(), file)])), links: vec![] };
    let kinds = ["-zlz4 -C2048", "-zlz4 -Elegacy-compress,fragments", "-zlz4 -E48bit -C4096", "--chunksize=512"];
    for (n, options) in kinds.into_iter().enumerate() {
        if let Some(dump) = dump("compressed_files", &spec, options) {
            insta::assert_snapshot!(format!("compressed_files_{n}"), dump);
        }
    }
}
