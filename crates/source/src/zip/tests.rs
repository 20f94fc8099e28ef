//! Archives of other programs, and hostile ones.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rawzip::path::EntryPath;
use rawzip::{CompressionMethod, ZipArchiveWriter};

use super::nearer_to;
use crate::ExcludeRules;
use crate::Result;
use crate::archive::{Options, from_bytes, from_stream, open};
use crate::testing::scan;
use crate::testing::{differences, snapshot, snapshot_tree};
use crate::tree::{Kind, Time, Tree};

fn read(archive: &[u8]) -> Result<Tree> {
    from_bytes(Arc::new(archive.to_vec()), Path::new("a.zip"), Options::default()).and_then(scan)
}

/// Writes an archive whose members are not compressed.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ZipArchiveWriter::new(&mut out);
    for (name, data) in members {
        let file = writer.new_file(EntryPath::verbatim(name.as_bytes())).compression_method(CompressionMethod::STORE);
        let (mut entry, config) = file.start().unwrap();
        let mut body = config.wrap(&mut entry);
        body.write_all(data).unwrap();
        let (_, descriptor) = body.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    writer.finish().unwrap();
    out
}

/// Runs a script in `dir` if the program is there.
fn made(dir: &Path, program: &str, script: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{program} is not installed");
        eprintln!("zip archives: SKIPPED: {program} is not installed");
        return false;
    }
    let output = Command::new("sh").args(["-ec", script]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

/// Returns the offset of the data of a member, after its header, name and extra field.
fn data_of(archive: &[u8], name: &[u8]) -> usize {
    let is_header = |at: &usize| archive[*at..].starts_with(b"PK\x03\x04") && archive[at + 30..].starts_with(name);
    let header = (0..archive.len()).find(is_header).unwrap();
    header + 30 + name.len() + usize::from(u16::from_le_bytes([archive[header + 28], archive[header + 29]]))
}

#[test]
fn archives_of_other_programs_hold_what_was_packed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("d/empty")).unwrap();
    for (name, bytes) in [("d/a", b"text".repeat(100_000)), ("d/none", vec![]), ("top \u{e9}", b"x".to_vec())] {
        std::fs::write(root.join(name), bytes).unwrap();
    }
    std::os::unix::fs::symlink("d/a", root.join("link")).unwrap();
    std::fs::set_permissions(root.join("d/a"), std::fs::Permissions::from_mode(0o4751)).unwrap();
    std::fs::set_permissions(root.join("d"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let touched =
        Command::new("find").arg(&root).args(["-exec", "touch", "-h", "-d", "@1700000000", "{}", "+"]).status();
    assert!(touched.unwrap().success());
    // The root is in none of them.
    let mut want = snapshot(&root).unwrap();
    want.remove("");
    let python = |method: &str| {
        format!(
            "python3 -c 'import zipfile,os,sys\nz=zipfile.ZipFile(\"../made.zip\",\"w\",zipfile.{method})\n\
             for p,d,f in os.walk(\".\"):\n for n in f:\n  q=os.path.join(p,n)\n  if not os.path.islink(q): z.write(q)'"
        )
    };
    for (program, script, whole) in [
        ("zip", "zip -qry ../made.zip .".to_owned(), true),
        ("zip", "zip -qry0 ../made.zip .".to_owned(), true),
        // With data descriptors it cannot store links.
        ("zip", "zip -qrfd ../made.zip . -x link".to_owned(), false),
        ("bsdtar", "bsdtar --format zip -cf ../made.zip *".to_owned(), true),
        ("zip", "zip -qryZ bzip2 ../made.zip .".to_owned(), true),
        ("python3", python("ZIP_BZIP2"), false),
        ("python3", python("ZIP_DEFLATED"), false),
    ] {
        let path = dir.path().join("made.zip");
        let _ = std::fs::remove_file(&path);
        if !made(&root, program, &script) {
            continue;
        }
        let tree = open(Some(&path), Options::default()).and_then(scan).unwrap();
        let mut got = snapshot_tree(&tree).unwrap();
        got.remove("");
        match whole {
            true => assert_eq!(differences(&want, &got), Vec::<String>::new(), "{script}"),
            // It knows no seconds since 1970, no owners and no directories.
            false => {
                assert_eq!(got["d/a"].hash, want["d/a"].hash, "{script}");
                assert_eq!((got["d/a"].mode, got["d/none"].size), (0o4751, 0), "{script}");
            }
        }
        // Each member is checked: no byte of the data can change unnoticed.
        let mut bytes = std::fs::read(&path).unwrap();
        let data = data_of(&bytes, b"d/a");
        for at in [data + 1, data + 20] {
            bytes[at] ^= 0xff;
            let differs = read(&bytes).map_or(true, |tree| {
                let mut got = snapshot_tree(&tree).unwrap();
                got.remove("");
                !differences(&want, &got).is_empty()
            });
            assert!(differs || !whole, "{script}: byte {at}");
            bytes[at] ^= 0xff;
        }
    }
    for (program, script) in [
        ("zip", "zip -qry -P secret ../secret.zip ."),
        (
            "python3",
            "python3 -c 'import zipfile\nzipfile.ZipFile(\"../lzma.zip\",\"w\",zipfile.ZIP_LZMA).write(\"d/a\")'",
        ),
    ] {
        if made(&root, program, script) {
            let name = if program == "zip" { "secret.zip" } else { "lzma.zip" };
            let told = open(Some(&dir.path().join(name)), Options::default()).and_then(scan).unwrap_err().to_string();
            let why = if program == "zip" { "is encrypted, and packfs takes no passwords" } else { "method 14 (LZMA)" };
            assert!(told.contains(why) && (program == "zip" || told.contains("`d/")), "{told}");
        }
    }
}

#[test]
fn later_members_replace_earlier_ones_and_names_are_cleaned() {
    let bytes = archive(&[("/a", b"1"), ("./b//c", b"2"), ("a", b"3"), ("d/", b"")]);
    let tree = read(&bytes).unwrap();
    let names: Vec<_> = snapshot_tree(&tree).unwrap().into_keys().collect();
    assert_eq!(names, ["", "a", "b", "b/c", "d"]);
    assert_eq!(snapshot_tree(&tree).unwrap()["a"].hash, blake3::hash(b"3").to_hex().to_string());
    let tree = from_bytes(
        Arc::new(bytes.clone()),
        Path::new("a"),
        Options { exclude: ExcludeRules::new(["b"]).unwrap(), ..Options::default() },
    );
    let tree = tree.and_then(scan).unwrap();
    assert!(tree.lookup(b"b").is_none() && tree.lookup(b"d").is_some());
    let told = from_stream(Box::new(std::io::Cursor::new(bytes)), Path::new("p"), Options::default()).err().unwrap();
    assert!(told.to_string().contains("save it to a file"), "{told}");
    let empty = read(&archive(&[])).unwrap();
    assert_eq!(empty.len(), 1);
    // Times of DOS begin in 1980, in January of which this writer leaves them.
    let file = tree.lookup(b"a").unwrap();
    assert!(matches!(tree.inode(file).kind, Kind::File { size: 1, .. }));
    assert_eq!((tree.inode(file).mode, tree.inode(file).uid), (0o644, 0));
    assert!(tree.inode(file).mtime >= Time { secs: 315_532_800 - 32 * 86_400, nanos: 0 });
}

#[test]
fn hostile_archives_are_refused_and_none_panics() {
    let bytes = archive(&[("a", b"12345"), ("b", b"67890"), ("c", b"")]);
    let find = |needle: &[u8], nth: usize| {
        let all = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(needle));
        all.into_iter().nth(nth).unwrap()
    };
    let with = |at: usize, change: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + change.len()].copy_from_slice(change);
        changed
    };
    // Fields of the second entry of the directory.
    let entry = find(b"PK\x01\x02", 1);
    for (bytes, why) in [
        (archive(&[("../x", b"")]), "`../x`: a path with `..`"),
        (with(find(b"12345", 0), b"9"), "`a`: its data has another checksum"),
        (with(entry + 24, &[4]), "`b`: its data is longer than the 4 bytes"),
        (with(entry + 24, &[6]), "`b`: its data ends 1 bytes before its length"),
        (with(entry + 42, &[0]), "it overlaps with another"),
        (with(entry + 20, &[0xff, 0xff]), "goes beyond the beginning of the directory"),
        (with(entry + 8, &[1]), "`b` is encrypted"),
        (with(entry + 10, &[9]), "`b` is compressed with method 9 (DEFLATE64)"),
        (with(entry + 10, &[8]), "`b`: its data"),
        (bytes[..bytes.len() - 10].to_vec(), "zip archive: "),
        (bytes[..40].to_vec(), "zip archive: "),
    ] {
        let told = read(&bytes).unwrap_err().to_string();
        assert!(told.contains(why), "{why}: {told}");
    }
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let _ = read(&with(at, &[bytes[at] ^ flip]));
        }
        let _ = read(&bytes[..at]);
    }
}

