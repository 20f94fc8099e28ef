//! `packfs delta` and `packfs apply`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::program::sh;
use crate::common::{FORMATS, fail, have, run_in, sample, stderr, succeed};

/// Makes images `old.FORMAT` and `new.FORMAT` of a tree before and after a change.
fn inputs(dir: &Path) {
    sample(dir);
    sh(dir, "seq 200000 >root/numbers");
    for format in FORMATS {
        succeed(dir, &["build", "root", "-o", &format!("old.{format}"), "--format", format, "-q"]);
    }
    sh(dir, "echo changed >root/etc/motd; echo more >>root/numbers");
    for format in FORMATS {
        succeed(dir, &["build", "root", "-o", &format!("new.{format}"), "--format", format, "-q"]);
    }
}

#[test]
fn a_patch_gives_the_new_image_whatever_the_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    inputs(dir);
    for format in FORMATS {
        let old = &format!("old.{format}");
        let new = &format!("new.{format}");
        for jobs in ["0", "1", "4"] {
            succeed(dir, &["delta", old, new, "-o", jobs, "-qf", "-j", jobs]);
            succeed(dir, &["apply", old, jobs, "-o", "applied", "-qf", "-j", jobs]);
            assert!(fs::read(dir.join("applied")).unwrap() == fs::read(dir.join(new)).unwrap());
            assert!(fs::read(dir.join(jobs)).unwrap() == fs::read(dir.join("0")).unwrap());
        }
        let patch_len = fs::metadata(dir.join("0")).unwrap().len();
        assert!(patch_len < 20_000, "{format}: {patch_len}");
    }
}

#[test]
fn the_old_image_may_be_replaced_by_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    inputs(dir);
    succeed(dir, &["delta", "old.erofs", "new.erofs", "-o", "p", "-q", "--no-verify"]);
    succeed(dir, &["apply", "old.erofs", "p", "-o", "old.erofs", "-qf"]);
    assert!(fs::read(dir.join("old.erofs")).unwrap() == fs::read(dir.join("new.erofs")).unwrap());
}

#[test]
fn the_old_image_may_lie_on_a_longer_device_which_is_not_written() {
    let test = "the_old_image_may_lie_on_a_longer_device_which_is_not_written";
    if !rustix::process::geteuid().is_root() || !have(test, "losetup") {
        return eprintln!("SKIPPED {test}: loop devices need root");
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    inputs(dir);
    succeed(dir, &["delta", "old.erofs", "new.erofs", "-o", "p", "-q"]);
    sh(dir, "cp old.erofs disk && truncate -s +1M disk && losetup --find --show disk >device");
    let device = fs::read_to_string(dir.join("device")).unwrap();
    let device = device.trim();
    let over_itself = run_in(dir, &["apply", device, "p", "-o", device, "--force"]);
    let applied = run_in(dir, &["apply", device, "p", "-o", "applied", "-q"]);
    sh(dir, &format!("losetup --detach {device}"));
    assert!(
        over_itself.status.code() == Some(2) && stderr(&over_itself).contains("is OLD"),
        "{}",
        stderr(&over_itself)
    );
    assert!(applied.status.success(), "{}", stderr(&applied));
    assert!(fs::read(dir.join("applied")).unwrap() == fs::read(dir.join("new.erofs")).unwrap());
    assert!(fs::read(dir.join("disk")).unwrap().starts_with(&fs::read(dir.join("old.erofs")).unwrap()));
}

#[test]
fn mistakes_are_explained_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    inputs(dir);
    succeed(dir, &["delta", "old.erofs", "new.erofs", "-o", "p", "-q"]);
    let cases = [
        ("apply new.erofs p -o x", "p: the patch is for another old file"),
        ("apply old.erofs old.squashfs -o x", "it does not begin as patches of packfs do"),
        ("apply old.erofs none -o x", "none: cannot open"),
        ("apply old.erofs p -o p", "p exists; --force replaces it"),
        ("delta old.erofs root -o x", "root: a directory"),
        ("delta old.erofs new.erofs -o p", "p exists; --force replaces it"),
    ];
    for (command, told) in cases {
        let args: Vec<&str> = command.split(' ').collect();
        let message = fail(dir, 1, &args);
        assert!(message.contains(told), "{command}: {message}");
        assert!(!dir.join("x").exists());
    }
    let mut patch = fs::read(dir.join("p")).unwrap();
    patch[100] ^= 1;
    fs::write(dir.join("p"), patch).unwrap();
    let message = fail(dir, 1, &["apply", "old.erofs", "p", "-o", "x"]);
    assert!(message.contains("its digest is wrong") && !dir.join("x").exists(), "{message}");
}

#[test]
fn images_of_other_programs_have_patches_too() {
    let test = "images_of_other_programs_have_patches_too";
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    inputs(dir);
    let makers = [
        ("mksquashfs", "mksquashfs root IMAGE -quiet -no-progress -comp gzip"),
        ("mksquashfs", "mksquashfs root IMAGE -quiet -no-progress -comp lz4"),
        ("mkfs.erofs", "mkfs.erofs --quiet -zlz4hc -C65536 IMAGE root"),
        ("mkfs.erofs", "mkfs.erofs --quiet IMAGE root"),
    ];
    for (program, command) in makers {
        if !have(test, program) {
            continue;
        }
        sh(dir, "rm -f a b p applied; echo one >root/etc/motd");
        sh(dir, &format!("{} >/dev/null", command.replace("IMAGE", "a")));
        sh(dir, "echo two >>root/numbers");
        sh(dir, &format!("{} >/dev/null", command.replace("IMAGE", "b")));
        succeed(dir, &["delta", "a", "b", "-o", "p", "-q"]);
        succeed(dir, &["apply", "a", "p", "-o", "applied", "-q"]);
        assert!(fs::read(dir.join("applied")).unwrap() == fs::read(dir.join("b")).unwrap(), "{command}");
    }
}

#[test]
fn the_result_is_told_unless_quiet() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    inputs(dir);
    let told = stderr(&run_in(dir, &["delta", "old.squashfs", "new.squashfs", "-o", "p"]));
    assert!(told.starts_with("p: ") && told.contains("for an image of"), "{told}");
    let told = stderr(&run_in(dir, &["apply", "old.squashfs", "p", "-o", "applied"]));
    assert!(told.starts_with("applied: ") && told.contains("compressed again"), "{told}");
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    inputs(dir);
    succeed(dir, &["delta", "old.erofs", "new.erofs", "-o", "p", "-q"]);
    let cases: [(&[&str], &str); 4] = [
        (&["apply", "old.erofs", "p", "-o", "x"], "packfs: x: cannot write"),
        (&["delta", "old.erofs", "new.squashfs", "-o", "x"], "packfs: x: cannot write"),
        (&["seal", "new.erofs"], "packfs: new.erofs.verity: cannot write the hash tree: "),
        (&["seal", "new.erofs", "--for", "ddi", "-o", "x.raw"], "packfs: x.raw: cannot "),
    ];
    for (args, told) in cases {
        // As on a full disk: files end after a block.
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_packfs")]).args(args);
        let failed = limited.current_dir(dir).output().unwrap();
        assert_eq!(failed.status.code(), Some(1), "{args:?}");
        // Before it, there may be lines about progress.
        let is_told = stderr(&failed).lines().any(|line| line.starts_with(told));
        assert!(is_told, "{args:?}: {}", stderr(&failed));
    }
}
