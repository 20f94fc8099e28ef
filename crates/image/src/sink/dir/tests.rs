//! Round trips, and every kind of failure.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use packfs_blocks::io::faults::{FaultKind, FaultyFiles};
use proptest::prelude::*;

use super::*;
use crate::Tree;
use crate::image::FileType;
use crate::sink::fake::FakeImage;
use crate::testing::{
    Attrs, Memory, Node, Piece, Shape, Snapshot, Spec, What, deep, differences, is_root, snapshot, snapshot_tree, specs,
};
use crate::tree::{DeviceNumber, Time, TreeImage};

fn options(threads: usize) -> ExtractOptions {
    ExtractOptions { threads, ..ExtractOptions::default() }
}

fn run(image: &dyn Image, dir: &Path, options: &ExtractOptions) -> Result<ExtractSummary> {
    extract(image, dir, options, &Progress::default())
}

/// Extracts `spec` and returns the differences of the result.
fn round_trip(spec: &Spec, threads: usize) -> Vec<String> {
    let tree = spec.tree().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let summary = run(&TreeImage::new(&tree), &dir.path().join("new/root"), &options(threads)).unwrap();
    let notes: Vec<String> = summary.not_restored.iter().map(ToString::to_string).collect();
    assert_eq!(notes, Vec::<String>::new());
    let found = snapshot(&dir.path().join("new/root")).unwrap();
    assert_eq!(summary.entries(), found.len() as u64);
    differences(&snapshot_tree(&tree).unwrap(), &found)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn an_extraction_equals_its_image(spec in specs(Shape::default()), threads in prop::sample::select(vec![0, 1, 2, 7])) {
        prop_assert_eq!(round_trip(&spec, threads), Vec::<String>::new());
    }
}

fn large_file() -> Node {
    let text = |seed, len| Piece::Text { seed, len };
    Node::file(vec![text(1, 3 << 20), Piece::Hole(2 << 20), text(2, (5 << 20) + 1234), Piece::Hole(7 << 20)])
}

#[test]
fn large_files_are_whole_and_their_holes_are_holes() {
    let small = Node::file(vec![Piece::Hole(64 << 10), Piece::Text { seed: 3, len: 4096 }, Piece::Hole(64 << 10)]);
    let hole = Node::file(vec![Piece::Hole(1 << 40)]);
    let files = [(b"large".to_vec(), large_file()), (b"small".to_vec(), small), (b"terabyte".to_vec(), hole)];
    let spec = Spec::of(files);
    for threads in [0, 2] {
        let tree = spec.tree().unwrap();
        let dir = tempfile::tempdir().unwrap();
        run(&TreeImage::new(&tree), dir.path(), &options(threads)).unwrap();
        let found = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!(found("terabyte").len(), 1 << 40);
        assert!(found("terabyte").blocks() <= 16);
        assert!(found("small").blocks() * 512 <= 16 << 10, "{} blocks", found("small").blocks());
        assert!((8 << 20..9 << 20).contains(&(found("large").blocks() * 512)), "{} blocks", found("large").blocks());
    }
    let no_terabyte = Spec::of([(b"large".to_vec(), large_file())]);
    for threads in [0, 1, 2, 7] {
        assert_eq!(round_trip(&no_terabyte, threads), Vec::<String>::new());
    }
}

#[test]
fn holes_are_written_as_zeros_on_request() {
    let spec = Spec::of([(b"f".to_vec(), Node::file(vec![Piece::Hole(3 << 20)]))]);
    let tree = spec.tree().unwrap();
    let dir = tempfile::tempdir().unwrap();
    run(&TreeImage::new(&tree), dir.path(), &ExtractOptions { sparse: false, ..options(2) }).unwrap();
    assert!(std::fs::metadata(dir.path().join("f")).unwrap().blocks() * 512 >= 3 << 20);
}

