//! Written archives are read back unchanged, by this crate and by other programs.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use packfs_blocks::Storage;
use proptest::prelude::*;

use super::*;
use crate::image::Nid;
use crate::sink::fake::FakeImage;
use crate::testing::{
    Attrs, Node, Piece, Shape, Snapshot, Spec, What, differences, is_root, scan_in_place, scan_stream, skipped,
    snapshot, snapshot_tree, specs,
};
use crate::tree::{DeviceNumber, Time, TreeImage};
use crate::{Error, Result, Tree};

fn options(threads: usize) -> TarOptions {
    TarOptions { threads, ..TarOptions::default() }
}

fn write(tree: &Tree, options: &TarOptions) -> (Vec<u8>, TarSummary) {
    let (mut out, progress) = (Vec::new(), Progress::default());
    let summary = write_tar(&TreeImage::new(tree), &mut out, options, &progress).unwrap();
    assert_eq!(summary.bytes, out.len() as u64);
    (out, summary)
}

/// As [`write`], to a file.
fn write_file(tree: &Tree, options: &TarOptions) -> (Vec<u8>, TarSummary) {
    let memory = std::sync::Arc::new(packfs_blocks::io::Memory::default());
    let (out, progress) = (packfs_blocks::Output::over(memory.clone(), "archive"), Progress::default());
    let summary = write_tar_to(&TreeImage::new(tree), &out, options, &progress).unwrap();
    let bytes = memory.lock().unwrap().get_ref().clone();
    let counted = [&progress.written, &progress.done].map(|count| count.load(Relaxed));
    assert_eq!((counted, summary.bytes), ([bytes.len() as u64; 2], bytes.len() as u64));
    (bytes, summary)
}

/// Reads an archive in place and as a stream, with equal results.
fn read(archive: &[u8]) -> Result<Tree> {
    let placed = scan_in_place(archive)?;
    let streamed = scan_stream(archive)?;
    let placed_snapshot = snapshot_tree(&placed)?;
    assert_eq!(differences(&placed_snapshot, &snapshot_tree(&streamed)?), Vec::<String>::new());
    Ok(placed)
}

fn snapshot_of(archive: &[u8]) -> Snapshot {
    snapshot_tree(&read(archive).unwrap()).unwrap()
}

/// Returns the part of a tree that an archive keeps: everything except sockets.
fn kept(tree: &Tree) -> Snapshot {
    let mut all = snapshot_tree(tree).unwrap();
    all.retain(|_, entry| entry.kind != 's');
    all
}

#[test]
fn several_directories_that_become_the_root_are_one_member() {
    let mut one = Node::dir([(b"a".to_vec(), Node::dir([]))]);
    one.attrs.mode = 0o700;
    let two = Node::dir([(b"b".to_vec(), Node::dir([]))]);
    let tree = Spec::of([(b"one".to_vec(), one), (b"two".to_vec(), two)]).tree().unwrap();
    for (prefix, expected) in [(None, &["", "a", "b"][..]), (Some("P".into()), &["", "P", "P/a", "P/b"])] {
        let has_prefix = prefix.is_some();
        let (archive, summary) = write(&tree, &TarOptions { prefix, strip: 1, ..options(0) });
        let found = snapshot_of(&archive);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected);
        assert_eq!(summary.entries, if has_prefix { 3 } else { 2 });
        assert!(!has_prefix || found["P"].mode == 0o700, "the first one");
    }
}

/// A tree with every corner case of headers.
fn corners() -> Spec {
    let file = |len| Node::file(vec![Piece::Text { seed: 1, len }]);
    let mut wide = file(10);
    wide.attrs.owner = (0o777_7777, 0o1000_0000);
    wide.attrs.mtime = Time { secs: -2, nanos: 999_999_999 };
    wide.attrs.xattrs = [
        ("user.bin".to_owned(), (0..=255).collect()),
        ("user.a=b%25".to_owned(), b"1".to_vec()),
        ("user.empty".to_owned(), vec![]),
    ]
    .into();
    let mut late = file(1);
    late.attrs.mtime = Time { secs: 0o777_7777_7777 + 1, nanos: 1 };
    let device = |major, minor| What::Char(DeviceNumber { major, minor });
    let special = |what| Node { attrs: Attrs::plain(0o640), what };
    let holes: Vec<_> = (0..200).flat_map(|seed| [Piece::Noise { seed, len: 4096 }, Piece::Hole(4096)]).collect();
    let odd_holes = vec![
        Piece::Text { seed: 2, len: 100 },
        Piece::Hole(5000),
        Piece::Text { seed: 3, len: 700 },
        Piece::Hole(9001),
    ];
    let entries = [
        (vec![b'n'; 100], file(512)),
        (vec![b'o'; 101], file(513)),
        (b"dir".to_vec(), Node::dir([(vec![b'p'; 200], Node::dir([(vec![b'q'; 90], file(0))]))])),
        (b"wide".to_vec(), wide),
        (b"late".to_vec(), late),
        (b"link".to_vec(), special(What::Symlink(vec![b't'; 101]))),
        (b"link100".to_vec(), special(What::Symlink(vec![b't'; 100]))),
        (b"device".to_vec(), special(device(4095, 0xf_ffff))),
        (b"far device".to_vec(), special(device(1 << 22, u32::MAX))),
        (b"fifo".to_vec(), special(What::Fifo)),
        (b"socket".to_vec(), special(What::Socket)),
        (b"hole".to_vec(), Node::file(vec![Piece::Hole(1 << 40)])),
        (b"holes".to_vec(), Node::file(holes)),
        (b"odd holes".to_vec(), Node::file(odd_holes)),
        (b"small hole".to_vec(), Node::file(vec![Piece::Text { seed: 1, len: 10 }, Piece::Hole(4000)])),
        (b"large".to_vec(), Node::file(vec![Piece::Noise { seed: 1, len: 5_000_001 }])),
        ("umläut".repeat(20).into_bytes(), file(3)),
        (b"\xff\xfe".repeat(60), file(3)),
    ];
    let links = vec![
        ([&b"dir/"[..], &[b'h'; 150]].concat(), b"zz".to_vec()),
        (b"large".to_vec(), [&b"dir/"[..], &[b'h'; 150]].concat()),
    ];
    let links = links.into_iter().rev().collect();
    Spec { root: Node::dir(entries), links }
}

