//! packfs under the names of other programs: the same command line gives them and packfs images with the same contents.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::common::program::{have_unsquashfs, is_current, link, make, text};
use crate::common::{self, fail, run_in, sample, stderr, succeed};

const PACKFS: &str = env!("CARGO_BIN_EXE_packfs");

#[test]
fn images_have_the_contents_that_mksquashfs_gives_them() {
    if !is_current("images_have_the_contents_that_mksquashfs_gives_them", "mksquashfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    std::fs::create_dir_all(dir.join("root/var/cache/x")).unwrap();
    std::fs::write(dir.join("root/var/cache/x/[a]"), "a").unwrap();
    std::fs::write(dir.join("root/var/a.pyc"), "b").unwrap();
    std::fs::write(dir.join("single"), "one file").unwrap();
    std::fs::write(dir.join("left-out"), "# comment\nvar/cache\nhole\n").unwrap();
    std::fs::write(dir.join("pseudo"), "/dev d 755 0 0\n/dev/null c 666 0 0 1 3\n/etc/motd m 600 7 8\n").unwrap();
    let lines = [
        "root IMAGE -noappend -no-progress",
        "root IMAGE -comp xz -b 64K -no-progress -all-root",
        "root IMAGE -comp xz -Xbcj x86,arm -Xdict-size 50% -no-progress",
        "root IMAGE -comp zstd -Xcompression-level 3 -no-fragments -processors 1 -quiet",
        "root IMAGE -comp lzo -Xalgorithm lzo1x_1 -always-use-fragments -no-exports",
        "root IMAGE -comp lz4 -Xhc -no-duplicates -no-sparse",
        "root IMAGE -noI -noD -noF -noX -no-progress",
        "root IMAGE -noD -no-progress",
        "root IMAGE -noF -always-use-fragments -no-progress",
        "root IMAGE -comp lzo -noD -noF",
        "root IMAGE -comp zstd -noD -no-fragments -no-duplicates",
        "root IMAGE -comp xz -no-compression",
        "root IMAGE -e var/cache hole",
        "root IMAGE -ef left-out",
        "root IMAGE -wildcards -e var/*/x usr/*",
        "root IMAGE -regex -e ^var$/[[:alpha:]]+/x usr/[^[:upper:]]",
        "root IMAGE -regex -e var/cache/x/^[]a[]+$ var/[\\]",
        "root IMAGE -regex -e var/^[^]c]+$ var/\\d",
        "root IMAGE -e var/cache/x/[a] ./root/var/a.pyc nosuch",
        "root single IMAGE -no-progress",
        "root IMAGE -keep-as-directory -e hole",
        "root/etc root/usr IMAGE -e share/doc/copy",
        "root IMAGE -pf pseudo -all-time 1700000000",
        "root IMAGE -pf pseudo -all-time 1700000000 -all-root -pseudo-override",
        "root IMAGE -pf pseudo -all-time 1700000000 -force-file-mode a=r -force-dir-mode 711 -pseudo-override",
        "root IMAGE -pf pseudo -all-time 1700000000 -force-gid 9 -uid-gid-offset 50 -pseudo-override",
        "root IMAGE -comp zstd -always-use-fragments -no-fragments -no-xattrs -no-xattrs -processors 1 -processors 2",
        "root IMAGE -force-uid 5 -force-gid root -mkfs-time 1700000000",
        "root IMAGE -no-hardlinks -uid-gid-offset 100000 -force-uid 5",
    ];
    let (mine, theirs) = (link(dir, "mksquashfs"), "mksquashfs");
    for line in lines {
        let _ = (std::fs::remove_file(dir.join("theirs")), std::fs::remove_file(dir.join("ours")));
        let expected = make(dir, theirs, line, "theirs");
        assert!(expected.status.success(), "mksquashfs {line}: {}", stderr(&expected));
        let got = make(dir, &mine, line, "ours");
        assert!(got.status.success(), "{line}: {}", stderr(&got));
        if have_unsquashfs("images_have_the_contents_that_mksquashfs_gives_them") {
            assert_eq!(compressed(dir, "ours"), compressed(dir, "theirs"), "{line}");
        }
        // The root of several sources has the owner, mode and time of the run.
        let own_root = line.contains("single") || line.contains("keep-as") || line.contains("root/usr");
        let images = if own_root {
            ["theirs", "ours"].map(|image| {
                let same = format!("{image}-root");
                let root = ["--add", "dir / 0755 0 0", "--add", "time / 0"];
                succeed(dir, &[&["build", image, "-o", &same, "-q", "--force"][..], &root].concat());
                same
            })
        } else {
            ["theirs".to_owned(), "ours".to_owned()]
        };
        let different = run_in(dir, &["diff", &images[0], &images[1]]);
        assert_eq!(String::from_utf8_lossy(&different.stdout), "", "{line}");
    }
}

/// Returns the lines of `unsquashfs -s` that say what is compressed, and how.
fn compressed(dir: &Path, image: &str) -> Vec<String> {
    let about = make(dir, "unsquashfs", "-s IMAGE", image);
    let about = text(&about.stdout);
    let parts = ["Compression", "Inodes are", "Data is", "Fragments are"];
    about.lines().filter(|line| parts.iter().any(|part| line.starts_with(part))).map(str::to_owned).collect()
}

#[test]
fn callers_find_what_they_look_for() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let mksquashfs = link(dir, "mksquashfs");
    let version = make(dir, &mksquashfs, "-version", "");
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("mksquashfs version 4."), "{version:?}");
    let percent = make(dir, &mksquashfs, "root IMAGE -quiet -percentage -comp zstd", "image");
    let numbers: Vec<u32> =
        String::from_utf8(percent.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers.is_sorted() && numbers.last() == Some(&100), "{numbers:?}");
    std::fs::write(dir.join("list.txt"), "no image").unwrap();
    let again = make(dir, &mksquashfs, "root list.txt", "image");
    assert_eq!((again.status.code(), stderr(&again).contains("-noappend replaces it")), (Some(1), true));
    for (options, code) in [("-mkfs-time 5", 1), ("-all-time 5", 1), ("-repro-time 5", 1), ("-root-time 5", 0)] {
        let mut command = common::program::command(dir, &mksquashfs, &format!("root image -noappend -quiet {options}"));
        let ran = command.env("SOURCE_DATE_EPOCH", "7").output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{options}: {}", stderr(&ran));
    }
    let wrong = make(dir, &mksquashfs, "root IMAGE -noappend -b 3", "image");
    assert_eq!(wrong.status.code(), Some(1), "{}", stderr(&wrong));
    assert!(make(dir, &mksquashfs, "root IMAGE -noappend", "image").status.success());
}

