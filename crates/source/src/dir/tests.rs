//! Scans of real directories, and of directories that change during the scan.
#![allow(clippy::cast_possible_truncation, reason = "test data is small")]

use crate::name::display;
use crate::{ExcludeRules, OnError};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};

use proptest::prelude::*;

use super::*;
use crate::testing::{Node, Piece, Shape, Spec, deep, differences, snapshot, snapshot_tree, specs, wide};

/// A store for sources that need none, such as directories.
struct NoStore;

impl Store for NoStore {
    fn put(&mut self, _: &mut dyn Read, _: u64, _: &[(u64, u64)]) -> Result<u32> {
        unreachable!("files of a directory are read later")
    }
}

pub(super) fn scan(path: &Path, options: Options) -> Result<Tree> {
    let mut tree = Tree::default();
    Dir::new(path, options).scan(&mut tree, &mut NoStore)?;
    Ok(tree)
}

fn data(tree: &Tree, path: &[u8]) -> (u64, FileData) {
    match tree.inode(tree.lookup(path).unwrap()).kind {
        Kind::File { size, data } => (size, data.into_owned()),
        kind => panic!("{kind:?}"),
    }
}

/// Reads a file as a writer does.
fn read(tree: &Tree, path: &[u8]) -> Result<Vec<u8>> {
    let (size, FileData::Source { from, key }) = data(tree, path) else { return Ok(Vec::new()) };
    let mut file = from.open(key)?;
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, 0)?;
    file.finish()?;
    Ok(bytes)
}

fn order(tree: &Tree) -> Vec<(Ino, Vec<u8>)> {
    let mut seen = Vec::new();
    tree.walk(|ino, path| {
        seen.push((ino, path.to_vec()));
        Ok(())
    })
    .unwrap();
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_scan_sees_everything_and_the_same_on_any_number_of_threads(
        spec in specs(Shape { odd_times: true, ..Shape::default() })
    ) {
        let dir = tempfile::tempdir().unwrap();
        spec.create(dir.path()).unwrap();
        let disk = snapshot(dir.path()).unwrap();
        let serial = scan(dir.path(), Options::default()).unwrap();
        prop_assert_eq!(differences(&disk, &snapshot_tree(&serial).unwrap()), Vec::<String>::new());
        let parallel = scan(dir.path(), Options { threads: 3, ..Options::default() }).unwrap();
        prop_assert_eq!(order(&serial), order(&parallel));
    }
}

#[test]
fn deep_and_wide_directories_are_scanned() {
    for spec in [deep(80, 100), wide(3000)] {
        let dir = tempfile::tempdir().unwrap();
        spec.create(dir.path()).unwrap();
        let tree = scan(dir.path(), Options { threads: 2, ..Options::default() }).unwrap();
        let found = snapshot_tree(&tree).unwrap();
        assert_eq!(differences(&snapshot(dir.path()).unwrap(), &found), Vec::<String>::new());
        assert_eq!(found.len(), spec.paths().len());
    }
}

#[test]
fn a_file_is_a_source_of_one_entry() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "content").unwrap();
    symlink("file", dir.path().join("link")).unwrap();
    for name in ["file", "link"] {
        let tree = scan(&dir.path().join(name), Options::default()).unwrap();
        assert_eq!(order(&tree).len(), 2);
        assert_eq!(read(&tree, name.as_bytes()).unwrap(), b"content");
    }
    let error = scan(&dir.path().join("gone"), Options::default()).unwrap_err();
    assert!(error.to_string().contains("gone: cannot read the attributes"), "{error}");
}

