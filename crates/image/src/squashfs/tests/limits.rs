//! What SquashFS cannot hold is an error that names the limit and the entry, and leaves no image behind.

use super::*;
use crate::testing::{Attrs, Node, What};
use crate::tree::{Device, Time};

fn with(name: &str, change: impl Fn(&mut Attrs), what: What) -> Spec {
    let mut attrs = Attrs::plain(0o644);
    change(&mut attrs);
    Spec::of([(name.as_bytes().to_vec(), Node { attrs, what })])
}

#[test]
fn limits_are_named() {
    let at = |secs| move |attrs: &mut Attrs| attrs.mtime = Time { secs, nanos: 0 };
    let long = "n".repeat(256);
    let cases = [
        (with("early", at(-1), What::Fifo), "early: time -1"),
        (with("late", at(1 << 32), What::Fifo), "late: time 4294967296"),
        (with("dev", |_| (), What::Char(Device { major: 4096, minor: 0 })), "dev: device number 4096:0"),
        (with("dev", |_| (), What::Block(Device { major: 1, minor: 1 << 20 })), "dev: device number 1:1048576"),
        (with(&long, |_| (), What::Fifo), "a name of 256 bytes; the limit is 255"),
        (with("link", |_| (), What::Symlink(vec![b'x'; 4097])), "link: a symlink target of 4097 bytes"),
        (
            with("acl", |a| drop(a.xattrs.insert("system.posix_acl_access".into(), vec![1])), What::Fifo),
            "acl: SquashFS holds only user., trusted. and security. attributes",
        ),
    ];
    for (spec, want) in cases {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let error = write(spec.tree().unwrap(), &image, &options("zstd:1", 4096)).unwrap_err().to_string();
        assert!(error.contains(want), "{error} should say {want}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    }
}

#[test]
fn at_most_65535_owners_and_groups() {
    let spec = |ids: u32| {
        let entries = (0..ids).map(|n| {
            let mut attrs = Attrs::plain(0o644);
            attrs.owner = (n, n);
            (format!("{n:06}").into_bytes(), Node { attrs, what: What::Fifo })
        });
        let mut spec = Spec::of(entries);
        spec.root.attrs.owner = (0, 0);
        spec
    };
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let summary = write(spec(65_535).tree().unwrap(), &image, &options("none", 4096)).unwrap();
    assert_eq!(summary.squashfs().unwrap().ids, 65_535);
    let error = write(spec(65_536).tree().unwrap(), &dir.path().join("other"), &options("none", 4096)).unwrap_err();
    assert!(error.to_string().contains("more than 65535 different owners"), "{error}");
}

#[test]
fn an_existing_target_stays_without_force() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    std::fs::write(&image, b"precious").unwrap();
    let spec = with("f", |_| (), What::Fifo);
    let error = write(spec.tree().unwrap(), &image, &options("none", 4096)).unwrap_err();
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(std::fs::read(&image).unwrap(), b"precious");
    write(spec.tree().unwrap(), &image, &options("none", 4096).with(|build| build.force = true)).unwrap();
    assert!(open(&image).is_ok());
}

#[test]
fn block_sizes_are_checked() {
    for size in [0, 2048, 4097, 12_288, 2 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let spec = with("f", |_| (), What::Fifo);
        let error = write(spec.tree().unwrap(), &dir.path().join("i"), &options("none", size)).unwrap_err();
        assert!(error.to_string().contains("powers of two from 4K to 1M"), "{error}");
    }
}