/// A value is checked even if the option has no effect, and words are taken only where the program takes them.
#[test]
fn command_lines_have_the_status_that_the_programs_give_them() {
    let test = "command_lines_have_the_status_that_the_programs_give_them";
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    succeed(dir, &["build", "root", "-o", "a.sqfs", "-q"]);
    succeed(dir, &["build", "root", "-o", "a.erofs", "-q"]);
    let lines = [
        ("mksquashfs", "root IMAGE -read-queue 64 -write-queue 64 -fragment-queue 64", 0),
        ("mksquashfs", "root IMAGE -a exclude@name(hole) -vaf /dev/null", 0),
        ("mksquashfs", "root IMAGE -small-readers 2 -block-readers 2 -limit 100 -throttle 0 -mem-percent 10", 0),
        ("mksquashfs", "root IMAGE -mem 1Gbytes -cols 80", 0),
        ("mksquashfs", "--version", 0),
        ("mksquashfs", "-help-comp gzip", 0),
        ("mksquashfs", "-help-comp nosuch", 1),
        ("mksquashfs", "root IMAGE -small-readers abc", 1),
        ("mksquashfs", "root IMAGE -mem-percent abc", 1),
        ("mksquashfs", "root IMAGE -processors 0", 1),
        ("mksquashfs", "root IMAGE -mem 1", 1),
        ("mksquashfs", "root IMAGE -read-queue abc", 1),
        ("mksquashfs", "root IMAGE -throttle", 1),
        ("mksquashfs", "root IMAGE -e", 1),
        ("mksquashfs", "root IMAGE -wildcards -e ./hole", 1),
        ("mksquashfs", "-comp xz root IMAGE", 1),
        ("mksquashfs", "root a.sqfs -noappend -b 128K 64K", 1),
        ("mksquashfs", "root a.erofs", 1),
        ("unsquashfs", "-l -da 64 -fr 64 -mem 2M -mem-percent 75 a.sqfs", 0),
        ("unsquashfs", "-l -mem 1 a.sqfs", 1),
        ("unsquashfs", "-l -da abc a.sqfs", 1),
        ("unsquashfs", "-l -processors 0 a.sqfs", 1),
        ("sqfscat", "-da 64 -fr 64 a.sqfs hole", 0),
        ("sqfscat", "-mem-percent 0 a.sqfs hole", 1),
        ("mkfs.erofs", "-T-5 -x0x2 --force-uid=0x10 --workers=0x2 IMAGE root", 0),
        ("mkfs.erofs", "-zlz4, -C0x10000 --max-extent-bytes=0 --MZ=id --async-queue-limit=4 IMAGE root", 0),
        ("mkfs.erofs", "--max-extent-bytes=abc IMAGE root", 1),
        ("mkfs.erofs", "--async-queue-limit=3 IMAGE root", 1),
        ("mkfs.erofs", "--chunksize=3 -zlz4 IMAGE root", 1),
        ("mkfs.erofs", "--MZ=d IMAGE root", 1),
        ("mkfs.erofs", "-C6144 IMAGE root", 1),
        ("mkfs.erofs", "-m3 IMAGE root", 1),
        ("mkfs.erofs", "-d10 IMAGE root", 1),
        ("mkfs.erofs", "-zlz4,1 IMAGE root", 1),
        ("mkfs.erofs", "-zdeflate,level=10 IMAGE root", 1),
        ("mkfs.erofs", "-zzstd,dictsize=abc IMAGE root", 1),
        ("fsck.erofs", "-d10 a.erofs", 1),
        ("fsck.erofs", "--offset=0x0 -d9 a.erofs", 0),
        ("dump.erofs", "--offset=0x0 -s a.erofs", 0),
    ];
    let images = ["a.sqfs", "a.erofs"].map(|image| dir.join(image));
    let before = images.each_ref().map(|image| std::fs::read(image).unwrap());
    for (program, line, status) in lines {
        let ours = make(dir, PACKFS, &format!("as {program} {line}"), "ours");
        assert_eq!(ours.status.code(), Some(status), "{program} {line}: {}", stderr(&ours));
        assert!(status == 0 || !dir.join("ours").exists(), "{program} {line}");
        if is_current(test, program) {
            let theirs = make(dir, program, line, "theirs");
            assert_eq!(theirs.status.code(), Some(status), "{program} {line}: {}", stderr(&theirs));
        }
        let _ = (std::fs::remove_file(dir.join("theirs")), std::fs::remove_file(dir.join("ours")));
    }
    assert!(images.map(|image| std::fs::read(image).unwrap()) == before, "an image has changed");
}

