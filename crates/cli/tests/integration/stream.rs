//! Images on standard output, and streamed ones.

use std::path::Path;
use std::process::Command;

use crate::common::program::{have_unsquashfs, link, run, sh};
use crate::common::{fail, have, run_in, stderr, succeed};

const PACKFS: &str = env!("CARGO_BIN_EXE_packfs");

fn prepare() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = "mkdir -p t/sub && seq 100000 > t/sub/numbers && cp t/sub/numbers t/again && truncate -s 1M t/hole &&
        head -c 700000 /dev/urandom > t/noise && ln t/noise t/sub/link && ln -s noise t/s && : > t/empty";
    sh(dir.path(), script);
    dir
}

/// Runs packfs with its output in a pipe, and returns what comes out.
fn piped(dir: &Path, line: &str) -> Vec<u8> {
    let mut command = Command::new("sh");
    let ran = command.args(["-c", &format!("{PACKFS} {line} | cat")]).current_dir(dir).output().unwrap();
    assert!(ran.stderr.is_empty(), "{line}: {}", stderr(&ran));
    ran.stdout
}

#[test]
fn images_on_standard_output_are_those_of_files() {
    let dir = prepare();
    let dir = dir.path();
    for format in ["squashfs", "erofs"] {
        succeed(dir, &["build", "t", "-o", "image", "-q", "-f", "--format", format]);
        let image = piped(dir, &format!("build t -o - -q --format {format}"));
        assert!(image == std::fs::read(dir.join("image")).unwrap(), "{format}");
    }
    // Standard output may also be a file that has something already.
    sh(dir, &format!("printf before > out && {PACKFS} build t -o - -q >> out && {PACKFS} build t -o same.sqfs -q"));
    let image = std::fs::read(dir.join("same.sqfs")).unwrap();
    assert!(std::fs::read(dir.join("out")).unwrap() == [b"before", &image[..]].concat());
    assert!(!dir.join("-").exists());
}

#[test]
fn an_image_does_not_hold_the_file_that_standard_output_is() {
    let dir = prepare();
    let dir = dir.path();
    for option in ["", "--stream"] {
        sh(dir, &format!("{PACKFS} build t -o outside.sqfs -q -f {option}"));
        sh(dir, &format!("cd t && {PACKFS} build . -o - {option} > image 2> ../told && mv image .."));
        let told = std::fs::read_to_string(dir.join("told")).unwrap();
        assert!(!told.contains("warning"), "{told}");
        assert_eq!(succeed(dir, &["list", "image"]), succeed(dir, &["list", "outside.sqfs"]), "{option}");
    }
}

#[test]
fn streams_are_read_and_completed() {
    let dir = prepare();
    let dir = dir.path();
    succeed(dir, &["build", "t", "-o", "plain.sqfs", "-q", "--no-dedup"]);
    let plain = std::fs::read(dir.join("plain.sqfs")).unwrap();
    let stream = piped(dir, "build t -o - -q --stream");
    std::fs::write(dir.join("s.sqfs"), &stream).unwrap();
    succeed(dir, &["diff", "t", "s.sqfs"]);
    succeed(dir, &["check", "s.sqfs", "-q"]);
    succeed(dir, &["check", "--complete", "s.sqfs", "-q"]);
    assert!(std::fs::read(dir.join("s.sqfs")).unwrap() == plain);
    assert!(fail(dir, 1, &["check", "--complete", "s.sqfs"]).contains("not a streamed image"));
    assert!(fail(dir, 2, &["build", "t", "-o", "-", "--stream", "--format", "erofs"]).contains("--stream"));
    for option in [&["--offset", "4096"][..], &["--index=i"], &["--shards", "2"]] {
        let told = fail(dir, 2, &[&["build", "t", "-o", "x.sqfs", "--stream"], option].concat());
        assert!(told.contains("stream"), "{told}");
    }
}

#[test]
fn mksquashfs_and_unsquashfs_agree_about_streams() {
    let name = "mksquashfs_and_unsquashfs_agree_about_streams";
    let dir = prepare();
    let dir = dir.path();
    let (ours, reader) = (link(dir, "mksquashfs"), link(dir, "unsquashfs"));
    let script = "./mksquashfs t - -stream -quiet -comp xz -Xdict-size 64K > ours.sqfs && cp ours.sqfs fixed.sqfs &&
        ./mksquashfs -fix fixed.sqfs";
    sh(dir, script);
    succeed(dir, &["diff", "t", "ours.sqfs"]);
    succeed(dir, &["check", "fixed.sqfs", "-q"]);
    let listed = run(dir, &reader, "-l ours.sqfs");
    assert!(listed.status.success() && listed.stdout == run(dir, &reader, "-l fixed.sqfs").stdout);
    assert_eq!(run(dir, &ours, "-fix fixed.sqfs").status.code(), Some(1));
    if !have(name, "mksquashfs") || !have_unsquashfs(name) {
        return;
    }
    assert_eq!(run(dir, "unsquashfs", "-l ours.sqfs").stdout, listed.stdout);
    std::fs::copy(dir.join("ours.sqfs"), dir.join("theirs-fixed.sqfs")).unwrap();
    let fixed = run(dir, "mksquashfs", "-fix theirs-fixed.sqfs");
    assert!(fixed.status.success(), "{}", stderr(&fixed));
    assert!(std::fs::read(dir.join("theirs-fixed.sqfs")).unwrap() == std::fs::read(dir.join("fixed.sqfs")).unwrap());
    sh(dir, "mksquashfs t - -stream -quiet -no-progress > theirs.sqfs");
    for complete in [false, true] {
        if complete {
            let fixed = run(dir, &ours, "-fix theirs.sqfs");
            assert!(fixed.status.success(), "{}", stderr(&fixed));
        }
        succeed(dir, &["diff", "t", "theirs.sqfs"]);
        let sound = run_in(dir, &["check", "theirs.sqfs"]);
        assert!(sound.status.success(), "{}", stderr(&sound));
    }
}
