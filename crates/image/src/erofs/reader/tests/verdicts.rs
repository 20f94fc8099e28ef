//! Images with one wrong field. The kernel and fsck.erofs each accept several of them; a check must not.

use super::hostile::without_checksum;
use super::*;
use crate::sink::{dir, pseudo, tar};
use crate::source::{ExcludeRules, FromImage, Source as _, Spool};
use crate::testing::Source;
use crate::testing::erofs_utils;
use crate::testing::verdict::Verdict::{Check, Fine, List, Noted, Open, Read, Stat, Xattrs};
use crate::testing::verdict::{self, Mutation};

/// An image without compression, and the positions of its structures.
type Base = verdict::Base<ErofsReader>;

/// Offsets of superblock fields.
mod sb {
    pub(super) const MAGIC: usize = 1024;
    pub(super) const COMPAT: usize = 1024 + 0x08;
    pub(super) const BLOCK_BITS: usize = 1024 + 0x0c;
    pub(super) const ROOT: usize = 1024 + 0x0e;
    pub(super) const INODES: usize = 1024 + 0x10;
    pub(super) const EPOCH_NANOS: usize = 1024 + 0x20;
    pub(super) const BLOCKS: usize = 1024 + 0x24;
    pub(super) const LABEL: usize = 1024 + 0x40;
    pub(super) const INCOMPAT: usize = 1024 + 0x50;
    pub(super) const ALGORITHMS: usize = 1024 + 0x54;
    pub(super) const DIR_BLOCK_BITS: usize = 1024 + 0x5a;
    pub(super) const PREFIX_COUNT: usize = 1024 + 0x5b;
    pub(super) const PACKED: usize = 1024 + 0x60;
}

/// Offsets of fields in a compact inode.
mod inode {
    pub(super) const FORMAT: usize = 0;
    pub(super) const XATTR_COUNT: usize = 2;
    pub(super) const MODE: usize = 4;
    pub(super) const NLINK: usize = 6;
    pub(super) const SIZE: usize = 8;
    pub(super) const MTIME: usize = 12;
    pub(super) const START: usize = 16;
    pub(super) const XATTRS: usize = 32;
}

impl Base {
    fn new() -> Base {
        let mut named = Node::file(vec![noise(9, 9)]);
        named.attrs.xattrs = BTreeMap::from([("user.n".to_owned(), b"v".to_vec()), ("user.o".to_owned(), vec![])]);
        let names = (0..90).map(|n| (format!("name-{n:020}").into_bytes(), Node::file(vec![])));
        let entries = ["aa", "ab", "ba"].map(|name| (name.into(), Node::file(vec![noise(7, 7)])));
        let mut spec = Spec::of([
            ("big".into(), Node::file(vec![noise(1, 1200)])),
            ("whole".into(), Node::file(vec![noise(2, 1024)])),
            ("link".into(), plain(What::Symlink(b"small".to_vec()))),
            ("named".into(), named),
            ("twice".into(), Node::file(vec![noise(5, 5)])),
            ("fifo".into(), plain(What::Fifo)),
            ("dir".into(), Node::dir(entries)),
            ("dir2".into(), Node::dir([("sub".into(), Node::dir([]))])),
            ("wide".into(), Node::dir(names)),
        ]);
        spec.links.push((b"twice".to_vec(), b"dir2/again".to_vec()));
        let source = Source::new(&spec);
        let image = source.make("mkfs.erofs --quiet -b512 -T1 $IMAGE $TREE");
        Base::open(without_checksum(&std::fs::read(image).unwrap()), open)
    }

    /// Returns the offset of the inode at `path`.
    fn inode(&self, path: &str) -> usize {
        self.reader.inode_place(find(&self.reader, path)).byte as usize
    }

    /// Returns the offset of entry `n` of the directory at `path`, which is stored after its inode.
    fn entry(&self, path: &str, n: usize) -> usize {
        self.inode(path) + 32 + 12 * n
    }

