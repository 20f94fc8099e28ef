//! packfs under the names of programs that read images: the same command lines give the same trees, lines and exit
//! statuses.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::common::program::{either, have_unsquashfs, is_current, link, run, sh, text};
use crate::common::{stderr, succeed};

/// Makes links to packfs, and an image of a tree with everything that this user can make.
fn prepare(programs: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for program in programs {
        link(dir.path(), program);
    }
    let script =
        "mkdir -p t/etc/ssl t/usr/bin t/empty t/var/log && echo hi > t/etc/hostname && echo k > t/etc/ssl/a.pem &&
        ln -s hostname t/etc/link && ln -s nowhere t/var/dead && ln -s etc t/to && ln t/etc/hostname t/etc/other && mkfifo t/var/fifo && : > t/var/nothing &&
        head -c 300000 /dev/urandom > t/usr/bin/big && echo x > t/usr/bin/x && chmod 4755 t/usr/bin/x &&
        echo b > 't/var/a{b}' && printf 'etc/ssl\\n # not this\\n usr/bin/x\\n' > list";
    sh(dir.path(), script);
    let devices = ["--add", "/var/null c 666 0 0 1 3", "--add", "/var/disk b 660 0 6 8 17"];
    let args = ["build", "t", "-o", "t.sqfs", "-q", "--image-time", "1700000000", "--exclude", "nosuch"];
    succeed(dir.path(), &[&args[..], &devices[..]].concat());
    dir
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[test]
fn listings_are_those_of_unsquashfs() {
    if !have_unsquashfs("listings_are_those_of_unsquashfs") {
        return;
    }
    let dir = prepare(&["unsquashfs"]);
    let dir = dir.path();
    for line in [
        "-l t.sqfs",
        "-n -l t.sqfs",
        "-ll t.sqfs",
        "-lln -full-precision t.sqfs",
        "-llc -UTC t.sqfs",
        "-lc t.sqfs usr",
        "-l t.sqfs etc/h* nosuch",
        "-ll -d /some/where t.sqfs /etc",
        "-max-depth 1 -ll t.sqfs",
        "-lc -max 2 t.sqfs",
        "-ex etc u* ; -l t.sqfs",
        "-excludes -l t.sqfs etc/ssl var",
        "-no-wildcards -l t.sqfs var/* var/a{b}",
        "-l t.sqfs var/a{b}",
        "-l -e list t.sqfs",
        "-r -l t.sqfs ^etc$/^[[:alpha:]]+$",
        "-regex -l t.sqfs usr/[^]l]/x nosuch",
        "-r -ex e.c [u\\]s ; -l t.sqfs",
        "-r -l t.sqfs /var/\\w.b}",
        "-l -exclude-file list t.sqfs",
        "-ll -all-time 1000000000 t.sqfs usr",
        "-max 1 -max 2 -l t.sqfs",
        "-mkfs-time t.sqfs",
        "-s t.sqfs",
        "-s -UTC t.sqfs",
        "-n -cat t.sqfs etc/hostname etc/ssl/a.pem",
        "-cat t.sqfs etc/hostname nosuch",
        "-cat -no-exit-code t.sqfs nosuch",
        "-cat -r t.sqfs ^etc$/h nosuch",
        "-cat -regex t.sqfs etc/ssl/a. etc/^hostn",
        "-cat -regex t.sqfs [",
        "-L -l t.sqfs to/link",
        "-follow-symlinks -ll t.sqfs to nosuch var/dead usr/bin/x",
        "-match -l t.sqfs to/ssl",
        "-missing -l t.sqfs var/dead",
        "-match -l t.sqfs nosuch",
        "-L -r -l t.sqfs etc",
        "-l nosuch.sqfs",
        "-s list",
    ] {
        let (theirs, ours) = (run(dir, "unsquashfs", line), run(dir, dir.join("unsquashfs"), line));
        assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{line}: {}", stderr(&ours));
        assert_eq!(ours.status.code(), theirs.status.code(), "{line}: {}", stderr(&ours));
    }
    for program in [false, true].map(|ours| either(dir, "unsquashfs", ours)) {
        assert_eq!(run(dir, program, "-frobnicate t.sqfs").status.code(), Some(1));
    }
}

#[test]
fn superblocks_are_shown_as_unsquashfs_shows_them() {
    let name = "superblocks_are_shown_as_unsquashfs_shows_them";
    if !have_unsquashfs(name) || !is_current(name, "mksquashfs") {
        return;
    }
    let dir = prepare(&["unsquashfs"]);
    let dir = dir.path();
    for options in [
        "-comp gzip -Xcompression-level 5 -Xwindow-size 10 -Xstrategy default,huffman_only",
        "-comp xz -Xdict-size 50% -Xbcj x86,arm",
        "-comp xz -Xdict-size 8K",
        "-comp lz4 -Xhc -no-xattrs",
        "-comp lz4 -b 4K -always-use-fragments",
        "-comp lzo -Xcompression-level 4 -no-fragments",
        "-comp lzo -Xalgorithm lzo1x_1",
        "-comp zstd -Xcompression-level 3 -noI -noD -noF -noX -no-exports -no-duplicates",
        "-noId -e usr",
    ] {
        let made = run(dir, "mksquashfs", &format!("t made.sqfs -noappend -quiet -no-progress {options}"));
        assert!(made.status.success(), "{options}: {}", stderr(&made));
        let line = "-s made.sqfs";
        let (theirs, ours) = (run(dir, "unsquashfs", line), run(dir, dir.join("unsquashfs"), line));
        assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{options}: {}", stderr(&ours));
    }
}

#[test]
fn extracted_trees_and_lines_are_those_of_unsquashfs() {
    if !have_unsquashfs("extracted_trees_and_lines_are_those_of_unsquashfs") || !is_root() {
        return;
    }
    let dir = prepare(&["unsquashfs"]);
    let dir = dir.path();
    for line in [
        // snapd
        "-n -f -d to t.sqfs etc/*",
        "-n -i -d to t.sqfs",
        "-n -d to t.sqfs usr/bin/x",
        // enroot
        "-no-progress -user-xattrs -d to t.sqfs",
        "-q -n -li -d to t.sqfs",
        "-q -n -max-depth 1 -d to t.sqfs",
        "-n -p 1 -all-time 1000000000 -no-xattrs -d to t.sqfs",
        "-n -d to t.sqfs nosuch",
        "-n -r -d to t.sqfs ^etc/^h.*e$ bin",
        "-n -ex usr etc/ssl ; -d to t.sqfs",
        "-n -match -d to t.sqfs nosuch",
        "-n -L -d to t.sqfs to/link nosuch",
        "-n -q -missing -d to t.sqfs to",
        "-n -xattrs-include ^user. -d to t.sqfs var",
    ] {
        let results = [Path::new("unsquashfs").to_owned(), dir.join("unsquashfs")].map(|program| {
            let ran = run(dir, &program, line);
            let attributes = "cd to 2>/dev/null || exit 0; find . -printf '%p %y %m %U:%G %s %l %n ' -exec stat -c '%t,%T' {} \\; |
                sort; find . -type f -exec cksum {} + | sort; find . -mindepth 1 -printf '%p %Ts\\n' | sort; rm -rf ../to";
            let tree = sh(dir, attributes);
            (ran.status.code(), text(&ran.stdout), tree)
        });
        assert_eq!(results[0], results[1], "{line}");
    }
    // An existing file is replaced with -f alone.
    for line in ["-n -q -d to t.sqfs etc", "-n -q -d to t.sqfs etc", "-n -q -f -d to t.sqfs etc"] {
        let [theirs, ours] = [Path::new("unsquashfs").to_owned(), dir.join("unsquashfs")].map(|program| {
            let line = line.replace("to", if program.is_absolute() { "ours" } else { "theirs" });
            run(dir, &program, &line).status.code()
        });
        assert_eq!(theirs, ours, "{line}");
    }
}

/// A damaged file is left out and named, and the others are extracted.
#[test]
fn damage_has_the_status_of_unsquashfs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    link(dir, "unsquashfs");
    sh(dir, "mkdir t && seq 30000 > t/numbers && ln -s numbers t/link");
    succeed(dir, &["build", "t", "-o", "t.sqfs", "-q", "-c", "xz", "-b", "16K"]);
    // The first block of data follows the superblock.
    let mut damaged = std::fs::read(dir.join("t.sqfs")).unwrap();
    damaged[200] ^= 0x55;
    std::fs::write(dir.join("damaged"), damaged).unwrap();
    for (options, status) in [("-q -n", 1), ("-q -n -ignore-errors", 2)] {
        sh(dir, "rm -rf ours theirs");
        let ours = run(dir, dir.join("unsquashfs"), &format!("{options} -d ours damaged"));
        assert_eq!(ours.status.code(), Some(status), "{options}: {}", stderr(&ours));
        assert!(stderr(&ours).contains("left out: numbers: data block at byte 96: "), "{}", stderr(&ours));
        assert!(dir.join("ours/link").is_symlink() && !dir.join("ours/numbers").exists());
        if have_unsquashfs("damage_has_the_status_of_unsquashfs") {
            let theirs = run(dir, "unsquashfs", &format!("{options} -d theirs damaged"));
            assert_eq!(theirs.status.code(), Some(status), "{options}: {}", stderr(&theirs));
        }
    }
}

