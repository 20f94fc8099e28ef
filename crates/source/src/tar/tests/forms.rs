//! Hand-made members: every form of a header, and members that replace each other.

use super::*;
use crate::Source;
use crate::tar::format::flag;
use crate::testing::Kept;
use crate::tree::{ConflictPolicy, DeviceNumber, InodeAttributes, ROOT, Time};

#[test]
fn names_of_every_kind_lead_to_the_same_path() {
    let long = "d/".repeat(60) + "f";
    let ustar = |header: &mut TarHeader| header.prefix[..3].copy_from_slice(b"a/b");
    let gnu = |header: &mut TarHeader| {
        (header.magic, header.version) = (*b"ustar ", *b" \0");
        header.prefix[..3].copy_from_slice(b"a/b");
    };
    let star = |header: &mut TarHeader| {
        header.prefix[..3].copy_from_slice(b"a/b");
        header.prefix[131..].fill(b'7');
        header.padding[8..].copy_from_slice(b"tar\0");
    };
    let cases: [(&str, Vec<Vec<u8>>, &str); 10] = [
        ("plain", vec![member("x", b'0', b"1")], "x"),
        ("dots and slashes", vec![member("/.//a/./x", b'0', b"1")], "a/x"),
        ("ustar prefix", vec![header("x", b'0', 0, ustar)], "a/b/x"),
        ("no prefix in GNU archives", vec![header("x", b'0', 0, gnu)], "x"),
        ("star's short prefix", vec![header("x", b'0', 0, star)], "a/b/x"),
        (
            "GNU long name",
            vec![member("@LongLink", b'L', format!("{long}\0").as_bytes()), member("d", b'0', b"")],
            &long,
        ),
        ("pax path", vec![pax(b'x', &[("path", long.as_bytes())]), member("d", b'0', b"")], &long),
        ("Solaris pax path", vec![pax(b'X', &[("path", long.as_bytes())]), member("d", b'0', b"")], &long),
        (
            "two pax headers",
            vec![pax(b'x', &[("path", b"1")]), pax(b'x', &[("path", b"2")]), member("d", b'0', b"")],
            "2",
        ),
        ("pax before GNU", vec![pax(b'x', &[("path", b"p")]), member("@", b'L', b"l\0"), member("d", b'0', b"")], "p"),
    ];
    for (what, members, path) in cases {
        let tree = read(&archive(&members)).unwrap();
        let ino = tree.lookup(path.as_bytes()).unwrap_or_else(|| panic!("{what}"));
        assert!(matches!(tree.inode(ino).kind, Kind::File { .. }), "{what}");
    }
}

#[test]
fn every_member_type_is_read() {
    let link =
        |to: &'static str| move |header: &mut TarHeader| header.linkname[..to.len()].copy_from_slice(to.as_bytes());
    let device = |header: &mut TarHeader| {
        header.devmajor.copy_from_slice(b"0000010\0");
        header.devminor.copy_from_slice(b"0000377\0");
    };
    let tree = read(&archive(&[
        member("volume", b'V', b""),
        member("file", b'0', b"data"),
        member("v7", 0, b"old"),
        member("v7dir/", 0, b""),
        member("contiguous", b'7', b"data"),
        header("hard", b'1', 4, link("./file")),
        header("soft", b'2', 0, link("../anywhere")),
        header("char", b'3', 0, device),
        header("block", b'4', 0, device),
        header("dir", b'5', 99, |_| ()),
        header("fifo", b'6', 0, |_| ()),
        member("dump", b'D', b"Yfile\0\0"),
        [pax(b'x', &[("SCHILY.devmajor", b"300"), ("SCHILY.devminor", b"70000")]), header("big", b'3', 0, device)]
            .concat(),
        [pax(b'x', &[("linkpath", &[b'l'; 300])]), header("long", b'2', 0, link("cut"))].concat(),
        [member("@", flag::GNU_LONG_LINK, &[b'k'; 300]), header("gnulong", b'2', 0, link("cut"))].concat(),
    ]))
    .unwrap();
    let kind = |path: &str| tree.inode(tree.lookup(path.as_bytes()).unwrap_or_else(|| panic!("{path}"))).kind;
    assert_eq!(content(&tree, "file"), b"data");
    assert_eq!((content(&tree, "v7"), content(&tree, "contiguous")), (b"old".to_vec(), b"data".to_vec()));
    assert_eq!(tree.lookup(b"hard"), tree.lookup(b"file"));
    assert_eq!(tree.inode(tree.lookup(b"file").unwrap()).links, 2);
    assert!(matches!(kind("v7dir"), Kind::Dir) && matches!(kind("dir"), Kind::Dir));
    assert!(matches!(kind("dump"), Kind::Dir) && matches!(kind("fifo"), Kind::Fifo));
    assert!(matches!(kind("soft"), Kind::Symlink(to) if *to == *b"../anywhere"));
    assert!(matches!(kind("long"), Kind::Symlink(to) if *to == [b'l'; 300]));
    assert!(matches!(kind("gnulong"), Kind::Symlink(to) if *to == [b'k'; 300]));
    assert!(matches!(kind("char"), Kind::Char(DeviceNumber { major: 8, minor: 255 })));
    assert!(matches!(kind("block"), Kind::Block(DeviceNumber { major: 8, minor: 255 })));
    assert!(matches!(kind("big"), Kind::Char(DeviceNumber { major: 300, minor: 70000 })));
    assert!(tree.lookup(b"volume").is_none());
}