/// Runs a test of this file as a separate process under `command`, with the destination in the
/// environment. `None` if the command does not exist.
fn run_apart(command: &[&str], test: &str, place: &Path) -> Option<(bool, String)> {
    let program = place.with_extension("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let ran = std::process::Command::new(command[0])
        .args(&command[1..])
        .arg(&program)
        .args(["--exact", &format!("sink::dir::tests::{test}")])
        .env("PACKFS_TEST_PLACE", place)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    Some((ran.status.success() && text.contains("1 passed"), text))
}

/// More levels than are kept open, paths beyond the system's limit, and many directories at a time.
fn deep_and_wide() -> Tree {
    let leaf = || Node::dir([(b"f".to_vec(), Node::file(vec![Piece::Zeros(1)]))]);
    let mut spec = deep(150, 50);
    let What::Dir(entries) = &mut spec.root.what else { unreachable!("a root is a directory") };
    entries.extend((0..2000).map(|n| (format!("dir{n}").into_bytes(), leaf())));
    spec.links.extend((0..1000).map(|n| (format!("dir{n}/f").into_bytes(), format!("dir{}/g", n + 1000).into_bytes())));
    spec.tree().unwrap()
}

/// Run by the test below with a low limit on open files.
#[test]
fn with_few_descriptors() {
    let Some(place) = std::env::var_os("PACKFS_TEST_PLACE") else { return };
    run(&TreeImage::new(&deep_and_wide()), Path::new(&place), &options(2)).unwrap();
}

#[test]
fn deep_and_wide_trees_need_few_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let limited = ["sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"];
    let (passed, text) = run_apart(&limited, "with_few_descriptors", &dir.path().join("out")).unwrap();
    assert!(passed, "{text}");
    let (there, found) = (snapshot_tree(&deep_and_wide()).unwrap(), snapshot(&dir.path().join("out")).unwrap());
    assert_eq!(differences(&there, &found), Vec::<String>::new());
}

#[test]
fn directories_without_permissions_are_filled_first() {
    let inner = Node::dir([(b"f".to_vec(), Node::file(vec![Piece::Zeros(3)]))]);
    let mut outer = Node::dir([(b"inner".to_vec(), inner)]);
    outer.attrs.mode = 0;
    let tree = Spec::of([(b"outer".to_vec(), outer)]).tree().unwrap();
    let dir = tempfile::tempdir().unwrap();
    run(&TreeImage::new(&tree), dir.path(), &options(2)).unwrap();
    let outer = dir.path().join("outer");
    assert_eq!(std::fs::metadata(&outer).unwrap().permissions().mode() & 0o7777, 0);
    std::fs::set_permissions(&outer, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(std::fs::read(outer.join("inner/f")).unwrap(), [0; 3]);
}

#[test]
fn times_before_1970_and_after_2106_are_exact() {
    for (secs, nanos) in [(-5_000_000_000, 1), (-1, 999_999_999), (0, 0), (5_000_000_000, 123_456_789)] {
        let attrs = Attrs { mtime: Time { secs, nanos }, ..Attrs::plain(0o644) };
        let file = Node { attrs: attrs.clone(), what: What::File(vec![Piece::Zeros(1)]) };
        let link = Node { attrs: attrs.clone(), what: What::Symlink(b"nowhere".to_vec()) };
        let dir = Node { attrs, what: What::Dir([(b"f".to_vec(), file)].into()) };
        let tree = Spec::of([(b"d".to_vec(), dir), (b"l".to_vec(), link)]).tree().unwrap();
        // The file system of the test may support a smaller range of years: tmpfs supports all.
        let place = tempfile::tempdir_in("/dev/shm").unwrap();
        run(&TreeImage::new(&tree), place.path(), &options(2)).unwrap();
        for name in ["d", "d/f", "l"] {
            let found = std::fs::symlink_metadata(place.path().join(name)).unwrap();
            assert_eq!((found.mtime(), found.mtime_nsec()), (secs, i64::from(nanos)), "{name}");
        }
    }
}

fn two_files() -> FakeImage {
    FakeImage::default().dir(0, &[("a", 1), ("b", 2)]).file(1, b"new a").file(2, b"new b")
}

#[test]
fn existing_files_are_refused_or_replaced_but_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, place) = (dir.path().join("outside"), dir.path().join("place"));
    std::fs::write(&outside, "precious").unwrap();
    std::fs::create_dir(&place).unwrap();
    symlink("../outside", place.join("a")).unwrap();
    std::fs::write(place.join("other"), "stays").unwrap();
    let error = run(&two_files(), &place, &options(0)).unwrap_err().to_string();
    assert!(error.contains("place/a exists"), "{error}");
    let summary = run(&two_files(), &place, &ExtractOptions { replace: true, ..options(2) }).unwrap();
    assert_eq!(summary.files, 2);
    assert!(std::fs::symlink_metadata(place.join("a")).unwrap().is_file());
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(
        (read(&outside), read(&place.join("a")), read(&place.join("other"))),
        ("precious".into(), "new a".into(), "stays".into())
    );
}