#[test]
fn a_later_source_replaces_and_adds() {
    let file = |len| Node::file(vec![Piece::Text { seed: 0, len }]);
    let [one, two] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let sub = |len| (b"d".to_vec(), Node::dir([(b"x".to_vec(), file(len)), (vec![b'0' + len as u8], file(len))]));
    Spec::of([sub(1), (b"y".to_vec(), file(1))]).create(one.path()).unwrap();
    Spec::of([sub(2), (b"y".to_vec(), Node::dir([]))]).create(two.path()).unwrap();
    let mut tree = scan(one.path(), Options::default()).unwrap();
    Dir::new(two.path(), Options::default()).scan(&mut tree, &mut NoStore).unwrap();
    let paths: Vec<_> = order(&tree).into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, [&b""[..], b"d", b"d/1", b"d/2", b"d/x", b"y"]);
    assert_eq!((data(&tree, b"d/x").0, data(&tree, b"d/1").0), (2, 1));
    assert!(matches!(tree.inode(tree.lookup(b"y").unwrap()).kind, Kind::Dir));
}

#[test]
fn patterns_and_inodes_are_left_out() {
    let file = || Node::file(vec![]);
    let inner = Node::dir([(b"a.o".to_vec(), file()), (b"a.c".to_vec(), file()), (b"out".to_vec(), file())]);
    let dir = tempfile::tempdir().unwrap();
    Spec::of([(b"src".to_vec(), inner.clone()), (b"doc".to_vec(), inner)]).create(dir.path()).unwrap();
    let out = fs::metadata(dir.path().join("src/out")).unwrap();
    let id = (std::os::unix::fs::MetadataExt::dev(&out), std::os::unix::fs::MetadataExt::ino(&out));
    let exclude = ExcludeRules::new(["*.o", "/doc/"]).unwrap();
    let tree = scan(dir.path(), Options { exclude, leave_out: vec![id], ..Options::default() }).unwrap();
    let paths: Vec<_> = order(&tree).into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, [&b""[..], b"src", b"src/a.c"]);
}

#[test]
fn holes_are_reported_where_the_file_system_knows_them() {
    let dir = tempfile::tempdir().unwrap();
    let block = 1 << 16;
    let pieces = vec![Piece::Hole(block), Piece::Text { seed: 1, len: block }, Piece::Hole(block)];
    Spec::of([
        (b"sparse".to_vec(), Node::file(pieces)),
        (b"hole".to_vec(), Node::file(vec![Piece::Hole(1 << 33)])),
        (b"full".to_vec(), Node::file(vec![Piece::Zeros(block)])),
    ])
    .create(dir.path())
    .unwrap();
    let tree = scan(dir.path(), Options::default()).unwrap();
    let ranges = |path| {
        let (_, FileData::Source { from, key }) = data(&tree, path) else { panic!() };
        let mut file = from.open(key).unwrap();
        let mut at = 0;
        let mut out = Vec::new();
        while let Some((start, end)) = file.next_data(at).unwrap() {
            out.push((start, end));
            at = end;
        }
        file.finish().unwrap();
        out
    };
    assert_eq!(ranges(b"full"), [(0, block)]);
    assert_eq!(ranges(b"sparse"), [(block, 2 * block)]);
    assert_eq!(ranges(b"hole"), []);
}

