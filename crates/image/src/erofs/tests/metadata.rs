//! Inodes, directories, xattrs and the superblock, as the kernel and fsck.erofs see them.

use std::process::{Command, Stdio};
use std::sync::LazyLock;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::*;
use crate::testing::{
    Attrs, Mount, Node, Piece, Shape, What, can_mount, deep, differences, erofs_utils, snapshot, snapshot_tree, specs,
    wide,
};
use crate::tree::{DeviceNumber, Time};

/// True if fsck.erofs is installed; reported once.
static FSCK: LazyLock<bool> = LazyLock::new(|| erofs_utils("fsck.erofs as a second oracle"));

/// Mounts the image that `options` make of `spec`, compares it, and runs fsck.erofs.
fn agrees(spec: &Spec, options: &ErofsOptions, what: &str) -> Built {
    let built = built(spec, options);
    let mount = Mount::new(&built.image, "erofs").unwrap_or_else(|e| panic!("{what}: {e}"));
    let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
    assert_eq!(differences(&want, &snapshot(&mount.path()).unwrap()), Vec::<String>::new(), "{what}");
    if *FSCK {
        let fsck = Command::new("fsck.erofs").arg("--extract").arg(&built.image).stdin(Stdio::null()).output();
        let ran = fsck.expect("it is there");
        assert!(ran.status.success(), "{what}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    built
}

fn node(attrs: impl FnOnce(&mut Attrs), what: What) -> Node {
    let mut node = Node { attrs: Attrs::plain(0o644), what };
    attrs(&mut node.attrs);
    node
}

fn named(entries: impl IntoIterator<Item = (impl Into<String>, Node)>) -> Spec {
    Spec::of(entries.into_iter().map(|(name, node)| (name.into().into_bytes(), node)))
}

/// All options that change the layout of metadata.
fn variants() -> Vec<ErofsOptions> {
    let mut variants = Vec::new();
    for block_size in [512, 1024, 2048, 4096] {
        for features in [
            Features::empty(),
            Features::EXTENDED_INODES,
            Features::BITS_48,
            Features::NO_INLINE,
            Features::CHUNKS,
            Features::CHUNKS | Features::BITS_48,
        ] {
            variants.push(ErofsOptions { features, ..options("none", block_size) });
        }
        let features = Features::BITS_48 | Features::METABOX | Features::DOT_OMITTED;
        let mut boxed = ErofsOptions { features, ..options("none", block_size) };
        (boxed.metabox.cluster_size, boxed.metabox.codec) = (2 * block_size, Some("zstd:3".parse().expect("a codec")));
        variants.push(boxed);
    }
    variants
}

#[test]
fn random_trees_mount() {
    if !can_mount("random_trees_mount") {
        return;
    }
    let mut runner = TestRunner::deterministic();
    for options in variants() {
        let shape = Shape { block: options.block_size.into(), odd_times: true, ..Shape::default() };
        for _ in 0..3 {
            let spec = specs(shape.clone()).new_tree(&mut runner).unwrap().current();
            agrees(&spec, &options, &format!("{options:?}"));
        }
    }
}

#[test]
fn compressed_trees_mount() {
    if !can_mount("compressed_trees_mount") {
        return;
    }
    let mut runner = TestRunner::deterministic();
    for (codec, block_size) in
        [("lz4", 4096), ("lz4hc:3", 512), ("zstd:3", 4096), ("deflate:6", 1024), ("lzma:1", 4096)]
    {
        for features in [
            Features::empty(),
            Features::FULL_INDEX,
            Features::ZTAILPACKING,
            Features::FRAGMENTS,
            Features::ALL_FRAGMENTS | Features::NO_INLINE,
            Features::BITS_48,
            Features::BITS_48 | Features::FRAGMENTS | Features::EXTENDED_INODES,
            Features::COMPRESSED_DIRS,
            Features::BITS_48 | Features::METABOX | Features::COMPRESSED_DIRS,
        ] {
            let options = ErofsOptions { features, cluster_size: 16_384, ..options(codec, block_size) };
            let spec = specs(Shape { odd_times: true, ..Shape::default() }).new_tree(&mut runner).unwrap().current();
            agrees(&spec, &options, &format!("{options:?}"));
        }
    }
}

#[test]
fn directories_of_every_awkward_size() {
    if !can_mount("directories_of_every_awkward_size") {
        return;
    }
    // With `.` and `..`, 160 entries of 24 bytes fill a block of 4096 to the last byte less 229.
    for count in [0, 1, 2, 18, 19, 20, 21, 22, 168, 169, 170, 171, 172, 340, 1000] {
        for block_size in [512, 4096] {
            agrees(&wide(count), &options("none", block_size), &format!("{count} entries in blocks of {block_size}"));
        }
    }
    agrees(&wide(70_000), &options("none", 4096), "70000 entries");
    for features in [Features::COMPRESSED_DIRS, Features::BITS_48 | Features::METABOX] {
        let options = ErofsOptions { features, ..options("lz4", 4096) };
        for count in [0, 1, 170, 171, 70_000] {
            let built = agrees(&wide(count), &options, &format!("{count} entries, {features:?}"));
            let findings = crate::testing::findings(&*open(&built.image).unwrap(), 0);
            assert_eq!(findings, Vec::<String>::new(), "{count} entries, {features:?}");
        }
    }
    agrees(&deep(30, 100), &options("none", 512), "deep");
}

#[test]
fn all_inodes_are_compact_or_an_entry_is_named() {
    let with = |change: fn(&mut Attrs)| named([("a", node(|_| {}, What::Fifo)), ("b", node(change, What::Fifo))]);
    let features = Features::COMPACT_INODES;
    let options = ErofsOptions { features, ..options("none", 4096) };
    for (change, why) in [
        ((|attrs| attrs.owner = (70_000, 1)) as fn(&mut Attrs), "b: owner 70000:1, which a compact inode cannot store"),
        (|attrs| attrs.mtime.secs += 1, "its time beside those of the others (one time for all fits)"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let told = write(with(change).tree().unwrap(), &dir.path().join("image"), &options).unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
        // With 48bit, compact inodes have times of their own.
        let wide = ErofsOptions { features: features | Features::BITS_48, ..options.clone() };
        let written = write(with(change).tree().unwrap(), &dir.path().join("wide"), &wide);
        assert_eq!(written.is_ok(), why.contains("time"), "{written:?}");
    }
    if can_mount("all_inodes_are_compact_or_an_entry_is_named") {
        agrees(&with(|attrs| attrs.mode = 0o600), &options, "compact");
    }
}

#[test]
fn attributes_are_shared_as_asked() {
    let attrs = |attrs: &mut Attrs| drop(attrs.xattrs.insert("user.a".into(), vec![7; 3000]));
    let file = || node(attrs, What::File(Vec::new()));
    let spec = named(["a", "b", "c", "d"].map(|name| (name, file())));
    let len = |xattr_share| {
        let options = ErofsOptions { xattr_share, ..options("none", 4096) };
        if can_mount("attributes_are_shared_as_asked") {
            agrees(&spec, &options, &format!("{xattr_share:?}"));
        }
        built(&spec, &options).summary.image_bytes
    };
    // Long ones are shared unless asked otherwise.
    assert_eq!((len(None), len(Some(1))), (len(Some(0)), len(Some(0))));
    assert!(len(Some(4)) > len(None));
}

/// Makes the value of an ACL: version 2, then entries of tag, permissions and id.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&permissions.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

const NOBODY: u32 = u32::MAX;

#[test]
fn xattrs_of_all_kinds() {
    if !can_mount("xattrs_of_all_kinds") {
        return;
    }
    let access = acl(&[(1, 6, NOBODY), (2, 4, 1000), (4, 4, NOBODY), (0x10, 4, NOBODY), (0x20, 4, NOBODY)]);
    let default = acl(&[(1, 7, NOBODY), (4, 5, NOBODY), (8, 7, 70_000), (0x10, 7, NOBODY), (0x20, 0, NOBODY)]);
    let long = |byte: u8, len| vec![byte; len];
    let mut entries = Vec::new();
    // An attribute of one, two and three files: the last is shared.
    for (file, values) in [(0, vec![1, 2, 3]), (1, vec![2, 3]), (2, vec![3])] {
        let attrs = |attrs: &mut Attrs| {
            for n in values {
                attrs.xattrs.insert(format!("user.count{n}"), long(b'v', 20));
            }
            attrs.xattrs.insert("security.selinux".into(), b"system_u:object_r:bin_t:s0\0".to_vec());
            attrs.xattrs.insert(format!("trusted.own{file}"), vec![]);
        };
        entries.push((format!("shared{file}"), node(attrs, What::File(vec![Piece::Text { seed: 1, len: 100 }]))));
    }
    let acls = |attrs: &mut Attrs| {
        attrs.xattrs.insert("system.posix_acl_access".into(), access.clone());
    };
    entries.push(("acl".into(), node(acls, What::File(vec![]))));
    let mut dir = Node::dir([(b"inner".to_vec(), Node::file(vec![]))]);
    dir.attrs.mode = 0o640;
    dir.attrs.xattrs.insert("system.posix_acl_access".into(), access.clone());
    dir.attrs.xattrs.insert("system.posix_acl_default".into(), default);
    entries.push(("acl-dir".into(), dir));
    for len in [2000, 4096, 65_535] {
        let attrs = |attrs: &mut Attrs| {
            for n in 0..3 {
                attrs.xattrs.insert(format!("user.long{n}"), long(n, len));
            }
            attrs.xattrs.insert(format!("user.{}", "n".repeat(250)), vec![]);
        };
        entries.push((format!("long{len}"), node(attrs, What::File(vec![Piece::Noise { seed: 1, len: 5000 }]))));
    }
    // More attributes shared with others than an inode can refer to.
    for file in 0..4 {
        let attrs = |attrs: &mut Attrs| {
            attrs.xattrs.extend((0..300).map(|n| (format!("user.{n}"), format!("value {n}").into_bytes())));
        };
        entries.push((format!("many{file}"), node(attrs, What::File(vec![Piece::Text { seed: 2, len: 200 }]))));
    }
    let spec = named(entries);
    for options in variants() {
        agrees(&spec, &options, &format!("{options:?}"));
    }
    let prefixes = [&b"user.count"[..], b"security.sel", b"user.c", b"trusted.own"].map(Box::from).to_vec();
    let prefixed = ErofsOptions { xattr_prefixes: prefixes, ..options("none", 4096) };
    let built = agrees(&spec, &prefixed, "prefixes");
    assert_eq!(built.summary.erofs().unwrap().kernel, "6.4");
    for features in [Features::FRAGMENTS, Features::COMPRESSED_DIRS, Features::FRAGMENTS | Features::COMPRESSED_DIRS] {
        let old = ErofsOptions { features, target_kernel: "6.16".parse().unwrap(), ..prefixed.clone() };
        let old = old.with(|build| build.codec = "lz4".parse().unwrap());
        let image = built.image.with_extension("old");
        let error = write(spec.tree().unwrap(), &image, &old).unwrap_err().to_string();
        assert!(error.contains("beside fragments or compressed-dirs need Linux 6.17"), "{features:?}: {error}");
        let beside = ErofsOptions { target_kernel: "6.17".parse().unwrap(), ..old };
        let built = agrees(&spec, &beside, &format!("prefixes beside {features:?}"));
        assert_eq!(built.summary.erofs().unwrap().kernel, "6.17");
    }
    let unused = ErofsOptions { xattr_prefixes: vec![b"user.other.".as_slice().into()], ..options("none", 4096) };
    assert_eq!(agrees(&spec, &unused, "prefixes that no name has").summary.erofs().unwrap().kernel, "5.4");
}

#[test]
fn inodes_of_all_kinds() {
    if !can_mount("inodes_of_all_kinds") {
        return;
    }
    let device = |major, minor| DeviceNumber { major, minor };
    let target = |len| What::Symlink(vec![b'/'; len]);
    let mut entries: Vec<(String, Node)> = vec![
        ("char".into(), node(|_| (), What::Char(device(4095, 0xf_ffff)))),
        ("block".into(), node(|_| (), What::Block(device(8, 256)))),
        ("fifo".into(), node(|a| a.mode = 0o7777, What::Fifo)),
        ("socket".into(), node(|a| a.mode = 0, What::Socket)),
        ("wide-ids".into(), node(|a| a.owner = (65_536, u32::MAX - 1), What::Fifo)),
        ("hole".into(), node(|_| (), What::File(vec![Piece::Hole(3_000_001)]))),
        ("linked".into(), node(|_| (), What::File(vec![Piece::Hole(1 << 20), Piece::Noise { seed: 1, len: 10_000 }]))),
    ];
    entries.extend([1, 447, 448, 449, 512, 4000, 4031, 4032, 4033, 4095].map(|len| {
        let attrs = |attrs: &mut Attrs| attrs.mode = 0o777;
        (format!("link{len}"), node(attrs, target(len)))
    }));
    let mut spec = named(entries);
    spec.links = (0..3).map(|n| (b"linked".to_vec(), format!("again{n}").into_bytes())).collect();
    for options in variants() {
        agrees(&spec, &options, &format!("{options:?}"));
    }
}

#[test]
fn holes_of_any_length() {
    if !can_mount("holes_of_any_length") {
        return;
    }
    let lens = [1, 4095, 4096, 4097, (1 << 30) + 1, 5 << 30, (1 << 46) + 12_345];
    let hole = |len: u64| (format!("{len}"), Node::file(vec![Piece::Hole(len)]));
    for features in [Features::empty(), Features::BITS_48] {
        let built = built(&named(lens.map(hole)), &ErofsOptions { features, ..options("none", 4096) });
        assert!(built.summary.image_bytes < 1 << 20, "{:?}", built.summary);
        let mount = Mount::new(&built.image, "erofs").unwrap();
        for len in lens {
            let file = std::fs::File::open(mount.path().join(format!("{len}"))).unwrap();
            assert_eq!(file.metadata().unwrap().len(), len);
            for at in [0, len / 2, len.saturating_sub(5000)] {
                let mut bytes = vec![1; usize::try_from((len - at).min(4096)).unwrap()];
                std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, at).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 0), "{features:?}, {len} at {at}");
            }
        }
    }
}