#[test]
fn a_link_where_a_directory_belongs_is_not_entered() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, place) = (dir.path().join("outside"), dir.path().join("place"));
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::create_dir_all(&place).unwrap();
    symlink("../outside", place.join("d")).unwrap();
    let image = FakeImage::default().dir(0, &[("d", 1)]).dir(1, &[("f", 2)]).file(2, b"x");
    let error = run(&image, &place, &options(1)).unwrap_err().to_string();
    assert!(error.contains("place/d exists"), "{error}");
    run(&image, &place, &ExtractOptions { replace: true, ..options(1) }).unwrap();
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(std::fs::read(place.join("d/f")).unwrap(), b"x");
}

#[test]
fn existing_directories_are_filled_and_keep_their_attributes_unless_replacing() {
    let image = FakeImage::default().dir(0, &[("d", 1)]).dir(1, &[("f", 2)]).file(2, b"x");
    let place = tempfile::tempdir().unwrap();
    let inner = place.path().join("d");
    std::fs::create_dir(&inner).unwrap();
    std::fs::set_permissions(&inner, PermissionsExt::from_mode(0o2770)).unwrap();
    let mode = || std::fs::metadata(&inner).unwrap().permissions().mode() & 0o7777;
    run(&image, place.path(), &options(2)).unwrap();
    assert_eq!((mode(), std::fs::read(inner.join("f")).unwrap()), (0o2770, b"x".to_vec()));
    run(&image, place.path(), &ExtractOptions { replace: true, ..options(2) }).unwrap();
    assert_eq!(mode(), 0o755);
    assert_eq!(std::fs::metadata(&inner).unwrap().mtime(), 1_000_000_000);
    // A directory is never replaced.
    let file = FakeImage::default().dir(0, &[("d", 1)]).file(1, b"x");
    assert!(run(&file, place.path(), &ExtractOptions { replace: true, ..options(2) }).is_err());
    assert!(inner.join("f").exists());
}

#[test]
fn hostile_names_and_links_do_not_lead_out() {
    let fake = FakeImage::default;
    let outside = "../outside";
    let cases: [(&str, FakeImage); 8] = [
        ("..", fake().dir(0, &[("..", 1)]).dir(1, &[("outside", 2)]).dir(2, &[("f", 3)]).file(3, b"x")),
        ("slash", fake().dir(0, &[("../outside/f", 1)]).file(1, b"x")),
        ("absolute", fake().dir(0, &[("/outside/f", 1)]).file(1, b"x")),
        ("empty", fake().dir(0, &[("", 1)]).file(1, b"x")),
        ("nul", fake().dir(0, &[("a\0b", 1)]).file(1, b"x")),
        (
            "a link, then a directory of the same name",
            fake().dir(0, &[("d", 1), ("d", 2)]).symlink(1, outside).dir(2, &[("f", 3)]).file(3, b"x"),
        ),
        (
            "a link, then a file of the same name",
            fake().dir(0, &[("f", 1), ("f", 2)]).symlink(1, "../outside/f").file(2, b"x"),
        ),
        ("a directory in itself", fake().dir(0, &[("d", 1)]).dir(1, &[("again", 1), ("root", 0)])),
    ];
    for (name, image) in &cases {
        for threads in [0, 2] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("outside")).unwrap();
            let place = dir.path().join("place");
            assert!(run(image, &place, &options(threads)).is_err(), "{name}");
            let summary =
                run(image, &dir.path().join("place2"), &ExtractOptions { on_error: OnError::Skip, ..options(threads) });
            assert!(!summary.unwrap().skipped.is_empty(), "{name}");
            let replace = ExtractOptions { on_error: OnError::Skip, replace: true, ..options(threads) };
            run(image, &place, &replace).unwrap();
            assert_eq!(std::fs::read_dir(dir.path().join("outside")).unwrap().count(), 0, "{name}");
        }
    }
}

