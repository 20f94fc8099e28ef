//! packfs under the names of fsck.erofs and of programs of squashfs-tools-ng: the same command lines give the same
//! archives, trees, differences and exit statuses.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::common::program::{either, is_current, link, run, sh, text};
use crate::common::{fail, have, run_in, stderr, succeed};

/// Makes two trees that differ, and images of them.
fn prepare() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = "mkdir -p t/etc/ssl t/usr/bin t/empty && echo hi > t/etc/name && echo k > t/etc/ssl/a.pem &&
        ln -s name t/etc/link && ln t/usr/bin/../../etc/name t/usr/other && mkfifo t/usr/fifo && head -c 200000 /dev/urandom > t/usr/bin/big &&
        chmod 4755 t/usr/bin/big && cp -a t u && echo more > u/new && rm u/etc/ssl/a.pem && ln -sfn other u/etc/link &&
        chmod 700 u/usr && rm u/usr/fifo && mkdir u/usr/fifo && printf X | dd of=u/usr/bin/big conv=notrunc 2>/dev/null";
    sh(dir.path(), script);
    for program in ["sqfs2tar", "sqfsdiff", "fsck.erofs"] {
        link(dir.path(), program);
    }
    for tree in ["t", "u"] {
        succeed(dir.path(), &["build", tree, "-o", &format!("{tree}.sqfs"), "-q"]);
        succeed(dir.path(), &["build", tree, "-o", &format!("{tree}.erofs"), "-q"]);
    }
    dir
}

#[test]
fn archives_are_those_of_sqfs2tar() {
    let dir = prepare();
    let dir = dir.path();
    let listed = |line: &str, ours: bool| {
        let made = run(dir, either(dir, "sqfs2tar", ours), line);
        assert!(made.status.success(), "{line}: {}", stderr(&made));
        std::fs::write(dir.join("made.tar"), made.stdout).unwrap();
        sh(dir, "tar --numeric-owner -tvf made.tar")
    };
    let there = have("archives_are_those_of_sqfs2tar", "sqfs2tar");
    for line in [
        "t.sqfs",
        "-c gzip t.sqfs",
        "--compressor=xz -L t.sqfs",
        "-c zstd -r . t.sqfs",
        "-r . t.sqfs",
        "--root-becomes=a/b t.sqfs",
        "-k --subdir usr/bin t.sqfs",
    ] {
        let ours = listed(line, true);
        if there {
            assert_eq!(ours, listed(line, false), "{line}");
        }
    }
    let names = |line: &str| {
        listed(line, true);
        sh(dir, "tar -tf made.tar")
    };
    assert_eq!(names("-d /usr/bin t.sqfs"), "big\n");
    assert_eq!(names("-d etc t.sqfs"), "link\nname\nssl/\nssl/a.pem\n");
    assert_eq!(names("-X -d empty -d etc/ssl t.sqfs"), "empty/\netc/\netc/ssl/\netc/ssl/a.pem\n");
    assert_eq!(names("-r x -d etc/ssl t.sqfs"), "x/\nx/a.pem\n");
    assert_eq!(run(dir, dir.join("sqfs2tar"), "-d nosuch t.sqfs").status.code(), Some(1));
    assert_eq!(run(dir, dir.join("sqfs2tar"), "-c lz4 t.sqfs").status.code(), Some(1));
    // The ending of the name is enough, and the bytes do not depend on threads.
    succeed(dir, &["tar", "t.sqfs", "-o", "plain.tar"]);
    succeed(dir, &["tar", "t.sqfs", "-o", "plain.tar.gz", "--compress", "none"]);
    sh(dir, "cmp plain.tar plain.tar.gz");
    for (name, format) in
        [("a.tar.gz", "gzip"), ("a.tgz", "gzip"), ("a.tar.xz", "xz"), ("a.tar.zst", "zstd"), ("a.tbz2", "bzip2")]
    {
        succeed(dir, &["tar", "t.sqfs", "-o", name, "-j0"]);
        let piped = run_in(dir, &["tar", "t.sqfs", "--compress", format, "-j3"]);
        assert!(piped.stdout == std::fs::read(dir.join(name)).unwrap(), "{name}");
        assert_eq!(sh(dir, &format!("tar -taf {name}")), sh(dir, "tar -tf plain.tar"), "{name}");
        assert_eq!(text(&run_in(dir, &["diff", "t.sqfs", name]).stdout), "", "{name}");
    }
}

