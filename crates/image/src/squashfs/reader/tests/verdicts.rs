//! Images with one wrong field. The kernel and unsquashfs each accept several of them; a check must not.

use super::access::image_of;
use super::*;
use crate::squashfs::reader::inode::{DirBody, InodeBody};
use crate::squashfs::{Fragments, SquashfsOptions};
use crate::testing::verdict::Verdict::{Check, Fine, List, Noted, Open, Read, Stat};
use crate::testing::verdict::{self, judge};

/// An image with uncompressed metadata, and the positions of its structures.
type Base = verdict::Base<SquashfsReader>;

/// Offsets of superblock fields.
mod sb {
    pub(super) const INODES: usize = 4;
    pub(super) const FRAGMENTS: usize = 16;
    pub(super) const COMPRESSOR: usize = 20;
    pub(super) const BLOCK_LOG: usize = 22;
    pub(super) const FLAGS: usize = 24;
    pub(super) const MINOR: usize = 30;
    pub(super) const ROOT: usize = 32;
    pub(super) const BYTES_USED: usize = 40;
    pub(super) const ID_TABLE: usize = 48;
    pub(super) const XATTR_TABLE: usize = 56;
    pub(super) const INODE_TABLE: usize = 64;
    pub(super) const FRAGMENT_TABLE: usize = 80;
    pub(super) const EXPORT_TABLE: usize = 88;
}

/// Offsets of fields in an inode.
mod inode {
    pub(super) const KIND: usize = 0;
    pub(super) const MODE: usize = 2;
    pub(super) const UID: usize = 4;
    pub(super) const NUMBER: usize = 12;
    pub(super) const FILE_FRAGMENT: usize = 20;
    pub(super) const FILE_OFFSET: usize = 24;
    pub(super) const FILE_WORDS: usize = 32;
    pub(super) const LINK_SIZE: usize = 20;
    pub(super) const DIR_NLINK: usize = 20;
    pub(super) const DIR_SIZE: usize = 24;
    pub(super) const DIR_PARENT: usize = 28;
    pub(super) const EXT_FILE_NLINK: usize = 40;
    pub(super) const EXT_FILE_XATTR: usize = 52;
    pub(super) const EXT_DIR_LEN: usize = 40;
}

impl Base {
    fn new(codec: &str, export: bool, fragments: Fragments) -> Base {
        let file = |pieces| Node::file(pieces);
        let mut named = file(vec![noise(9, 9)]);
        named.attrs.xattrs = BTreeMap::from([("user.n".to_owned(), b"v".to_vec()), ("user.o".to_owned(), vec![])]);
        let names = (0..300).map(|n| (format!("name-{n:0100}").into_bytes(), file(vec![])));
        let entries = ["aa", "ab", "ba"].map(|name| (name.into(), file(vec![noise(7, 7)])));
        let mut spec = Spec::of([
            ("big".into(), file(vec![noise(1, 2 * 4096 + 100)])),
            ("other".into(), file(vec![noise(2, 2 * 4096)])),
            ("aligned".into(), file(vec![noise(3, 4096)])),
            ("small".into(), file(vec![noise(4, 50)])),
            ("empty".into(), file(vec![])),
            ("link".into(), plain(What::Symlink(b"small".to_vec()))),
            ("named".into(), named),
            ("twice".into(), file(vec![noise(5, 5)])),
            ("dir".into(), Node::dir(entries)),
            ("dir2".into(), Node::dir([("sub".into(), Node::dir([]))])),
            ("wide".into(), Node::dir(names)),
        ]);
        spec.links.push((b"twice".to_vec(), b"dir2/again".to_vec()));
        let codec = codec.parse().unwrap();
        let plain_metadata = true;
        let options =
            SquashfsOptions { export, fragments, plain_metadata, block_size: 4096, ..SquashfsOptions::default() }.with(
                |build| {
                    build.codec = codec;
                    build.threads = 0;
                },
            );
        Base::open(image_of(&spec, &options), open)
    }

    /// Returns the position of the inode at `path`; the functions below do so for what it refers to.
    fn inode(&self, path: &str) -> usize {
        let nid = find(&self.reader, path).0;
        (self.reader.superblock.inode_table + (nid >> 16) + 2 + (nid & 0xffff)) as usize
    }

    fn dir(&self, path: &str) -> DirBody {
        match self.reader.inode(find(&self.reader, path)).unwrap().0.body {
            InodeBody::Dir(dir) => dir,
            other => panic!("{other:?}"),
        }
    }

