//! Archives of every writer, several in a row, and hostile ones, in place and as a stream.

use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::{CpioSource, STRUCTURE, TYPE, is_header};
use crate::archive::stream::StreamInput;
use crate::archive::{Options, from_bytes, from_stream};
use crate::testing::scan;
use crate::testing::{Snapshot, differences, snapshot as snapshot_dir, snapshot_tree};
use crate::tree::Tree;
use crate::{Error, Result, WarningKind};
use crate::{ExcludeRules, Source};

fn options() -> Options {
    Options::default()
}

/// Reads an archive both ways, with equal results.
fn read_with(archive: &[u8], options: &Options) -> Result<Tree> {
    let name = Path::new("a.cpio");
    let placed = from_bytes(Arc::new(archive.to_vec()), name, options.clone()).and_then(scan);
    let stream = StreamInput::new(Box::new(io::Cursor::new(archive.to_vec())), name.into(), STRUCTURE, None);
    let streamed = scan(Box::new(CpioSource::new(stream, options.clone())));
    match (placed, streamed) {
        (Ok(placed), Ok(streamed)) => {
            let a = snapshot_tree(&placed)?;
            let b = snapshot_tree(&streamed)?;
            assert_eq!(differences(&a, &b), Vec::<String>::new(), "in place and as a stream");
            Ok(placed)
        }
        // The store of a test takes only so much of a stream.
        (Err(placed), Err(Error::TooMany { what: "bytes for a test", .. })) => Err(placed),
        // Without its magic, it is no cpio archive to the one that finds out what it is.
        (Err(placed), Err(_)) if !is_header(archive) => Err(placed),
        (Err(placed), Err(streamed)) => {
            assert_eq!(placed.to_string(), streamed.to_string());
            Err(placed)
        }
        (placed, streamed) => panic!("in place {placed:?}, as a stream {streamed:?}"),
    }
}

fn read(archive: &[u8]) -> Result<Tree> {
    read_with(archive, &options())
}

fn snapshot(archive: &[u8]) -> Snapshot {
    snapshot_tree(&read(archive).unwrap()).unwrap()
}

/// A member to write.
struct Entry<'e> {
    name: &'e str,
    mode: u32,
    ino: u32,
    nlink: u32,
    data: &'e [u8],
}

const fn file<'e>(name: &'e str, data: &'e [u8]) -> Entry<'e> {
    Entry { name, mode: 0o100_640, ino: 0, nlink: 1, data }
}

/// Writes an archive with checksums of files.
fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let trailer = Entry { name: "TRAILER!!!", mode: 0, ino: 0, nlink: 1, data: b"" };
    for Entry { name, mode, ino, nlink, data } in entries.iter().chain([&trailer]) {
        // As GNU cpio does.
        let counted = if *mode & TYPE == 0o120_000 { &b""[..] } else { *data };
        let sum: u32 = counted.iter().map(|byte| u32::from(*byte)).sum();
        let fields = [*ino, *mode, 7, 8, *nlink, 1_700_000_000, u32::try_from(data.len()).unwrap(), 1, 2, 3, 4];
        out.extend(b"070702");
        for field in fields.into_iter().chain([u32::try_from(name.len()).unwrap() + 1, sum]) {
            out.extend(format!("{field:08X}").bytes());
        }
        out.extend(name.bytes().chain([0]));
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(*data);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

/// Returns the paths of a tree, with the bytes of files.
fn listed(tree: &Tree) -> Vec<String> {
    let snapshot = snapshot_tree(tree).unwrap();
    snapshot.keys().cloned().collect()
}

#[test]
fn archives_of_other_writers_hold_what_was_packed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("d/empty")).unwrap();
    for (name, text) in [("d/a", "text".repeat(1000)), ("d/none", String::new()), ("top", "x".into())] {
        std::fs::write(root.join(name), text).unwrap();
    }
    std::fs::hard_link(root.join("d/a"), root.join("d/hard")).unwrap();
    std::fs::hard_link(root.join("d/a"), root.join("also")).unwrap();
    std::os::unix::fs::symlink("d/a", root.join("link")).unwrap();
    std::fs::set_permissions(root.join("top"), std::fs::Permissions::from_mode(0o4751)).unwrap();
    let times = Command::new("find").arg(&root).args(["-exec", "touch", "-h", "-d", "@1700000000", "{}", "+"]).status();
    assert!(times.unwrap().success());
    let specials = std::fs::metadata(&root).unwrap().uid() == 0;
    if specials {
        let script = "mkfifo pipe && mknod dev c 1 300 && mknod blk b 7 1 && touch -d @1700000000 pipe dev blk .";
        assert!(Command::new("sh").args(["-ec", script]).current_dir(&root).status().unwrap().success());
    }
    let want = snapshot_dir(&root).unwrap();
    let mut made = 0;
    for script in [
        "find . | cpio --quiet -o -H newc",
        "find . | cpio --quiet -o -H crc",
        "find . | cpio --quiet -o -H odc",
        "find . -depth | bsdcpio --quiet -o -H newc",
        "bsdtar --format newc -cf - .",
        "bsdtar --format odc -cf - .",
    ] {
        let program = script.split("| ").last().and_then(|words| words.split(' ').next()).unwrap();
        if Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            eprintln!("archives_of_other_writers_hold_what_was_packed: SKIPPED: {program} is not installed");
            continue;
        }
        let output = Command::new("sh").args(["-ec", script]).current_dir(&root).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        let mut expected = want.clone();
        // Device numbers above 255 do not fit into the old form.
        if script.contains("odc") {
            expected.remove("dev");
        }
        let mut got = snapshot(&output.stdout);
        if script.contains("odc") {
            got.remove("dev");
        }
        assert_eq!(differences(&expected, &got), Vec::<String>::new(), "{script}");
        made += 1;
    }
    assert!(made > 0 || std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none());
}

