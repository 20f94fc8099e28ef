//! Archives that GNU tar, bsdtar and the `tar` crate write of trees on disk.

use std::collections::BTreeMap;
use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::testing::{Attrs, Node, Piece, Shape, Spec, What, is_root, skipped, snapshot, specs, whole_seconds};
use crate::tree::{DeviceNumber, Time};

/// Runs a tar program on all of `dir`. Returns `None` if it is not installed.
fn write(program: &str, args: &[&str], dir: &Path) -> Option<Vec<u8>> {
    let output = Command::new(program).args(args).args(["-b1", "-cf", "-", "-C"]).arg(dir).arg(".").output();
    let Ok(output) = output else {
        skipped("archives of other writers", program);
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || said.contains("socket ignored"), "{program} {args:?}: {said}");
    Some(output.stdout)
}

/// Reduces a directory to what an archive with these capabilities keeps.
fn kept(mut all: Snapshot, xattrs: bool, nanos: bool) -> Snapshot {
    all.retain(|_, entry| entry.kind != 's');
    // No writer hard-links devices, and not every one hard-links pipes.
    for entry in all.values_mut().filter(|entry| "cbp".contains(entry.kind)) {
        (entry.nlink, entry.same_as) = (1, None);
    }
    if !xattrs {
        all.values_mut().for_each(|entry| entry.xattrs.clear());
    }
    if nanos { all } else { whole_seconds(all) }
}

fn same(what: &str, archive: &[u8], want: &Snapshot) {
    let mut seen = snapshot_of(archive);
    // The archive decides the modes of symbolic links; the comparison uses only one.
    seen.values_mut().filter(|entry| entry.kind == 'l').for_each(|entry| entry.mode = 0o777);
    for entry in seen.values_mut().filter(|entry| "cbp".contains(entry.kind)) {
        (entry.nlink, entry.same_as) = (1, None);
    }
    assert_eq!(differences(&seen, want), Vec::<String>::new(), "{what}");
}

/// A tree with everything that the oldest format supports.
fn plain_tree() -> Spec {
    let sparse = vec![Piece::Hole(1 << 20), Piece::Noise { seed: 1, len: 70_000 }, Piece::Hole(1 << 20)];
    let holes: Vec<_> = (0..60).flat_map(|seed| [Piece::Text { seed, len: 4096 }, Piece::Hole(8192)]).collect();
    let mut entries: BTreeMap<Vec<u8>, Node> = BTreeMap::from([
        (b"empty".to_vec(), Node::file(vec![])),
        (b"one block".to_vec(), Node::file(vec![Piece::Noise { seed: 2, len: 512 }])),
        (b"odd".to_vec(), Node::file(vec![Piece::Text { seed: 3, len: 513 }])),
        (b"sparse".to_vec(), Node::file(sparse)),
        (b"many holes".to_vec(), Node::file(holes)),
        (b"all hole".to_vec(), Node::file(vec![Piece::Hole(123_456)])),
        (b"link".to_vec(), Node { attrs: Attrs::plain(0o777), what: What::Symlink(b"../target".to_vec()) }),
        (b"dir".to_vec(), Node::dir([(b"inner".to_vec(), Node::file(vec![Piece::Zeros(10)]))])),
    ]);
    let links = vec![(b"odd".to_vec(), b"dir/hard".to_vec()), (b"link".to_vec(), b"hard link to link".to_vec())];
    let mut spec = Spec { root: Node::dir([]), links };
    entries.get_mut(&b"odd"[..]).unwrap().attrs.mode = 0o6711;
    spec.root.what = What::Dir(entries);
    spec
}

