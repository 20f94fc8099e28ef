//! Sources of mksquashfs: links, devices, several at once, whole paths, lists of paths, and what is left out of them.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::program::{is_current, link, sh, text};
use crate::common::{fail, run_in, skip, stderr, succeed};

/// A tree with hard links, symbolic links and special files, and a directory to run in, both with attributes of their
/// own.
const TREE: &str = "
    mkdir -p src/b src/c w; echo f > src/b/f; echo k > src/b/k; ln src/b/f src/c/h; echo g > src/g; ln -s b src/lnk; ln -s nowhere src/dangling
    ln -s src link; mkfifo fifo; mknod device c 1 3; echo single > single; ln single other; echo a > w/a; mkdir w/d
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'
    chmod 0750 src; chown 5:6 src; chmod 0711 w; chown 7:8 w; chmod 0604 single; chown -h 9:10 link
    find src w fifo device socket single link -exec touch -h -d @1500000000 {} +
    for dir in src src/b w; do setfattr -n user.dir -v $dir $dir; setfattr -n trusted.dir -v $dir $dir; done
    (cd w && find ../w > ../up && find . -maxdepth 1 > ../here); printf '../w/a\\0../single\\0' > zeros; echo nosuch > missing; : > empty
    printf '/etc/passwd\\n/etc/group\\n' > whole; printf 'w/a\\n../single\\n' > mixed; printf 'w/../single\\n' > within
";

/// Runs a command line in the directory `w` of the site, with the list on standard input that it names after `<`. `~`
/// is a blank within a word.
fn run(dir: &Path, program: impl AsRef<Path>, line: &str, image: &str) -> Output {
    let (words, list) = line.split_once(" < ").map_or((line, None), |(words, list)| (words, Some(list)));
    let words = words.split(' ').map(|word| word.replace('~', " ").replace("IMAGE", image));
    let stdin = list.map_or_else(Stdio::null, |list| Stdio::from(File::open(dir.join(list)).unwrap()));
    let mut command = Command::new(program.as_ref());
    command.args(words).current_dir(dir.join("w")).stdin(stdin).env_remove("SOURCE_DATE_EPOCH");
    command.output().unwrap()
}

