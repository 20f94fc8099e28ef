//! Conversion from one format to the other and back, observed through the program alone: nothing is
//! lost that the format can store, and losses are reported.

use std::path::Path;

use crate::common::{fail, packfs, run_in, sample_dir, stderr, succeed};

/// Makes a directory with `root` and a pack list that adds entries which need privilege to create.
fn workplace() -> tempfile::TempDir {
    let dir = sample_dir();
    let list = "\
        nod /dev/null 0666 0 0 c 1 3\n\
        nod /dev/sda 0660 0 6 b 8 0\n\
        pipe /run/pipe 0600 7 8\n\
        sock /run/sock 0777 0 0\n\
        content /etc/id 04755 65534 70000 \"id\"\n\
        xattr /etc/id user.comment=0tsome text\n\
        xattr /etc security.label=0x00ff\n";
    std::fs::write(dir.path().join("list"), list).unwrap();
    dir
}

fn build(dir: &Path, sources: &[&str], image: &str, options: &[&str]) -> String {
    let args = [&["build"], sources, &["-o", image, "-f"], options].concat();
    let output = run_in(dir, &args);
    assert!(output.status.success(), "packfs {args:?}: {}", stderr(&output));
    stderr(&output)
}

#[test]
fn converting_there_and_back_changes_nothing() {
    let dir = workplace();
    let dir = dir.path();
    build(dir, &["root", "@list"], "first.sqfs", &["--time", "2026-01-02", "-q"]);
    let first = std::fs::read(dir.join("first.sqfs")).unwrap();
    let codecs =
        [("none", "5.4"), ("lz4", "5.13"), ("lz4hc", "6.1"), ("lzma", "5.16"), ("deflate", "6.6"), ("zstd", "6.10")];
    for (codec, kernel) in codecs {
        build(dir, &["first.sqfs"], "there.erofs", &["--codec", codec, "--target-kernel", kernel, "-q"]);
        assert_eq!(succeed(dir, &["diff", "first.sqfs", "there.erofs", "-q"]), "", "{codec}");
        succeed(dir, &["check", "there.erofs", "-q"]);
        build(dir, &["there.erofs"], "back.sqfs", &["-q"]);
        assert!(first == std::fs::read(dir.join("back.sqfs")).unwrap(), "{codec}");
    }
}

#[test]
fn an_image_gives_the_same_archive_in_either_format() {
    let dir = workplace();
    let dir = dir.path();
    build(dir, &["root", "@list"], "a.sqfs", &["--time", "5", "-q"]);
    build(dir, &["a.sqfs"], "a.erofs", &["-q"]);
    succeed(dir, &["tar", "a.sqfs", "-o", "sqfs.tar", "-q"]);
    let written = run_in(dir, &["tar", "a.erofs", "-o", "erofs.tar"]);
    assert_eq!(written.status.code(), Some(0));
    let said = stderr(&written);
    assert!(said.contains("packfs: warning: ") && said.contains("left out a socket"), "{said}");
    let message = fail(dir, 1, &["tar", "a.erofs", "-o", "strict.tar", "--strict", "-q"]);
    assert!(message.contains("left out a socket") && !dir.join("strict.tar").exists(), "{message}");
    assert!(std::fs::read(dir.join("sqfs.tar")).unwrap() == std::fs::read(dir.join("erofs.tar")).unwrap());
    assert_eq!(
        succeed(dir, &["cat", "a.erofs", "usr/motd", "usr/share/doc/copy"]),
        succeed(dir, &["cat", "a.sqfs", "usr/motd", "usr/share/doc/copy"])
    );
}

