//! The inodes of an image in their order, with what their names lead to.
//!
//! Directories are visited breadth first, their entries sorted by name. A file with several names is an inode of the
//! directory in which a depth-first walk comes to it first.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use crate::tree::{Ino, Kind, ROOT, Tree};
use crate::{Error, Result};

/// Number of the directories of objects, whose names are two hexadecimal digits.
const STUBS: usize = 256;

/// Names of all directories of objects, in order.
static STUB_NAMES: [[u8; 2]; STUBS] = {
    let digits = b"0123456789abcdef";
    let mut names = [[0; 2]; STUBS];
    let mut at = 0;
    while at < STUBS {
        names[at] = [digits[at / 16], digits[at % 16]];
        at += 1;
    }
    names
};

/// Mode of a whiteout that hides a directory of objects.
pub(super) const STUB_MODE: u16 = 0o644;
/// The attribute of the root that these whiteouts have, too.
pub(super) const STUB_ATTRIBUTE: &[u8] = b"security.selinux";

/// Origin of an inode of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InodeRole {
    /// An inode of the tree.
    Entry(Ino),
    /// A whiteout of the tree, for which a marked file stands: overlayfs would not show it.
    MarkedWhiteout(Ino),
    /// A whiteout that hides a directory of objects, which would otherwise be visible in the root.
    Stub,
}

/// An inode of the image.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImageNode {
    pub(super) role: InodeRole,
    /// Number of names of what is no directory.
    pub(super) links: u32,
    /// True for a directory with a marked whiteout in it.
    pub(super) has_whiteouts: bool,
    /// Place of a directory in [`InodeOrder::dirs`].
    dir: u32,
}

/// A directory of the image.
#[derive(Debug, Clone)]
struct ImageDirectory {
    node: u32,
    parent: u32,
    /// Place of its entries in [`InodeOrder::children`].
    children: Range<usize>,
}

/// A directory entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedNode<'t> {
    pub(super) name: &'t [u8],
    /// Number of the inode.
    pub(super) node: u32,
}

/// All inodes of the image; their places are their numbers.
#[derive(Debug)]
pub(super) struct InodeOrder {
    pub(super) nodes: Vec<ImageNode>,
    dirs: Vec<ImageDirectory>,
    /// Numbers of the inodes of all entries.
    children: Vec<u32>,
}

impl InodeOrder {
    pub(super) fn of(tree: &Tree) -> Result<InodeOrder> {
        let mut linked = linked_files(tree);
        let mut order = Numbering { tree, nodes: Vec::new(), dirs: Vec::new() };
        order.push_dir(ROOT, 0)?;
        let mut children = Vec::new();
        let mut at = 0;
        while at < order.dirs.len() {
            let start = children.len();
            let dir_node = order.dirs[at].node;
            let InodeRole::Entry(dir) = order.nodes[dir_node as usize].role else {
                unreachable!("only entries are directories")
            };
            for (name, found) in names(tree, dir) {
                let Some(ino) = found else {
                    children.push(ChildInode::Node(order.push(InodeRole::Stub, 1)?));
                    continue;
                };
                children.push(match linked.get_mut(&ino) {
                    Some(LinkedFile { node: Some(node), .. }) => ChildInode::Node(*node),
                    Some(file) if file.dir == dir => {
                        let node = order.push(InodeRole::Entry(ino), file.links)?;
                        file.node = Some(node);
                        ChildInode::Node(node)
                    }
                    Some(_) => ChildInode::Later(ino),
                    None => ChildInode::Node(order.push_unlinked(ino, name, dir_node)?),
                });
            }
            order.dirs[at].children = start..children.len();
            at += 1;
        }
        let node_of = |child| match child {
            ChildInode::Node(node) => node,
            ChildInode::Later(ino) => linked[&ino].node.expect("its directory was visited"),
        };
        let Numbering { nodes, dirs, .. } = order;
        Ok(InodeOrder { nodes, dirs, children: children.into_iter().map(node_of).collect() })
    }

    /// Returns the entries of a directory in their stored order; `tree` is that of the image.
    pub(super) fn entries<'t>(&'t self, tree: &'t Tree, node: u32) -> impl Iterator<Item = NamedNode<'t>> {
        let ImageNode { role, dir, .. } = self.nodes[node as usize];
        let InodeRole::Entry(ino) = role else { unreachable!("only entries are directories") };
        let ImageDirectory { node, parent, children } = &self.dirs[dir as usize];
        let children = self.children[children.clone()].iter();
        let mut named =
            names(tree, ino).zip(children).map(|((name, _), node)| NamedNode { name, node: *node }).peekable();
        let dots = [NamedNode { name: b".", node: *node }, NamedNode { name: b"..", node: *parent }];
        let mut dots = dots.into_iter().peekable();
        std::iter::from_fn(move || match (dots.peek(), named.peek()) {
            (Some(dot), Some(entry)) if entry.name < dot.name => named.next(),
            (Some(_), _) => dots.next(),
            (None, _) => named.next(),
        })
    }
}