#[test]
fn more_links_than_a_compact_inode_counts() {
    if !can_mount("more_links_than_a_compact_inode_counts") {
        return;
    }
    let mut spec = named([("file", Node::file(vec![Piece::Text { seed: 1, len: 10 }]))]);
    spec.links = (0..66_000).map(|n| (b"file".to_vec(), format!("{n}").into_bytes())).collect();
    agrees(&spec, &options("none", 4096), "66001 names");
    let spec = named((0..66_000).map(|n| (format!("{n}"), Node::dir([]))));
    let built = agrees(&spec, &options("none", 4096), "66000 directories");
    let mount = Mount::new(&built.image, "erofs").unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&std::fs::metadata(mount.path()).unwrap()), 66_002);
}

#[test]
fn times_cost_as_little_as_they_can() {
    if !can_mount("times_cost_as_little_as_they_can") {
        return;
    }
    let at = |secs, nanos| move |attrs: &mut Attrs| attrs.mtime = Time { secs, nanos };
    let far = (0..20).map(|n| (format!("far{n}"), node(at(n * 400_000_000 - 1_000_000, 5), What::Fifo)));
    let same = (0..200).map(|n| (format!("same{n}"), node(at(1_700_000_000, 123_456_789), What::Fifo)));
    let spec = named(far.chain(same));
    let mut lens = Vec::new();
    for features in [Features::EXTENDED_INODES, Features::empty(), Features::BITS_48] {
        let options = ErofsOptions { features, block_size: 512, ..options("none", 512) };
        let built = agrees(&spec, &options, &format!("{features:?}"));
        lens.push(built.summary.metadata_bytes);
    }
    // Of 221 inodes, all take 64 bytes, or 200 of them 32.
    assert!(lens[0] > lens[1], "{lens:?}");
}

