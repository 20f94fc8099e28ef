//! Each limit of each format: at the limit the kernel shows the packed entry, beyond it the build names the limit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::io::FileAt;

use crate::Warnings;
use crate::source::{Contents, FileReader, Store};
use crate::testing::{
    Attrs, Mount, Node, Piece, Spec, What, can_mount, differences, findings, snapshot, snapshot_tree, whole_seconds,
};
use crate::tree::{ConflictPolicy, DeviceNumber, FileData, InodeAttributes, Kind, ROOT, Time};
use crate::{AnyImage, Error, OpenOptions, Plan, Result, Tree, WarningKind, erofs, squashfs};

/// A format under test.
struct Format {
    /// Its name in the kernel.
    kind: &'static str,
    xattr_value: usize,
    build: fn(&Path, Tree) -> Result<Warnings>,
}

const FORMATS: [Format; 2] = [
    Format { kind: "squashfs", xattr_value: 65_536, build: build_squashfs },
    Format { kind: "erofs", xattr_value: 65_535, build: build_erofs },
];

fn build_squashfs(target: &Path, tree: Tree) -> Result<Warnings> {
    let options = squashfs::SquashfsOptions { block_size: 4096, ..squashfs::SquashfsOptions::default() };
    let plan = |_: &mut dyn Store| Ok(Plan { tree, order: Vec::new() });
    squashfs::build(target, &options, &Progress::default(), plan).map(|summary| summary.warnings)
}

fn build_plain_squashfs(target: &Path, tree: Tree) -> Result<Warnings> {
    let options = squashfs::SquashfsOptions { plain_metadata: true, ..squashfs::SquashfsOptions::default() };
    let plan = |_: &mut dyn Store| Ok(Plan { tree, order: Vec::new() });
    squashfs::build(target, &options, &Progress::default(), plan).map(|summary| summary.warnings)
}

fn build_erofs(target: &Path, tree: Tree) -> Result<Warnings> {
    let plan = |_: &mut dyn Store| Ok(Plan { tree, order: Vec::new() });
    erofs::build(target, &erofs::ErofsOptions::default(), &Progress::default(), plan).map(|summary| summary.warnings)
}

/// An entry at a limit, one beyond it, and the expected error.
struct Case {
    name: Vec<u8>,
    at: Option<Node>,
    beyond: (Vec<u8>, Node),
    why: &'static str,
}

fn case(name: &str, at: Option<Node>, beyond: Node, why: &'static str) -> Case {
    Case { name: name.into(), at, beyond: (name.into(), beyond), why }
}

fn node(what: What) -> Node {
    Node { attrs: Attrs::plain(0o644), what }
}

fn file() -> What {
    What::File(vec![Piece::Text { seed: 1, len: 100 }])
}

fn with_xattrs(what: What, xattrs: impl IntoIterator<Item = (String, Vec<u8>)>) -> Node {
    let mut node = node(what);
    node.attrs.xattrs = xattrs.into_iter().collect();
    node
}

fn with_xattr(what: What, name: &str, value: &[u8]) -> Node {
    with_xattrs(what, [(name.to_owned(), value.to_vec())])
}

/// Makes a name in the class `user.` of `len` bytes in all.
fn long_name(len: usize) -> String {
    format!("user.{}", "n".repeat(len - 5))
}

/// Makes attributes whose names take `bytes` in a listing, a multiple of 256.
fn names(bytes: usize) -> impl Iterator<Item = (String, Vec<u8>)> {
    (0..bytes / 256).map(|n| (format!("user.{n:0250}"), vec![b'v']))
}