#[test]
fn what_follows_an_archive_is_read_too() {
    let first = archive(&[file("a", b"1"), file("b", b"2")]);
    let second = archive(&[file("b", b"3")]);
    let gz = crate::testing::gzip(&second);
    let zst = zstd::encode_all(&archive(&[file("c", b"4")])[..], 1).unwrap();
    let padded = |bytes: &[u8], zeros: usize| [bytes, &vec![0; zeros]].concat();
    let twice = [gz.clone(), crate::testing::gzip(&archive(&[file("d", b"5")]))].concat();
    for (bytes, names) in [
        ([padded(&first, 0), second.clone()].concat(), &["", "a", "b"][..]),
        ([padded(&first, 512), second.clone()].concat(), &["", "a", "b"]),
        ([padded(&first, 4), gz].concat(), &["", "a", "b"]),
        ([padded(&first, 0), padded(&second, 8), zst].concat(), &["", "a", "b", "c"]),
        ([padded(&first, 8), twice].concat(), &["", "a", "b", "d"]),
        (padded(&first, 3), &["", "a", "b"]),
    ] {
        let tree = read(&bytes).unwrap();
        assert_eq!(listed(&tree), names);
        assert!(tree.warnings.is_empty());
    }
    // The whole is compressed, from a pipe and from a file.
    let whole = zstd::encode_all(&first[..], 1).unwrap();
    let name = Path::new("a");
    let piped = from_stream(Box::new(io::Cursor::new(whole.clone())), name, options()).and_then(scan).unwrap();
    let stored = from_bytes(Arc::new(whole), name, options()).and_then(scan).unwrap();
    assert_eq!((listed(&piped), listed(&stored)), (listed(&read(&first).unwrap()), listed(&piped)));
    let tree = read(&[&first[..], b"something else"].concat()).unwrap();
    assert_eq!(tree.warnings.count(WarningKind::BytesAfterArchive), 1);
}

/// Returns the hash of a file with this data.
fn want_of(data: &[u8]) -> String {
    snapshot(&archive(&[file("b", data)]))["b"].hash.clone()
}

