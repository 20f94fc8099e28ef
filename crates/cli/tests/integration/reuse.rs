//! `build --reuse` and `--index`, seen through the program alone.

use std::path::Path;

use crate::common::{FORMATS, fail, run_in, sample_dir, stderr, succeed};
use serde_json::Value;

/// A directory with `root` in it and a larger file.
fn workplace() -> tempfile::TempDir {
    let dir = sample_dir();
    let text: String = (0..40_000u64).map(|n| format!("{:x} ", n * n * 7919)).collect();
    std::fs::write(dir.path().join("root/numbers"), text).unwrap();
    dir
}

fn same(dir: &Path, a: &str, b: &str) -> bool {
    std::fs::read(dir.join(a)).unwrap() == std::fs::read(dir.join(b)).unwrap()
}

#[test]
fn a_changed_tree_is_built_from_the_older_image() {
    for format in FORMATS {
        let workplace = workplace();
        let dir = workplace.path();
        let build = |options: &[&str]| succeed(dir, &[&["build", "root", "--format", format, "-q"], options].concat());
        build(&["-o", "old", "--index"]);
        assert!(dir.join("old.index").exists());
        std::fs::write(dir.join("root/etc/motd"), "changed").unwrap();
        build(&["-o", "fresh"]);
        assert!(!dir.join("fresh.index").exists());
        let json = build(&["-o", "new", "--reuse", "old", "--index=new.idx", "--json"]);
        assert!(same(dir, "fresh", "new"), "{format}");
        let json: Value = serde_json::from_str(&json).unwrap();
        let field = |name: &str| json["reuse"][name].as_u64().unwrap_or_else(|| panic!("{name} in {json}"));
        assert!(field("taken") > 0 && field("content_bytes") > 100_000 && field("image_bytes") > 0, "{json}");
        assert_eq!((field("damaged"), field("update_block")), (0, 4096));
        assert!(field("update_bytes") < std::fs::metadata(dir.join("new")).unwrap().len());
        // Once more, from an index of another name, in place.
        build(&["-o", "new", "-f", "--reuse", "new", "--reuse-index", "new.idx", "--index=new.idx"]);
        assert!(same(dir, "fresh", "new"), "{format}");
        let run = run_in(
            dir,
            &["build", "root", "--format", format, "-o", "text", "--reuse", "new", "--reuse-index", "new.idx"],
        );
        let text = stderr(&run);
        assert!(text.contains("\nreused ") && text.contains("\nupdate "), "{text}");
    }
}

#[test]
fn an_index_is_not_packed_into_its_own_image() {
    let workplace = workplace();
    let dir = workplace.path();
    for _ in 0..2 {
        succeed(dir, &["build", "root", "-q", "-f", "-o", "root/image.sqfs", "--index"]);
    }
    let list = succeed(dir, &["list", "root/image.sqfs"]);
    assert!(!list.contains("image.sqfs"), "{list}");
}

#[test]
fn what_cannot_be_reused_is_told() {
    let workplace = workplace();
    let dir = workplace.path();
    succeed(dir, &["build", "root", "-q", "-o", "old.sqfs"]);
    let failure =
        |status, options: &[&str]| fail(dir, status, &[&["build", "root", "-q", "-o", "new.sqfs"], options].concat());
    let missing = failure(1, &["--reuse", "old.sqfs"]);
    assert!(missing.contains("old.sqfs.index: no such index") && missing.contains("--index writes one"), "{missing}");
    failure(2, &["--reuse-index", "x"]);
    assert!(failure(2, &["--index=new.sqfs"]).contains("both the image and its index"));
    assert!(failure(2, &["--index", "--codec", "none"]).contains("nothing to reuse"));
    succeed(dir, &["build", "root", "-q", "-f", "-o", "old.sqfs", "--index"]);
    let exists = fail(dir, 1, &["build", "root", "-q", "-o", "other", "--index=old.sqfs.index"]);
    assert!(exists.contains("old.sqfs.index exists"), "{exists}");
    assert!(!dir.join("other").exists());
    let warned = stderr(&run_in(dir, &["build", "root", "-o", "new.sqfs", "--reuse", "old.sqfs", "-c", "gzip"]));
    assert!(warned.contains("nothing is reused") && warned.contains("zstd:15"), "{warned}");
    let strict =
        fail(dir, 1, &["build", "root", "-f", "-o", "new.sqfs", "--reuse", "old.sqfs", "-c", "gzip", "--strict"]);
    assert!(strict.contains("nothing is reused"), "{strict}");
}
