//! The annotated dump, pinned down for small images.

use super::access::image_of;
use super::*;
use crate::squashfs::{Fragments, Options};

fn dump(spec: &Spec, fragments: Fragments) -> String {
    let codec = "none".parse().unwrap();
    let options = Options { codec, fragments, block_size: 4096, time: Some(1_700_000_000), ..Options::default() };
    open(&image_of(spec, &options)).unwrap().dump().unwrap()
}

/// Attributes that do not depend on who runs the test.
fn owned(mut node: Node) -> Node {
    node.attrs.owner = (0, 1000);
    if let What::Dir(entries) = &mut node.what {
        let owned_entries = std::mem::take(entries).into_iter().map(|(name, node)| (name, owned(node)));
        *entries = owned_entries.collect();
    }
    node
}

#[test]
fn an_empty_image() {
    insta::assert_snapshot!(dump(&Spec { root: owned(Node::dir([])), links: vec![] }, Fragments::Tails));
}

#[test]
fn one_of_everything() {
    let mut named = Node::file(vec![noise(1, 4096), Piece::Hole(4096), noise(2, 10)]);
    named.attrs.xattrs = BTreeMap::from([
        ("user.name".to_owned(), b"value".to_vec()),
        ("trusted.large".to_owned(), b"large ".repeat(20)),
        ("security.empty".to_owned(), vec![]),
    ]);
    let mut dir = Node::dir([(b"small".to_vec(), Node::file(vec![noise(3, 7)])), (b"again".to_vec(), named.clone())]);
    dir.attrs.xattrs = BTreeMap::from([("trusted.large".to_owned(), b"large ".repeat(20))]);
    let root = Node::dir([
        (b"block".to_vec(), plain(What::Block(Device { major: 4095, minor: 0xf_ffff }))),
        (b"char".to_vec(), plain(What::Char(Device { major: 1, minor: 3 }))),
        (b"dir".to_vec(), dir),
        (b"empty".to_vec(), Node::file(vec![])),
        (b"fifo".to_vec(), plain(What::Fifo)),
        (b"link".to_vec(), plain(What::Symlink(b"dir/small".to_vec()))),
        (b"named".to_vec(), named),
        (b"socket".to_vec(), plain(What::Socket)),
    ]);
    let spec = Spec { root: owned(root), links: vec![(b"dir/small".to_vec(), b"small".to_vec())] };
    insta::assert_snapshot!(dump(&spec, Fragments::Tails));
}

#[test]
fn a_directory_with_an_index() {
    let names = (0..300).map(|n| (format!("{n:050}").into_bytes(), plain(What::Fifo)));
    let spec = Spec { root: owned(Node::dir([(b"wide".to_vec(), Node::dir(names))])), links: vec![] };
    let dump = dump(&spec, Fragments::None);
    let structure = |line: &&str| ["listing at", "from ", "header at"].iter().any(|what| line.contains(what));
    insta::assert_snapshot!(dump.lines().filter(structure).collect::<Vec<_>>().join("\n"));
}