/// An archive of one empty member, whose entry in the directory has an extra field.
fn with_extra(name: &[u8], system: u8, flags: u16, extra: &[u8]) -> Vec<u8> {
    let len = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_le_bytes();
    let common = [&flags.to_le_bytes()[..], &[0; 4], &[0x21, 0], &[0; 12], &len(name)].concat();
    let local = [b"PK\x03\x04\x14\0", &common[..], &[0; 2], name].concat();
    let entry = [b"PK\x01\x02\x14", &[system, 20, 0][..], &common, &len(extra), &[0; 14], name, extra].concat();
    let size = u32::try_from(entry.len()).unwrap().to_le_bytes();
    let start = u32::try_from(local.len()).unwrap().to_le_bytes();
    let end = [b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &size[..], &start, &[0; 2]].concat();
    [local, entry, end].concat()
}

fn extra_field(id: u16, value: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &u16::try_from(value.len()).unwrap().to_le_bytes(), value].concat()
}

/// The field of Info-ZIP with a name in UTF-8, for a member called `name` in a code page.
fn unicode_path(name: &[u8], unicode: &[u8]) -> Vec<u8> {
    let mut crc = rawzip::Crc32::new();
    crc.update(name);
    extra_field(0x7075, &[&[1][..], &crc.checksum().to_le_bytes(), unicode].concat())
}