#[test]
fn images_inside_files_and_sqfscat_are_read() {
    let dir = prepare(&["unsquashfs", "sqfscat"]);
    let dir = dir.path();
    sh(dir, "head -c 8192 /dev/zero > app && cat t.sqfs >> app");
    let listed = run(dir, dir.join("unsquashfs"), "-o 8192 -l app etc/ssl");
    assert_eq!(
        text(&listed.stdout),
        "squashfs-root\nsquashfs-root/etc\nsquashfs-root/etc/ssl\nsquashfs-root/etc/ssl/a.pem\n"
    );
    assert_eq!(run(dir, dir.join("unsquashfs"), "-s app").status.code(), Some(1));
    let cat = run(dir, dir.join("sqfscat"), "-r -o 8192 app ^e.c$/ssl/a[.] ^etc/hostname");
    assert_eq!((text(&cat.stdout), cat.status.code()), ("k\nhi\n".into(), Some(0)), "{}", stderr(&cat));
    let cat = run(dir, dir.join("sqfscat"), "-o 8192 app etc/ssl/* /nosuch");
    assert_eq!((text(&cat.stdout), cat.status.code()), ("k\n".into(), Some(2)));
    assert!(stderr(&cat).contains("cat: no matches for /nosuch"), "{}", stderr(&cat));
    for (program, start) in [("unsquashfs", "unsquashfs version 4."), ("sqfscat", "sqfscat version 4.")] {
        let version = run(dir, dir.join(program), "-version");
        assert!(text(&version.stdout).starts_with(start), "{version:?}");
    }
}

