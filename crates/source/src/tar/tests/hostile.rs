//! Archives that are broken, cut or malicious: one clear error each, and never a panic.

use super::*;
use crate::WarningKind;
use crate::tar::format::flag;

fn refused(bytes: &[u8], want: &str) {
    let error = read(bytes).unwrap_err().to_string();
    assert!(error.contains(want), "wanted `{want}`: {error}");
}

#[test]
fn every_error_says_what_and_where() {
    let link =
        |to: &'static str| move |header: &mut TarHeader| header.linkname[..to.len()].copy_from_slice(to.as_bytes());
    let sparse = |map: &str, len: usize| {
        let records: [(&str, &[u8]); 2] = [("GNU.sparse.size", b"1000"), ("GNU.sparse.map", map.as_bytes())];
        [pax(b'x', &records), member("f", b'0', &vec![1; len])].concat()
    };
    let in_front = |map: &[u8]| {
        let records: [(&str, &[u8]); 3] =
            [("GNU.sparse.major", b"1"), ("GNU.sparse.minor", b"0"), ("GNU.sparse.realsize", b"1000")];
        [pax(b'x', &records), member("f", b'0', &padded(map))].concat()
    };
    let zero_list = "0,0,".repeat(1_000_001);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (member("../a", b'0', b""), "tar member at byte 0: `../a`: a path with `..`"),
        (member("a/../../b", b'5', b""), "a path with `..`"),
        (header("a", b'1', 0, link("../b")), "a path with `..`"),
        (header("a", b'1', 0, link("")), "tar member at byte 0: its link target is empty"),
        ([member("d", b'5', b""), header("a", b'1', 0, link("d"))].concat(), "tar member at byte 512"),
        ([member("f", b'0', b""), member("f/g", b'0', b"")].concat(), "`f` on the way is not a directory"),
        (member("./", b'2', b""), "the root is not a directory"),
        (member("a", b'2', b""), "has an empty link target"),
        (member("a", b'M', b""), "a later volume of a multi-volume archive"),
        (member("a", b'N', b""), "not supported: tar header at byte 0: a member of type `N`"),
        (member("a", b'S', b""), "a sparse file in a form that GNU tar does not write"),
        (
            [pax(b'x', &[("GNU.sparse.size", b"9223372036854775808")]), member("f", b'0', b"")].concat(),
            "a file of 8.00 EiB and 1 byte; the limit is 8.00 EiB",
        ),
        (
            pax(b'g', &[("SCHILY.xattr.user.a", &[b'x'; 65_531])]),
            "attributes for every member, all together 64 KiB and 1 byte; the limit is 64 KiB",
        ),
        (header("a", b'0', 0, |h| h.size.fill(b'7')), "its data ends at byte"),
        (
            header("a", b'0', 0, |h| h.size.copy_from_slice(&[&[0x80, 0, 0, 0, 0x7f][..], &[0xff; 7]].concat())),
            "the size of 9223372036854775807 bytes is too large",
        ),
        (header("a", b'0', 0, |h| h.size.fill(0xff)), "not a valid size"),
        (
            header("a", b'0', 0, |h| h.uid.copy_from_slice(b"0000x00\0")),
            "tar header at byte 0: `0000x00\\x00` is not a valid user id",
        ),
        (header("a", b'0', 0, |h| h.mtime.copy_from_slice(b"yesterday   ")), "not a valid time"),
        (pax(b'x', &[("size", b"18446744073709551615")]), "an extended header with no member after it"),
        (
            [pax(b'x', &[("size", b"18446744073709551615")]), member("a", b'0', b"")].concat(),
            "the size of 18446744073709551615",
        ),
        (
            header("pax", b'x', 8 << 20 | 1, |_| ()),
            "extended header at byte 0: extended headers, all together 8 MiB and 1 byte; the limit is 8 MiB",
        ),
        (header("long", b'L', 0o777_7777_7777, |_| ()), "the limit is 8 MiB"),
        (pax(b'g', &[("uid", b"root")]), "pax header at byte 0: uid=root: expected a number from 0 to"),
        (sparse("0,100,50,100", 200), "sparse map at byte 1024: the region at 50 begins before"),
        (sparse("900,200", 200), "goes beyond the file's end at 1000"),
        (sparse("18446744073709551615,18446744073709551615", 200), "goes beyond"),
        (sparse("0,100", 200), "its regions hold 100 bytes, the archive 200"),
        (sparse(&zero_list[..zero_list.len() - 1], 0), "1000001 regions: more than the 1000000"),
        (in_front(b"1000001\n"), "1000001 regions: more than the 1000000"),
        (in_front(b"2\n0\n\n1\n"), "`` is not a number"),
        (in_front(b"99999999999999999999999\n"), "more than 20 digits"),
        (in_front(&[b'1'; 512]), "more than 20 digits"),
        (in_front(&padded(b"1\n0\n10\n")), "its regions hold 10 bytes, the archive 0"),
        (
            in_front(&[&[b"200\n".to_vec(), b"1\n".repeat(254)].concat()[..512]].concat()),
            "it goes beyond the member's end",
        ),
        (
            [pax(b'x', &[("GNU.sparse.major", b"2"), ("GNU.sparse.size", b"1")]), member("f", b'0', b"1")].concat(),
            "GNU.sparse records",
        ),
    ];
    for (bytes, want) in cases {
        refused(&archive(&[bytes]), want);
    }
}