#[test]
fn damaged_files_fail_or_are_left_out_and_listed() {
    let big = vec![7; 3 << 20];
    let image = FakeImage::default().dir(0, &[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("short", 6)]);
    let image = image.file(1, b"whole").file(2, b"small").file(3, &big);
    let mut image = image.dir(4, &[]).file(5, &big).file(6, b"x");
    for nid in [2, 3, 4] {
        image.inodes.get_mut(&nid).unwrap().damaged = true;
    }
    image.inodes.get_mut(&6).unwrap().stat.kind = FileType::File { size: 9000 };
    for threads in [0, 2] {
        let dir = tempfile::tempdir().unwrap();
        assert!(run(&image, dir.path(), &options(threads)).is_err());
        let dir = tempfile::tempdir().unwrap();
        let skip = ExtractOptions { on_error: OnError::Skip, ..options(threads) };
        let summary = run(&image, dir.path(), &skip).unwrap();
        assert_eq!((summary.skipped.len(), summary.files, summary.is_complete()), (4, 2, false));
        assert!(summary.skipped.iter().all(|error| error.path().is_some()), "{:?}", summary.skipped);
        let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["a", "e"]);
    }
}

/// A file that is in the way of a first name is not the image's, so no other name becomes a link to it.
#[test]
fn further_names_of_a_file_that_is_left_out_are_reported() {
    use std::os::unix::fs::MetadataExt;

    for (len, threads) in [(5, 0), (5, 2), (3 << 20, 0), (3 << 20, 2)] {
        let mut spec = Spec::of([(b"a".to_vec(), Node::file(vec![Piece::Noise { seed: 1, len }]))]);
        spec.links.push((b"a".to_vec(), b"b".to_vec()));
        let tree = spec.tree().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "own").unwrap();
        let skip = ExtractOptions { on_error: OnError::Skip, ..options(threads) };
        let summary = run(&TreeImage::new(&tree), dir.path(), &skip).unwrap();
        let own = dir.path().join("a");
        assert_eq!((std::fs::read(&own).unwrap(), own.metadata().unwrap().nlink()), (b"own".to_vec(), 1));
        assert!(!dir.path().join("b").exists(), "{len} bytes");
        assert_eq!((summary.skipped.len(), summary.not_restored.len(), summary.hard_links), (1, 1, 0));
    }
}

#[test]
fn only_selected_entries_are_extracted_with_their_parent_directories() {
    let file = || Node::file(vec![Piece::Zeros(1)]);
    let mut sub = Node::dir([(b"f".to_vec(), file()), (b"g".to_vec(), file())]);
    sub.attrs.mode = 0o700;
    let mut spec = Spec::of([(b"a".to_vec(), file()), (b"sub".to_vec(), sub), (b"z".to_vec(), Node::dir([]))]);
    spec.links.push((b"a".to_vec(), b"sub/link".to_vec()));
    spec.root.attrs.mode = 0o710;
    let tree = spec.tree().unwrap();
    let place = tempfile::tempdir().unwrap();
    let some = ExtractOptions { select: Selection::from(vec!["sub/[gl]*".into(), "./z/".into()]), ..options(1) };
    let summary = run(&TreeImage::new(&tree), place.path(), &some).unwrap();
    // The first name of the linked file was not selected, so its additional name becomes an independent file.
    let found = snapshot(place.path()).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["", "sub", "sub/g", "sub/link", "z"]);
    assert_eq!((found["sub"].mode, found["sub/link"].size, summary.hard_links), (0o700, 1, 0));
    for (root_attributes, paths, mode) in [
        (false, &["sub"][..], None),
        (true, &["sub"], Some(0o710)),
        (true, &["none"], Some(0o710)),
        (true, &[], Some(0o710)),
    ] {
        let mut select = Selection::from(paths.iter().map(Into::into).collect::<Vec<_>>());
        select.may_miss = true;
        let place = tempfile::tempdir().unwrap();
        let own = snapshot(place.path()).unwrap()[""].mode;
        let some = ExtractOptions { select, root_attributes, ..options(1) };
        let summary = run(&TreeImage::new(&tree), place.path(), &some).unwrap();
        assert_eq!(snapshot(place.path()).unwrap()[""].mode, mode.unwrap_or(own), "{paths:?}");
        assert_eq!(
            summary.directories,
            if paths == ["none"] { 1 } else { 2 + u64::from(paths.is_empty()) },
            "{paths:?}"
        );
    }
    for path in ["none", "sub/x*", "../a"] {
        let some = ExtractOptions { select: Selection::from(vec![path.into()]), ..options(1) };
        let error = run(&TreeImage::new(&tree), &place.path().join("other"), &some).unwrap_err();
        assert!(error.to_string().contains(path), "{error}");
    }
}