    fn listing(&self, path: &str) -> usize {
        let dir = self.dir(path);
        self.reader.superblock.directory_table as usize + dir.start as usize + 2 + usize::from(dir.offset)
    }

    /// Returns the position of the entry `name` in the listing at `path`.
    fn entry(&self, path: &str, name: &str) -> usize {
        let from = self.listing(path);
        let at = self.image[from..].windows(name.len()).position(|bytes| bytes == name.as_bytes()).unwrap();
        from + at - 8
    }
}

#[test]
fn superblocks() {
    judge(
        &Base::new("none", true, Fragments::Tails),
        &[
            ("nothing", Fine, |_| {}),
            ("bytes_used + 1", Open("xattr set table"), |b| b.add(sb::BYTES_USED, 8, 1)),
            ("bytes_used - 1", Open("xattr set table"), |b| b.add(sb::BYTES_USED, 8, -1)),
            ("cut to bytes_used", Noted("loop device"), |b| b.image.truncate(b.reader.superblock.bytes_used as usize)),
            ("cut to 1 KiB", Fine, |b| {
                b.image.truncate(b.reader.superblock.bytes_used.next_multiple_of(1024) as usize);
            }),
            ("block_log", Open("logarithm"), |b| b.add(sb::BLOCK_LOG, 2, 1)),
            ("minor version", Open("version 4.1"), |b| b.put(sb::MINOR, 2, 1)),
            ("lzma", Check("legacy lzma"), |b| b.put(sb::COMPRESSOR, 2, 2)),
            ("root reference + 1", Open("inode"), |b| b.add(sb::ROOT, 8, 1)),
            ("root is a file", Open("not a directory"), |b| b.put(sb::ROOT, 8, find(&b.reader, "small").0)),
            ("unknown flags", Check("unknown flags 0x4000"), |b| b.add(sb::FLAGS, 2, 0x4000)),
            ("unused flag", Check("unknown flags 0x0004"), |b| b.add(sb::FLAGS, 2, 4)),
            ("flag against xattrs", Check("no xattrs, but it points"), |b| b.add(sb::FLAGS, 2, 0x200)),
            ("flag against export table", Check("disagree on whether"), |b| b.add(sb::FLAGS, 2, -0x80)),
            ("one inode too few", Check("counts only"), |b| b.add(sb::INODES, 4, -1)),
            ("600 inodes too many", Open("export table"), |b| b.add(sb::INODES, 4, 1024)),
            ("no inodes", Open("inodes is 0"), |b| b.put(sb::INODES, 4, 0)),
            ("no xattr table", Open("id table"), |b| b.put(sb::XATTR_TABLE, 8, u64::MAX)),
            ("no xattr sets", Open("has no sets"), |b| {
                b.put(b.reader.superblock.xattr_table.unwrap() as usize + 8, 4, 0);
            }),
            ("inode table past directories", Open("is not after"), |b| {
                b.put(sb::INODE_TABLE, 8, b.reader.superblock.directory_table);
            }),
            ("id table + 8", Open("id table"), |b| b.add(sb::ID_TABLE, 8, 8)),
            ("fragment table + 8", Open("fragment table"), |b| b.add(sb::FRAGMENT_TABLE, 8, 8)),
            ("export table - 8", Open("export table"), |b| b.add(sb::EXPORT_TABLE, 8, -8)),
            ("fewer fragments", Check("of only"), |b| b.put(sb::FRAGMENTS, 4, 0)),
            ("index entry far off", Open("right before"), |b| b.add(b.reader.superblock.id_table as usize, 8, -9000)),
            ("index entry + 1", Open("export table"), |b| b.add(b.reader.superblock.id_table as usize, 8, 1)),
        ],
    );
    judge(
        &Base::new("none", false, Fragments::None),
        &[
            ("inodes too many", Check("announced"), |b| b.add(sb::INODES, 4, 1)),
            ("no fragment table", Fine, |b| b.put(sb::FRAGMENT_TABLE, 8, u64::MAX)),
            ("data that nobody wants", Check("no file refers"), |b| {
                b.put(b.inode("aligned") + inode::FILE_WORDS, 4, 0)
            }),
        ],
    );
    judge(
        &Base::new("lz4", true, Fragments::Tails),
        &[
            ("lz4 without options", Open("without compressor options"), |b| b.add(sb::FLAGS, 2, -0x400)),
            ("lz4 of another format", Open("lz4 format 2"), |b| b.put(98, 4, 2)),
        ],
    );
}