/// Returns the lines of a text in order.
fn sorted(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

/// Runs lines of sqfsdiff with expected statuses; where the program is there, it answers alike.
fn answers_as_sqfsdiff(test: &str, dir: &Path, cases: &[(&str, i32)]) {
    let there = have(test, "sqfsdiff");
    for (line, status) in cases {
        let ours = run(dir, dir.join("sqfsdiff"), line);
        assert_eq!(ours.status.code(), Some(*status), "{line}: {}", stderr(&ours));
        if there {
            let theirs = run(dir, "sqfsdiff", line);
            // It tells the additions to a directory first.
            assert_eq!(sorted(&text(&ours.stdout)), sorted(&text(&theirs.stdout)), "{line}");
            assert_eq!(ours.status.code(), theirs.status.code(), "{line}");
        }
    }
}

#[test]
fn differences_are_those_of_sqfsdiff() {
    let dir = prepare();
    let dir = dir.path();
    let cases = [
        ("-a t.sqfs -b u.sqfs", 1),
        ("--old t.sqfs --new u.sqfs -C", 1),
        ("--old=t.sqfs -b u.sqfs --no-permissions", 1),
        ("-T -O -a t.sqfs -b u.sqfs", 1),
        ("-a t.sqfs -b t.sqfs", 0),
        ("-a t.sqfs -b nosuch", 2),
    ];
    answers_as_sqfsdiff("differences_are_those_of_sqfsdiff", dir, &cases);
    let told = text(&run(dir, dir.join("sqfsdiff"), "-a t.sqfs -b u.sqfs").stdout);
    let expected = "> new\n/etc/link has a different link target\n< etc/ssl/a.pem\n/usr has different permissions\n\
        regular file /usr/bin/big differs\n/usr/fifo has a different type\n";
    assert_eq!(sorted(&told), sorted(expected));
}

#[test]
fn inode_numbers_and_superblocks_are_compared_as_sqfsdiff_does() {
    let dir = prepare();
    let dir = dir.path();
    let other = "build t -o v.sqfs -b 64K --codec xz --plain-metadata --fragments none --no-export --image-time 5 -q";
    succeed(dir, &other.split(' ').collect::<Vec<_>>());
    let cases = [
        ("-I -a t.sqfs -b u.sqfs", 1),
        ("-I -a t.sqfs -b t.sqfs", 0),
        ("-S -a t.sqfs -b u.sqfs", 1),
        ("-S -a t.sqfs -b v.sqfs", 1),
        ("--super --inode-num --old v.sqfs --new t.sqfs", 1),
        ("-S -a t.sqfs -b t.sqfs", 0),
    ];
    answers_as_sqfsdiff("inode_numbers_and_superblocks_are_compared_as_sqfsdiff_does", dir, &cases);
    let told = run_in(dir, &["diff", "t.sqfs", "v.sqfs", "--superblocks"]);
    let told = text(&told.stdout);
    assert!(told.contains("superblock: block_size: 131072 / 65536\n"), "{told}");
    assert!(told.contains("superblock: codec: zstd / xz\n"), "{told}");
    let told = text(&run_in(dir, &["diff", "t.sqfs", "t.erofs", "--superblocks", "--ignore", "links"]).stdout);
    assert!(told.contains("superblock: format: squashfs / erofs\n"), "{told}");
    let told = text(&run_in(dir, &["diff", "t.erofs", "u.erofs", "--superblocks"]).stdout);
    assert!(told.contains("superblock: uuid: "), "{told}");
    assert!(fail(dir, 2, &["diff", "t.sqfs", "t", "--superblocks"]).contains("t is not an image"));
}

#[test]
fn files_that_differ_are_extracted_as_sqfsdiff_does() {
    let dir = prepare();
    let dir = dir.path();
    sh(dir, "mkdir u/dir && echo a > u/dir/a && mkfifo u/dir/pipe");
    succeed(dir, &["build", "u", "-o", "u.sqfs", "-q", "--force"]);
    let there = have("files_that_differ_are_extracted_as_sqfsdiff_does", "sqfsdiff");
    for options in ["", "-C"] {
        let found = [false, true].map(|ours| {
            if !ours && !there {
                return None;
            }
            sh(dir, "rm -rf out");
            // Twice, as files are replaced.
            for _ in 0..2 {
                let line = format!("{options} -a t.sqfs -b u.sqfs -e out");
                let done = run(dir, either(dir, "sqfsdiff", ours), line.trim());
                assert_eq!(done.status.code(), Some(1), "{line}, ours: {ours}: {}", stderr(&done));
            }
            Some(sh(dir, "cd out && find . -printf '%p %y\n' | sort && find . -type f -exec cksum {} + | sort"))
        });
        if there {
            assert_eq!(found[1], found[0], "{options}");
        }
        let expected = if options.is_empty() { "./new/usr/bin/big f\n" } else { "./new/dir/a f\n" };
        assert!(found[1].as_ref().unwrap().contains(expected), "{found:?}");
    }
    // A file that differs has all its names.
    sh(
        dir,
        "mkdir -p h/d i && echo 1 > h/a && ln h/a h/b && ln h/a h/d/c && cp -a h/. i && echo 2 > i/a && touch -r h/a i/a",
    );
    run_in(dir, &["diff", "h", "i", "--extract", "links"]);
    let names = sh(dir, "cd links/new && cat a b d/c && find . -samefile a | sort");
    assert_eq!(names, "2\n2\n2\n./a\n./b\n./d/c\n");
    let told = fail(dir, 1, &["diff", "t.sqfs", "u.sqfs", "--extract", "out"]);
    assert!(told.contains("out/old/etc/ssl/a.pem") && told.contains("exists"), "{told}");
    // Directories are sides, too.
    run_in(dir, &["diff", "t", "u.erofs", "--extract", "from"]);
    assert_eq!(sh(dir, "cmp from/old/etc/ssl/a.pem t/etc/ssl/a.pem && ls from/new"), "new\nusr\n");
}

#[test]
fn images_over_devices_are_compared() {
    let dir = prepare();
    let dir = dir.path();
    sh(dir, "head -c 9000 /dev/urandom > t/noise && tar -cf t.tar -C t .");
    let made = run_in(dir, &["build", "--refer", "t.tar", "-o", "over.erofs", "-q"]);
    assert!(made.status.success(), "{}", stderr(&made));
    succeed(dir, &["diff", "over.erofs", "t.tar", "--device", "t.tar", "-q"]);
    succeed(dir, &["diff", "t.tar", "over.erofs", "--device-b", "t.tar", "-q"]);
    assert!(fail(dir, 2, &["diff", "t.tar", "over.erofs", "--device", "t.tar"]).contains("--device-b for B"));
}

#[test]
fn images_are_checked_and_extracted_as_fsck_erofs_does() {
    let name = "images_are_checked_and_extracted_as_fsck_erofs_does";
    let dir = prepare();
    let dir = dir.path();
    let mut damaged = std::fs::read(dir.join("t.erofs")).unwrap();
    damaged[1030] ^= 1;
    std::fs::write(dir.join("damaged"), damaged).unwrap();
    sh(dir, "head -c 4096 /dev/zero > late && cat t.erofs >> late");
    let there = is_current(name, "fsck.erofs");
    let told = succeed(dir, &["info", "t.erofs", "--inode", "etc"]);
    let number = told.lines().find_map(|line| line.strip_prefix("inode")?.trim().split(',').next());
    let by_number = format!("--extract=some --nid={} --no-preserve-owner t.erofs", number.unwrap());
    for (line, status) in [
        ("t.erofs", 0),
        ("-d9 -y t.erofs", 0),
        ("--extract t.erofs", 0),
        ("t.sqfs", 1),
        ("nosuch", 1),
        ("--offset=4096 late", 0),
        ("--extract=to t.erofs", 0),
        ("--extract=some --path=/etc --no-preserve-owner t.erofs", 0),
        (&by_number, 0),
    ] {
        let states = [false, true].map(|ours| {
            if !ours && !there {
                return None;
            }
            sh(dir, "rm -rf to some");
            let done = run(dir, either(dir, "fsck.erofs", ours), line);
            assert_eq!(done.status.code(), Some(status), "{line}, ours: {ours}: {}", stderr(&done));
            let trees = sh(dir, "for d in to some; do [ ! -d $d ] || find $d -mindepth 1 -printf '%p %y %m %U:%G %n %l %Ts\\n' | sort; done; find to some -type f -exec cksum {} + 2>/dev/null | sort || true");
            Some(trees)
        });
        if there {
            assert_eq!(states[1], states[0], "{line}");
        }
    }
    sh(dir, "rm -rf to");
    for (line, status) in
        [("--extract=to t.erofs", 0), ("--extract=to t.erofs", 1), ("--extract=to --overwrite t.erofs", 0)]
    {
        assert_eq!(run(dir, dir.join("fsck.erofs"), line).status.code(), Some(status), "{line}");
    }
    let refused = run(dir, dir.join("fsck.erofs"), "--path=/etc t.erofs");
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--path, --nid: packfs checks whole images"), "{}", stderr(&refused));
    // To fsck.erofs a wrong checksum is no error.
    assert_eq!(run(dir, dir.join("fsck.erofs"), "damaged").status.code(), Some(1));
    let version = run(dir, dir.join("fsck.erofs"), "-V");
    assert!(text(&version.stdout).starts_with("fsck.erofs (erofs-utils) 1."), "{version:?}");
}

#[test]
fn every_option_in_their_help_is_in_the_tables() {
    for program in ["sqfs2tar", "sqfsdiff", "fsck.erofs"] {
        if !is_current("every_option_in_their_help_is_in_the_tables", program) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let table = succeed(dir.path(), &["as", "--list", program]);
        let known: BTreeSet<&str> =
            table.split([' ', ',', '\n', '[', '=']).filter(|word| word.starts_with('-')).collect();
        let help = Command::new(program).arg("--help").output().unwrap();
        let help = text(&[help.stdout, help.stderr].concat());
        let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        // At most two names stand before the explanation.
        let words = lines.flat_map(|line| line.split([' ', ',']).filter(|word| !word.is_empty()).take(2));
        let mut names = BTreeSet::new();
        for word in words.filter(|word| word.starts_with('-')) {
            let name = word.split(['=', '<']).next().unwrap_or_default().trim_end_matches(['[', '.']);
            match name.split_once("[no-]") {
                Some((dashes, rest)) => names.extend([format!("{dashes}{rest}"), format!("{dashes}no-{rest}")]),
                None => names.extend([name.to_owned()]),
            }
        }
        let missing: Vec<_> = names.iter().filter(|name| !known.contains(name.as_str())).collect();
        assert!(names.len() >= 9, "{program}: {names:?}");
        assert_eq!(missing, Vec::<&String>::new(), "{program}");
    }
}