    /// Returns the offset of byte `at` of the names of `dir`: `...aaabba`.
    fn name(&self, at: usize) -> usize {
        self.entry("dir", 5) + at
    }
}

fn judge(test: &str, mutations: &[Mutation<ErofsReader>]) {
    if erofs_utils(test) {
        verdict::judge(&Base::new(), mutations);
    }
}

#[test]
fn superblocks() {
    judge(
        "superblocks",
        &[
            ("nothing", Fine, |_| {}),
            ("magic", Open("not an EROFS image"), |b| b.add(sb::MAGIC, 4, 1)),
            ("tiny blocks", Open("block size 2^8"), |b| b.put(sb::BLOCK_BITS, 1, 8)),
            ("huge blocks", Open("block size 2^17"), |b| b.put(sb::BLOCK_BITS, 1, 17)),
            ("new feature", Open("features 0x200"), |b| b.add(sb::INCOMPAT, 4, 0x200)),
            ("directory blocks", Open("directory blocks of 2^1"), |b| b.put(sb::DIR_BLOCK_BITS, 1, 1)),
            ("wrong checksum", Open("its checksum is"), |b| {
                b.add(sb::COMPAT, 4, 1);
                b.add(sb::LABEL, 1, 1);
            }),
            ("more inodes", Noted("inodes announced"), |b| b.add(sb::INODES, 8, 1)),
            ("fewer inodes", Check("inodes announced"), |b| b.put(sb::INODES, 8, 3)),
            ("inodes not counted", Noted("count of inodes is 0"), |b| b.put(sb::INODES, 8, 0)),
            ("nanoseconds", Open("a second or more"), |b| b.put(sb::EPOCH_NANOS, 4, 1_000_000_000)),
            ("root is a file", Open("the root is not a directory"), |b| b.put(sb::ROOT, 2, find(&b.reader, "big").0)),
            ("root outside", Open("ends inside it"), |b| b.put(sb::ROOT, 2, 0xffff)),
            ("new algorithm", Open("algorithms 0x10"), |b| {
                b.add(sb::INCOMPAT, 4, 2);
                b.put(sb::ALGORITHMS, 2, 0x10);
            }),
            ("record outside its range", Open("compression record"), |b| {
                b.add(sb::INCOMPAT, 4, 2);
                b.put(sb::ALGORITHMS, 2, 2);
            }),
            ("metabox without a place", Open("no field for its position"), |b| b.add(sb::INCOMPAT, 4, 0x100)),
            ("packed inode is a directory", Open("packed inode is not a regular file"), |b| {
                b.add(sb::INCOMPAT, 4, 0x20);
                b.put(sb::PACKED, 8, find(&b.reader, "dir").0);
            }),
            ("prefixes of nothing", Open("prefix 0 has 0 bytes"), |b| b.put(sb::PREFIX_COUNT, 1, 200)),
            ("compatible feature", Noted("compatible features 0x1000"), |b| b.add(sb::COMPAT, 4, 0x1000)),
            ("no metabox", Check("which the image does not have"), |b| b.add(sb::COMPAT, 4, 8)),
            ("one block more", Check("is truncated: 512 bytes of"), |b| b.add(sb::BLOCKS, 4, 1)),
            ("one block less", Fine, |b| b.add(sb::BLOCKS, 4, -1)),
        ],
    );
}