#[test]
fn files_that_are_not_archives_are_refused() {
    refused(b"", "tar archive at byte 0: it ends before its first member");
    refused(&[0; 100], "tar header at byte 0: the archive ends after 100 of 512");
    refused(b"some text, and nothing else", "tar header at byte 0: the archive ends after 27 of 512");
    refused(&b"no tar here.".repeat(100), "tar header at byte 0: its checksum does not match");
    // A second archive after the first, damaged.
    let mut second = member("b", b'0', b"");
    second[0] ^= 1;
    refused(&[archive(&[member("a", b'0', b"")]), second].concat(), "its checksum does not match");
    assert_eq!(read(&[0; 1024]).unwrap().len(), 1);
    assert_eq!(read(&[0; 512]).unwrap().len(), 1);
    assert_eq!(read(&[0; 700]).unwrap().len(), 1);
    // An EROFS image begins like this.
    refused(
        &[vec![0; 1024], b"\xe2\xe1\xf5\xe0".to_vec(), vec![0; 3000]].concat(),
        "byte 1024: after zeros comes something",
    );
}

/// Returns the warnings of reading an archive, the same both ways.
fn warned(bytes: &[u8]) -> Vec<(WarningKind, String)> {
    let of = |tree: Tree| -> Vec<_> {
        tree.warnings.kinds().flat_map(|(kind, all)| all.first.iter().map(move |one| (kind, one.place()))).collect()
    };
    let warned = of(read(bytes).unwrap());
    assert_eq!(warned, of(scan_stream(bytes).unwrap()));
    warned
}

#[test]
fn oddities_cause_warnings_and_the_rest_is_read() {
    let odd = [member("a", b'0', b"1"), member("", b'0', b"no name"), member("b", b'0', b"2")];
    let whole = archive(&odd);
    let tree = read(&whole).unwrap();
    assert_eq!((tree.len(), content(&tree, "a"), content(&tree, "b")), (3, b"1".to_vec(), b"2".to_vec()));
    let within = [(WarningKind::MemberWithoutName, "a.tar (at byte 1024)".to_owned())];
    assert_eq!(warned(&whole), within);
    for behind in [&b"junk"[..], &[b'x'; 512], &[b'x'; 5000]] {
        let end = (WarningKind::BytesAfterArchive, format!("a.tar (at byte {})", whole.len()));
        assert_eq!(warned(&[&whole, behind].concat()), [&[end], &within[..]].concat());
    }
    assert_eq!(warned(&archive(&[member("a", b'0', b"1")])), []);
}

#[test]
fn bombs_of_names_are_refused_by_limits_that_are_named() {
    let named = |name: &[u8]| archive(&[[pax(b'x', &[("path", name)]), member("x", b'0', b"")].concat()]);
    refused(&named(&b"a/".repeat(10_000)), "a path of more than the 4096 components");
    refused(&named(&vec![b'a'; 1 << 20]), "a path of 1 MiB; the limit is 64.0 KiB");
    refused(&archive(&[member("@", b'L', &vec![b'a'; 1 << 20]), member("x", b'0', b"")]), "the limit is 64.0 KiB");
    let long_link = archive(&[[pax(b'x', &[("linkpath", &[b'a'; 1 << 17])]), member("x", b'2', b"")].concat()]);
    refused(&long_link, "a path of 128 KiB; the limit is 64.0 KiB");
    // Many extended headers before one member.
    let flood: Vec<_> = (0..9).map(|_| pax(b'x', &[("comment", &vec![b'a'; 1 << 20])])).collect();
    refused(&archive(&flood), "the limit is 8 MiB");
    // The deepest path allowed, and a file that replaces it.
    let deep = pax(b'x', &[("path", &b"a/".repeat(4096))]);
    let deep = scan_in_place(&archive(&[deep, member("x", b'0', b""), member("a", b'0', b"now")])).unwrap();
    assert_eq!((deep.len(), content(&deep, "a")), (4098, b"now".to_vec()));
}

