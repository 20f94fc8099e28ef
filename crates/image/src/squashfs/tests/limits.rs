//! Limits of SquashFS, except those of single entries, which `limits/tests.rs` covers, and of its options.

use super::*;
use crate::testing::{Attrs, Node, What};

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
    let spec = Spec::of([(b"f".to_vec(), Node { attrs: Attrs::plain(0o644), what: What::Fifo })]);
    let error = write(spec.tree().unwrap(), &image, &options("none", 4096)).unwrap_err();
    assert!(matches!(error, crate::Error::Exists { .. }), "{error}");
    assert_eq!(std::fs::read(&image).unwrap(), b"precious");
    write(spec.tree().unwrap(), &image, &options("none", 4096).with(|build| build.force = true)).unwrap();
    assert!(open(&image).is_ok());
}

#[test]
fn block_sizes_are_checked() {
    for size in [0, 2048, 4097, 12_288, 2 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec::of([(b"f".to_vec(), Node { attrs: Attrs::plain(0o644), what: What::Fifo })]);
        let error = write(spec.tree().unwrap(), &dir.path().join("i"), &options("none", size)).unwrap_err();
        assert!(error.to_string().contains("a power of two from 4K to 1M"), "{error}");
    }
}
