//! `build --subdir`: a directory of a source as the root of an image.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::program::{sh, text};
use crate::common::{fail, packfs, run_in, sample, stderr, succeed};

/// Makes the tree `root`, and an archive and images of it.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let at = dir.path().join("root");
    std::fs::create_dir_all(at.join("usr/empty")).unwrap();
    std::fs::hard_link(at.join("usr/share/doc/text"), at.join("usr/text")).unwrap();
    for (target, name) in
        [("/usr/share", "to-share"), ("share/doc", "to-doc"), ("/usr", "to-root"), ("/etc/motd", "out")]
    {
        symlink(target, at.join("usr").join(name)).unwrap();
    }
    symlink("usr", at.join("link")).unwrap();
    sh(dir.path(), "chmod 711 root/usr && tar -C root --sort=name -cf root.tar . && zstd -q root.tar");
    for image in ["root.sqfs", "root.erofs"] {
        succeed(dir.path(), &["build", "root", "-o", image, "-q"]);
    }
    dir
}

/// Compares the entries of two sources; times of extended formats have fractions that others lack.
fn same(dir: &Path, a: &str, b: &str) -> String {
    let different = run_in(dir, &["diff", a, b, "--ignore", "time"]);
    text(&different.stdout) + &stderr(&different)
}

#[test]
fn every_kind_of_source_has_the_directory_as_root() {
    let dir = place();
    let dir = dir.path();
    succeed(dir, &["build", "root/usr", "-o", "want.sqfs", "-q"]);
    for source in ["root", "root.tar", "root.tar.zst", "root.sqfs", "root.erofs"] {
        for subdir in ["usr", "/usr/", "./usr//."] {
            succeed(dir, &["build", source, "-o", "got.sqfs", "-q", "--force", "--subdir", subdir]);
            assert_eq!(same(dir, "want.sqfs", "got.sqfs"), "", "{source} {subdir}");
        }
        succeed(dir, &["build", source, "-o", "none.sqfs", "-q", "--force", "--subdir", "usr/empty"]);
        assert_eq!(succeed(dir, &["list", "none.sqfs"]), ".\n", "{source}");
        let patterns = ["--exclude", "/share/doc/copy", "--max-depth", "3", "--add", "dir /new 0700 1 2"];
        let args = ["build", source, "-o", "part.sqfs", "-q", "--force", "--subdir", "usr"];
        succeed(dir, &[&args[..], &patterns].concat());
        let listed = succeed(dir, &["list", "part.sqfs"]);
        let want = ".\nempty\nmotd\nnew\nout\nshare\nshare/doc\nshare/doc/text\ntext\nto-doc\nto-root\nto-share\n";
        assert_eq!(listed, want, "{source}");
    }
    // A stream gives the bytes that the file gives: what is not packed takes no place.
    succeed(dir, &["build", "root.tar", "-o", "file.sqfs", "-q", "--subdir", "usr/share"]);
    let mut piped = packfs(["build", "-", "-o", "piped.sqfs", "-q", "--subdir", "usr/share"]);
    piped.current_dir(dir).stdin(File::open(dir.join("root.tar")).unwrap());
    assert!(piped.status().unwrap().success());
    let bytes = ["file.sqfs", "piped.sqfs"].map(|image| std::fs::read(dir.join(image)).unwrap());
    assert!(bytes[0] == bytes[1]);
}

#[test]
fn hard_links_and_targets_lead_to_what_they_led_to() {
    let dir = place();
    let dir = dir.path();
    // The data comes with the name outside.
    sh(
        dir,
        "mkdir -p l/a l/z && echo text > l/a/x && ln l/a/x l/z/y && ln l/a/x l/z/z && tar --sort=name -C l -cf l.tar .",
    );
    for source in ["l", "l.tar"] {
        succeed(dir, &["build", source, "-o", "l.sqfs", "-q", "--force", "--subdir", "z"]);
        assert_eq!(succeed(dir, &["cat", "l.sqfs", "y", "z"]), "text\ntext\n");
        assert!(succeed(dir, &["list", "-l", "l.sqfs", "y"]).contains('y'));
    }
    succeed(dir, &["build", "root", "-o", "usr.sqfs", "-q", "--subdir", "usr", "--retarget"]);
    succeed(dir, &["extract", "usr.sqfs", "-C", "usr", "-q"]);
    let targets =
        ["to-share", "to-doc", "to-root", "out"].map(|name| std::fs::read_link(dir.join("usr").join(name)).unwrap());
    assert_eq!(targets.map(|target| target.to_str().unwrap().to_owned()), ["/share", "share/doc", "/", "/etc/motd"]);
}

#[test]
fn other_directories_than_those_of_the_sources_are_refused() {
    let dir = place();
    let dir = dir.path();
    for source in ["root", "root.tar", "root.sqfs"] {
        let refused = |subdir| fail(dir, 2, &["build", source, "-o", "none.sqfs", "--subdir", subdir]);
        for missing in ["nosuch", "usr/nosuch", "usr/../etc", "link/share"] {
            let told = refused(missing);
            assert!(told.contains(&format!("--subdir {missing}: no source has this directory")), "{source}: {told}");
        }
        for other in ["etc/motd", "link"] {
            assert!(refused(other).contains("not a directory of the sources"), "{source} {other}");
        }
        assert!(!dir.join("none.sqfs").exists());
    }
    std::fs::write(dir.join("files"), "root/usr/motd\nroot/etc/motd\n").unwrap();
    succeed(dir, &["build", "--files-from", "files", "-o", "listed.sqfs", "-q", "--subdir", "root/usr"]);
    assert_eq!(succeed(dir, &["list", "listed.sqfs"]), ".\nmotd\n");
    assert!(fail(dir, 2, &["build", "root", "-o", "x.sqfs", "--retarget"]).contains("--subdir"));
}