fn cases(format: &Format) -> Vec<Case> {
    let link = |len: usize| node(What::Symlink(vec![b'x'; len]));
    let char_at = |major, minor| node(What::Char(DeviceNumber { major, minor }));
    let value = |len: usize| with_xattr(file(), "user.v", &vec![b'v'; len]);
    let acl = [&[2, 0, 0, 0][..], &entry(1, 6), &entry(4, 4), &entry(32, 4)].concat();
    let owned = |uid, gid| {
        let mut node = node(What::Fifo);
        node.attrs.owner = (uid, gid);
        node
    };
    let mut too_many: Vec<_> = names(65_536).collect();
    too_many.push(("user.x".into(), Vec::new()));
    let mut cases = vec![
        Case {
            name: vec![b'n'; 255],
            at: Some(node(What::Fifo)),
            beyond: (vec![b'n'; 256], node(What::Fifo)),
            why: "a name of 256 bytes; the limit is 255",
        },
        case("target", Some(link(4095)), link(4096), "a symlink target of 4096 bytes"),
        case("short", Some(link(1)), link(0), "a symlink target of 0 bytes"),
        case("nul", None, node(What::Symlink(b"a\0b".to_vec())), "a NUL"),
        case("uid", Some(owned(u32::MAX - 1, 0)), owned(u32::MAX, 0), "owner 4294967295"),
        case("gid", Some(owned(0, u32::MAX - 1)), owned(0, u32::MAX), "group 4294967295"),
        case("major", Some(char_at(4095, 0)), char_at(4096, 0), "device number 4096:0"),
        case("minor", Some(char_at(1, 0xf_ffff)), char_at(1, 1 << 20), "device number 1:1048576"),
        case(
            "name",
            Some(with_xattr(file(), &long_name(255), b"v")),
            with_xattr(file(), &long_name(256), b"v"),
            "a name of 256 bytes; the limit is 255",
        ),
        case("empty", Some(with_xattr(file(), "user.x", b"")), with_xattr(file(), "user.", b"v"), "after the class"),
        case("value", Some(value(format.xattr_value)), value(format.xattr_value + 1), "a value of 64"),
        case(
            "list",
            Some(with_xattrs(file(), names(65_536))),
            with_xattrs(file(), too_many),
            "257 attributes, whose names take 64 KiB and 7 bytes; the limit is 64 KiB",
        ),
        case("class", None, with_xattr(file(), "system.nfs4_acl", b"v"), "supports only user., trusted. and security."),
        case(
            "link",
            Some(with_xattr(What::Symlink(b"x".to_vec()), "trusted.x", b"v")),
            with_xattr(What::Symlink(b"x".to_vec()), "user.x", b"v"),
            "`user.` attributes",
        ),
        case(
            "fifo",
            Some(with_xattr(What::Fifo, "security.x", b"v")),
            with_xattr(What::Fifo, "user.x", b"v"),
            "`user.` attributes",
        ),
        case(
            "socket",
            Some(with_xattr(What::Socket, "trusted.x", b"v")),
            with_xattr(What::Socket, "user.x", b"v"),
            "`user.` attributes",
        ),
        case(
            "capability",
            Some(with_xattr(file(), "security.capability", &capability(0x0200_0001))),
            with_xattr(file(), "security.capability", &capability(0x0100_0001)),
            "`security.capability`: a value that the kernel refuses: header 0x01000001",
        ),
        case("device", None, with_xattr(char_at(1, 3).what, "user.x", b"v"), "`user.` attributes"),
    ];
    if format.kind == "squashfs" {
        let at = |secs| {
            let mut node = node(What::Fifo);
            node.attrs.mtime = Time { secs, nanos: 0 };
            node
        };
        cases.push(case("early", Some(at(0)), at(-1), "time -1 is outside 1970 to 2106"));
        cases.push(case("late", Some(at(u32::MAX.into())), at(1 << 32), "time 4294967296"));
        let hole = |len| node(What::File(vec![Piece::Hole(len)]));
        let most = u64::from(i32::MAX.unsigned_abs()) * 4096;
        cases.push(case("size", None, hole(most + 1), "a file of 8.00 TiB and 1 byte; the limit is 8.00 TiB"));
    } else {
        let on = |what| with_xattr(what, "system.posix_acl_default", &acl);
        let dir = || What::Dir([].into());
        cases.push(case("default", Some(on(dir())), on(file()), "a default ACL"));
        let on = |what| with_xattr(what, "system.posix_acl_access", &acl);
        cases.push(case(
            "access",
            Some(on(file())),
            on(What::Symlink(b"x".to_vec())),
            "a POSIX ACL on a symbolic link",
        ));
        let short = &acl[..acl.len() - 8];
        let why = "`system.posix_acl_access`: a value that the kernel refuses: no entries with the tags 0x20";
        cases.push(case("malformed", None, with_xattr(file(), "system.posix_acl_access", short), why));
    }
    cases
}