#[test]
fn names_of_windows_become_paths_in_utf8() {
    const DOS: u8 = 0;
    const UNIX: u8 = 3;
    const NTFS_OF_INFO_ZIP: u8 = 11;
    const UTF8: u16 = 1 << 11;
    let field = |name: &[u8]| unicode_path(name, "caf\u{e9}/\u{65e5}".as_bytes());
    let version_2 = extra_field(0x7075, b"\x02\0\0\0\0x");
    for (name, system, flags, extra, expected) in [
        (&b"caf\x82/?"[..], DOS, 0, field(b"caf\x82/?"), "caf\u{e9}/\u{65e5}".as_bytes()),
        (b"caf\x82/?", UNIX, 0, field(b"caf\x82/?"), "caf\u{e9}/\u{65e5}".as_bytes()),
        // The name was changed by a program that knows no such field.
        (b"new", DOS, 0, field(b"old"), b"new"),
        (b"a", DOS, 0, unicode_path(b"a", b"\xff"), b"a"),
        (b"a", DOS, 0, unicode_path(b"a", b""), b"a"),
        (b"a", DOS, 0, version_2, b"a"),
        (b"a", DOS, 0, extra_field(0x7075, b"\x01\0"), b"a"),
        ("\u{e9}".as_bytes(), DOS, UTF8, unicode_path("\u{e9}".as_bytes(), b"other"), "\u{e9}".as_bytes()),
        (b"a\\b\\c", DOS, 0, Vec::new(), b"a/b/c"),
        (b"a\\b\\c", NTFS_OF_INFO_ZIP, UTF8, Vec::new(), b"a/b/c"),
        (b"?", DOS, 0, unicode_path(b"?", b"a\\b"), b"a/b"),
        // Not a separator: there are others, or the name comes from a system where a backslash is a letter.
        (b"a/b\\c", DOS, 0, Vec::new(), b"a/b\\c"),
        (b"a\\b", UNIX, 0, Vec::new(), b"a\\b"),
    ] {
        let tree = read(&with_extra(name, system, flags, &extra)).unwrap();
        let found = tree.lookup(expected).unwrap_or_else(|| panic!("{}", name.escape_ascii()));
        assert!(matches!(tree.inode(found).kind, Kind::File { size: 0, .. }), "{}", name.escape_ascii());
    }
    let tree = read(&with_extra(b"d\\e\\", DOS, 0, &[])).unwrap();
    let directory = tree.inode(tree.lookup(b"d/e").unwrap());
    assert!(matches!(directory.kind, Kind::Dir) && directory.mode == 0o755);
    for hostile in [&b"..\\x"[..], b"a\\..\\..\\x"] {
        assert!(read(&with_extra(hostile, DOS, 0, &[])).unwrap_err().to_string().contains("leads out of the archive"));
    }
    let hostile = read(&with_extra(b"x", DOS, 0, &unicode_path(b"x", b"../x")));
    assert!(hostile.unwrap_err().to_string().contains("leads out of the archive"));
}