/// Appending gives what it gives with mksquashfs, for the same command lines one after the other.
#[test]
fn images_are_appended_to_as_mksquashfs_does() {
    let test = "images_are_appended_to_as_mksquashfs_does";
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let script =
        "mkdir -p a/x b/x b/new c && seq 99999 > a/x/1 && echo t > a/top && echo 2 > b/x/2 && ln a/top a/hard &&
        echo T > b/top && ln -s top b/new/l && echo n > c/n && echo s > single && chmod 700 a && chmod 711 b && chown 5:6 b b/top &&
        setfattr -n user.b -v 1 b/new && find a b c single -exec touch -h -d @1700000000 {} +";
    let made = Command::new("sh").args(["-ec", script]).current_dir(dir).status().unwrap();
    assert!(made.success());
    let mksquashfs = link(dir, "mksquashfs");
    let there = is_current(test, "mksquashfs");
    let rounds = [
        &["a IMAGE -comp zstd -Xcompression-level 5 -b 64K", "b IMAGE -comp xz -b 1M -all-root"][..],
        &["a IMAGE -comp gzip -no-fragments", "c single IMAGE", "b single IMAGE -e b/new"],
        &["a IMAGE -comp lz4 -Xhc", "b IMAGE -keep-as-directory", "b IMAGE -keep-as-directory -force-uid 9"],
        &["a b IMAGE -comp xz", "c IMAGE -root-becomes old -all-root"],
        &["a IMAGE -noD", "b IMAGE"],
        &["a IMAGE -noF", "b IMAGE"],
        &["a IMAGE -noD -noF -comp zstd -Xcompression-level 5", "b IMAGE"],
        &["a IMAGE -no-compression", "b IMAGE"],
        &["a IMAGE", "b IMAGE -noappend"],
        &["a IMAGE", "c IMAGE -root-becomes n", "b/new single IMAGE -root-becomes c"],
        &["a IMAGE -uid-gid-offset 5", "b single IMAGE -uid-gid-offset 100 -force-gid 3", "c IMAGE"],
        &["b IMAGE", "c IMAGE -uid-gid-offset 100 -action guid(7,8)@type(f)"],
    ];
    for lines in rounds {
        for line in lines {
            let ours = make(dir, &mksquashfs, line, "ours");
            assert!(ours.status.success(), "{line}: {}", stderr(&ours));
            if there {
                let theirs = make(dir, "mksquashfs", &format!("{line} -no-progress -no-recovery"), "theirs");
                assert!(theirs.status.success(), "{line}: {}", stderr(&theirs));
            }
        }
        if there {
            let told = run_in(dir, &["diff", "theirs", "ours"]);
            let told = String::from_utf8(told.stdout).unwrap();
            // The root of several sources has the time of the run; it may be `old` by now.
            let is_time = |line: &&str| {
                line.contains(": mtime: ") && [".", "old", "n", "c"].contains(&line.split(':').next().unwrap())
            };
            let other: Vec<_> = told.lines().filter(|line| !is_time(line)).collect();
            assert_eq!(other, [""; 0], "{lines:?}");
            let facts = ["theirs", "ours"].map(|image| {
                let info = succeed(dir, &["info", image]);
                info.lines()
                    .filter(|line| line.starts_with("codec") || line.starts_with("block"))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            });
            assert_eq!(facts[0], facts[1], "{lines:?}");
            if have_unsquashfs(test) {
                assert_eq!(compressed(dir, "ours"), compressed(dir, "theirs"), "{lines:?}");
            }
        }
        succeed(dir, &["check", "ours", "-q"]);
        for image in ["ours", "theirs"] {
            let _ = std::fs::remove_file(dir.join(image));
        }
    }
    // The same by packfs's own options; an index lets the blocks of the old image be used again.
    succeed(dir, &["build", "a", "-o", "one.sqfs", "-q", "-c", "zstd:7", "--index"]);
    let append = ["build", "b", "--append", "one.sqfs", "-q", "--owner", "3:4"];
    succeed(dir, &[&append[..], &["-o", "two.sqfs", "--reuse", "one.sqfs", "--index"]].concat());
    succeed(dir, &[&append[..], &["-o", "one.sqfs", "-f"]].concat());
    assert_eq!(std::fs::read(dir.join("one.sqfs")).unwrap(), std::fs::read(dir.join("two.sqfs")).unwrap());
    let listed = succeed(dir, &["list", "-l", "two.sqfs"]);
    let line = |name: &str| {
        listed
            .lines()
            .find(|line| line.ends_with(name) && !line.contains(" -> "))
            .unwrap_or_else(|| panic!("{name}: {listed}"))
    };
    assert!(line(" top").contains(" 0     0 ") && line(" top_1").contains(" 3     4 "), "{listed}");
    succeed(dir, &["build", "b", "-o", "b.erofs", "-q"]);
    succeed(dir, &["build", "c", "--append", "b.erofs", "--append-below", "old", "-o", "c.erofs", "-q"]);
    assert_eq!(succeed(dir, &["list", "c.erofs", "old/x", "n"]), "n\nold/x\nold/x/2\n");
}