#[test]
fn inodes() {
    judge(
        &Base::new("none", true, Fragments::Tails),
        &[
            ("number 0", Stat("small", "its number is 0"), |b| b.put(b.inode("small") + inode::NUMBER, 4, 0)),
            ("number twice", Check("two inodes have the number"), |b| {
                let number = b.get(b.inode("empty") + inode::NUMBER, 4);
                b.put(b.inode("small") + inode::NUMBER, 4, number);
            }),
            ("number too large", Check("counts only"), |b| b.put(b.inode("small") + inode::NUMBER, 4, 9999)),
            ("no owner", Check("is not a valid owner"), |b| {
                b.put(b.reader.ids_table.area().start as usize + 2, 4, u64::from(u32::MAX))
            }),
            ("owner", Stat("small", "owner index 99"), |b| b.put(b.inode("small") + inode::UID, 2, 99)),
            ("mode with type", Stat("small", "permission bits"), |b| {
                b.add(b.inode("small") + inode::MODE, 2, 0o100_000)
            }),
            ("type 15", Stat("small", "type 15"), |b| b.put(b.inode("small") + inode::KIND, 2, 15)),
            ("long symlink", Stat("link", "no metadata block"), |b| {
                b.put(b.inode("link") + inode::LINK_SIZE, 4, 60_000)
            }),
            ("longer symlink", Stat("link", "target of 70000"), |b| {
                b.put(b.inode("link") + inode::LINK_SIZE, 4, 70_000)
            }),
            ("empty symlink", Stat("link", "target of 0"), |b| b.put(b.inode("link") + inode::LINK_SIZE, 4, 0)),
            ("fragment of whole blocks", Stat("aligned", "whole blocks"), |b| {
                b.put(b.inode("aligned") + inode::FILE_FRAGMENT, 4, 0);
            }),
            ("fragment of nothing", Stat("empty", "whole blocks"), |b| {
                b.put(b.inode("empty") + inode::FILE_FRAGMENT, 4, 0);
            }),
            ("fragment number", Read("small", "fragment 9"), |b| b.put(b.inode("small") + inode::FILE_FRAGMENT, 4, 9)),
            ("fragment offset", Read("small", "but files use"), |b| {
                b.put(b.inode("small") + inode::FILE_OFFSET, 4, 4090)
            }),
            ("block too long", Read("big", "size word"), |b| b.put(b.inode("big") + inode::FILE_WORDS, 4, 0x100_1001)),
            ("bit 25", Read("big", "size word"), |b| b.add(b.inode("big") + inode::FILE_WORDS, 4, 1 << 25)),
            ("short full block", Read("big", "4095 bytes instead"), |b| {
                b.add(b.inode("big") + inode::FILE_WORDS, 4, -1)
            }),
            ("block made a hole", Check("no file refers"), |b| b.put(b.inode("big") + inode::FILE_WORDS + 4, 4, 0)),
            ("overlapping blocks", Check("overlaps"), |b| b.add(b.inode("other") + 16, 4, -8)),
            ("data past the image", Read("other", "past the end"), |b| b.put(b.inode("other") + 16, 4, 0x7000_0000)),
            ("link count", Check("2 names, link count 3"), |b| b.add(b.inode("twice") + inode::EXT_FILE_NLINK, 4, 1)),
            ("xattr set", Check("xattr set 7"), |b| b.put(b.inode("named") + inode::EXT_FILE_XATTR, 4, 7)),
            ("export entry", Check("but its entry says"), |b| {
                let at = b.reader.export.as_ref().unwrap().area().start as usize + 2;
                b.add(at + 8, 8, 1);
            }),
            ("fragment word", Check("fragment block"), |b| {
                b.put(b.reader.fragments.area().start as usize + 2 + 8, 4, 0x0200_0001);
            }),
            ("fragment outside", Check("past the end"), |b| {
                b.put(b.reader.fragments.area().start as usize + 2, 8, 1 << 40);
            }),
        ],
    );
}

