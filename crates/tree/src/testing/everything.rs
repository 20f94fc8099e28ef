//! A tree with every feature, for testing readers and writers of every format.

use std::collections::BTreeMap;

use super::{Node, Piece, Spec, What, is_root, noise, plain, text};
use crate::tree::DeviceNumber;

/// Makes a node, and everything below it, with attributes that do not depend on who runs the test.
pub fn owned(mut node: Node) -> Node {
    node.attrs.owner = (0, 1000);
    if let What::Dir(entries) = &mut node.what {
        let owned_entries = std::mem::take(entries).into_iter().map(|(name, node)| (name, owned(node)));
        *entries = owned_entries.collect();
    }
    node
}

/// Makes a tree with one entry of each type, for testing a whole image: files with a block of
/// `block` bytes and a hole, and an xattr of `6 * large` bytes that two of them share.
pub fn one_of_each(block: u64, large: usize) -> Spec {
    let mut named = Node::file(vec![noise(1, block), Piece::Hole(block), noise(2, 10)]);
    named.attrs.xattrs = BTreeMap::from([
        ("user.name".to_owned(), b"value".to_vec()),
        ("trusted.large".to_owned(), b"large ".repeat(large)),
        ("security.empty".to_owned(), vec![]),
    ]);
    let mut dir = Node::dir([(b"small".to_vec(), Node::file(vec![noise(3, 7)])), (b"again".to_vec(), named.clone())]);
    dir.attrs.xattrs = BTreeMap::from([("trusted.large".to_owned(), b"large ".repeat(large))]);
    let root = Node::dir([
        (b"block".to_vec(), plain(What::Block(DeviceNumber { major: 4095, minor: 0xf_ffff }))),
        (b"char".to_vec(), plain(What::Char(DeviceNumber { major: 1, minor: 3 }))),
        (b"dir".to_vec(), dir),
        (b"empty".to_vec(), Node::file(vec![])),
        (b"fifo".to_vec(), plain(What::Fifo)),
        (b"link".to_vec(), plain(What::Symlink(b"dir/small".to_vec()))),
        (b"named".to_vec(), named),
        (b"socket".to_vec(), plain(What::Socket)),
    ]);
    Spec { root: owned(root), links: vec![(b"dir/small".to_vec(), b"small".to_vec())] }
}

/// Makes a tree with everything that the formats and their writers support: files with sizes around
/// blocks of `block` bytes, values of xattrs of up to `xattr_max` bytes.
pub fn everything(block: u64, xattr_max: usize) -> Spec {
    let mut root = BTreeMap::new();
    let mut add = |name: &str, node: Node| drop(root.insert(name.as_bytes().to_vec(), node));
    for (n, len) in
        [0, 1, 100, block - 1, block, block + 1, 2 * block, 3 * block - 1, 9 * block + 77].iter().enumerate()
    {
        let seed = n as u64;
        add(&format!("text-{n}"), Node::file(vec![text(seed, *len)]));
        add(&format!("noise-{n}"), Node::file(vec![noise(seed, *len)]));
        add(&format!("again-{n}"), Node::file(vec![noise(seed, *len)]));
    }
    add("zeros", Node::file(vec![Piece::Zeros(3 * block + 5)]));
    add("hole-first", Node::file(vec![Piece::Hole(4 * block), text(1, block + 9)]));
    add("hole-last", Node::file(vec![text(2, block), Piece::Hole(5 * block + 1)]));
    add("hole-between", Node::file(vec![text(3, 2 * block), Piece::Hole(300 * block), noise(4, 2 * block + 3)]));
    add("short-link", plain(What::Symlink(b"text-1".to_vec())));
    add("long-link", plain(What::Symlink(vec![b'x'; 4095])));
    add("fifo", plain(What::Fifo));
    add("socket", plain(What::Socket));
    add("empty", Node::dir([]));
    for n in [1, 256, 257, 1000] {
        let names = (0..n).map(|n| (format!("entry number {n}").into_bytes(), Node::file(vec![])));
        add(&format!("wide-{n}"), Node::dir(names));
    }
    let odd = ["new\nline", " ", "-", "~", &"n".repeat(255)];
    let mut names: BTreeMap<Vec<u8>, Node> =
        odd.iter().map(|name| (name.as_bytes().to_vec(), Node::file(vec![text(7, 7)]))).collect();
    names.insert(vec![0xff, 0x80, 1], Node::dir([(vec![0xfe], Node::dir([]))]));
    add("names", plain(What::Dir(names)));
    if is_root() {
        privileged(xattr_max, &mut add);
    }
    let mut spec = Spec { root: plain(What::Dir(root)), links: Vec::new() };
    for (old, new) in [("text-8", "empty/text"), ("text-8", "wide-1/text"), ("fifo", "fifo-again"), ("short-link", "z")]
    {
        spec.links.push((old.into(), new.into()));
    }
    spec
}

fn privileged(xattr_max: usize, add: &mut dyn FnMut(&str, Node)) {
    for (n, (major, minor)) in [(1, 3), (8, 255), (4095, 0xf_ffff), (0, 256)].into_iter().enumerate() {
        add(&format!("char-{n}"), plain(What::Char(DeviceNumber { major, minor })));
        add(&format!("block-{n}"), plain(What::Block(DeviceNumber { major, minor })));
    }
    let set = |names: &[(&str, usize)]| -> BTreeMap<String, Vec<u8>> {
        names.iter().map(|(name, len)| ((*name).to_owned(), name.bytes().cycle().take(*len).collect())).collect()
    };
    let sets = [
        set(&[("user.a", 0)]),
        set(&[("user.a", 1), ("trusted.b", 300), ("security.c", 77)]),
        set(&[("user.large", xattr_max)]),
        set(&[("user.large", xattr_max), ("trusted.large", 9000), ("user.x", 1)]),
        set(&[("trusted.large", 9000)]),
    ];
    for (n, xattrs) in (0u16..).zip(sets) {
        for (kind, what) in [
            ("file", What::File(vec![text(9, 9)])),
            ("dir", What::Dir(BTreeMap::new())),
            // Only files and directories can have user xattrs.
            ("node", What::Char(DeviceNumber { major: 5, minor: 1 })),
            ("link", What::Symlink(b"nowhere".to_vec())),
            ("fifo", What::Fifo),
        ] {
            let mut node = plain(what);
            node.attrs.owner = (1000 + u32::from(n), 70_000);
            node.attrs.mode = 0o4751;
            node.attrs.xattrs = xattrs.clone();
            if !matches!(kind, "file" | "dir") {
                node.attrs.xattrs.retain(|name, _| !name.starts_with("user."));
            }
            add(&format!("xattr-{kind}-{n}"), node);
        }
    }
}