#[test]
fn sums_of_signed_bytes_are_accepted() {
    let mut bytes = member("caf\u{e9}", b'0', b"");
    let mut header: TarHeader = zerocopy::FromBytes::read_from_bytes(&bytes[..BLOCK]).unwrap();
    let unsigned = checksum(&header);
    let signed = signed_checksum(&header);
    assert_eq!(unsigned, signed + 2 * 256);
    header.checksum.copy_from_slice(format!("{signed:06o}\0 ").as_bytes());
    bytes[..BLOCK].copy_from_slice(header.as_bytes());
    assert!(read(&archive(&[bytes])).unwrap().lookup("caf\u{e9}".as_bytes()).is_some());
}

#[test]
fn attributes_from_headers_and_records() {
    let wide = |header: &mut TarHeader| {
        header.mode.copy_from_slice(b"0107755\0");
        header.uid.copy_from_slice(b"\x80\0\0\0\xff\xff\xff\xfe");
        header.gid.copy_from_slice(b"0000012\0");
        header.mtime.copy_from_slice(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe");
    };
    let records: [(&str, &[u8]); 5] = [
        ("uid", b"4000000000"),
        ("gid", b"7"),
        ("mtime", b"-1.25"),
        ("LIBARCHIVE.xattr.user.a", b"MQ=="),
        ("SCHILY.xattr.user.a", b"2"),
    ];
    let root = [pax(b'x', &[("SCHILY.xattr.user.root", b"\0\xff")]), header("./", b'5', 0, wide)].concat();
    let tree = read(&archive(&[
        header("header", b'0', 0, wide),
        [pax(b'x', &records), header("records", b'0', 0, wide)].concat(),
        root,
    ]))
    .unwrap();
    let meta = |path: &[u8]| tree.meta(tree.lookup(path).unwrap());
    let seen = meta(b"header");
    assert_eq!((seen.mode, seen.uid, seen.gid), (0o7755, 0xffff_fffe, 10));
    assert_eq!(seen.mtime, Time { secs: -2, nanos: 0 });
    let seen = meta(b"records");
    assert_eq!((seen.uid, seen.gid, seen.mtime), (4_000_000_000, 7, Time { secs: -2, nanos: 750_000_000 }));
    assert_eq!(*tree.xattrs.get(seen.xattrs), [(b"user.a"[..].into(), b"1"[..].into())]);
    let seen = tree.meta(ROOT);
    assert_eq!(*tree.xattrs.get(seen.xattrs), [(b"user.root"[..].into(), b"\0\xff"[..].into())]);
    assert_eq!((seen.mode, seen.gid), (0o7755, 10));
}

#[test]
fn global_records_hold_for_all_that_follow_in_their_archive() {
    let first = archive(&[
        member("before", b'0', b""),
        pax(b'g', &[("uid", b"5"), ("SCHILY.xattr.user.g", b"all")]),
        [pax(b'x', &[("uid", b"6")]), member("own", b'0', b"")].concat(),
        member("default", b'0', b""),
        pax(b'g', &[("uid", b"")]),
        member("cleared", b'0', b""),
    ]);
    let tree = read(&[first, archive(&[member("next archive", b'0', b"")])].concat()).unwrap();
    let seen = |path: &[u8]| {
        let meta = tree.meta(tree.lookup(path).unwrap());
        (meta.uid, tree.xattrs.get(meta.xattrs).len())
    };
    assert_eq!([seen(b"before"), seen(b"own"), seen(b"default")], [(0, 0), (6, 1), (5, 1)]);
    assert_eq!([seen(b"cleared"), seen(b"next archive")], [(0, 1), (0, 0)]);
}

#[test]
fn later_members_win_and_directories_merge() {
    let first = archive(&[
        member("a", b'0', b"old"),
        member("d", b'5', b""),
        member("d/kept", b'0', b"kept"),
        member("gone", b'5', b""),
        member("gone/file", b'0', b"x"),
        header("hard", b'1', 0, |header| header.linkname[..1].copy_from_slice(b"a")),
    ]);
    let second = archive(&[
        member("a", b'0', b"newer"),
        header("d", b'5', 0, |header| header.uid.copy_from_slice(b"0000007\0")),
        member("gone", b'0', b"now a file"),
        member("implicit/dir/f", b'0', b""),
    ]);
    // With as many zero blocks as in a full record, and with only one.
    for between in [0, 17 * BLOCK] {
        let tree = read(&[&first[..], &vec![0; between], &second].concat()).unwrap();
        assert_eq!((content(&tree, "a"), content(&tree, "hard")), (b"newer".to_vec(), b"old".to_vec()));
        assert_eq!((content(&tree, "d/kept"), content(&tree, "gone")), (b"kept".to_vec(), b"now a file".to_vec()));
        assert_eq!(tree.meta(tree.lookup(b"d").unwrap()).uid, 7);
        assert_eq!(tree.meta(tree.lookup(b"implicit").unwrap()).mode, 0o755);
    }
    let tree = read(&[&first[..first.len() - BLOCK], &second].concat()).unwrap();
    assert_eq!(content(&tree, "a"), b"newer");
}

#[test]
fn excluded_members_are_left_out() {
    let bytes = archive(&[
        member("keep/a", b'0', b"1"),
        member("drop", b'5', b""),
        member("drop/sub/b", b'0', b"2"),
        member("keep/c.o", b'0', b"3"),
        [pax(b'x', &[("SCHILY.xattr.user.a", b"1")]), member("d", b'0', b"4")].concat(),
    ]);
    let options =
        || Options { exclude: ExcludeRules::new(["/drop/", "*.o"]).unwrap(), xattrs: false, ..Options::default() };
    let placed = scan(from_bytes(Arc::new(bytes.clone()), Path::new("a"), options()).unwrap()).unwrap();
    let streamed = scan(from_stream(Box::new(io::Cursor::new(bytes)), Path::new("a"), options()).unwrap()).unwrap();
    for tree in [placed, streamed] {
        assert_eq!((content(&tree, "keep/a"), content(&tree, "d")), (b"1".to_vec(), b"4".to_vec()));
        assert!(tree.lookup(b"drop").is_none() && tree.lookup(b"keep/c.o").is_none());
        assert!(tree.xattrs.is_empty());
    }
}

/// Makes a member that is a hard link.
fn hard_link(name: &str, target: &str) -> Vec<u8> {
    header(name, b'1', 0, |header| header.linkname[..target.len()].copy_from_slice(target.as_bytes()))
}

#[test]
fn hard_links_to_excluded_members_are_the_files() {
    let drop_link = |name: &str| hard_link(&format!("drop/{name}"), "./drop/a");
    let bytes = archive(&[
        member("drop/a", b'0', b"first"),
        drop_link("b"),
        hard_link("one", "drop/b"),
        drop_link("c"),
        hard_link("two", "drop/a"),
        hard_link("three", "drop/c"),
        // A name that is taken by another file takes nothing from the links that follow.
        member("one", b'0', b"other"),
        member("two", b'0', b"other"),
        member("three", b'0', b"other"),
        hard_link("again", "drop/c"),
        hard_link("same", "drop/a"),
        // Another file of the same name, which no longer belongs to the links.
        member("drop/a", b'0', b"second"),
        hard_link("four", "drop/a"),
        member("drop/empty", b'0', b""),
        hard_link("five", "drop/empty"),
        hard_link("gone", "drop/gone"),
    ]);
    let options = || Options { exclude: ExcludeRules::new(["/drop/"]).unwrap(), ..Options::default() };
    let scan_both = |source: Box<dyn Source>| {
        let mut source = source;
        let mut tree = Tree::default();
        // What an earlier source has under the same name is another file.
        let (dir, name) = tree.parent_of(b"drop/a", InodeAttributes::IMPLICIT_DIR).unwrap().unwrap();
        tree.add(dir, name, InodeAttributes::IMPLICIT_DIR, Kind::Fifo, ConflictPolicy::Refuse).unwrap();
        source.scan(&mut tree, &mut Kept::default()).unwrap();
        let left_out: Vec<String> = source.left_out().iter().map(ToString::to_string).collect();
        (tree, left_out)
    };
    let (tree, left_out) = scan_both(from_bytes(Arc::new(bytes.clone()), Path::new("a"), options()).unwrap());
    for (path, expected) in [("one", "other"), ("again", "first"), ("same", "first"), ("four", "second"), ("five", "")]
    {
        assert_eq!(content(&tree, path), expected.as_bytes(), "{path}");
    }
    assert_eq!(tree.lookup(b"again"), tree.lookup(b"same"));
    assert!(
        left_out.len() == 1 && left_out[0] == "gone: a hard link to `drop/gone`, which no earlier member is",
        "{left_out:?}"
    );

    // Data that a stream has brought in vain is gone, which is no secret.
    let stream = Box::new(io::Cursor::new(bytes));
    let (tree, left_out) = scan_both(from_stream(stream, Path::new("a"), options()).unwrap());
    let names: Vec<&str> = left_out.iter().filter_map(|why| why.split(':').next()).collect();
    assert_eq!(names, ["one", "two", "three", "again", "same", "four", "gone"]);
    assert!(tree.lookup(b"five").is_some() && tree.lookup(b"again").is_none());
}

/// One file of 10,000 bytes with data at 1000..1512 and 9000..10000, in every spelling.
#[test]
fn sparse_files_in_every_spelling() {
    let stored: Vec<u8> = (0..1512u32).map(|n| u8::try_from(n % 251).unwrap() + 1).collect();
    let mut want = vec![0; 10_000];
    want[1000..1512].copy_from_slice(&stored[..512]);
    want[9000..].copy_from_slice(&stored[512..]);
    let number = |n: u32| format!("{n:011o}\0").into_bytes();
    let regions: Vec<u8> = [1000, 512, 9000, 1000, 10_000, 0].into_iter().flat_map(number).collect();
    let old_gnu = |in_header: usize, extended: bool| {
        let mut bytes = header("f", b'S', 1512, |header| {
            (header.magic, header.version) = (*b"ustar ", *b" \0");
            let mut block = header.as_bytes().to_vec();
            block[386..386 + in_header * 24].copy_from_slice(&regions[..in_header * 24]);
            block[482] = u8::from(extended);
            block[483..495].copy_from_slice(b"00000023420\0");
            *header = zerocopy::FromBytes::read_from_bytes(&block).unwrap();
        });
        if extended {
            let mut block = vec![0; BLOCK];
            block[..72 - in_header * 24].copy_from_slice(&regions[in_header * 24..]);
            bytes.extend(block);
        }
        [bytes, padded(&stored)].concat()
    };
    // Regions beyond the four of the header.
    let many: Vec<u8> = (0..30u32).flat_map(|n| [number(n * 1024), number(512)].concat()).collect();
    let mut extended = header("f", b'S', 30 * 512, |header| {
        (header.magic, header.version) = (*b"ustar ", *b" \0");
        let mut block = header.as_bytes().to_vec();
        block[386..482].copy_from_slice(&many[..96]);
        block[482] = 1;
        block[483..495].copy_from_slice(b"00000074000\0");
        *header = zerocopy::FromBytes::read_from_bytes(&block).unwrap();
    });
    let mut blocks = vec![0; 2 * BLOCK];
    blocks[..504].copy_from_slice(&many[96..600]);
    blocks[504] = 1;
    blocks[512..512 + 120].copy_from_slice(&many[600..]);
    extended.extend(blocks);
    extended.extend(vec![7; 30 * 512]);
    let mut want_many = vec![0; 30 * 1024];
    (0..30).for_each(|n| want_many[n * 1024..n * 1024 + 512].fill(7));

    let body = || member("other", b'0', &stored);
    let pairs: Vec<(&str, &[u8])> = vec![
        ("GNU.sparse.size", b"10000"),
        ("GNU.sparse.numblocks", b"2"),
        ("GNU.sparse.offset", b"1000"),
        ("GNU.sparse.numbytes", b"512"),
        ("GNU.sparse.offset", b"9000"),
        ("GNU.sparse.numbytes", b"1000"),
        ("path", b"f"),
    ];
    let list: Vec<(&str, &[u8])> = vec![
        ("GNU.sparse.size", b"10000"),
        ("GNU.sparse.numblocks", b"2"),
        ("GNU.sparse.map", b"1000,512,9000,1000"),
        ("GNU.sparse.name", b"f"),
    ];
    let in_front: Vec<(&str, &[u8])> = vec![
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"f"),
        ("GNU.sparse.realsize", b"10000"),
        ("path", b"GNUSparseFile.0/f"),
    ];
    let map = [padded(b"3\n1000\n512\n9000\n1000\n10000\n0\n"), stored.clone()].concat();
    let cases: [(&str, Vec<u8>, &[u8]); 7] = [
        ("old GNU", old_gnu(3, false), &want),
        ("old GNU without the empty region", old_gnu(2, false), &want),
        ("old GNU, all regions after the header but one", [old_gnu(2, false)].concat(), &want),
        ("old GNU with blocks of regions", extended, &want_many),
        ("pax 0.0", [pax(b'x', &pairs), body()].concat(), &want),
        ("pax 0.1", [pax(b'x', &list), body()].concat(), &want),
        ("pax 1.0", [pax(b'x', &in_front), member("other", b'0', &map)].concat(), &want),
    ];
    for (what, bytes, want) in cases {
        let tree = read(&archive(&[bytes, member("after", b'0', b"next")])).unwrap();
        assert!(content(&tree, "f") == want, "{what}");
        assert_eq!(content(&tree, "after"), b"next", "{what}");
        let (_, ranges) = &data_ranges(&tree)[0];
        assert_ne!(ranges[..], [(0, want.len() as u64)], "{what}: the holes are known");
        // Any part of it, from any offset.
        let Kind::File { data: FileData::Source { from, key }, .. } = &tree.inode(tree.lookup(b"f").unwrap()).kind
        else {
            panic!("{what}")
        };
        let mut file = from.open(*key).unwrap();
        for (at, len) in [(0, 1), (999, 2), (1511, 2), (1500, 8000), (9999, 1), (5000, 10)] {
            let mut part = vec![1; len];
            file.read_exact_at(&mut part, at as u64).unwrap();
            assert!(part == want[at..at + len], "{what} at {at}");
        }
        assert!(file.read_exact_at(&mut [0; 2], want.len() as u64 - 1).is_err());
        assert_eq!(from.path(*key), Path::new("a.tar:f"));
    }
}