#[test]
fn sqfstar_packs_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    succeed(dir, &["build", "root", "-o", "root.sqfs", "-q"]);
    succeed(dir, &["tar", "root.sqfs", "-o", "root.tar", "-q"]);
    let tar = std::fs::File::open(dir.join("root.tar")).unwrap();
    let made = Command::new(PACKFS)
        .args(["as", "sqfstar", "-comp", "zstd", "new.sqfs", "hole"])
        .current_dir(dir)
        .stdin(tar)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(!succeed(dir, &["info", "new.sqfs"]).contains("exportable"));
    if have_unsquashfs("sqfstar_packs_standard_input") {
        // The default of mksquashfs for archives, unlike that for files.
        let about = make(dir, "unsquashfs", "-s IMAGE", "new.sqfs");
        assert!(text(&about.stdout).contains("Tailends are packed into fragments"), "{about:?}");
    }
    let different = run_in(dir, &["diff", "root.sqfs", "new.sqfs"]);
    let lines = String::from_utf8(different.stdout).unwrap();
    // The root is that of the run.
    let lines: Vec<&str> = lines.lines().filter(|line| !line.starts_with(".: ")).collect();
    assert!(lines.len() == 1 && lines[0].contains("hole"), "{lines:?}");
}

#[test]
fn packfs_as_explains_and_installs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let shown =
        succeed(dir, &["as", "--show", "mksquashfs", "root", "new.sqfs", "-root-mode", "0711", "-e", "etc", "a"]);
    assert_eq!(
        shown,
        "packfs build --output=new.sqfs --format=squashfs --codec=gzip:9 --fragments=small --image-time=now --on-error=skip --force \
         root --exclude=/etc '--add=mode / 0711'\n"
    );
    let list = succeed(dir, &["as", "--list", "mksquashfs"]);
    assert!(list.lines().all(|line| line.starts_with("mksquashfs ")), "{list}");
    std::fs::create_dir(dir.join("bin")).unwrap();
    succeed(dir, &["as", "--install", "bin"]);
    succeed(dir, &["as", "--install", "bin"]);
    std::fs::remove_file(dir.join("bin/sqfstar")).unwrap();
    std::fs::write(dir.join("bin/sqfstar"), "another program").unwrap();
    assert!(fail(dir, 1, &["as", "--install", "bin"]).contains("bin/sqfstar: File exists"));
    let made = make(dir, dir.join("bin/mksquashfs"), "root IMAGE", "installed.sqfs");
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(fail(dir, 2, &["as", "nosuch"]).contains("mksquashfs"));
    assert!(fail(dir, 2, &["as"]).contains("--list"));
}