/// Inode of a name, while inodes are numbered.
enum ChildInode {
    Node(u32),
    /// A file that is an inode of another directory.
    Later(Ino),
}

/// A file with several names.
struct LinkedFile {
    /// The directory whose inode it is.
    dir: Ino,
    links: u32,
    node: Option<u32>,
}

fn linked_files(tree: &Tree) -> HashMap<Ino, LinkedFile> {
    let mut linked = HashMap::new();
    tree.each_name(|dir, _, ino, _| {
        let inode = tree.inode(ino);
        // A whiteout has no identity: each of its names is an inode.
        if inode.links > 1 && !inode.kind.is_whiteout() {
            match linked.entry(ino) {
                Entry::Occupied(mut known) => {
                    let known: &mut LinkedFile = known.get_mut();
                    known.links += 1;
                }
                Entry::Vacant(new) => {
                    new.insert(LinkedFile { dir, links: 1, node: None });
                }
            }
        }
        true
    });
    linked
}

/// Returns the names in a directory, sorted. Those without an inode hide the directories of objects.
fn names(tree: &Tree, dir: Ino) -> impl Iterator<Item = (&[u8], Option<Ino>)> {
    let stubs: &'static [[u8; 2]] = if dir == ROOT { &STUB_NAMES } else { &[] };
    let mut stubs = stubs.iter().map(<[u8; 2]>::as_slice).peekable();
    let mut entries = tree.entries(dir).peekable();
    std::iter::from_fn(move || {
        let Some((name, ino)) = entries.peek().copied() else { return stubs.next().map(|stub| (stub, None)) };
        if let Some(stub) = stubs.next_if(|stub| *stub < name) {
            return Some((stub, None));
        }
        stubs.next_if_eq(&name);
        entries.next();
        Some((name, Some(ino)))
    })
}

struct Numbering<'t> {
    tree: &'t Tree,
    nodes: Vec<ImageNode>,
    dirs: Vec<ImageDirectory>,
}

impl Numbering<'_> {
    fn push(&mut self, role: InodeRole, links: u32) -> Result<u32> {
        let max = u32::MAX;
        let number = u32::try_from(self.nodes.len()).map_err(|_| Error::TooMany { what: "inodes", max: max.into() })?;
        self.nodes.push(ImageNode { role, links, has_whiteouts: false, dir: 0 });
        Ok(number)
    }

    fn push_dir(&mut self, ino: Ino, parent: u32) -> Result<u32> {
        let node = self.push(InodeRole::Entry(ino), 1)?;
        self.nodes[node as usize].dir = u32::try_from(self.dirs.len()).expect("fewer than inodes");
        self.dirs.push(ImageDirectory { node, parent, children: 0..0 });
        Ok(node)
    }

    /// Adds an inode with this one name, in the directory `dir`.
    fn push_unlinked(&mut self, ino: Ino, name: &[u8], dir: u32) -> Result<u32> {
        let inode = self.tree.inode(ino);
        match inode.kind {
            Kind::Dir => self.push_dir(ino, dir),
            _ if inode.kind.is_whiteout() && !(dir == 0 && self.is_like_stub(ino, name)) => {
                self.nodes[dir as usize].has_whiteouts = true;
                self.push(InodeRole::MarkedWhiteout(ino), 1)
            }
            _ => self.push(InodeRole::Entry(ino), 1),
        }
    }

    /// Returns true if a whiteout in the root is exactly like those that hide directories of objects. It then is one.
    fn is_like_stub(&self, ino: Ino, name: &[u8]) -> bool {
        let inode = self.tree.inode(ino);
        let root = self.tree.inode(ROOT);
        let inherited = self.tree.xattrs.get(root.xattrs).iter().filter(|(name, _)| **name == *STUB_ATTRIBUTE);
        STUB_NAMES.iter().any(|stub| stub == name)
            && inode.mode == STUB_MODE
            && (inode.uid, inode.gid, inode.mtime) == (root.uid, root.gid, root.mtime)
            && self.tree.xattrs.get(inode.xattrs).iter().eq(inherited)
    }
}
