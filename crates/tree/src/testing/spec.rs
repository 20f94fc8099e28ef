//! A description of a tree that can be made on disk, in memory, or shrunk by proptest.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Memory, Piece};
use crate::Contents;
use crate::tree::{ConflictPolicy, DeviceNumber, FileData, Ino, InodeAttributes, Kind, ROOT, Time};
use crate::{Result, Tree};

/// Attributes of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attrs {
    /// The 12 permission bits.
    pub mode: u16,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Time of last modification.
    pub mtime: Time,
    /// Extended attributes by full name.
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its attributes.
    pub attrs: Attrs,
    /// Type and content.
    pub what: What,
}

/// Type of a node, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A directory.
    Dir(BTreeMap<Vec<u8>, Node>),
    /// A regular file.
    File(Vec<Piece>),
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// A character device.
    Char(DeviceNumber),
    /// A block device.
    Block(DeviceNumber),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// Description of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The root directory.
    pub root: Node,
    /// Hard links as (existing path, new path); the new path's directory exists, the new path does not.
    pub links: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Attrs {
    /// Attributes of an entry owned by the user who runs the test, without xattrs, at one second past 2001-09-09.
    pub fn plain(mode: u16) -> Attrs {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Attrs { mode, owner, mtime: Time { secs: 1_000_000_001, nanos: 0 }, xattrs: BTreeMap::new() }
    }
}

impl Node {
    /// Makes a directory with plain attributes.
    pub fn dir(entries: impl IntoIterator<Item = (Vec<u8>, Node)>) -> Node {
        Node { attrs: Attrs::plain(0o755), what: What::Dir(entries.into_iter().collect()) }
    }

    /// Makes a file with plain attributes.
    pub fn file(pieces: Vec<Piece>) -> Node {
        Node { attrs: Attrs::plain(0o644), what: What::File(pieces) }
    }
}

impl Spec {
    /// Makes a tree without hard links.
    pub fn of(entries: impl IntoIterator<Item = (Vec<u8>, Node)>) -> Spec {
        Spec { root: Node::dir(entries), links: Vec::new() }
    }

    /// Returns the paths of all nodes, the root (empty) first, each with whether it is a directory.
    pub fn paths(&self) -> Vec<(Vec<u8>, bool)> {
        fn visit(node: &Node, path: &[u8], out: &mut Vec<(Vec<u8>, bool)>) {
            out.push((path.to_vec(), matches!(node.what, What::Dir(_))));
            if let What::Dir(entries) = &node.what {
                for (name, child) in entries {
                    visit(child, &join(path, name), out);
                }
            }
        }
        let mut out = Vec::new();
        visit(&self.root, b"", &mut out);
        out
    }

    /// Returns the tree in memory, including its contents.
    pub fn tree(&self) -> Result<Tree> {
        let mut files = Vec::new();
        collect(&self.root, &mut files);
        let mut builder = Builder { memory: Arc::new(Memory(files)), next: 0, tree: Tree::default() };
        builder.fill(ROOT, &self.root)?;
        let mut tree = builder.tree;
        for (old, new) in &self.links {
            let target = tree.lookup(old).expect("links point to nodes");
            let (dir, name) = tree.parent_of(new, InodeAttributes::IMPLICIT_DIR)?.expect("links have names");
            tree.link(dir, name, target, ConflictPolicy::Refuse)?;
        }
        Ok(tree)
    }
}

/// Joins `dir` and `name` into one path.
pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

fn collect(node: &Node, files: &mut Vec<Vec<Piece>>) {
    match &node.what {
        What::Dir(entries) => entries.values().for_each(|child| collect(child, files)),
        What::File(pieces) => files.push(pieces.clone()),
        _ => {}
    }
}

/// Visits the nodes in the order of [`collect`], so that `next` is the number of the current file.
struct Builder {
    memory: Arc<Memory>,
    next: u64,
    tree: Tree,
}

impl Builder {
    fn fill(&mut self, ino: Ino, node: &Node) -> Result<()> {
        let meta = self.meta(&node.attrs);
        self.tree.set_meta(ino, meta);
        let What::Dir(entries) = &node.what else { return Ok(()) };
        for (name, child) in entries {
            let kind = self.kind(&child.what);
            let ino = self.tree.add(ino, name, InodeAttributes::IMPLICIT_DIR, kind, ConflictPolicy::Refuse)?;
            self.fill(ino, child)?;
        }
        Ok(())
    }

    fn meta(&mut self, attrs: &Attrs) -> InodeAttributes {
        let set = attrs.xattrs.iter().map(|(name, value)| (name.as_bytes().into(), value.as_slice().into())).collect();
        let (uid, gid) = attrs.owner;
        InodeAttributes { mode: attrs.mode, uid, gid, mtime: attrs.mtime, xattrs: self.tree.xattrs.intern(set) }
    }

    fn kind(&mut self, what: &What) -> Kind {
        match what {
            What::Dir(_) => Kind::Dir,
            What::File(pieces) => {
                let key = self.next;
                self.next += 1;
                let size = pieces.iter().map(Piece::len).sum();
                let from: Arc<dyn Contents> = self.memory.clone();
                let data = if size == 0 { FileData::Empty } else { FileData::Source { from, key } };
                Kind::File { size, data }
            }
            What::Symlink(target) => Kind::Symlink(target.as_slice().into()),
            What::Char(device) => Kind::Char(*device),
            What::Block(device) => Kind::Block(*device),
            What::Fifo => Kind::Fifo,
            What::Socket => Kind::Socket,
        }
    }
}

/// Makes one directory of `n` small different files, with names that make it easy to check the order.
pub fn wide(n: u64) -> Spec {
    let file = |at| Node::file(vec![Piece::Noise { seed: at, len: at % 7 }]);
    Spec::of((0..n).map(|at| (format!("entry-{at:06}").into_bytes(), file(at))))
}

/// Returns a node with plain attributes.
pub fn plain(what: What) -> Node {
    Node { attrs: Attrs::plain(0o640), what }
}

/// Makes directories `levels` deep with names of `name_len` bytes, and a file at the bottom.
pub fn deep(levels: usize, name_len: usize) -> Spec {
    let mut node = Node::file(vec![Piece::Text { seed: 0, len: 100 }]);
    for _ in 0..levels {
        node = Node::dir([(vec![b'd'; name_len], node)]);
    }
    Spec::of([(vec![b'd'; name_len], node)])
}