/// Returns the options that a help text begins lines with; `-d[est]` stands for `-d` and `-dest`.
fn options(help: &str) -> BTreeSet<String> {
    let words = help.lines().map(str::trim_start).filter_map(|line| line.split([' ', '\t', ',', '=']).next());
    let words = words.map(|word| word.trim_end_matches(')')).filter(|word| word.len() > 1 && word.starts_with('-'));
    let both = |word: &str| match word.split_once('[') {
        Some((short, rest)) => vec![short.to_owned(), format!("{short}{}", rest.trim_end_matches(']'))],
        None => vec![word.to_owned()],
    };
    words.flat_map(both).collect()
}

#[test]
fn every_option_in_their_help_is_in_the_tables() {
    if !have_unsquashfs("every_option_in_their_help_is_in_the_tables") {
        return;
    }
    for program in ["unsquashfs", "sqfscat"] {
        let dir = tempfile::tempdir().unwrap();
        let table = succeed(dir.path(), &["as", "--list", program]);
        let known: BTreeSet<&str> = table.split([' ', ',', '\n']).filter(|word| word.starts_with('-')).collect();
        let help = Command::new(program).arg("-help-all").output().unwrap();
        let options = options(&text(&[help.stdout, help.stderr].concat()));
        let missing: Vec<_> = options.iter().filter(|option| !known.contains(option.as_str())).collect();
        assert!(options.len() > 15, "{options:?}");
        assert_eq!(
            missing,
            ["-SQFSCAT.md", "-UNSQUASHFS.md"].iter().filter(|word| options.contains(**word)).collect::<Vec<_>>()
        );
    }
}

#[test]
fn contracts_of_callers_hold_without_another_program() {
    let dir = prepare(&["unsquashfs"]);
    let (dir, program) = (dir.path(), dir.path().join("unsquashfs"));
    // enroot tests an image with -s; snapd reads files, lists and unpacks.
    let shown = run(dir, &program, "-s t.sqfs");
    let first =
        "Found a valid SQUASHFS 4:0 superblock on t.sqfs.\nCreation or last append time Tue Nov 14 23:13:20 2023\n";
    assert!(text(&shown.stdout).starts_with(first), "{}", text(&shown.stdout));
    assert_eq!(text(&run(dir, &program, "-n -cat t.sqfs etc/hostname").stdout), "hi\n");
    assert_eq!(run(dir, &program, "-cat t.sqfs nosuch").status.code(), Some(2));
    let listed = "squashfs-root\nsquashfs-root/etc\nsquashfs-root/etc/ssl\nsquashfs-root/etc/ssl/a.pem\n";
    assert_eq!(text(&run(dir, &program, "-n -l t.sqfs etc/s*").stdout), listed);
    let attributes = text(&run(dir, &program, "-lln -full -UTC -all-time 86400 t.sqfs usr/bin/b*").stdout);
    assert!(attributes.contains(" 300000 1970-01-02 00:00:00 squashfs-root/usr/bin/big\n"), "{attributes}");
    for n in 0..2 {
        let made = run(dir, &program, "-n -f -p 2 -d to t.sqfs etc");
        let expected = "Parallel unsquashfs: Using 2 processors\n4 inodes (2 blocks) to write\n\n\ncreated 2 files\n\
            created 3 directories\ncreated 1 symlink\ncreated 0 devices\ncreated 0 fifos\ncreated 0 sockets\n\
            created 1 hardlink\n";
        assert_eq!((made.status.code(), text(&made.stdout)), (Some(0), expected.into()), "{n}: {}", stderr(&made));
    }
    let again = run(dir, &program, "-n -d to t.sqfs etc");
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("failed to make directory to/etc, because File exists"), "{}", stderr(&again));
}