#[test]
fn inodes() {
    judge(
        "inodes",
        &[
            ("format", Stat("big", "unknown bits"), |b| b.add(b.inode("big") + inode::FORMAT, 2, 0x20)),
            ("layout 5", Stat("big", "layout 5"), |b| b.put(b.inode("big") + inode::FORMAT, 2, 5 << 1)),
            ("no type", Stat("big", "an unknown type"), |b| b.put(b.inode("big") + inode::MODE, 2, 0o644)),
            ("no links", Check("a link count of 0"), |b| b.put(b.inode("big") + inode::NLINK, 2, 0)),
            ("more links", Check("1 names, link count 3"), |b| b.put(b.inode("big") + inode::NLINK, 2, 3)),
            ("fewer links", Check("2 names, link count 1"), |b| b.put(b.inode("twice") + inode::NLINK, 2, 1)),
            ("links of a directory", Check("link count 9 with 1 dir"), |b| b.put(b.inode("dir2") + inode::NLINK, 2, 9)),
            ("a time", Check("its own time"), |b| b.put(b.inode("big") + inode::MTIME, 4, 7)),
            ("data of a pipe", Check("for a device, pipe"), |b| b.put(b.inode("fifo") + inode::SIZE, 4, 7)),
            ("empty link", Stat("link", "target of 0"), |b| b.put(b.inode("link") + inode::SIZE, 4, 0)),
            ("long link", Stat("link", "target of 70000"), |b| b.put(b.inode("link") + inode::SIZE, 4, 70_000)),
            ("NUL in a link", Stat("link", "NUL"), |b| b.put(b.inode("link") + 32, 1, 0)),
            ("tail over a block", Read("big", "cross a block"), |b| b.put(b.inode("big") + inode::SIZE, 4, 1535)),
            ("data outside", Read("whole", "ends inside it"), |b| b.put(b.inode("whole") + inode::START, 4, 0xffff)),
            ("data on the superblock", Check("overlaps"), |b| b.put(b.inode("whole") + inode::START, 4, 1)),
            ("a hole", Fine, |b| {
                b.put(b.inode("whole") + inode::START, 4, 0xffff_ffff);
                b.put(b.inode("whole") + inode::FORMAT, 2, 0);
            }),
            ("a hole of 32 bits where there are 48", Read("whole", "ends inside it"), |b| {
                b.put(b.inode("whole") + inode::START, 4, 0xffff_ffff);
                b.put(b.inode("whole") + inode::FORMAT, 2, 0x10);
                b.put(b.inode("whole") + inode::NLINK, 2, 0);
            }),
            ("chunks of an empty file", Stat("wide/name-00000000000000000000", "chunk format"), |b| {
                b.put(b.inode("wide/name-00000000000000000000") + inode::START, 4, 0x8000);
                b.put(b.inode("wide/name-00000000000000000000") + inode::FORMAT, 2, 4 << 1);
            }),
        ],
    );
}

#[test]
fn directories() {
    judge(
        "directories",
        &[
            ("entry type", Check("says type 9"), |b| b.put(b.entry("dir", 2) + 10, 1, 9)),
            ("entry type of a directory", Check("says type 2"), |b| b.put(b.entry("dir", 2) + 10, 1, 2)),
            ("entry into nothing", Check("inode"), |b| b.put(b.entry("dir", 2), 8, 1 << 40)),
            ("entry of another", Check("2 names"), |b| b.put(b.entry("dir", 2), 8, b.get(b.entry("dir", 3), 8))),
            ("odd first offset", List("dir", "names begin at byte 61"), |b| b.put(b.entry("dir", 0) + 8, 2, 61)),
            ("first offset 0", List("dir", "names begin at byte 0"), |b| b.put(b.entry("dir", 0) + 8, 2, 0)),
            ("large first offset", List("dir", "names begin at byte 120"), |b| b.put(b.entry("dir", 0) + 8, 2, 120)),
            ("offset outside", List("dir", "has its name from"), |b| b.put(b.entry("dir", 3) + 8, 2, 0xfff)),
            ("offset of the one before", List("dir", "has its name"), |b| b.put(b.entry("dir", 3) + 8, 2, 63)),
            ("order", List("dir", "ascending"), |b| b.put(b.name(3), 1, u64::from(b'c'))),
            ("the same name", List("dir", "ascending"), |b| b.put(b.name(6), 1, u64::from(b'a'))),
            ("slash", List("dir", "cannot be a file name"), |b| b.put(b.name(4), 1, u64::from(b'/'))),
            ("NUL", List("dir", "cannot be a file name"), |b| b.put(b.name(4), 1, 0)),
            ("no last name", List("dir", "has its name"), |b| b.put(b.name(7), 1, 0)),
            ("dot", Check("entry `.` leads to inode"), |b| b.add(b.entry("dir", 0), 8, 1)),
            ("dot-dot", Check("entry `..` leads to inode"), |b| b.add(b.entry("dir", 1), 8, 1)),
            ("empty", Check("`.` missing, `..` missing"), |b| b.put(b.inode("dir2/sub") + inode::SIZE, 4, 0)),
            ("loop", Check("a second time"), |b| {
                let (root, sub) = (b.reader.root().0, b.entry("dir2", 3));
                b.put(sub, 8, root);
            }),
            ("one block of several", List("wide", "cross a block"), |b| b.put(b.inode("wide") + inode::SIZE, 4, 512)),
        ],
    );
}