#[test]
fn a_file_that_changes_after_the_scan_is_refused_and_the_change_named() {
    type Change = fn(&Path);
    let append: Change = |path| OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap();
    let table: [(&str, Change, &str); 8] = [
        ("grown", append, "was 9 bytes long when listed and has 13 now"),
        (
            "shrunk",
            |path| File::options().write(true).open(path).unwrap().set_len(3).unwrap(),
            "was 9 bytes long when listed and has 3 now",
        ),
        (
            "written",
            |path| File::options().write(true).open(path).unwrap().write_all_at(b"X", 0).unwrap(),
            "was written to after it was listed",
        ),
        ("gone", |path| fs::remove_file(path).unwrap(), "vanished after it was listed"),
        (
            "directory",
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
            "another file has taken its place",
        ),
        (
            "link",
            |path| {
                fs::remove_file(path).unwrap();
                symlink("/etc/passwd", path).unwrap();
            },
            "is no longer the file",
        ),
        (
            "replaced",
            |path| {
                let new = path.with_extension("new");
                fs::write(&new, "different").unwrap();
                fs::rename(new, path).unwrap();
            },
            "another file has taken its place",
        ),
        (
            "fifo",
            |path| {
                fs::remove_file(path).unwrap();
                rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
            },
            "another file has taken its place",
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, ..) in &table {
        fs::write(dir.path().join(name), "123456789").unwrap();
    }
    let tree = scan(dir.path(), Options::default()).unwrap();
    for (name, change, expected) in table {
        assert_eq!(read(&tree, name.as_bytes()).unwrap(), b"123456789");
        // The kernel's clock for files ticks every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        change(&dir.path().join(name));
        let error = read(&tree, name.as_bytes()).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{name}: {error:?}");
        assert!(error.to_string().contains(expected) && error.to_string().contains(name), "{name}: {error}");
    }
}

#[test]
fn a_directory_swapped_for_a_link_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "secret").unwrap();
    let sub = Node::dir([(b"file".to_vec(), Node::file(vec![Piece::Text { seed: 0, len: 6 }]))]);
    Spec::of([(b"sub".to_vec(), sub)]).create(dir.path()).unwrap();
    let root = ScanRoot::open(dir.path()).unwrap();
    let tree = scan(dir.path(), Options::default()).unwrap();
    fs::remove_dir_all(dir.path().join("sub")).unwrap();
    symlink(outside.path(), dir.path().join("sub")).unwrap();
    let listing = listing::list(&root, &Options::default(), (b"sub", None), None, &mut ListingBuffers::new());
    assert!(listing.entries.is_empty());
    assert!(matches!(&listing.errors[..], [Error::Changed { .. }]), "{listing:?}");
    assert!(matches!(read(&tree, b"sub/file").unwrap_err(), Error::Changed { .. }));
}

#[test]
fn unreadable_entries_stop_the_scan_or_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let root = ScanRoot::open(dir.path()).unwrap();
    fs::write(dir.path().join("here"), "").unwrap();
    let listing = listing::list(&root, &Options::default(), (b"gone", None), None, &mut ListingBuffers::new());
    let [error] = &listing.errors[..] else { panic!("{listing:?}") };
    assert!(error.to_string().contains("gone: vanished while its directory was read"), "{error}");
    // The `exe` link of a process that has ended but was not waited for cannot be read, not even by root.
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let path = PathBuf::from(format!("/proc/{}", child.id()));
    while fs::read_link(path.join("exe")).is_ok() {
        std::thread::yield_now();
    }
    let exclude = ExcludeRules::new(["net/", "task/", "attr/"]).unwrap();
    let options = Options { exclude, xattrs: false, ..Options::default() };
    let error = scan(&path, options.clone()).unwrap_err().to_string();
    let mut source = Dir::new(&path, Options { on_error: OnError::Skip, ..options });
    let mut tree = Tree::default();
    source.scan(&mut tree, &mut NoStore).unwrap();
    child.wait().unwrap();
    assert!(error.starts_with(&format!("{}/", display(&path))), "{error}");
    assert!(source.left_out().iter().any(|error| error.to_string().contains("/exe: ")), "{:?}", source.left_out());
    assert!(tree.lookup(b"exe").is_none() && tree.lookup(b"status").is_some());
}

#[test]
fn other_file_systems_are_not_entered_on_request() {
    // /proc and /sys are separate file systems on every Linux; the root is too large to scan here.
    let Ok(stat) = fs::metadata("/proc/sys/fs/binfmt_misc") else { return };
    let parent = fs::metadata("/proc/sys/fs").unwrap();
    if std::os::unix::fs::MetadataExt::dev(&stat) == std::os::unix::fs::MetadataExt::dev(&parent) {
        return;
    }
    let options = Options { one_file_system: true, on_error: OnError::Skip, ..Options::default() };
    let tree = scan(Path::new("/proc/sys/fs"), options.clone()).unwrap();
    let at = tree.lookup(b"binfmt_misc").unwrap();
    assert_eq!(tree.entries(at).count(), 0);
    let tree = scan(Path::new("/proc/sys/fs"), Options { no_mount_points: true, ..options }).unwrap();
    assert_eq!(tree.lookup(b"binfmt_misc"), None);
}
