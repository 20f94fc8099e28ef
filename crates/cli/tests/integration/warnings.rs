//! Warnings as people meet them: a line a kind, all of them with `--json`, and errors with `--strict`.

use std::path::Path;

use crate::common::{fail, run_in, stderr, succeed};

const BLOCK: usize = 512;

/// An archive as Go's `archive/tar` leaves it without `Close`: members, and no end.
fn without_its_end(dir: &Path) {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(5);
    header.set_mode(0o644);
    builder.append_data(&mut header, "file", &b"data\n"[..]).unwrap();
    let mut whole = builder.into_inner().unwrap();
    std::fs::write(dir.join("whole.tar"), &whole).unwrap();
    whole.truncate(2 * BLOCK);
    std::fs::write(dir.join("open.tar"), &whole).unwrap();
}

#[test]
fn a_build_warns_and_with_strict_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    without_its_end(dir);
    let told = run_in(dir, &["build", "open.tar", "-o", "open.sqfs"]);
    assert!(told.status.success());
    let line = "packfs: warning: open.tar (at byte 1024): the archive ends after a complete member";
    assert!(stderr(&told).contains(line), "{}", stderr(&told));
    assert_eq!(stderr(&run_in(dir, &["build", "open.tar", "-o", "open.sqfs", "-qf"])), "");
    succeed(dir, &["build", "whole.tar", "-o", "whole.sqfs", "--strict"]);
    assert_eq!(std::fs::read(dir.join("open.sqfs")).unwrap(), std::fs::read(dir.join("whole.sqfs")).unwrap());
    for image in ["strict.sqfs", "strict.erofs"] {
        let refused = fail(dir, 1, &["build", "open.tar", "-o", image, "--strict"]);
        assert!(refused.contains("open.tar (at byte 1024): the archive ends"), "{refused}");
        assert!(!dir.join(image).exists());
    }
}

#[test]
fn whatever_reads_sources_warns() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    without_its_end(dir);
    succeed(dir, &["build", "whole.tar", "-o", "whole.erofs", "-q"]);
    for command in [&["check", "whole.erofs", "--against", "open.tar"][..], &["diff", "open.tar", "whole.erofs"]] {
        let told = run_in(dir, command);
        assert!(told.status.success(), "{command:?}");
        assert!(stderr(&told).contains("packfs: warning: open.tar (at byte 1024): "), "{}", stderr(&told));
        assert!(fail(dir, 1, &[command, &["--strict"]].concat()).contains("open.tar (at byte 1024)"));
    }
    assert!(fail(dir, 2, &["check", "whole.erofs", "--strict"]).contains("--against"));
}

#[test]
fn json_has_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    without_its_end(dir);
    let json = |args: &[&str]| -> serde_json::Value { serde_json::from_str(&succeed(dir, args)).unwrap() };
    let of_one = |warnings: &serde_json::Value| {
        assert_eq!((&warnings[0]["kind"], &warnings[0]["count"]), (&"archive-not-ended".into(), &1.into()));
        assert_eq!(warnings[0]["shown"][0], serde_json::json!({"path": "open.tar", "detail": "at byte 1024"}));
        assert!(warnings[0]["text"].as_str().unwrap().starts_with("the archive ends"));
    };
    of_one(&json(&["build", "open.tar", "-o", "x.sqfs", "--json"])["warnings"]);
    of_one(&json(&["check", "x.sqfs", "--against", "open.tar", "--json"])["warnings"]);
    let warnings = &json(&["diff", "x.sqfs", "open.tar", "--json"])["warnings"];
    assert_eq!(warnings["a"], serde_json::json!([]));
    of_one(&warnings["b"]);
}