#[test]
fn xattrs() {
    judge(
        "xattrs",
        &[
            ("one word", Xattrs("named", "shared xattrs in 12"), |b| {
                b.put(b.inode("named") + inode::XATTR_COUNT, 2, 1)
            }),
            ("shared", Xattrs("named", "200 shared"), |b| b.put(b.inode("named") + inode::XATTRS + 4, 1, 200)),
            // Each entry: length of the name, prefix, length of the value, name, value.
            ("prefix", Check("xattr prefix 0x9"), |b| b.put(b.inode("named") + inode::XATTRS + 13, 1, 9)),
            ("long prefix", Xattrs("named", "long prefix 0"), |b| {
                b.put(b.inode("named") + inode::XATTRS + 13, 1, 0x80)
            }),
            ("value", Xattrs("named", "in its value"), |b| b.put(b.inode("named") + inode::XATTRS + 14, 2, 0xffff)),
            ("name", Xattrs("named", "in its name"), |b| b.put(b.inode("named") + inode::XATTRS + 12, 1, 255)),
            ("twice", Xattrs("named", "twice"), |b| b.put(b.inode("named") + inode::XATTRS + 16, 1, u64::from(b'o'))),
            ("filter", Check("denies names"), |b| b.put(b.inode("named") + inode::XATTRS, 4, 0xffff_ffff)),
        ],
    );
}

/// packfs 0.2 wrote such indexes: one entry for all blocks of an uncompressed cluster.
#[test]
fn uncompressed_extents_of_several_blocks_are_noted() {
    const BLOCKS: u16 = 3;
    let spec = Spec::of([(b"f".to_vec(), Node::file(vec![noise(1, 4096 * u64::from(BLOCKS))]))]);
    let features = Features::FULL_INDEX | Features::NO_CHECKSUM;
    let mut options = ErofsOptions { features, target_kernel: "6.10".parse().unwrap(), ..ErofsOptions::default() };
    options.build.codec = "zstd:3".parse().unwrap();
    let mut image = image_of(&spec, &options);
    let reader = open(&image).unwrap();
    assert_eq!((findings(&reader, 0), reader.has_long_raw_extents()), (Vec::new(), false));
    // Three entries of 8 bytes: type and offset are 0, and the address is that of the next block.
    let address = |at: usize| u32::from_le_bytes(image[at + 4..at + 8].try_into().unwrap());
    let is_head = |at: usize| image[at..at + 4] == [0; 4] && address(at) > 0;
    let at = (0..image.len() - 24).step_by(8).find(|at| {
        (0..3).all(|n| is_head(at + 8 * n))
            && (1..3).all(|n| address(at + 8 * n) == address(*at) + u32::try_from(n).unwrap())
    });
    let at = at.unwrap();
    let mut put =
        |at: usize, words: [u16; 4]| image[at..at + 8].copy_from_slice(words.map(u16::to_le_bytes).as_flattened());
    // Not a head: the number of blocks or the way back, and the way to the next head.
    put(at + 8, [2, 0, 0x800 | BLOCKS, 2]);
    put(at + 16, [2, 0, 2, 1]);
    // The header allows clusters of several blocks.
    image[at - 12] |= 6;
    let reader = open(&image).unwrap();
    let told = findings(&reader, 0);
    assert!(told.len() == 1 && told[0].starts_with("note: ") && told[0].contains("build the image again"), "{told:?}");
    assert!(reader.has_long_raw_extents());
    assert_eq!(reader.superblock().features().iter().map(|one| one.since()).max(), Some("6.10".parse().unwrap()));
}