/// `zip - -` stores the type of its standard input.
#[test]
fn a_member_that_was_read_from_a_pipe_is_a_file() {
    let dir = tempfile::tempdir().unwrap();
    if made(dir.path(), "zip", "echo data | zip -q - - > a.zip") {
        let tree = open(Some(&dir.path().join("a.zip")), Options::default()).and_then(scan).unwrap();
        let read = snapshot_tree(&tree).unwrap();
        assert_eq!((read["-"].kind, &read["-"].hash), ('-', &blake3::hash(b"data\n").to_hex().to_string()));
    }
}

#[test]
fn times_of_ntfs_count_where_there_are_none_of_unix() {
    // 2023-11-14 22:13:20.1234567 UTC.
    let ticks = 10_000_000 * (1_700_000_000 + 11_644_473_600_u64) + 1_234_567;
    let times = [ticks, 1, 2].map(u64::to_le_bytes).concat();
    let attribute = |tag: u16, value: &[u8]| extra_field(tag, value);
    let ntfs = |attributes: &[u8]| extra_field(0x000a, &[&[0; 4], attributes].concat());
    let unix = extra_field(0x5455, &[&[1][..], &5i32.to_le_bytes()].concat());
    let dos = Time { secs: 315_532_800, nanos: 0 };
    let time = |extra: &[u8]| {
        let tree = read(&with_extra(b"f", 0, 0, extra)).unwrap();
        tree.meta(tree.lookup(b"f").unwrap()).mtime
    };
    let expected = Time { secs: 1_700_000_000, nanos: 123_456_700 };
    assert_eq!(time(&ntfs(&attribute(1, &times))), expected);
    assert_eq!(time(&ntfs(&[attribute(9, b"other"), attribute(1, &times)].concat())), expected);
    let original = |seconds: u32| extra_field(0x5855, &[[1; 4], seconds.to_le_bytes()].concat());
    assert_eq!(time(&original(1_700_000_000)), Time { secs: 1_700_000_000, nanos: 0 });
    // The local time of the member is of 1980.
    assert_eq!(time(&original(u32::MAX - 9)), Time { secs: -10, nanos: 0 });
    assert_eq!(time(&extra_field(0x5855, &[1; 7])), dos);
    assert_eq!(nearer_to(2_208_988_800, 2_208_988_900_u32.to_le_bytes()), 2_208_988_900);
    assert_eq!(nearer_to(2_208_988_800, 1_700_000_000_u32.to_le_bytes()), 1_700_000_000);
    assert_eq!(time(&[ntfs(&attribute(1, &times)), unix].concat()), Time { secs: 5, nanos: 0 });
    for damaged in [ntfs(&attribute(1, &times[..7])), ntfs(&attribute(2, &times)), ntfs(b"\x01\0\xff\0"), ntfs(b"")] {
        assert_eq!(time(&damaged), dos, "{damaged:?}");
    }
    assert_eq!(time(&extra_field(0x000a, b"\0")), dos);
}