/// Directories of the oldest archives: a name with a trailing slash, and a meaningless size.
#[test]
fn a_directory_of_v7_has_no_data_whatever_its_size() {
    let v7 =
        |name: &str, size: u64| header(name, 0, size, |header| (header.magic, header.version) = Default::default());
    for size in [0, 1, 512, 4096] {
        let file = [v7("f", 3), padded(b"abc")].concat();
        let tree = read(&archive(&[v7("d/", size), file.clone(), v7("e/", size), v7("e/g", 0)])).unwrap();
        assert_eq!((tree.len(), content(&tree, "f")), (5, b"abc".to_vec()), "{size}");
        let Some(Kind::Dir) = tree.lookup(b"d").map(|ino| tree.inode(ino).kind) else { panic!("d/ is a directory") };
    }
}

/// The attributes of `path`, with their names as text.
fn xattrs(tree: &Tree, path: &str) -> Vec<(String, Vec<u8>)> {
    let id = tree.meta(tree.lookup(path.as_bytes()).unwrap()).xattrs;
    tree.xattrs.get(id).iter().map(|(name, value)| (String::from_utf8_lossy(name).into(), value.to_vec())).collect()
}

#[test]
fn security_contexts_and_access_control_lists_are_attributes() {
    let acl = b"user::rw-,user:7:r--,group::r--,mask::r--,other::r--";
    let plain = b"user::rw-,group::r--,other::r--";
    let selinux: (&str, &[u8]) = ("RHT.security.selinux", b"system_u:object_r:etc_t:s0");
    let own: (&str, &[u8]) = ("SCHILY.xattr.security.selinux", b"own\0");
    let archive = archive(&[
        [pax(b'x', &[selinux, ("SCHILY.acl.access", acl)]), member("f", b'0', b"1")].concat(),
        [pax(b'x', &[own, selinux, ("SCHILY.acl.access", plain)]), member("g", b'0', b"2")].concat(),
        [pax(b'x', &[("SCHILY.acl.access", plain), ("SCHILY.acl.default", plain)]), member("d", b'5', b"")].concat(),
        [pax(b'x', &[("SCHILY.acl.ace", b"owner@:rw::allow")]), member("n", b'0', b"")].concat(),
        [
            pax(b'x', &[("SCHILY.acl.access", b"user:nobody here:r,user::r,group::r,other::r,mask::r")]),
            member("u", b'0', b""),
        ]
        .concat(),
    ]);
    let tree = read(&archive).unwrap();
    let names = |path| xattrs(&tree, path).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names("f"), ["security.selinux", "system.posix_acl_access"]);
    assert_eq!(xattrs(&tree, "f")[0].1, b"system_u:object_r:etc_t:s0\0");
    assert_eq!(xattrs(&tree, "g"), [("security.selinux".to_owned(), b"own\0".to_vec())]);
    assert_eq!(names("d"), ["system.posix_acl_default"]);
    assert!(names("n").is_empty() && names("u").is_empty());
    let lost: Vec<_> = tree.warnings.kinds().flat_map(|(_, all)| all.first.iter().map(crate::Warning::place)).collect();
    assert_eq!(lost, ["n (of NFSv4)", "u (unknown user `nobody here`)"]);
}