#[test]
fn directories() {
    judge(
        &Base::new("none", true, Fragments::Tails),
        &[
            ("entry type 9", Check("it says type 9"), |b| b.put(b.entry("dir", "ab") + 4, 2, 9)),
            ("entry type of a directory", Check("it says type 1"), |b| b.put(b.entry("dir", "ab") + 4, 2, 1)),
            ("entry number", Check("it says inode number"), |b| b.add(b.entry("dir", "ab") + 2, 2, 1)),
            ("entry into an inode", Check("no inode begins"), |b| b.add(b.entry("dir", "ab"), 2, 2)),
            ("257 entries", List("dir", "257 entries"), |b| b.put(b.listing("dir"), 4, 256)),
            ("other first byte", List("dir", "ascending"), |b| b.put(b.entry("dir", "ab") + 8, 1, u64::from(b'c'))),
            ("same first byte", List("dir", "ascending"), |b| b.put(b.entry("dir", "aa") + 9, 1, u64::from(b'z'))),
            ("the same name", List("dir", "ascending"), |b| b.put(b.entry("dir", "ab") + 9, 1, u64::from(b'a'))),
            ("slash", List("dir", "cannot be a file name"), |b| b.put(b.entry("dir", "ba") + 9, 1, u64::from(b'/'))),
            ("NUL", List("dir", "cannot be a file name"), |b| b.put(b.entry("dir", "ba") + 9, 1, 0)),
            ("dot-dot", List("dir", "cannot be a file name"), |b| b.put(b.entry("dir", "aa") + 8, 2, 0x2e2e)),
            ("size without 3", Check("3 too small"), |b| b.add(b.inode("dir") + inode::DIR_SIZE, 2, -3)),
            ("size 0", Check("less than 3"), |b| b.put(b.inode("dir2/sub") + inode::DIR_SIZE, 2, 0)),
            ("size too large", Check("directory"), |b| b.add(b.inode("dir") + inode::DIR_SIZE, 2, 1)),
            ("link count 0", Check("link count"), |b| b.put(b.inode("dir") + inode::DIR_NLINK, 4, 0)),
            ("link count 9", Check("link count 9"), |b| b.put(b.inode("dir") + inode::DIR_NLINK, 4, 9)),
            ("parent", Check("as its parent"), |b| b.add(b.inode("dir") + inode::DIR_PARENT, 4, 1)),
            ("listing elsewhere", Check("directory table"), |b| b.put(b.inode("dir") + 16, 4, 0x7fff_ffff)),
            ("loop", Check("a second time"), |b| {
                let root = b.reader.root().0;
                b.put(b.entry("dir2", "sub"), 2, root & 0xffff);
            }),
            ("lost inode", Check("are in no directory"), |b| {
                let (aa, ab) = (b.entry("dir", "aa"), b.entry("dir", "ab"));
                let offset = b.get(aa, 4);
                b.put(ab, 4, offset);
            }),
            ("index", Check("index does not lead"), |b| b.add(b.inode("wide") + inode::EXT_DIR_LEN, 4, 1)),
            ("index name", Check("index does not lead"), |b| b.add(b.inode("wide") + inode::EXT_DIR_LEN + 12, 1, 1)),
            ("index name length", Check("directory index"), |b| {
                b.put(b.inode("wide") + inode::EXT_DIR_LEN + 8, 4, 400)
            }),
        ],
    );
}

#[test]
fn xattrs() {
    judge(
        &Base::new("none", true, Fragments::Tails),
        &[
            ("prefix 3", Check("type 0x3"), |b| {
                b.put(b.reader.xattrs.as_ref().unwrap().pairs.start as usize + 2, 2, 3)
            }),
            ("prefix 0x200", Check("type 0x200"), |b| {
                b.put(b.reader.xattrs.as_ref().unwrap().pairs.start as usize + 2, 2, 0x200)
            }),
            ("one attribute less", Check("its size is 15, but it has 8"), |b| {
                b.put(b.reader.xattrs.as_ref().unwrap().sets.area().start as usize + 2 + 8, 4, 1);
            }),
            ("size of a set", Check("its size is 17, but it has 15"), |b| {
                b.add(b.reader.xattrs.as_ref().unwrap().sets.area().start as usize + 2 + 12, 4, 2);
            }),
            ("the same name", Check("twice"), |b| {
                // Names are `n` with value `v`, and `o`: type, length, name, length, value each.
                b.put(b.reader.xattrs.as_ref().unwrap().pairs.start as usize + 2 + 10 + 4, 1, u64::from(b'n'));
            }),
            ("no name", Check("name of 0 bytes"), |b| {
                b.put(b.reader.xattrs.as_ref().unwrap().pairs.start as usize + 4, 2, 0);
            }),
            ("value length", Check("more than 65536"), |b| {
                b.put(b.reader.xattrs.as_ref().unwrap().pairs.start as usize + 7, 4, 1 << 20);
            }),
            ("set count", Check("no metadata block can begin"), |b| {
                b.put(b.reader.xattrs.as_ref().unwrap().sets.area().start as usize + 2 + 8, 4, 1 << 20);
            }),
            ("empty set", Check("cannot be empty"), |b| {
                b.put(b.reader.xattrs.as_ref().unwrap().sets.area().start as usize + 2 + 8, 4, 0);
            }),
        ],
    );
}