/// Returns the owner of everything in a snapshot, and its modes as text.
fn owners_and_modes(found: &Snapshot) -> Vec<((u32, u32), String)> {
    found.values().map(|entry| (entry.owner, format!("{:o}", entry.mode))).collect()
}

#[test]
fn privileges_are_dropped_without_the_owner() {
    let mut program = Node::file(vec![Piece::Zeros(1)]);
    program.attrs.mode = 0o4755;
    // cap_net_raw, effective and permitted.
    let mut capability = vec![1, 0, 0, 2, 0, 32];
    capability.resize(20, 0);
    program.attrs.xattrs.insert("security.capability".into(), capability);
    program.attrs.owner = (4321, 1234);
    let mut spec = Spec::of([(b"program".to_vec(), program)]);
    spec.root.attrs.owner = (0, 0);
    let tree = spec.tree().unwrap();
    let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let place = tempfile::tempdir().unwrap();
    let summary =
        run(&TreeImage::new(&tree), place.path(), &ExtractOptions { owner: Owner::Extractor, ..options(0) }).unwrap();
    assert!(summary.is_complete());
    let found = snapshot(place.path()).unwrap();
    assert_eq!(owners_and_modes(&found)[1], (me, "755".into()));
    assert!(found["program"].xattrs.is_empty(), "{found:?}");
    if is_root() {
        let place = tempfile::tempdir().unwrap();
        run(&TreeImage::new(&tree), place.path(), &options(0)).unwrap();
        let found = snapshot(place.path()).unwrap();
        assert_eq!(owners_and_modes(&found)[1], ((4321, 1234), "4755".into()));
        assert!(found["program"].xattrs.contains_key("security.capability"), "{found:?}");
    }
}

/// Entries that belong to the user in the image, too, keep what the image gives them, wherever they lie.
#[test]
fn privileges_of_the_own_programs_stay() {
    let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let program = |owner| {
        let mut program = Node::file(vec![Piece::Zeros(1)]);
        (program.attrs.mode, program.attrs.owner) = (0o6755, owner);
        if is_root() {
            let capability = [&[1, 0, 0, 2, 0, 32][..], &[0; 14]].concat();
            program.attrs.xattrs.insert("security.capability".into(), capability);
        }
        program
    };
    let all = || {
        let other = [(me.0 + 1, me.1), (me.0, me.1 + 1)];
        let [user, group] = other.map(program);
        vec![(b"own".to_vec(), program(me)), (b"user".to_vec(), user), (b"group".to_vec(), group)]
    };
    let spec = Spec::of([all(), vec![(b"sub".to_vec(), Node::dir(all()))]].concat());
    let tree = spec.tree().unwrap();
    let halves = [0, 1].map(|index| Part::new(index, 2).unwrap());
    for parts in [&[Part::WHOLE][..], &halves] {
        let place = tempfile::tempdir().unwrap();
        for part in parts {
            let options = ExtractOptions { owner: Owner::Extractor, part: *part, ..options(0) };
            assert!(run(&TreeImage::new(&tree), place.path(), &options).unwrap().is_complete());
        }
        let found = snapshot(place.path()).unwrap();
        for name in ["own", "user", "group", "sub/own", "sub/user", "sub/group"] {
            let (entry, own) = (&found[name], name.ends_with("own"));
            let has_capability = entry.xattrs.contains_key("security.capability");
            let want = (me, if own { 0o6755 } else { 0o755 }, own && is_root());
            assert_eq!((entry.owner, entry.mode, has_capability), want, "{name}, {parts:?}");
        }
    }
}

