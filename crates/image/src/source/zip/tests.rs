//! Archives of other programs, and hostile ones.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rawzip::path::EntryPath;
use rawzip::{CompressionMethod, ZipArchiveWriter};

use crate::Result;
use crate::source::Exclude;
use crate::source::archive::{Options, from_bytes, from_stream, open};
use crate::source::tar::tests::scan;
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

/// Returns the offset of the data of a member, behind its header, name and extra field.
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
        Options { exclude: Exclude::new(["b"]).unwrap(), ..Options::default() },
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
