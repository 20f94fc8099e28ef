//! Random trees: small ones that together cover everything that can go wrong.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::spec::join;
use super::{Attrs, Node, Piece, Spec, What, is_root};
use crate::tree::{DeviceNumber, Time};

/// Shape of random trees.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Block size: many files end within a byte of a multiple of it.
    pub block: u64,
    /// Approximate maximum number of entries.
    pub entries: u32,
    /// Maximum depth of directories.
    pub depth: u32,
    /// True for times that have fractions of seconds, lie before 1970 or need more than 32 bits.
    pub odd_times: bool,
    /// True for owners other than the user, devices and privileged xattrs.
    pub privileged: bool,
}

impl Default for Shape {
    /// Blocks of 4 KiB, some 40 entries, 4 levels, whole seconds since 1970; everything that this user may create.
    fn default() -> Self {
        Shape { block: 4096, entries: 40, depth: 4, odd_times: false, privileged: is_root() }
    }
}

/// Returns a strategy for trees of this shape.
pub fn specs(shape: Shape) -> BoxedStrategy<Spec> {
    let leaf = leaf(&shape);
    let dirs = shape.clone();
    let tree = leaf.prop_recursive(shape.depth, shape.entries, 6, move |node| {
        let entries = btree_map(name(), node, 0..6);
        (attrs(&dirs, true), entries).prop_map(|(attrs, entries)| Node { attrs, what: What::Dir(entries) })
    });
    let root = (attrs(&shape, true), btree_map(name(), tree, 0..8));
    let links = vec((any::<Index>(), any::<Index>(), name()), 0..5);
    (root, links)
        .prop_map(|((attrs, entries), wishes)| {
            let mut spec = Spec { root: Node { attrs, what: What::Dir(entries) }, links: Vec::new() };
            spec.links = links_between(&spec.paths(), wishes);
            spec
        })
        .boxed()
}

/// Turns requested links into links between existing paths, dropping names that are taken.
fn links_between(paths: &[(Vec<u8>, bool)], wishes: Vec<(Index, Index, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (dirs, files): (Vec<_>, Vec<_>) = paths.iter().partition(|(_, is_dir)| *is_dir);
    let mut taken: BTreeSet<Vec<u8>> = paths.iter().map(|(path, _)| path.clone()).collect();
    let mut links = Vec::new();
    for (file, dir, name) in wishes {
        let new = join(&dir.get(&dirs).0, &name);
        if !files.is_empty() && taken.insert(new.clone()) {
            links.push((file.get(&files).0.clone(), new));
        }
    }
    links
}

fn leaf(shape: &Shape) -> BoxedStrategy<Node> {
    let node = |what: BoxedStrategy<What>, rich| {
        (attrs(shape, rich), what).prop_map(|(attrs, what)| Node { attrs, what }).boxed()
    };
    let target = vec(1u8.., 1..300).prop_map(What::Symlink).boxed();
    let symlink = node(target, false).prop_map(|mut node| {
        node.attrs.mode = 0o777;
        node
    });
    let file = vec(piece(shape.block), 0..4).prop_map(What::File).boxed();
    let special = if shape.privileged {
        // The largest numbers that SquashFS supports: 12 and 20 bits.
        let device = (0u32..=4095, prop_oneof![0u32..=255, Just(256), Just(0xf_ffff)])
            .prop_map(|(major, minor)| DeviceNumber { major, minor });
        let device = device.prop_filter("0:0 marks a whiteout", |device| device.major > 0);
        prop_oneof![
            Just(What::Fifo),
            Just(What::Socket),
            device.clone().prop_map(What::Char),
            device.prop_map(What::Block)
        ]
        .boxed()
    } else {
        prop_oneof![Just(What::Fifo), Just(What::Socket)].boxed()
    };
    prop_oneof![6 => node(file, true), 2 => symlink, 1 => node(special, false)].boxed()
}

fn piece(block: u64) -> BoxedStrategy<Piece> {
    let edges = vec![0, 1, block - 1, block, block + 1, 2 * block, 3 * block - 1, 3 * block];
    let len = prop_oneof![select(edges), 0u64..300].boxed();
    // Few seeds, so that equal files, blocks and tails are common.
    prop_oneof![
        3 => (0u64..6, len.clone()).prop_map(|(seed, len)| Piece::Noise { seed, len }),
        3 => (0u64..6, len.clone()).prop_map(|(seed, len)| Piece::Text { seed, len }),
        1 => len.prop_map(Piece::Zeros),
        1 => select(vec![block, 2 * block, 16 * block, 16 * block + 1]).prop_map(Piece::Hole),
    ]
    .boxed()
}

fn name() -> BoxedStrategy<Vec<u8>> {
    let byte = (1u8..).prop_filter("a separator", |byte| *byte != b'/');
    prop_oneof![
        6 => vec(b'a'..=b'e', 1..5),
        2 => vec(byte, 1..40),
        1 => (b'a'..=b'z', 250usize..=255).prop_map(|(byte, len)| vec![byte; len]),
        1 => select(vec![&b"with space"[..], b"new\nline", b"...", b"-dash", b"quote\"'\\", b"\xff\xfe", b"*?[a]"]).prop_map(<[u8]>::to_vec),
    ]
    .prop_filter("not a name", |name| name != b"." && name != b"..")
    .boxed()
}

fn attrs(shape: &Shape, rich: bool) -> BoxedStrategy<Attrs> {
    let privileged = shape.privileged;
    let needed = if privileged { 0 } else { 0o700 };
    let mode = prop_oneof![Just(0o644u16), Just(0o755), 0u16..=0o7777].prop_map(move |mode| mode | needed);
    let id = prop_oneof![Just(0u32), Just(1000), Just(65_534), 0u32..=200_000];
    let secs = if shape.odd_times {
        prop_oneof![-1_000_000i64..=5_000_000_000, Just(-1)].boxed()
    } else {
        prop_oneof![Just(0i64), Just(i64::from(u32::MAX)), 0i64..=i64::from(u32::MAX)].boxed()
    };
    let nanos = if shape.odd_times { (0u32..1_000_000_000).boxed() } else { Just(0).boxed() };
    (mode, (id.clone(), id), secs, nanos, xattrs(privileged, rich))
        .prop_map(move |(mode, owner, secs, nanos, xattrs)| {
            let plain = Attrs::plain(mode);
            let owner = if privileged { owner } else { plain.owner };
            Attrs { mode, owner, mtime: Time { secs, nanos }, xattrs }
        })
        .boxed()
}

/// Makes sets small enough for ext4's one block; `user.` only where Linux allows it (`rich`: files, directories).
fn xattrs(privileged: bool, rich: bool) -> BoxedStrategy<BTreeMap<String, Vec<u8>>> {
    let mut names = Vec::new();
    if rich {
        names.extend(["user.a", "user.mime_type", "user.long.name.with.dots"]);
    }
    if privileged {
        names.extend(["trusted.a", "trusted.overlay.opaque", "security.packfs"]);
    }
    if names.is_empty() {
        return Just(BTreeMap::new()).boxed();
    }
    let names = select(names).prop_map(str::to_owned);
    let value = prop_oneof![Just(b"same".to_vec()), vec(any::<u8>(), 0..60), vec(any::<u8>(), 500..800)];
    prop_oneof![3 => Just(BTreeMap::new()), 1 => btree_map(names, value, 1..4)].boxed()
}
