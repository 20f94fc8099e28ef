//! Trees of a few files, described by the fuzzer's bytes.

use std::collections::BTreeMap;

use packfs_image::testing::{Attrs, Node, Piece, Spec, What};
use packfs_image::tree::{DeviceNumber, Time};

use crate::take::Take;

/// Most nodes of a tree.
const NODES: usize = 24;

/// A tree of files around blocks of `block` bytes; without sockets and odd names where `tar` is to hold it.
pub(crate) fn tree(take: &mut Take<'_>, block: u64, tar: bool) -> Spec {
    let mut root = Node { attrs: attrs(take, true, tar), what: What::Dir(BTreeMap::new()) };
    let (mut files, mut links) = (Vec::new(), Vec::new());
    for n in 0..NODES {
        if take.is_empty() {
            break;
        }
        let choice = take.byte();
        // Every other entry goes into the directory `d`, which comes with the first of them.
        let deep = choice & 0x80 != 0;
        let name = name(take, n);
        let path = if deep { [b"d/", &name[..]].concat() } else { name.clone() };
        let what = match choice & 15 {
            0 => What::Dir(BTreeMap::new()),
            1 => What::Symlink(vec![b'a' + choice % 26; 1 + usize::from(take.byte())]),
            2 => What::Char(DeviceNumber { major: 1 + u32::from(take.byte()), minor: take.short().into() }),
            3 => What::Fifo,
            4 if !tar => What::Socket,
            5 if !files.is_empty() => {
                let old: &Vec<u8> = &files[usize::from(take.byte()) % files.len()];
                links.push((old.clone(), path));
                if deep {
                    inner(&mut root);
                }
                continue;
            }
            _ => What::File((0..choice >> 4 & 3).map(|_| piece(take, block)).collect()),
        };
        let rich = matches!(what, What::Dir(_) | What::File(_));
        if matches!(what, What::File(_)) {
            files.push(path);
        }
        let mut attrs = attrs(take, rich, tar);
        if matches!(what, What::Symlink(_)) {
            attrs.mode = 0o777;
        }
        let dir = if deep { inner(&mut root) } else { &mut root };
        let What::Dir(entries) = &mut dir.what else { continue };
        entries.insert(name, Node { attrs, what });
    }
    Spec { root, links }
}

/// The directory `d`.
fn inner(root: &mut Node) -> &mut Node {
    let What::Dir(entries) = &mut root.what else { unreachable!("the root is a directory") };
    entries.entry(b"d".to_vec()).or_insert_with(|| Node::dir([]))
}

/// A name that no other entry has: it ends in the number of the node.
fn name(take: &mut Take<'_>, n: usize) -> Vec<u8> {
    let (byte, len) = (take.byte(), take.byte());
    let byte = if matches!(byte, 0 | b'/') { b'x' } else { byte };
    [&vec![byte; usize::from(len) % 250][..], format!("{n}").as_bytes()].concat()
}

fn attrs(take: &mut Take<'_>, rich: bool, tar: bool) -> Attrs {
    let choice = take.byte();
    let mut attrs = Attrs::plain(0o644);
    if choice & 1 == 1 {
        attrs.mode = take.short() & 0o7777;
        attrs.owner = (take.word(), take.short().into());
        let nanos = if tar { u32::from(take.short()) * 10_000 } else { 0 };
        attrs.mtime = Time { secs: take.word().into(), nanos };
    } else {
        attrs.owner = (0, 0);
    }
    if choice & 2 == 2 {
        for _ in 0..choice >> 2 & 3 {
            let prefix = if rich { take.one_of(&["user.", "trusted.", "security."]) } else { "trusted." };
            let name = format!("{prefix}{}", (b'a' + take.byte() % 3) as char);
            let (seed, len) = (take.byte(), take.short() % 900);
            attrs.xattrs.insert(name, vec![seed; len.into()]);
        }
    }
    attrs
}

fn piece(take: &mut Take<'_>, block: u64) -> Piece {
    let choice = take.byte();
    let seed = u64::from(choice >> 5);
    let edges = [0, 1, block - 1, block, block + 1, 3 * block, 5 * block - 1];
    let len = match choice >> 2 & 7 {
        7 => u64::from(take.short()),
        edge => edges[edge as usize],
    };
    match choice & 3 {
        0 => Piece::Noise { seed, len },
        1 => Piece::Text { seed, len },
        2 => Piece::Zeros(len),
        _ => Piece::Hole(len),
    }
}