#[test]
fn fractions_of_seconds_are_lost_with_a_warning() {
    let dir = workplace();
    let dir = dir.path();
    let exact = std::time::UNIX_EPOCH + std::time::Duration::new(1_700_000_000, 123_456_789);
    std::fs::File::open(dir.join("root/etc/motd")).unwrap().set_modified(exact).unwrap();
    build(dir, &["root"], "exact.erofs", &["-q"]);
    succeed(dir, &["check", "exact.erofs", "--against", "root", "-q"]);
    assert!(build(dir, &["exact.erofs"], "whole.sqfs", &[]).contains("fractions of timestamps are dropped"));
    for (source, options) in [("exact.erofs", &["--time", "5"][..]), ("root", &[]), ("exact.erofs", &["-q"])] {
        assert!(!build(dir, &[source], "whole.sqfs", options).contains("fractions"), "{source} {options:?}");
    }
    assert!(!build(dir, &["whole.sqfs"], "whole.erofs", &[]).contains("fractions"));
    // The images differ only in what was reported.
    assert_eq!(succeed(dir, &["diff", "exact.erofs", "whole.sqfs", "-q"]), "");
}

#[test]
fn attributes_that_squashfs_lacks_are_named_and_can_be_left_out() {
    let dir = workplace();
    let dir = dir.path();
    // An access control list in the kernel's form: owner, group, others.
    let acl = "0x0200000001000700ffffffff04000500ffffffff20000500ffffffff";
    let list = format!(
        "xattr /etc/motd system.posix_acl_access={acl}\nxattr /etc/motd user.keep=0tthis\nxattr / system.posix_acl_default={acl}\n"
    );
    std::fs::write(dir.join("list"), list).unwrap();
    build(dir, &["root", "@list"], "acl.erofs", &["-q", "--time", "5"]);
    succeed(dir, &["check", "acl.erofs", "-q"]);
    assert_eq!(succeed(dir, &["list", "acl.erofs", "--json"]).matches("system.posix_acl_").count(), 3);
    let message = fail(dir, 1, &["build", "acl.erofs", "-o", "strict.sqfs", "-q", "--strict"]);
    assert!(message.contains("POSIX ACLs") && !dir.join("strict.sqfs").exists(), "{message}");
    let report = succeed(dir, &["build", "acl.erofs", "-o", "acl.sqfs", "-q", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let warning = &report["warnings"][0];
    assert_eq!((&warning["kind"], &warning["count"]), (&"posix-acl".into(), &2.into()), "{report}");
    assert_eq!((&warning["shown"][0]["path"], &warning["shown"][1]["path"]), (&"".into(), &"etc/issue".into()));
    let said = build(dir, &["acl.erofs"], "excluded.sqfs", &["--strict", "--exclude-xattr", "system.posix_acl_*"]);
    assert!(!said.contains("ACL"), "{said}");
    let listed = succeed(dir, &["list", "acl.sqfs", "--json"]);
    assert!(listed.contains("user.keep") && !listed.contains("posix_acl"), "{listed}");
    build(dir, &["acl.erofs"], "less.erofs", &["-q", "--exclude-xattr", "user.*"]);
    let listed = succeed(dir, &["list", "less.erofs", "--json"]);
    assert!(!listed.contains("user.keep") && listed.contains("posix_acl"), "{listed}");
}

#[test]
fn a_file_with_the_magic_of_an_image_is_one_whatever_its_name() {
    let dir = workplace();
    let dir = dir.path();
    build(dir, &["root"], "misnamed.sqfs", &["-q", "--format", "erofs"]);
    build(dir, &["misnamed.sqfs"], "too.erofs", &["-q", "--format", "squashfs"]);
    for (image, format) in [("misnamed.sqfs", "\"erofs\""), ("too.erofs", "\"squashfs 4.0\"")] {
        assert!(succeed(dir, &["info", image, "--json"]).contains(format), "{image}");
        succeed(dir, &["check", image, "--against", "root", "-q"]);
    }
    let further = packfs(["list", "too.erofs", "--device", "root/hole"]).current_dir(dir).output().unwrap();
    assert!(stderr(&further).contains("no additional devices"), "{}", stderr(&further));
}
