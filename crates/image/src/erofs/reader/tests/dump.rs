//! The annotated dump, pinned down for small images.

use super::*;
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

fn dump(spec: &Spec, codec: &str, features: Features) -> String {
    let options = Options {
        codec: codec.parse().unwrap(),
        features,
        block_size: 512,
        cluster_size: 2048,
        label: "name".into(),
        uuid: Some(*b"0123456789abcdef"),
        xattr_prefixes: vec![b"trusted.la"[..].into()],
        target_kernel: "6.18".parse().unwrap(),
        ..Options::default()
    };
    open(&image_of(spec, &options)).unwrap().dump().unwrap()
}

#[test]
fn one_of_everything() {
    let mut named = Node::file(vec![noise(1, 512), Piece::Hole(512), noise(2, 10)]);
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
        (b"socket".to_vec(), plain(What::Socket)),
    ]);
    let spec = Spec { root: owned(root), links: vec![(b"dir/small".to_vec(), b"small".to_vec())] };
    insta::assert_snapshot!(dump(&spec, "none", Features::empty()));
}

#[test]
fn compressed_files_and_chunks() {
    let file = Node::file(vec![text(1, 5000), noise(2, 1500), Piece::Zeros(3000), text(3, 700)]);
    let spec = Spec { root: owned(Node::dir([(b"file".to_vec(), file)])), links: vec![] };
    for (name, codec, features) in [
        ("compact", "lz4", Features::empty()),
        ("whole", "lzma", Features::ALL_FRAGMENTS),
        ("chunks", "none", Features::CHUNKS),
    ] {
        insta::assert_snapshot!(name, dump(&spec, codec, features));
    }
}