#[test]
fn every_option_in_the_help_of_mksquashfs_is_in_the_table() {
    if !is_current("every_option_in_the_help_of_mksquashfs_is_in_the_table", "mksquashfs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let table = succeed(dir.path(), &["as", "--list", "mksquashfs"]);
    let known: BTreeSet<&str> = table
        .lines()
        .flat_map(|line| line.split(' '))
        .map(|word| word.trim_end_matches(','))
        .filter(|word| word.starts_with('-'))
        .collect();
    // Old versions have -help, later ones -help-all.
    let all = Command::new("mksquashfs").arg("-help-all").output().unwrap();
    let usual = Command::new("mksquashfs").arg("-help").output().unwrap();
    let text = [all.stdout, all.stderr, usual.stdout, usual.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let option = |line: &str| line.split([' ', '\t']).next().filter(|word| word.len() > 1).map(str::to_owned);
    let options: BTreeSet<String> =
        text.lines().map(str::trim_start).filter(|line| line.starts_with('-')).filter_map(option).collect();
    let missing: Vec<_> = options
        .iter()
        .filter(|option| option.as_bytes()[1].is_ascii_alphabetic() && !option.ends_with("MKSQUASHFS.md"))
        .filter(|option| !known.contains(option.as_str()))
        .collect();
    assert!(options.len() > 60, "{options:?}");
    assert_eq!(missing, Vec::<&String>::new());
}
