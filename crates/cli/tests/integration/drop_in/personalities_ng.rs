//! packfs under the names of tar2sqfs and gensquashfs: the same command line gives all images with the same contents.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::program::{command, link, text};
use crate::common::{have, run_in, sample, stderr, succeed};

/// Runs a command line in `dir` with `root.tar` on standard input and `image` for the word `IMAGE`.
fn run(dir: &Path, program: impl AsRef<Path>, line: &str, image: &str) -> Output {
    let stdin = File::open(dir.join("root.tar")).map_or_else(|_| Stdio::null(), Stdio::from);
    command(dir, program, &line.replace("IMAGE", image)).stdin(stdin).output().unwrap()
}

/// Makes a tree, an archive and a pack list of it, and links of both names to packfs.
fn site(dir: &Path) {
    sample(dir);
    // tar2sqfs and gensquashfs keep whole seconds only, as SquashFS does.
    let packed =
        Command::new("tar").args("--format=pax --xattrs -cf root.tar -C root .".split(' ')).current_dir(dir).status();
    assert!(packed.unwrap().success());
    let list = "dir /dev 0755 0 0\nnod /dev/null 0666 0 0 c 1 3\nslink /link 0777 0 0 dev/null\n\
                file /etc/motd 0600 7 8 root/usr/motd\nlink /motd 0777 0 0 /etc/motd\n";
    std::fs::write(dir.join("list"), list).unwrap();
    for program in ["tar2sqfs", "gensquashfs"] {
        link(dir, program);
    }
}

#[test]
fn images_have_the_contents_that_squashfs_tools_ng_gives_them() {
    let test = "images_have_the_contents_that_squashfs_tools_ng_gives_them";
    if !have(test, "tar2sqfs") || !have(test, "gensquashfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    site(dir);
    let lines = [
        ("tar2sqfs", "-j 2 -c gzip -f IMAGE"),
        ("tar2sqfs", "--quiet --no-skip --force --exportable --compressor=zstd --comp-extra level=3 IMAGE"),
        ("tar2sqfs", "-qfc xz -Xlevel=1,x86 -b 65536 -T IMAGE"),
        ("tar2sqfs", "-q -f -x -k -c lz4 -X hc IMAGE"),
        ("tar2sqfs", "-q -f -r usr/share IMAGE"),
        ("tar2sqfs", "-q -f --root-becomes=./usr/ -S IMAGE"),
        ("tar2sqfs", "-q -f -c xz -X dictsize=1M IMAGE"),
        ("tar2sqfs", "-q -f -b 4096 -c lzma -X dictsize=196608 IMAGE"),
        ("gensquashfs", "-D root -q -f -b 64K -c xz -X dictsize=96K,x86 IMAGE"),
        ("gensquashfs", "-F list -q -f IMAGE"),
        ("gensquashfs", "-D root -q -f -k -x -c xz -X level=2,extreme IMAGE"),
        ("gensquashfs", "--pack-dir root --quiet --force --all-root -c zstd -o -e IMAGE"),
        ("gensquashfs", "-D root -q -f -u 5 -g 6 -d uid=0,gid=0,mode=0755,mtime=0 IMAGE"),
    ];
    for (program, line) in lines {
        let expected = run(dir, program, line, "theirs");
        assert!(expected.status.success(), "{program} {line}: {}", stderr(&expected));
        let got = run(dir, dir.join(program), line, "ours");
        assert!(got.status.success(), "{program} {line}: {}", stderr(&got));
        let different = run_in(dir, &["diff", "theirs", "ours"]);
        // gensquashfs before 1.3 does not know hard links, and gives the root the default time.
        let old =
            |line: &&str| program == "gensquashfs" && (line.starts_with(".: mtime") || line.contains(": links: "));
        let different = text(&different.stdout);
        assert_eq!(different.lines().filter(|line| !old(line)).collect::<Vec<_>>(), [""; 0], "{program} {line}");
        let listed = ["theirs", "ours"].map(|image| succeed(dir, &["info", image]).contains("exportable"));
        assert_eq!(listed[0], listed[1], "{program} {line}");
    }
    // Neither replaces an image unless told to.
    for program in [Path::new("tar2sqfs"), &dir.join("tar2sqfs")] {
        assert_eq!(run(dir, program, "-q IMAGE", "ours").status.code(), Some(1));
    }
}

/// SOURCE_DATE_EPOCH is the time of what has none by default, even if a source is older.
#[test]
fn the_time_of_the_environment_is_that_of_squashfs_tools_ng() {
    let test = "the_time_of_the_environment_is_that_of_squashfs_tools_ng";
    if !have(test, "tar2sqfs") || !have(test, "gensquashfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    site(dir);
    for (program, line) in [
        ("gensquashfs", "-D root -q -f IMAGE"),
        ("gensquashfs", "-F list -q -f IMAGE"),
        ("tar2sqfs", "-k -q -f IMAGE"),
        ("tar2sqfs", "-k -d mtime=0x7,uid=0x10 -q -f IMAGE"),
    ] {
        for (started, image) in [(PathBuf::from(program), "theirs"), (dir.join(program), "ours")] {
            let mut command = command(dir, started, &line.replace("IMAGE", image));
            command.stdin(File::open(dir.join("root.tar")).unwrap()).env("SOURCE_DATE_EPOCH", "2000000000");
            let made = command.output().unwrap();
            assert!(made.status.success(), "{program} {line}: {}", stderr(&made));
        }
        let different = run_in(dir, &["diff", "theirs", "ours"]);
        // gensquashfs before 1.3 does not know hard links.
        let different = text(&different.stdout);
        let different: Vec<_> = different.lines().filter(|line| !line.contains(": links: ")).collect();
        assert_eq!(different, [""; 0], "{program} {line}");
    }
}

#[test]
fn every_option_in_the_help_of_squashfs_tools_ng_is_in_the_tables() {
    let test = "every_option_in_the_help_of_squashfs_tools_ng_is_in_the_tables";
    let dir = tempfile::tempdir().unwrap();
    for program in ["tar2sqfs", "gensquashfs"] {
        if !have(test, program) {
            return;
        }
        let table = succeed(dir.path(), &["as", "--list", program]);
        let cut = |word: &str| word.split(['=', '[', ',']).next().unwrap_or_default().to_owned();
        let known: BTreeSet<String> = table.lines().flat_map(|line| line.split(' ').map(cut)).collect();
        let help = Command::new(program).arg("--help").output().unwrap();
        let text = text(&help.stdout);
        let words = text.lines().filter_map(|line| line.strip_prefix("  -")).flat_map(|line| {
            let words: Vec<String> = format!("-{line}").split(' ').take(2).map(cut).collect();
            words
        });
        let options: BTreeSet<String> = words.filter(|word| word.starts_with('-')).collect();
        let missing: Vec<_> = options.iter().filter(|option| !known.contains(*option)).collect();
        assert!(options.len() > 20, "{options:?}");
        assert_eq!(missing, Vec::<&String>::new(), "{program}");
    }
}