#[test]
fn a_set_group_id_destination_makes_no_difference() {
    let place = tempfile::tempdir().unwrap();
    if is_root() {
        std::os::unix::fs::chown(place.path(), Some(0), Some(77)).unwrap();
    }
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o2777)).unwrap();
    let inner = Node::dir([(b"f".to_vec(), Node::file(vec![Piece::Zeros(1)])), (b"d".to_vec(), Node::dir([]))]);
    let tree = Spec::of([(b"inner".to_vec(), inner)]).tree().unwrap();
    run(&TreeImage::new(&tree), place.path(), &ExtractOptions { owner: Owner::Restore, ..options(2) }).unwrap();
    let (there, found) = (snapshot_tree(&tree).unwrap(), snapshot(place.path()).unwrap());
    assert_eq!(differences(&there, &found), Vec::<String>::new());
}

/// A tree that an ordinary user can restore only in part.
fn privileged() -> Spec {
    let mut file = Node::file(vec![Piece::Zeros(1)]);
    file.attrs.mode = 0o4555;
    file.attrs.owner = (0, 0);
    file.attrs.xattrs.insert("trusted.secret".into(), b"1".to_vec());
    file.attrs.xattrs.insert("user.open".into(), b"2".to_vec());
    let device = What::Block(DeviceNumber { major: 8, minor: 1 });
    let mut dir = Node::dir([(b"f".to_vec(), file)]);
    dir.attrs.mode = 0;
    let nodes = [(b"d".to_vec(), dir), (b"sda1".to_vec(), Node { attrs: Attrs::plain(0o660), what: device })];
    let mut spec = Spec::of(nodes);
    spec.links.push((b"sda1".to_vec(), b"sdx1".to_vec()));
    spec
}

/// Run by the test below as another user, with the destination in the environment.
#[test]
fn as_an_ordinary_user() {
    let Some(place) = std::env::var_os("PACKFS_TEST_PLACE") else { return };
    assert!(!is_root());
    let tree = privileged().tree().unwrap();
    let summary =
        run(&TreeImage::new(&tree), Path::new(&place), &ExtractOptions { owner: Owner::Restore, ..options(2) })
            .unwrap();
    let mut notes: Vec<String> = summary.not_restored.iter().map(ToString::to_string).collect();
    notes.sort();
    let refused = "Operation not permitted (os error 1)";
    let expected = [
        format!("d/f: owner 0:0: {refused}"),
        format!("d/f: set-user-ID and set-group-ID bits, without the owner: {refused}"),
        format!("d/f: xattr trusted.secret: {refused}"),
        format!("sda1: block device 8:1: {refused}"),
        "sdx1: hard link to sda1: No such file or directory (os error 2)".into(),
    ];
    assert_eq!(notes, expected);
}

#[test]
fn attributes_an_ordinary_user_cannot_restore_are_reported() {
    if !is_root() {
        return crate::testing::skipped("attributes_an_ordinary_user_cannot_restore_are_reported", "setpriv for root");
    }
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let Some((passed, text)) = run_apart(&other, "as_an_ordinary_user", &place.path().join("out")) else {
        return crate::testing::skipped("attributes_an_ordinary_user_cannot_restore_are_reported", "setpriv");
    };
    assert!(passed, "{text}");
    let found = snapshot(&place.path().join("out")).unwrap();
    assert_eq!(found["d"].mode, 0);
    assert_eq!((found["d/f"].mode, found["d/f"].owner), (0o555, (65534, 65534)));
    assert_eq!(found["d/f"].xattrs.keys().collect::<Vec<_>>(), ["user.open"]);
}

