//! Images in shards, seen through the program alone.

use crate::common::{FORMATS, fail, run_in, sample, succeed};

fn same(dir: &std::path::Path, a: &str, b: &str) -> bool {
    std::fs::read(dir.join(a)).unwrap() == std::fs::read(dir.join(b)).unwrap()
}

#[test]
fn a_build_in_shards_has_the_files_of_one_without() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        sample(dir);
        let build = |options: &[&str]| succeed(dir, &[&["build", "--format", format, "-q"], options].concat());
        build(&["root", "-o", "plain"]);
        build(&["root", "-o", "one", "--shards", "1"]);
        assert!(same(dir, "plain", "one"), "{format}");
        build(&["root", "-o", "three", "--shards", "3"]);
        assert!(!same(dir, "plain", "three"), "{format}");
        build(&["root", "-o", "sized", "--shard-size", "1M"]);
        for image in ["three", "sized"] {
            succeed(dir, &["check", image, "--against", "root", "-q"]);
        }
        // An archive from a pipe is copied first, so that it can be cut.
        succeed(dir, &["tar", "plain", "-o", "root.tar", "-q"]);
        build(&["root.tar", "-o", "archive", "--shards", "3"]);
        assert!(same(dir, "three", "archive"), "{format}");
    }
}

#[test]
fn what_shards_exclude_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let refused = |options: &[&str]| fail(dir.path(), 2, &[&["build", "root", "-o", "x"], options].concat());
    assert!(refused(&["--shards", "0"]).contains("--shards 0: expected a whole number from 1 to 1048576"));
    assert!(refused(&["--shards", "2", "--shard-size", "1M"]).contains("cannot be used with"));
    assert!(refused(&["--shards", "2", "--index"]).contains("neither reuse another one nor have an index"));
    assert!(refused(&["--shards", "2", "--on-error", "skip"]).contains("cannot leave out files"));
    assert!(!run_in(dir.path(), &["list", "x"]).status.success());
}

#[test]
fn shards_pass_on_digests_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let options = ["--inode-digest=user.digest", "--shards", "3", "-q"];
    succeed(dir, &[&["build", "root", "-o", "local.erofs"], &options[..]].concat());
    succeed(dir, &[&["plan", "root", "-o", "plan", "--format", "erofs"], &options[..]].concat());
    for shard in ["0", "1", "2"] {
        succeed(dir, &["shard", "plan", shard, "-o", "shards", "-q"]);
    }
    succeed(dir, &["assemble", "plan", "shards", "-o", "far.erofs", "-q"]);
    assert!(same(dir, "local.erofs", "far.erofs"));
    succeed(dir, &["check", "far.erofs", "-q"]);
}