/// A tree with features that only newer formats support.
fn rich_tree() -> Spec {
    let mut spec = plain_tree();
    let deep = (0..40).fold(Node::file(vec![Piece::Text { seed: 9, len: 5 }]), |node, n| {
        Node::dir([(format!("component {n}").into_bytes(), node)])
    });
    let mut odd = Node::file(vec![Piece::Text { seed: 4, len: 100 }]);
    odd.attrs.mtime = Time { secs: -5, nanos: 0 };
    odd.attrs.xattrs = BTreeMap::from([
        ("user.text".to_owned(), b"value".to_vec()),
        ("user.binary".to_owned(), (0..=255).collect()),
        ("user.with=equals%".to_owned(), b"=\n\0".to_vec()),
        ("user.empty".to_owned(), vec![]),
    ]);
    let What::Dir(entries) = &mut spec.root.what else { unreachable!() };
    entries.insert(vec![b'n'; 255], Node { attrs: Attrs::plain(0o777), what: What::Symlink(vec![b't'; 1000]) });
    entries.insert("käse \u{1f9c0}".into(), Node::dir([]));
    entries.insert(b"deep".to_vec(), deep);
    entries.insert(b"odd attributes".to_vec(), odd);
    entries.insert(b"fifo".to_vec(), Node { attrs: Attrs::plain(0o600), what: What::Fifo });
    if is_root() {
        let device = DeviceNumber { major: 259, minor: 70_000 };
        entries.insert(b"char".to_vec(), Node { attrs: Attrs::plain(0o600), what: What::Char(device) });
        let mut far = Node { attrs: Attrs::plain(0o640), what: What::Block(device) };
        far.attrs.owner = (3_000_000_000, 4_000_000);
        entries.insert(b"block".to_vec(), far);
    }
    spec.links.push((vec![b'n'; 255], [&b"deep/"[..], &[b'l'; 200]].concat()));
    spec
}

fn on_disk(spec: &Spec) -> (tempfile::TempDir, Snapshot) {
    let dir = tempfile::tempdir().unwrap();
    spec.create(dir.path()).unwrap();
    let seen = snapshot(dir.path()).unwrap();
    (dir, seen)
}

#[test]
fn gnu_tar_in_every_format() {
    let (plain, plain_seen) = on_disk(&plain_tree());
    let (rich, rich_seen) = on_disk(&rich_tree());
    let old = kept(plain_seen, false, false);
    for format in ["--format=v7", "--format=ustar"] {
        let Some(archive) = write("tar", &[format], plain.path()) else { return };
        same(format, &archive, &old);
    }
    let gnu = kept(rich_seen.clone(), false, false);
    let formats: [&[&str]; 4] =
        [&["--format=gnu"], &["--format=oldgnu"], &["--format=gnu", "-S"], &["--format=oldgnu", "-S"]];
    for args in formats {
        same(&args.join(" "), &write("tar", args, rich.path()).unwrap(), &gnu);
    }
    let pax = kept(rich_seen, true, true);
    for sparse in ["", "--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0"] {
        let mut args = vec!["--format=posix", "--xattrs", "--xattrs-include=*"];
        if !sparse.is_empty() {
            args.extend(["-S", sparse]);
        }
        let archive = write("tar", &args, rich.path()).unwrap();
        same(sparse, &archive, &pax);
        assert_eq!(sparse.is_empty(), archive.len() > 3_000_000, "{sparse}: holes are left out");
    }
}

#[test]
fn bsdtar_in_every_format() {
    let (plain, plain_seen) = on_disk(&plain_tree());
    let (rich, rich_seen) = on_disk(&rich_tree());
    let args = ["--format=ustar", "--no-xattrs"];
    let Some(archive) = write("bsdtar", &args, plain.path()) else { return };
    same("ustar", &archive, &kept(plain_seen, false, false));
    let archive = write("bsdtar", &["--format=gnutar", "--no-xattrs"], rich.path()).unwrap();
    let mut gnu = kept(rich_seen.clone(), false, false);
    // bsdtar leaves out times before 1970.
    gnu.values_mut().for_each(|entry| entry.mtime.secs = entry.mtime.secs.max(0));
    same("gnutar", &archive, &gnu);
    for args in [&["--format=pax", "--xattrs"][..], &["--format=pax", "--xattrs", "--no-read-sparse"]] {
        same("pax", &write("bsdtar", args, rich.path()).unwrap(), &kept(rich_seen.clone(), true, true));
    }
}