#[test]
fn of_several_extended_headers_before_a_member_the_last_of_each_kind_counts() {
    let name: [&[(&str, &[u8])]; 2] = [&[("path", b"first"), ("mtime", b"5")], &[("path", b"second"), ("uid", b"7")]];
    let long = |typeflag, text: &[u8]| member("././@LongLink", typeflag, &[text, b"\0"].concat());
    let file = member("header", b'0', b"1");
    let link = header("link", b'2', 0, |header| header.linkname[..2].copy_from_slice(b"to"));
    for (what, members, path) in [
        ("the second replaces the first", vec![pax(b'x', name[0]), pax(b'x', name[1]), file.clone()], "second"),
        ("a name is not kept", vec![pax(b'x', name[0]), pax(b'x', &[("uid", b"7")]), file.clone()], "header"),
        ("Solaris", vec![pax(b'x', name[0]), pax(b'X', name[1]), file.clone()], "second"),
        ("long names", vec![long(b'L', b"first"), long(b'L', b"second"), file.clone()], "second"),
        ("a pax header after a long name", vec![long(b'L', b"long"), pax(b'x', name[1]), file.clone()], "second"),
        ("a pax header before a long name", vec![pax(b'x', name[1]), long(b'L', b"long"), file.clone()], "second"),
        ("long targets", vec![long(b'K', b"first"), long(b'K', b"second"), link.clone()], "link"),
    ] {
        let tree = read(&archive(&[members.concat(), member("next", b'0', b"2")])).unwrap();
        let ino = tree.lookup(path.as_bytes()).unwrap_or_else(|| panic!("{what}"));
        let inode = tree.inode(ino);
        assert_eq!((tree.len(), inode.mtime.secs), (3, 0), "{what}");
        assert_eq!(
            inode.uid,
            if path == "second" && what != "long names" || path == "header" { 7 } else { 0 },
            "{what}"
        );
        if let Kind::Symlink(target) = inode.kind {
            assert_eq!(target, b"second", "{what}");
        }
        assert_eq!(tree.meta(tree.lookup(b"next").unwrap()).uid, 0, "{what}");
    }
    // Global headers add up: each changes only what it names.
    let global = [pax(b'g', &[("uid", b"5"), ("gid", b"6")]), pax(b'g', &[("uid", b"7")]), file].concat();
    let tree = read(&archive(&[global])).unwrap();
    let meta = tree.meta(tree.lookup(b"header").unwrap());
    assert_eq!((meta.uid, meta.gid), (7, 6));
}

