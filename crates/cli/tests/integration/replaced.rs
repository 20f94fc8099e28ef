//! Replaced files keep their owners and permissions, whoever runs the program.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::program::sh;
use crate::common::{FORMATS, packfs, skip, stderr, succeed};

/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// Makes a tree, an archive, an image of each format and a list.
fn site(dir: &Path) {
    sh(dir, "mkdir -p t/d w && echo x > t/d/f && tar -C t -cf t.tar .");
    for format in FORMATS {
        succeed(dir, &["build", "t", "-o", format, "--format", format, "-q"]);
    }
}

#[test]
fn a_replaced_file_keeps_its_mode_and_owner() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    site(dir);
    let is_root = rustix::process::geteuid().is_root();
    for line in [
        "build t -o old -q --force",
        "build t -o old -q --force --format erofs -c lz4",
        "build t -o new -q --force --index=old",
        "build t -o old -q --force --append squashfs",
        "build squashfs -o old --force -q --format erofs",
        "tar squashfs -o old --force -q",
        "as mksquashfs t old -noappend -quiet",
        "as mksquashfs t old -noappend -quiet -info-file listed",
        "as gensquashfs -D t -q -f old",
        "as mkfs.erofs --quiet old t",
    ] {
        for mode in [0o600, 0o664, 0o755] {
            let old = dir.join("old");
            std::fs::write(&old, "").unwrap();
            std::fs::set_permissions(&old, std::fs::Permissions::from_mode(mode)).unwrap();
            if is_root {
                chown(&old, Some(7), Some(8)).unwrap();
            }
            let before = std::fs::metadata(&old).unwrap();
            let ran = packfs(line.split(' ')).current_dir(dir).output().unwrap();
            assert!(ran.status.success(), "{line}: {}", stderr(&ran));
            let after = std::fs::metadata(&old).unwrap();
            let access = |of: &std::fs::Metadata| (of.mode() & 0o7777, of.uid(), of.gid());
            assert_eq!(access(&after), access(&before), "{line}");
            assert!(after.len() > 0 && after.ino() != before.ino(), "{line}: it is not a new file");
        }
    }
    let made = std::fs::metadata(dir.join("listed")).unwrap();
    assert_eq!(made.mode() & 0o600, 0o600);
}

/// A user who may write a file, but neither create nor replace files where it is.
#[test]
fn a_writable_file_is_replaced_where_no_file_can_be_created() {
    let test = "a_writable_file_is_replaced_where_no_file_can_be_created";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "running as another user needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    site(dir);
    sh(dir, "chmod 755 . t t/d; chmod 644 t/d/f squashfs; chmod 1777 w; mkdir r; cp squashfs mine");
    let run_as_nobody = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_packfs"));
        command.args(line.split(' ')).current_dir(dir).env("TMPDIR", dir.join("w")).uid(NOBODY).gid(NOBODY);
        command.output()
    };
    if run_as_nobody("--version").is_err() {
        return skip(test, "the program cannot be run by other users here");
    }
    for place in ["r", "w"] {
        for line in [
            "as mksquashfs t PLACE/old -quiet -noappend",
            "build t -o PLACE/old -q --force",
            "as mksquashfs t PLACE/old -quiet",
        ] {
            let line = line.replace("PLACE", place);
            let old = dir.join(place).join("old");
            std::fs::copy(dir.join("mine"), &old).unwrap();
            std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o646)).unwrap();
            let before = std::fs::metadata(&old).unwrap();
            let ran = run_as_nobody(&line).unwrap();
            assert!(ran.status.success(), "{line}: {}", stderr(&ran));
            let after = std::fs::metadata(&old).unwrap();
            assert_eq!((after.ino(), after.mode(), after.uid()), (before.ino(), before.mode(), 0), "{line}");
            succeed(dir, &["check", old.to_str().unwrap(), "-q"]);
            assert!(succeed(dir, &["list", old.to_str().unwrap()]).contains("d/f"), "{line}");
            let left: Vec<_> = std::fs::read_dir(dir.join(place)).unwrap().collect();
            assert_eq!(left.len(), 1, "{line}: {left:?}");
        }
        // A file that may not be written stays, and so does one in the way of a build without --force.
        let old = dir.join(place).join("old");
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o644)).unwrap();
        let contents = std::fs::read(&old).unwrap();
        assert!(!run_as_nobody(&format!("build t -o {place}/old -q --force")).unwrap().status.success());
        assert_eq!(std::fs::read(&old).unwrap(), contents);
    }
}

/// An extraction that was killed, or is repeated, finds directories with the modes of the image, which let nobody write.
#[test]
fn an_extraction_of_read_only_directories_is_repeated_by_their_owner() {
    if !rustix::process::geteuid().is_root() {
        return skip(
            "an_extraction_of_read_only_directories_is_repeated_by_their_owner",
            "only root becomes another user",
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sh(
        dir,
        "mkdir -p t/closed/deep out && echo 1 > t/closed/f && echo 2 > t/closed/deep/f && chmod 555 t/closed t/closed/deep",
    );
    sh(dir, "chmod 755 . && chown nobody out");
    succeed(dir, &["build", "t", "-o", "i", "--format", "squashfs", "-q"]);
    let extract = |options: &[&str]| {
        let mut command = packfs(["extract", "i", "-C", "out/t", "-q"]);
        command.args(options).current_dir(dir).uid(NOBODY).gid(NOBODY);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
    };
    let modes = || sh(dir, "cd out/t && find . -printf '%m %p\\n' | sort -k 2");
    extract(&[]);
    let expected = modes();
    for options in [&["--force"][..], &["--force", "--shard", "0/1"], &["--force", "closed/f"]] {
        extract(options);
        assert_eq!(modes(), expected, "{options:?}");
    }
}