/// A file system of four megabytes.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(dir.path())
            .status()
            .is_ok_and(|status| status.success());
        mounted.then_some(SmallDisk(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a program that another test is starting may hold a copy of our descriptors.
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_one_clear_error_and_leaves_no_partial_file() {
    let test = "a_full_disk_is_one_clear_error_and_leaves_no_partial_file";
    if !is_root() {
        return crate::testing::skipped(test, "a mount as root");
    }
    let Some(disk) = SmallDisk::mount() else { return crate::testing::skipped(test, "mount of a tmpfs") };
    let dir = disk.0.path();
    let text = |seed, len| Node::file(vec![Piece::Text { seed, len }]);
    for (name, file) in [("large", text(1, 9 << 20)), ("small", text(2, 900 << 10))] {
        let nodes = (0..8).map(|n| (format!("f{n}").into_bytes(), file.clone()));
        let tree = Spec::of(nodes).tree().unwrap();
        for threads in [0, 2] {
            let place = dir.join(format!("{name}{threads}"));
            let skip = ExtractOptions { on_error: OnError::Skip, ..options(threads) };
            let error = run(&TreeImage::new(&tree), &place, &skip).unwrap_err().to_string();
            assert!(error.contains("cannot write: No space left on device"), "{error}");
            for file in std::fs::read_dir(&place).unwrap() {
                assert_eq!(file.unwrap().metadata().unwrap().len(), 900 << 10, "{name} {threads}");
            }
            std::fs::remove_dir_all(&place).unwrap();
        }
    }
}

#[test]
fn contents_that_a_source_cannot_reread_are_an_error() {
    use crate::tree::{ConflictPolicy, FileData, InodeAttributes, Kind, ROOT};
    let mut tree = Tree::default();
    let from: std::sync::Arc<dyn crate::source::Contents> = std::sync::Arc::new(Memory(vec![vec![Piece::Zeros(5)]]));
    let data = FileData::Source { from, key: 0 };
    tree.add(ROOT, b"f", InodeAttributes::IMPLICIT_DIR, Kind::File { size: 9, data }, ConflictPolicy::Refuse).unwrap();
    let place = tempfile::tempdir().unwrap();
    assert!(run(&TreeImage::new(&tree), place.path(), &options(0)).is_err());
    assert!(!place.path().join("f").exists());
}

/// Files written in every way: batches, pieces of large ones, and holes.
fn of_all_sizes() -> Spec {
    let text = |seed, len| Piece::Text { seed, len };
    let small = |n: u64| Node::file(vec![text(n, 100 + 9000 * n)]);
    let sub = Node::dir((0..8).map(|n| (format!("small{n}").into_bytes(), small(n))));
    let holes = Node::file(vec![text(1, 64 << 10), Piece::Hole(1 << 20), text(2, 5000), Piece::Hole(64 << 10)]);
    let large = Node::file(vec![text(3, (5 << 20) / 2 + 123), Piece::Hole(1 << 20)]);
    Spec::of([(b"sub".to_vec(), sub), (b"large".to_vec(), large), (b"holes".to_vec(), holes)])
}

#[test]
fn whichever_write_fails_every_existing_file_is_whole() {
    let tree = of_all_sizes().tree().unwrap();
    let (image, wanted) = (TreeImage::new(&tree), snapshot_tree(&tree).unwrap());
    for (threads, on_error) in [(0, OnError::Stop), (2, OnError::Stop), (2, OnError::Skip)] {
        for fault in FaultKind::ALL {
            for number in 0.. {
                let dir = tempfile::tempdir().unwrap();
                let faults = FaultyFiles::failing(number, fault);
                let files = Arc::new(faults.clone());
                let given = ExtractOptions { on_error, ..options(threads) };
                let done = extract_on(files, &image, dir.path(), &given, &Progress::default());
                let what = format!("{fault:?} in operation {number}, {:?}, {threads} threads", faults.failed());
                if faults.failed().is_none() {
                    assert!(done.unwrap().is_complete() && number > 8, "{what}");
                    break;
                }
                match done {
                    Ok(summary) => {
                        assert!(on_error == OnError::Skip && summary.skipped.len() == 1, "{what}");
                    }
                    Err(error) => {
                        assert!(matches!(error, Error::Io { .. }), "{what}: {error}");
                        assert!(on_error == OnError::Stop || fault == FaultKind::Full, "{what}: {error}");
                    }
                }
                whole_as_far_as_it_goes(dir.path(), &wanted, &what);
            }
        }
    }
}

/// Checks that every regular file in `dir` has the contents given in `wanted`.
fn whole_as_far_as_it_goes(dir: &Path, wanted: &Snapshot, what: &str) {
    let found = snapshot(dir).unwrap();
    for (path, entry) in &found {
        let same = wanted.get(path).is_some_and(|wanted| (wanted.size, &wanted.hash) == (entry.size, &entry.hash));
        assert!(same, "{what}: {path} is not whole");
    }
}
