//! Tests of the reader: images of other writers against their source, wrong images, random access.
#![allow(clippy::cast_possible_truncation, reason = "numbers of tests are small")]

mod access;
mod dump;
mod hostile;
mod verdicts;
mod writers;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::io::FileAt;

use super::{ReadOptions, Reader};
use crate::image::Nid;
use crate::testing::{Attrs, Node, Piece, Spec, What, is_root};
use crate::tree::{Device, components};
use crate::{Image, Result};

/// Opens an image in memory.
fn open(image: &[u8]) -> Result<Reader> {
    Reader::open(Arc::new(image.to_vec()), ReadOptions::default())
}

fn open_file(image: &Path) -> Result<Reader> {
    Reader::open(Arc::new(FileAt::open(image, 0).unwrap()), ReadOptions::default())
}

/// What a check says.
fn findings(reader: &Reader, threads: usize) -> Vec<String> {
    let mut findings = Vec::new();
    reader.check(threads, &Progress::default(), &mut |finding| findings.push(finding)).unwrap();
    findings
}

fn find(reader: &Reader, path: &str) -> Nid {
    components(path.as_bytes()).fold(reader.root(), |dir, name| reader.lookup(dir, name).unwrap().unwrap())
}

/// Runs a shell command line, which has to succeed.
fn sh(line: &str) {
    let output = Command::new("sh").args(["-ec", line]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{line}\n{out}{err}");
}

fn have(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

fn text(seed: u64, len: u64) -> Piece {
    Piece::Text { seed, len }
}

fn noise(seed: u64, len: u64) -> Piece {
    Piece::Noise { seed, len }
}

fn plain(what: What) -> Node {
    Node { attrs: Attrs::plain(0o640), what }
}

/// A tree with everything that the format and its other writers can hold, files being cut around blocks of
/// `block` bytes.
fn everything(block: u64) -> Spec {
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
        privileged(&mut add);
    }
    let mut spec = Spec { root: plain(What::Dir(root)), links: Vec::new() };
    for (old, new) in [("text-8", "empty/text"), ("text-8", "wide-1/text"), ("fifo", "fifo-again"), ("short-link", "z")]
    {
        spec.links.push((old.into(), new.into()));
    }
    spec
}

fn privileged(add: &mut dyn FnMut(&str, Node)) {
    for (n, (major, minor)) in [(1, 3), (8, 255), (4095, 0xf_ffff), (0, 256)].into_iter().enumerate() {
        add(&format!("char-{n}"), plain(What::Char(Device { major, minor })));
        add(&format!("block-{n}"), plain(What::Block(Device { major, minor })));
    }
    let set = |names: &[(&str, usize)]| -> BTreeMap<String, Vec<u8>> {
        names.iter().map(|(name, len)| ((*name).to_owned(), name.bytes().cycle().take(*len).collect())).collect()
    };
    let sets = [
        set(&[("user.a", 0)]),
        set(&[("user.a", 1), ("trusted.b", 300), ("security.c", 77)]),
        set(&[("user.large", 65536)]),
        set(&[("user.large", 65536), ("trusted.large", 9000), ("user.x", 1)]),
        set(&[("trusted.large", 9000)]),
    ];
    for (n, xattrs) in sets.into_iter().enumerate() {
        for (kind, what) in [
            ("file", What::File(vec![text(9, 9)])),
            ("dir", What::Dir(BTreeMap::new())),
            // User xattrs belong to files and directories only.
            ("node", What::Char(Device { major: 5, minor: 1 })),
            ("link", What::Symlink(b"nowhere".to_vec())),
            ("fifo", What::Fifo),
        ] {
            let mut node = plain(what);
            node.attrs.owner = (1000 + n as u32, 70_000);
            node.attrs.mode = 0o4751;
            node.attrs.xattrs = xattrs.clone();
            if !matches!(kind, "file" | "dir") {
                node.attrs.xattrs.retain(|name, _| !name.starts_with("user."));
            }
            add(&format!("xattr-{kind}-{n}"), node);
        }
    }
}