#[test]
fn many_attributes_do_not_take_quadratic_time() {
    let records: Vec<_> = (0..200_000).map(|n| pax_record(&format!("SCHILY.xattr.user.{n}"), b"")).collect();
    let tree = scan_in_place(&archive(&[member("x", b'x', &records.concat()), member("f", b'0', b"")])).unwrap();
    assert_eq!(tree.xattrs.get(tree.meta(tree.lookup(b"f").unwrap()).xattrs).len(), 200_000);
}

/// An archive with one member of each kind.
fn small() -> Vec<u8> {
    let records: [(&str, &[u8]); 3] = [("mtime", b"1.5"), ("SCHILY.xattr.user.a", b"1"), ("path", b"d/pax")];
    let in_front: [(&str, &[u8]); 4] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.realsize", b"5000"),
        ("GNU.sparse.name", b"sparse"),
    ];
    archive(&[
        pax(b'g', &[("gid", b"5")]),
        member("d/", b'5', b""),
        [pax(b'x', &records), member("x", b'0', &[b'p'; 700])].concat(),
        [member("@", flag::GNU_LONG_NAME, &[b'n'; 200]), member("x", b'0', b"named")].concat(),
        [pax(b'x', &in_front), member("x", b'0', &[padded(b"1\n4096\n904\n"), vec![7; 904]].concat())].concat(),
        header("hard", b'1', 0, |header| header.linkname[..5].copy_from_slice(b"d/pax")),
        header("soft", b'2', 0, |header| header.linkname[..5].copy_from_slice(b"d/pax")),
    ])
}

#[test]
fn a_cut_archive_is_an_error_and_between_members_a_warning() {
    let whole = small();
    read(&whole).unwrap();
    let end = whole.len() - 2 * BLOCK;
    let mut boundaries = Vec::new();
    for cut in (0..=end).step_by(BLOCK).chain((1..end).step_by(101)) {
        match read(&whole[..cut]) {
            Ok(tree) => {
                assert_eq!(tree.warnings.count(WarningKind::ArchiveNotEnded), 1, "cut at {cut}");
                boundaries.push((cut / BLOCK, tree.len()));
            }
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "cut at {cut}: {error}"),
        }
    }
    // In blocks: after each of the members, never after a header that only announces one.
    assert_eq!(boundaries, [(3, 2), (8, 3), (12, 4), (18, 5), (19, 5), (20, 6)]);
    for cut in end + BLOCK..=whole.len() {
        read(&whole[..cut]).unwrap();
    }
}

#[test]
fn no_single_wrong_byte_panics_or_hangs() {
    let whole = small();
    for at in 0..whole.len() {
        for flip in [0x01, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            // Damage in file data goes unnoticed: tar has no checksums for it.
            drop(read(&bytes));
        }
    }
}

/// With the checksum corrected, the reader must cope with the field itself.
#[test]
fn no_wrong_field_panics_or_hangs() {
    let whole = small();
    for start in (0..whole.len() - 2 * BLOCK).step_by(BLOCK) {
        for at in 0..BLOCK {
            for value in [0, b'0', b'7', b'9', 0x80, 0xff] {
                let mut bytes = whole.clone();
                let block = &mut bytes[start..start + BLOCK];
                block[at] = value;
                let mut header: TarHeader = zerocopy::FromBytes::read_from_bytes(block).unwrap();
                let sum = checksum(&header);
                header.checksum.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
                if !(148..156).contains(&at) {
                    block.copy_from_slice(header.as_bytes());
                }
                drop(scan_in_place(&bytes));
                if value == 0xff {
                    drop(scan_forwards(&bytes));
                }
            }
        }
    }
}

mod random {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_bytes_in_any_place_are_an_error_or_a_tree(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..20),
            records in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut bytes = small();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            drop((scan_in_place(&bytes), scan_forwards(&bytes)));
            let bytes = archive(&[member("x", b'x', &records), member("f", b'0', b"")]);
            drop((scan_in_place(&bytes), scan_forwards(&bytes)));
        }
    }
}