/// Writers differ: GNU tar stores the mask as the permissions of the group in the header, bsdtar its own entry.
#[test]
fn without_its_access_control_list_no_member_gives_the_group_more() {
    let text = b"user::rw-,user:7:rw-,group::---,mask::r--,other::---";
    let unknown = b"user::rw-,user:nobody here:rw-,group::--x,mask::rw-,other::---";
    let denied = b"user::rw-,user:nobody here:---,group::r--,mask::r--,other::r--";
    let value = [&2u32.to_le_bytes()[..], &[1, 0, 6, 0], &[0xff; 4], &[2, 0, 6, 0], &7u32.to_le_bytes()].concat();
    let group = [&[4, 0, 0, 0][..], &[0xff; 4], &[16, 0, 4, 0], &[0xff; 4], &[32, 0, 0, 0], &[0xff; 4]].concat();
    let value = [value, group].concat();
    let key = ["SCHILY.acl.access", "SCHILY.xattr.system.posix_acl_access"];
    for (records, mode, with, without) in [
        ([(key[0], &text[..])], b"0000600\0", 0o640, 0o600),
        ([(key[0], &text[..])], b"0000640\0", 0o640, 0o600),
        ([(key[1], &value[..])], b"0000600\0", 0o640, 0o600),
        ([(key[1], &value[..])], b"0004640\0", 0o4640, 0o4600),
        ([(key[0], &unknown[..])], b"0000660\0", 0o600, 0o600),
        ([(key[0], &denied[..])], b"0000644\0", 0o600, 0o600),
        ([(key[0], &unknown[..])], b"0000600\0", 0o600, 0o600),
        ([("SCHILY.acl.ace", &b"owner@:rw::allow"[..])], b"0000640\0", 0o640, 0o640),
    ] {
        let file = header("f", b'0', 0, |header| header.mode.copy_from_slice(mode));
        let bytes = archive(&[[pax(b'x', &records), file].concat()]);
        let mode = |tree: &Tree| tree.meta(tree.lookup(b"f").unwrap()).mode;
        assert_eq!(mode(&read(&bytes).unwrap()), with, "{records:?}");
        let options = Options { xattrs: false, ..Options::default() };
        let tree = from_bytes(Arc::new(bytes), Path::new("a.tar"), options).and_then(scan).unwrap();
        assert_eq!((mode(&tree), tree.xattrs.is_empty()), (without, true), "{records:?}");
    }
}