#[test]
fn sources_are_those_of_mksquashfs() {
    let test = "sources_are_those_of_mksquashfs";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "devices and owners need root");
    }
    if !is_current(test, "mksquashfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sh(dir, TREE);
    let ours = link(dir, "mksquashfs");
    for line in [
        // Symbolic links are packed as such, unless a slash follows.
        "../link ../IMAGE",
        "../link/ ../IMAGE",
        "../src ../link ../IMAGE",
        "../src/dangling ../IMAGE",
        "../src/dangling ../fifo ../device ../socket ../single ../IMAGE",
        "../fifo ../IMAGE",
        "../link ../IMAGE -keep-as-directory",
        "nosuch ../IMAGE",
        // Names of one file are links, in whatever source.
        "../single ../other ../IMAGE",
        "../src/b ../src/c ../single ../single ../IMAGE",
        "../src ../src/b ../src/g ../IMAGE",
        "../src/b ../src/c ../IMAGE -no-hardlinks",
        // With whole paths, the root is the directory in which all begin.
        "a ../IMAGE -no-strip",
        "a d ../IMAGE -tarstyle",
        "../src/b ../w/a ../IMAGE -no-strip",
        "../src/b a ../IMAGE -no-strip",
        "../src/b/f ../src ../src/c ../IMAGE -no-strip",
        "/etc/passwd ../IMAGE -no-strip",
        "../src/./b ../IMAGE -no-strip",
        "../src/../single ../IMAGE -no-strip",
        ". ../IMAGE -no-strip",
        "../src/g ../src/g/x ../IMAGE -no-strip",
        "../single ../src/../single ../IMAGE -no-strip",
        "../src/b/f ../IMAGE -no-strip -no-xattrs",
        "../src/b/f ../IMAGE -no-strip -xattrs-exclude ^user.",
        "../src/b/f ../IMAGE -no-strip -all-root -root-mode 0700 -p src~m~0600~3~3",
        "../src/b/f ../src/c ../IMAGE -no-strip -e ../src/b",
        "- ../IMAGE -cpiostyle < up",
        "- ../IMAGE -cpiostyle < here",
        "- ../IMAGE -cpiostyle < whole",
        "- ../IMAGE -cpiostyle < mixed",
        "- ../IMAGE -cpiostyle < missing",
        "- ../IMAGE -cpiostyle < within",
        "- ../IMAGE -cpiostyle < empty",
        "- ../IMAGE -cpiostyle0 < zeros",
        "- ../IMAGE -cpiostyle0 -root-mode 0700 -root-uid 3 < zeros",
        // Files are left out, however they are named.
        "../src ../IMAGE -e b//k",
        "../src ../IMAGE -e c/../b/k",
        "../src ../IMAGE -e lnk/k",
        "../src ../IMAGE -e ../src/./b",
        "../src ../IMAGE -e nosuch",
        "../src ../IMAGE -e ../src",
        "../src ../single ../IMAGE -e ../single",
        "../src ../single ../IMAGE -e ../w/../src/b b",
        "../src ../src/b ../IMAGE -e ../src/b",
        "../src ../single ../IMAGE -e single",
        "../src ../IMAGE -e c/h",
        "../src ../single ../IMAGE -e ../src/b/f",
        "../src ../single ../IMAGE -e ../other",
        "../src ../IMAGE -wildcards -e b//k",
        // Nothing but sources and options of the root change it.
        "../src ../IMAGE -p /~m~0700~9~9",
        "../src ../IMAGE -p /~d~0700~9~9",
        "../src ../single ../IMAGE -p /~M~5~0700~9~9 -p /~x~user.a=b",
        "../src ../IMAGE -p /~x~user.a=b",
        "../src ../IMAGE -p g~d~0755~0~0 -p b/f~m~0600~1~1",
        "../src ../single ../IMAGE -p single~d~0755~0~0",
        "../src ../single ../IMAGE -p src~m~0700~1~1 -root-mode 0711",
    ] {
        let _ = (std::fs::remove_file(dir.join("theirs")), std::fs::remove_file(dir.join("ours")));
        let expected = run(dir, "mksquashfs", line, "theirs");
        let got = run(dir, &ours, line, "ours");
        assert_eq!(got.status.code(), expected.status.code(), "{line}\n{}\n{}", stderr(&expected), stderr(&got));
        if !expected.status.success() {
            continue;
        }
        let told = run_in(dir, &["diff", "theirs", "ours", "--quiet"]);
        // The time of the run differs by the moment.
        let differences: Vec<String> =
            text(&told.stdout).lines().filter(|line| !line.starts_with(".: mtime: ")).map(str::to_owned).collect();
        assert_eq!(differences, Vec::<String>::new(), "{line}");
    }
}

#[test]
fn names_that_select_nothing_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sh(dir, "mkdir -p t/a; echo x > t/a/f; tar -C t -cf t.tar a; : > none");
    for program in ["mksquashfs", "tar2sqfs"] {
        link(dir, program);
    }
    let nothing = "no entry matches the patterns of entries to leave out";
    let no_source = "no source has an entry that matches the exclusions";
    let empty_list = "the list of files is empty";
    for (script, told) in [
        ("./mksquashfs t i -noappend -quiet -e a//f", ""),
        ("./mksquashfs t i -noappend -quiet -e nosuch", no_source),
        ("./mksquashfs t i -noappend -wildcards -e 'nosuch*'", nothing),
        ("./mksquashfs t i -noappend -wildcards -e 'a/*'", ""),
        ("./mksquashfs - i -noappend -cpiostyle < none", empty_list),
        ("./tar2sqfs -f i -E 'a/*' < t.tar", ""),
        ("./tar2sqfs -f i -E 'b/*' < t.tar", nothing),
    ] {
        let script = format!("{script} 2> told");
        sh(dir, &script);
        let said = std::fs::read_to_string(dir.join("told")).unwrap();
        assert!(said.contains(told), "{script}: {said}");
        let tells = [nothing, no_source, empty_list].iter().any(|message| said.contains(message));
        assert_eq!(tells, !told.is_empty(), "{script}: {said}");
    }
    assert_eq!(succeed(dir, &["list", "i"]), ".\na\na/f\n");
    sh(dir, "./tar2sqfs -f -q i -E 'a/*' < t.tar");
    assert_eq!(succeed(dir, &["list", "i"]), ".\na\n", "the directory stays, without its entries");
    assert!(fail(dir, 1, &["build", "t", "-o", "j", "--exclude", "/nosuch", "--strict"]).contains(nothing));
}