#[test]
fn the_tar_crate() {
    let (plain, seen) = on_disk(&plain_tree());
    let mut builder = ::tar::Builder::new(Vec::new());
    builder.follow_symlinks(false);
    builder.append_dir_all(".", plain.path()).unwrap();
    let mut want = kept(seen, false, false);
    // The crate does not support hard links.
    for entry in want.values_mut() {
        (entry.nlink, entry.same_as) = (1, None);
    }
    same("the tar crate", &builder.into_inner().unwrap(), &want);
}

#[test]
fn a_file_is_scanned_in_place_and_a_fifo_streamed() {
    let (plain, seen) = on_disk(&plain_tree());
    let Some(archive) = write("tar", &["--format=posix"], plain.path()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.tar");
    let fifo = dir.path().join("fifo");
    std::fs::write(&file, &archive).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let writer = std::thread::spawn({
        let file = file.clone();
        let fifo = fifo.clone();
        move || std::fs::copy(file, std::fs::OpenOptions::new().write(true).open(&fifo).map(|_| fifo).unwrap())
    });
    let tree = scan(open(Some(&file), Options::default()).unwrap()).unwrap();
    assert_eq!(differences(&snapshot_tree(&tree).unwrap(), &kept(seen, false, true)), Vec::<String>::new());
    drop(writer);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn random_trees_by_gnu_tar(spec in specs(Shape { odd_times: true, ..Shape::default() })) {
        let (dir, seen) = on_disk(&spec);
        let args = ["--format=posix", "--xattrs", "--xattrs-include=*", "-S"];
        if let Some(archive) = write("tar", &args, dir.path()) {
            same("posix", &archive, &kept(seen, true, true));
        }
    }
}

/// An access control list with a user, a group and a mask, in the kernel's form.
const ACL: [u8; 52] = {
    let mut value = [0; 52];
    let entries: [(u8, u8, u32); 6] =
        [(1, 6, u32::MAX), (2, 6, 1), (4, 4, u32::MAX), (8, 4, 2), (16, 6, u32::MAX), (32, 4, u32::MAX)];
    value[0] = 2;
    let mut n = 0;
    while n < entries.len() {
        let (tag, permissions, id) = entries[n];
        (value[4 + 8 * n], value[6 + 8 * n]) = (tag, permissions);
        let id = id.to_le_bytes();
        let mut byte = 0;
        while byte < 4 {
            value[8 + 8 * n + byte] = id[byte];
            byte += 1;
        }
        n += 1;
    }
    value
};

#[test]
fn access_control_lists_by_gnu_tar_and_bsdtar() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let sub = dir.path().join("sub");
    std::fs::write(&file, "data").unwrap();
    std::fs::create_dir(&sub).unwrap();
    let set = |path: &Path, name: &str| rustix::fs::setxattr(path, name, &ACL, rustix::fs::XattrFlags::empty());
    let done = [(&file, "access"), (&sub, "access"), (&sub, "default")]
        .map(|(path, name)| set(path, &format!("system.posix_acl_{name}")));
    if done.iter().any(|set| set.is_err()) {
        skipped("access control lists", "a file system with them");
        return;
    }
    let programs: [(&str, &[&str]); 3] = [
        ("tar", &["--format=pax", "--acls"]),
        ("tar", &["--format=pax", "--acls", "--numeric-owner"]),
        ("bsdtar", &["--format=pax", "--acls"]),
    ];
    for (program, args) in programs {
        let Some(archive) = write(program, args, dir.path()) else { continue };
        let tree = read(&archive).unwrap();
        assert!(tree.warnings.is_empty(), "{program} {args:?}: {:?}", tree.warnings);
        let acls = |path: &str| tree.xattrs.get(tree.meta(tree.lookup(path.as_bytes()).unwrap()).xattrs).clone();
        let of = |name: &str| (format!("system.posix_acl_{name}").into_bytes().into(), ACL.to_vec().into());
        assert_eq!(acls("file"), [of("access")], "{program} {args:?}");
        let mode = |path: &str| tree.meta(tree.lookup(path.as_bytes()).unwrap()).mode;
        assert_eq!((mode("file"), mode("sub")), (0o664, 0o664), "{program} {args:?}");
        assert_eq!(acls("sub"), [of("access"), of("default")], "{program} {args:?}");
    }
}