/// mkfs.erofs 1.9 writes such images; Linux 6.18 lists the attribute twice, with the value that comes first.
#[test]
fn the_origin_of_a_directory_may_be_there_twice() {
    // The other name becomes the one of the origin. Entries are sorted, so it comes first.
    let other = b"overlay.origim";
    let origin = b"overlay.origin";
    let xattrs = |own: &[u8]| {
        [("trusted.overlay.origim".to_owned(), b"common".to_vec()), ("trusted.overlay.origin".to_owned(), own.to_vec())]
    };
    for (xattr_share, expected) in [(Some(u32::MAX), "common"), (Some(1), "own a")] {
        let dirs = ["a", "b", "c"].map(|name| {
            let mut dir = Node::dir([]);
            dir.attrs.xattrs.extend(xattrs(format!("own {name}").as_bytes()));
            (name.into(), dir)
        });
        let options = ErofsOptions { xattr_share, ..ErofsOptions::default() };
        let mut image = image_of(&Spec::of(dirs), &options);
        while let Some(at) = image.windows(other.len()).position(|bytes| bytes == other) {
            image[at..at + other.len()].copy_from_slice(origin);
        }
        let reader = open(&image).unwrap();
        let found = reader.xattrs(find(&reader, "a")).unwrap();
        assert_eq!(found, [(b"trusted.overlay.origin"[..].into(), expected.as_bytes().into())], "{xattr_share:?}");
        let told = findings(&reader, 0);
        assert!(told.iter().all(|one| one.starts_with("note: ") || one.contains("checksum")), "{told:?}");
        let notes = told.iter().filter(|one| one.contains("`trusted.overlay.origin` more than once")).count();
        assert_eq!(notes, 3, "{told:?}");
    }
}

/// The kernel takes it for a hard link, and shows the attributes of another file.
#[test]
fn an_entry_with_the_inode_of_another_file_is_taken_by_nothing() {
    if !erofs_utils("an_entry_with_the_inode_of_another_file_is_taken_by_nothing") {
        return;
    }
    let mut base = Base::new();
    let entry = base.entry("dir", 2);
    let other = base.get(base.entry("dir", 3), 8);
    base.put(entry, 8, other);
    let reader = open(&base.image).unwrap();
    let progress = Progress::default();
    let out = tempfile::tempdir().unwrap();
    let extracted =
        dir::extract(&reader, &out.path().join("out"), &dir::ExtractOptions::default(), &progress).map(drop);
    let archived = tar::write_tar(&reader, &mut Vec::new(), &tar::TarOptions::default(), &progress).map(drop);
    let described = pseudo::write_pseudo(&reader, &mut Vec::new(), &tar::TarOptions::default(), &progress).map(drop);
    let mut source = FromImage::new(Arc::new(reader), "image", ExcludeRules::default(), true);
    let packed = source.scan(&mut crate::Tree::default(), &mut Spool::new(out.path()).unwrap());
    for (taken, how) in [(extracted, "extract"), (archived, "tar"), (described, "pseudo"), (packed, "build")] {
        let error = taken.expect_err(how).to_string();
        assert!(error.contains("dir/ab: inode") && error.contains("a link count of 1"), "{how}: {error}");
    }
    let options = dir::ExtractOptions { on_error: crate::OnError::Skip, ..dir::ExtractOptions::default() };
    let reader = open(&base.image).unwrap();
    let summary = dir::extract(&reader, &out.path().join("again"), &options, &progress).unwrap();
    assert_eq!((summary.skipped.len(), summary.is_complete()), (1, false));
}