#[test]
fn archives_are_read_back_unchanged_for_any_number_of_threads() {
    let mut spec = corners();
    // The comparison reads everything.
    let What::Dir(entries) = &mut spec.root.what else { unreachable!() };
    entries.insert(b"hole".to_vec(), Node::file(vec![Piece::Hole(20 << 20)]));
    let tree = spec.tree().unwrap();
    let (archive, summary) = write(&tree, &options(0));
    assert_eq!(differences(&snapshot_of(&archive), &kept(&tree)), Vec::<String>::new());
    let sockets: Vec<_> = summary.warnings.kinds().flat_map(|(_, counted)| &counted.first).collect();
    assert_eq!(sockets, [&Warning::new(WarningKind::Socket, "socket")]);
    for threads in [0, 1, 2, 7] {
        // Little memory, and somewhat more.
        for memory in [0, 3 << 20, 64 << 20] {
            for write in [write, write_file] {
                let (again, same) = write(&tree, &TarOptions { memory, ..options(threads) });
                assert!(
                    again == archive && (same.entries, same.bytes) == (summary.entries, summary.bytes),
                    "{threads} threads, {memory} bytes"
                );
            }
        }
    }
}

#[test]
fn holes_cost_nothing_and_plain_members_one_header() {
    let tree = corners().tree().unwrap();
    let all = write(&tree, &options(0)).0;
    assert!(all.len() < 6_000_000, "a hole of 1 TiB in {} bytes", all.len());
    let plain = Spec::of([(b"f".to_vec(), Node::file(vec![Piece::Zeros(512)]))]).tree().unwrap();
    assert_eq!(write(&plain, &options(0)).0.len(), 512 + 512 + 512 + 1024);
}

#[test]
fn paths_select_subtrees_and_their_parent_directories() {
    let tree = corners().tree().unwrap();
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let inner = format!("dir/{}/{}", "p".repeat(200), "q".repeat(90));
    let (archive, summary) =
        write(&tree, &TarOptions { select: Selection::from(paths(&[&inner, "fifo"])), ..options(0) });
    let seen: Vec<_> = snapshot_of(&archive).into_keys().collect();
    assert_eq!(seen, ["", "dir", &format!("dir/{}", "p".repeat(200)), &inner, "fifo"]);
    assert_eq!(summary.entries, 4);
    // The first selected name of a file is the one with the data.
    let (archive, _) = write(&tree, &TarOptions { select: Selection::from(paths(&["large"])), ..options(0) });
    assert_eq!(snapshot_of(&archive)["large"].size, 5_000_001);
    let missing = TarOptions { select: Selection::from(paths(&["nothing"])), ..options(0) };
    let error = write_tar(&TreeImage::new(&tree), &mut Vec::new(), &missing, &Progress::default());
    assert!(matches!(error, Err(Error::NotFound { .. })));
}

#[test]
fn without_xattrs_there_are_none() {
    let tree = extractable();
    let archive = write(&tree, &TarOptions { xattrs: false, ..options(0) }).0;
    assert!(read(&archive).unwrap().xattrs.is_empty());
}

/// Accepts some bytes, then fails.
struct Closing(usize);

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let n = bytes.len().min(self.0);
        self.0 -= n;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_reported_as_such() {
    let tree = corners().tree().unwrap();
    for (room, threads) in [(0, 0), (0, 2), (300_000, 0), (300_000, 2)] {
        let (mut out, progress) = (Closing(room), Progress::default());
        let error = write_tar(&TreeImage::new(&tree), &mut out, &options(threads), &progress).unwrap_err();
        let Error::Io { source, path, .. } = error else { panic!("{error}") };
        assert_eq!((source.kind(), &*path), (io::ErrorKind::BrokenPipe, Path::new("tar archive")));
    }
}