/// Adds entries with names, links and attributes that need care to `t`, and makes the image `all.sqfs` of it.
fn pseudo_source(dir: &Path) {
    let script = "cd t && ln usr/bin/big zbig && ln -s 'a b' 'l ink' && ln var/fifo fifo && echo 1 > '#hash' && echo 2 > ' lead' &&
        echo 3 > 'q\"uo\\te' && echo 4 > mode && truncate -s 1M usr/sparse && echo tail >> usr/sparse && : > \"$(printf '\\377')\"";
    sh(dir, script);
    if is_root() {
        sh(dir, "mknod t/node c 1 3 && ln t/node t/var/node && setfattr -n trusted.t -v 0x00ff t/zbig");
    }
    succeed(dir, &["build", "t", "-o", "all.sqfs", "-q"]);
}

#[test]
fn pseudo_files_are_those_of_unsquashfs_and_every_program_reads_them() {
    let dir = prepare(&["unsquashfs", "mksquashfs"]);
    let dir = dir.path();
    pseudo_source(dir);
    let write = |program: &Path, line: &str| {
        let ran = run(dir, program, line);
        assert!(ran.status.success(), "{line}: {}", stderr(&ran));
        ran.stdout
    };
    let ours = write(&dir.join("unsquashfs"), "-n -pf - all.sqfs");
    succeed(dir, &["tar", "--format", "pseudo", "all.sqfs", "-q", "-o", "same.pf"]);
    assert!(std::fs::read(dir.join("same.pf")).unwrap() == ours);
    write(&dir.join("unsquashfs"), "-n -pf ours.pf all.sqfs");
    assert!(std::fs::read(dir.join("ours.pf")).unwrap() == ours);
    let mut files = vec!["ours.pf"];
    let mut makers = vec![dir.join("mksquashfs")];
    if have_unsquashfs("pseudo_files_are_those_of_unsquashfs_and_every_program_reads_them") {
        let theirs = write(Path::new("unsquashfs"), "-n -q -pf - all.sqfs");
        // Without the backslash, the line is a comment.
        let at = theirs.windows(8).position(|bytes| bytes == b"\n#hash R").unwrap() + 1;
        assert!([&theirs[..at], b"\\", &theirs[at..]].concat() == ours);
        let (theirs, ours) = ("-n -q -pf - all.sqfs usr/bin var/fifo", "-n -pf - all.sqfs usr/bin var/fifo");
        assert!(write(Path::new("unsquashfs"), theirs) == write(&dir.join("unsquashfs"), ours));
        write(Path::new("unsquashfs"), "-n -q -pf theirs.pf -ex #hash ; all.sqfs");
        files.push("theirs.pf");
        makers.push("mksquashfs".into());
    }
    succeed(dir, &["build", "all.sqfs", "-o", "theirs.pf.sqfs", "-q", "--exclude", "#hash"]);
    for file in files {
        let expected = if file == "ours.pf" { "all.sqfs" } else { "theirs.pf.sqfs" };
        for maker in &makers {
            write(maker, &format!("- new.sqfs -noappend -quiet -no-progress -pf {file}"));
            succeed(dir, &["diff", expected, "new.sqfs"]);
        }
        succeed(dir, &["build", &format!("@{file}"), "-o", "new.erofs", "-q", "-f"]);
        succeed(dir, &["diff", expected, "new.erofs"]);
    }
    // Data from a pipe, and from a file on standard input.
    sh(dir, "./unsquashfs -n -pf - all.sqfs | ./mksquashfs - piped.sqfs -quiet -pf -");
    succeed(dir, &["diff", "all.sqfs", "piped.sqfs"]);
    sh(dir, "./mksquashfs - file.sqfs -quiet -pf - < ours.pf");
    succeed(dir, &["diff", "all.sqfs", "file.sqfs"]);
    let ran = Command::new(dir.join("mksquashfs")).args(["-", "x.sqfs", "-p", "a d 755 0 0"]).current_dir(dir).output();
    let told = stderr(&ran.unwrap());
    assert!(told.contains("no pseudo definition describes /"), "{told}");
}
