//! Owners shifted and hard links taken apart, as the kernel shows the images.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{FORMATS, fail, kernel, packfs, script_dir, stderr, succeed};

/// A directory with `root` in it: files of two owners, one with three names.
fn workplace() -> tempfile::TempDir {
    let script =
        "mkdir -p root/d && echo one > root/a && ln root/a root/b && ln root/a root/d/c && echo two > root/d/e &&
        ln -s a root/l && ln root/l root/m";
    script_dir(script)
}

/// Returns a line for each entry that the kernel shows (path, inode, links, owner), then the contents of the four files.
fn shown(test: &str, image: &Path) -> Option<(Vec<String>, String)> {
    let script = "cd m && stat -c '%n %i %h %u:%g' a b d/c d/e l m && cat a b d/c d/e";
    let mut lines = kernel::inside(test, image, script)?;
    let contents = lines.split_off(6).join(" ");
    Some((lines, contents))
}

#[test]
fn every_name_becomes_a_file_of_its_own() {
    let test = "every_name_becomes_a_file_of_its_own";
    let dir = workplace();
    let dir = dir.path();
    let tar = Command::new("tar").args(["-C", "root", "-cf", "root.tar", "."]).current_dir(dir).status().unwrap();
    assert!(tar.success());
    for format in FORMATS {
        let build = ["build", "-o", "image", "-fq", "--format", format, "--no-hard-links", "--owner", "5:6"];
        for source in ["root", "root.tar", "-", "dedup off"] {
            let mut command = packfs(build);
            match source {
                "-" => command.arg("-").stdin(std::fs::File::open(dir.join("root.tar")).unwrap()),
                "dedup off" => command.args(["root", "--no-dedup"]).stdin(Stdio::null()),
                source => command.arg(source).stdin(Stdio::null()),
            };
            let made = command.current_dir(dir).output().unwrap();
            assert!(made.status.success(), "{format} {source}: {}", stderr(&made));
            succeed(dir, &["check", "image"]);
            let Some((lines, contents)) = shown(test, &dir.join("image")) else { return };
            let fields: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
            let inodes: std::collections::BTreeSet<&str> = fields.iter().map(|line| line[1]).collect();
            assert_eq!(inodes.len(), 6, "{format} {source}: {lines:?}");
            assert!(fields.iter().all(|line| line[2..] == ["1", "5:6"]), "{format} {source}: {lines:?}");
            assert_eq!(contents, "one one one two", "{format} {source}");
        }
    }
}

#[test]
fn owners_are_shifted_and_do_not_wrap() {
    let test = "owners_are_shifted_and_do_not_wrap";
    let dir = workplace();
    let dir = dir.path();
    for format in FORMATS {
        let build = ["build", "root", "-o", "image", "-fq", "--format", format, "--owner", "5:6"];
        for (uid, gid, owner) in [("100000", "200000", "100005:200006"), ("-5", "4294967288", "0:4294967294")] {
            let offsets = ["--uid-offset", uid, "--gid-offset", gid];
            succeed(dir, &[&build[..], &offsets].concat());
            let Some((lines, _)) = shown(test, &dir.join("image")) else { return };
            assert!(lines.iter().all(|line| line.ends_with(&format!(" {owner}"))), "{format}: {lines:?}");
        }
        for (option, why) in [
            ("--uid-offset=-6", "the owner is outside 0 to 4294967294 with an offset of -6"),
            ("--gid-offset=4294967289", "the group is outside"),
        ] {
            let told = fail(dir, 1, &[&build[..], &[option]].concat());
            assert!(told.contains(why), "{told}");
        }
    }
}