/// A storage on a disk of so many bytes.
#[derive(Debug)]
struct Disk(u64);

impl Storage for Disk {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset + bytes.len() as u64 > self.0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_whichever_thread_meets_it() {
    let tree = corners().tree().unwrap();
    for (room, threads) in [(0, 0), (0, 2), (300_000, 0), (300_000, 3), (3_000_000, 3)] {
        let (out, progress) = (packfs_blocks::Output::over(Disk(room), "disk"), Progress::default());
        let error = write_tar_to(&TreeImage::new(&tree), &out, &options(threads), &progress).unwrap_err();
        let Error::Io { source, path, .. } = error else { panic!("{error}") };
        assert_eq!((source.kind(), &*path), (io::ErrorKind::StorageFull, Path::new("tar archive")));
    }
}

#[test]
fn damage_in_the_image_is_an_error() {
    let mut fake = FakeImage::default().dir(0, &[("a", 1), ("b", 2)]).file(1, &[1; 10_000]).file(2, b"damaged");
    fake.inodes.get_mut(&2).unwrap().damaged = true;
    for threads in [0, 2] {
        let error = write_tar(&fake, &mut Vec::new(), &options(threads), &Progress::default());
        assert!(error.is_err());
    }
    // A file that ends before its size.
    let mut fake = FakeImage::default().dir(0, &[("a", 1)]);
    fake.set(1, FileType::File { size: 4000 }, 0o644);
    let error = write_tar(&fake, &mut Vec::new(), &options(0), &Progress::default()).unwrap_err();
    assert_eq!(error.to_string(), "a: it ends at byte 0, before its size");
    let knot = FakeImage::default().dir(0, &[("a", 1), ("b", 1)]).dir(1, &[]);
    assert!(write_tar(&knot, &mut Vec::new(), &options(0), &Progress::default()).is_err());
    assert_eq!(knot.root(), Nid(0));
}

/// Pipes an archive to a program; returns its output, or `None` if it is not installed.
fn feed(program: &str, args: &[&str], dir: &Path, archive: &[u8]) -> Option<String> {
    let spawned = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        skipped("archives for other readers", program);
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    let bytes = archive.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {said}");
    feeder.join().unwrap().unwrap();
    // GNU tar treats names as bytes anyway, and reports that.
    let said = said.replace("tar: Ignoring unknown extended header keyword 'hdrcharset'\n", "");
    assert_eq!(said, "", "{program} {args:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A tree without features that the test's file systems may lack.
fn extractable() -> Tree {
    let mut spec = corners();
    let What::Dir(entries) = &mut spec.root.what else { unreachable!() };
    for name in [&b"far device"[..], b"late", b"hole"] {
        entries.remove(name);
    }
    entries.insert(b"hole".to_vec(), Node::file(vec![Piece::Hole(10 << 20)]));
    // GNU tar warns of times before 1970.
    entries.get_mut(&b"wide"[..]).unwrap().attrs.mtime.secs = 2;
    spec.tree().unwrap()
}

#[test]
fn gnu_tar_and_bsdtar_list_and_extract_the_same() {
    if !is_root() {
        return skipped("extraction by other programs", "a root user");
    }
    let tree = extractable();
    let archive = write(&tree, &options(2)).0;
    let gnu = ["--numeric-owner", "--xattrs", "--xattrs-include=*", "-xpf", "-"];
    for (program, args) in [("tar", &gnu[..]), ("bsdtar", &["--numeric-owner", "--xattrs", "-xpf", "-"])] {
        let dir = tempfile::tempdir().unwrap();
        let Some(listing) = feed(program, &["-tvf", "-"], dir.path(), &archive) else { continue };
        assert_eq!(listing.lines().count(), 20, "{listing}");
        feed(program, args, dir.path(), &archive);
        let (mut seen, mut want) = (snapshot(dir.path()).unwrap(), kept(&tree));
        if program == "bsdtar" {
            // It keeps names of attributes as they are, and does not set the time of the destination.
            seen.values_mut()
                .chain(want.values_mut())
                .for_each(|e| e.xattrs.retain(|name, _| !name.contains("user.a")));
            seen.get_mut("").unwrap().mtime = want[""].mtime;
        }
        assert_eq!(differences(&seen, &want), Vec::<String>::new(), "{program}");
    }
}

#[test]
fn the_tar_crate_reads_it() {
    let spec = Spec::of([(b"f".to_vec(), Node::file(vec![Piece::Noise { seed: 1, len: 70_000 }]))]);
    let archive = write(&spec.tree().unwrap(), &options(2)).0;
    let mut reader = ::tar::Archive::new(&archive[..]);
    let names: Vec<_> = reader.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned()).collect();
    assert_eq!(names, [Path::new("./"), Path::new("f")]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_trees_round_trip(spec in specs(Shape { odd_times: true, ..Shape::default() })) {
        let tree = spec.tree().unwrap();
        let archive = write(&tree, &options(2)).0;
        prop_assert_eq!(differences(&snapshot_of(&archive), &kept(&tree)), Vec::<String>::new());
    }
}