#[test]
fn names_of_a_file_share_its_data_wherever_it_is() {
    let link = |name, data| Entry { name, mode: 0o100_644, ino: 9, nlink: 3, data };
    let bytes: &[u8] = b"data";
    for entries in [
        [link("a", b""), link("b", b""), link("c", bytes)],
        [link("a", bytes), link("b", b""), link("c", b"")],
        [link("a", bytes), link("b", bytes), link("c", bytes)],
    ] {
        let bytes = archive(&entries);
        let tree = read(&bytes).unwrap();
        let inos = ["a", "b", "c"].map(|name| tree.lookup(name.as_bytes()).unwrap());
        assert!(inos.iter().all(|ino| *ino == inos[0]) && tree.inode(inos[0]).links == 3);
        let want = want_of(b"data");
        assert_eq!(snapshot(&bytes)["b"].hash, want);
        // Leaving out the name with the data leaves the data to the others.
        for (left_out, left) in [(&["c"][..], 2), (&["a"], 2), (&["a", "c"], 1)] {
            let exclude = ExcludeRules::new(left_out.iter().copied()).unwrap();
            let tree = read_with(&bytes, &Options { exclude, ..options() }).unwrap();
            assert_eq!(snapshot_tree(&tree).unwrap()["b"].hash, want, "{left_out:?}");
            let ino = tree.lookup(b"b").unwrap();
            assert_eq!(tree.inode(ino).links, left, "{left_out:?}");
        }
        let exclude = ExcludeRules::new(["?"]).unwrap();
        assert_eq!(listed(&read_with(&bytes, &Options { exclude, ..options() }).unwrap()), [""]);
    }
    // Once its only name so far is another file's, the next name is a file of its own.
    for other in [file("a", b"other"), Entry { name: "a", mode: 0o040_755, ino: 3, nlink: 2, data: b"" }] {
        let replaced = archive(&[link("a", bytes), other, link("b", bytes), link("c", b"")]);
        let snapshot = snapshot(&replaced);
        assert_eq!([snapshot["b"].kind, snapshot["c"].kind], ['-', '-']);
        assert_eq!([&snapshot["b"].hash, &snapshot["c"].hash], [&want_of(bytes), &want_of(bytes)]);
        assert!(snapshot["a"].hash != want_of(bytes) && snapshot["c"].same_as.as_deref() == Some("b"));
    }
    // The same number in another archive is another file.
    let two = [archive(&[link("a", b"1")]), archive(&[link("b", b"2")])].concat();
    let tree = read(&two).unwrap();
    assert_ne!(tree.lookup(b"a"), tree.lookup(b"b"));
}

#[test]
fn hostile_archives_are_refused_and_none_panics() {
    let whole = archive(&[
        file("a", b"12345"),
        Entry { name: "l", mode: 0o120_777, ino: 1, nlink: 1, data: b"a" },
        Entry { name: "d", mode: 0o040_755, ino: 2, nlink: 2, data: b"" },
    ]);
    assert_eq!(listed(&read(&whole).unwrap()), ["", "a", "d", "l"]);
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    for (bytes, why) in [
        (archive(&[file("../x", b"")]), "cpio member at byte 0: `../x`: a path with `..`"),
        (with(6, b"0000000g"), "`0000000g` is not a number"),
        (with(14, b"00000000"), "its type 0 is not known"),
        (with(94, b"00000000"), "its name must have 1 to 65535 bytes"),
        (with(94, b"FFFFFFFF"), "its name must have 1 to 65535 bytes"),
        (with(111, b"b"), "its name does not end with a NUL"),
        (with(112, b"6"), "its data has the checksum"),
        (with(54, b"FFFFFFFF"), "truncated"),
        (whole[..whole.len() - 8].to_vec(), "truncated"),
        (whole[..120].to_vec(), "truncated"),
        (whole[..50].to_vec(), "truncated"),
        ([&whole[..120], b"070709"].concat(), "its magic number is `070709`"),
    ] {
        let told = read(&bytes).unwrap_err().to_string();
        assert!(told.contains(why), "{why}: {told}");
    }
    // Every byte changed, and every length: no panic, and both ways agree.
    for at in 0..whole.len() {
        for flip in [0x01, 0x10, 0x80] {
            let _ = read(&with(at, &[whole[at] ^ flip]));
        }
        let _ = read(&whole[..at.max(6)]);
    }
    // Compressed archives inside each other end.
    let mut nested = archive(&[]);
    for _ in 0..20 {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&nested).unwrap();
        nested = [archive(&[]), encoder.finish().unwrap()].concat();
    }
    let told = from_bytes(Arc::new(nested), Path::new("n"), options()).and_then(scan).unwrap_err();
    assert!(matches!(told, Error::Unsupported(_)), "{told}");
    let mut once: Box<dyn Source> = from_bytes(Arc::new(whole), Path::new("o"), options()).unwrap();
    once.scan(&mut Tree::default(), &mut crate::testing::Sink).unwrap();
    assert!(once.scan(&mut Tree::default(), &mut crate::testing::Sink).is_err());
}