#[test]
fn limits_of_attributes_together_and_of_options_are_named() {
    // Attributes too short, and too rare, to be stored elsewhere.
    let many = |attrs: &mut Attrs| {
        attrs.xattrs.extend((0..300).map(|n: u32| (format!("user.{n}"), n.to_le_bytes().repeat(250))))
    };
    let file = What::File(vec![Piece::Text { seed: 1, len: 100 }]);
    let dir = tempfile::tempdir().unwrap();
    let error =
        write(named([("x", node(many, file))]).tree().unwrap(), &dir.path().join("image"), &options("none", 4096));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("x: attributes, all together ") && error.ends_with(" the limit is 256 KiB"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    let prefixes = |prefix: &[u8]| ErofsOptions { xattr_prefixes: vec![prefix.into()], ..options("none", 4096) };
    let cases = [
        (ErofsOptions { label: "sixteen letters.".into(), ..options("none", 4096) }, "the limit is 15"),
        (prefixes(b"system.posix_acl_access"), "a prefix must begin with user., trusted. or security."),
        (prefixes(b"overlay."), "a prefix must begin with user., trusted. or security."),
    ];
    for (options, want) in cases {
        let dir = tempfile::tempdir().unwrap();
        let error = write(wide(1).tree().unwrap(), &dir.path().join("image"), &options).unwrap_err().to_string();
        assert!(error.contains(want), "{error} should say {want}");
    }
}

#[test]
fn the_superblock_contains_the_requested_values() {
    let uuid = *b"0123456789abcdef";
    let asked = ErofsOptions { uuid: Some(uuid), label: "fifteen letters".into(), ..options("none", 4096) };
    let built_as_asked = built(&wide(3), &asked);
    let bytes = std::fs::read(&built_as_asked.image).unwrap();
    assert_eq!(bytes.len() as u64, built_as_asked.summary.image_bytes);
    assert_eq!((&bytes[1024 + 48..][..16], &bytes[1024 + 64..][..16]), (&uuid[..], &b"fifteen letters\0"[..]));
    assert_eq!(built_as_asked.summary.erofs().unwrap().uuid, "30313233-3435-3637-3839-616263646566");
    let (one, again) = (built(&wide(3), &options("none", 4096)), built(&wide(3), &options("none", 4096)));
    assert_eq!(std::fs::read(&one.image).unwrap(), std::fs::read(&again.image).unwrap());
    assert_ne!(
        one.summary.erofs().unwrap().uuid,
        built(&wide(4), &options("none", 4096)).summary.erofs().unwrap().uuid
    );
    assert_eq!(
        (&one.summary.erofs().unwrap().uuid[14..15], "89ab".contains(&one.summary.erofs().unwrap().uuid[19..20])),
        ("8", true)
    );
}

#[test]
fn an_image_inside_a_file_keeps_the_start_of_the_file() {
    let built = built(&wide(300), &options("none", 512).with(|build| build.offset = 12_800));
    let bytes = std::fs::read(&built.image).unwrap();
    assert_eq!(bytes[..12_800], [0; 12_800]);
    let alone = super::built(&wide(300), &options("none", 512));
    assert_eq!(bytes[12_800..], std::fs::read(alone.image).unwrap());
}