/// Makes a capability value with a given header, which contains the revision.
fn capability(header: u32) -> Vec<u8> {
    [header, 1 << 10, 0, 0, 0].map(u32::to_le_bytes).concat()
}

/// Makes an ACL entry for the owner, the group or others.
fn entry(tag: u8, perm: u8) -> [u8; 8] {
    [tag, 0, perm, 0, 255, 255, 255, 255]
}

#[test]
fn beyond_a_limit_the_error_names_entry_and_limit_and_no_file_is_left() {
    for format in &FORMATS {
        for Case { beyond: (name, node), why, .. } in cases(format) {
            let spec = Spec::of([(b"d".to_vec(), Node::dir([(name.clone(), node)]))]);
            let dir = tempfile::tempdir().unwrap();
            let error = (format.build)(&dir.path().join("image"), spec.tree().unwrap()).unwrap_err();
            let text = error.to_string();
            let path = format!("d/{}", String::from_utf8(name).unwrap());
            assert!(matches!(error, Error::Limit { .. }) && text.starts_with(&format!("{path}: ")), "{text}");
            assert!(text.contains(why), "{}: {text} should say {why}", format.kind);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{text}");
        }
    }
}

/// Files that cannot be opened.
struct Unreadable;

impl Contents for Unreadable {
    fn open(&self, _: u64) -> Result<Box<dyn FileReader + '_>> {
        Err(Error::io("cannot open", "a")(std::io::Error::other("it was read")))
    }

    fn path(&self, _: u64) -> PathBuf {
        "a".into()
    }
}

#[test]
fn limits_are_checked_before_any_data_is_read() {
    for format in &FORMATS {
        let spec = Spec::of([(b"b".to_vec(), with_xattr(What::Fifo, "user.x", b"v"))]);
        let mut tree = spec.tree().unwrap();
        let from: Arc<dyn Contents> = Arc::new(Unreadable);
        let kind = Kind::File { size: 1 << 20, data: FileData::Source { from, key: 0 } };
        tree.add(ROOT, b"a", InodeAttributes::IMPLICIT_DIR, kind, ConflictPolicy::Refuse).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let error = (format.build)(&dir.path().join("image"), tree).unwrap_err().to_string();
        assert!(error.starts_with("b: "), "{}: {error}", format.kind);
    }
}

#[test]
fn a_second_name_is_checked_too() {
    for format in &FORMATS {
        let mut spec = Spec::of([(b"a".to_vec(), node(What::Fifo))]);
        spec.links.push((b"a".to_vec(), vec![b'z'; 256]));
        let dir = tempfile::tempdir().unwrap();
        let error = (format.build)(&dir.path().join("image"), spec.tree().unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("zzz") && error.contains("a name of 256 bytes"), "{error}");
    }
}

#[test]
fn at_each_limit_the_kernel_shows_the_packed_entry() {
    if !can_mount("at_each_limit_the_kernel_shows_the_packed_entry") {
        return;
    }
    for format in &FORMATS {
        let entries = cases(format).into_iter().filter_map(|case| Some((case.name, case.at?)));
        let spec = Spec::of(entries);
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        (format.build)(&image, spec.tree().unwrap()).unwrap();
        let want = whole_seconds(snapshot_tree(&spec.tree().unwrap()).unwrap());
        let mount = Mount::new(&image, format.kind).unwrap();
        assert_eq!(differences(&want, &snapshot(&mount.path()).unwrap()), Vec::<String>::new(), "{}", format.kind);
        let file = Arc::new(FileAt::open(&image, 0).unwrap());
        let opened = AnyImage::open(file, OpenOptions::default()).unwrap();
        assert_eq!(findings(opened.image(), 0), Vec::<String>::new(), "{}", format.kind);
    }
}

#[test]
fn squashfs_drops_posix_acls_with_a_warning() {
    let acl = [&[2, 0, 0, 0][..], &entry(1, 6), &entry(4, 4), &entry(32, 4)].concat();
    let both = [("system.posix_acl_default".to_owned(), acl.clone()), ("user.kept".to_owned(), b"v".to_vec())];
    let spec = Spec::of([
        (b"f".to_vec(), with_xattr(file(), "system.posix_acl_access", &acl)),
        (b"d".to_vec(), with_xattrs(What::Dir([].into()), both)),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let (image, refused) = (dir.path().join("image"), dir.path().join("refused"));
    let warnings = build_squashfs(&image, spec.tree().unwrap()).unwrap();
    let paths: Vec<_> = warnings.kinds().flat_map(|(_, counted)| &counted.first).map(|warning| &warning.path).collect();
    assert_eq!(warnings.count(WarningKind::PosixAcl), 2);
    assert_eq!(paths, [Path::new("d"), Path::new("f")]);
    let file = Arc::new(FileAt::open(&image, 0).unwrap());
    let opened = AnyImage::open(file, OpenOptions::default()).unwrap();
    let names = |path: &[u8]| {
        let nid = crate::sink::lookup(opened.image(), path).unwrap().unwrap();
        opened.image().xattrs(nid).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!((names(b"d"), names(b"f")), (vec![b"user.kept"[..].into()], vec![]));
    let mut tree = spec.tree().unwrap();
    tree.warnings = Warnings::new(true);
    let error = build_squashfs(&refused, tree).unwrap_err();
    assert!(matches!(error, Error::Refused(_)) && error.to_string().starts_with("d: "), "{error}");
    assert!(!refused.exists());
    assert!(build_erofs(&image.with_extension("erofs"), spec.tree().unwrap()).unwrap().is_empty());
}

#[test]
fn values_that_the_kernel_refuses_are_found_in_images_that_have_them() {
    if !can_mount("values_that_the_kernel_refuses_are_found_in_images_that_have_them") {
        return;
    }
    let acl = [&[2, 0, 0, 0][..], &entry(1, 6), &entry(4, 4), &entry(32, 4)].concat();
    let wrong_acl = [&acl[..20], &entry(33, 4)].concat();
    let both = [("squashfs", build_plain_squashfs as fn(&Path, Tree) -> Result<Warnings>), ("erofs", build_erofs)];
    let capabilities = [capability(0x0100_0001), capability(0x0200_0002), capability(0x0400_0000)];
    let mut cases: Vec<_> = both
        .iter()
        .flat_map(|(kind, build)| {
            capabilities.iter().map(move |wrong| {
                (*kind, *build, "security.capability", capability(0x0200_0001), wrong.clone(), "capabilities: header")
            })
        })
        .collect();
    cases.push(("erofs", build_erofs, "system.posix_acl_access", acl, wrong_acl, "access ACL: unknown tag 0x21"));
    for (kind, build, name, right, wrong, why) in cases {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let spec = Spec::of([(b"f".to_vec(), with_xattr(file(), name, &right))]);
        build(&image, spec.tree().unwrap()).unwrap();
        let mut bytes = std::fs::read(&image).unwrap();
        let at = bytes.windows(right.len()).position(|window| window == right).expect("the value as it is");
        bytes[at..at + wrong.len()].copy_from_slice(&wrong);
        std::fs::write(&image, bytes).unwrap();
        let mount = Mount::new(&image, kind).unwrap();
        let error = rustix::fs::getxattr(mount.path().join("f"), name, &mut [0; 100]).unwrap_err();
        assert_eq!(error, rustix::io::Errno::INVAL, "{kind} {wrong:?}");
        let opened = AnyImage::open(Arc::new(FileAt::open(&image, 0).unwrap()), OpenOptions::default()).unwrap();
        let found = findings(opened.image(), 0);
        assert!(found.iter().any(|finding| finding.contains(why)), "{kind} {wrong:?}: {found:?}");
    }
}
