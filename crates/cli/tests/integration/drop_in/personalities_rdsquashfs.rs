//! packfs under the name of rdsquashfs: the same command lines print the same lines and unpack the same trees; and pack
//! lists, from which builds make the same images again.

use std::collections::BTreeSet;

use crate::common::program::{either, link, run, sh, text};
use crate::common::{FORMATS, fail, have, kernel, run_in, stderr, succeed};

/// Makes a tree with every kind of file, and an image of it.
fn prepare() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = "mkdir -p t/etc/ssl t/usr/bin t/void/deep t/many && cd t && echo hi > etc/name &&
        echo k > 'etc/ssl/a \"b\".pem' && printf x > 'etc/back\\slash' && ln -s name etc/link && ln etc/name usr/other &&
        mkfifo usr/fifo && mknod usr/null c 1 3 && mknod usr/disk b 300 70000 && mkdir usr/dev &&
        mknod usr/dev/tty c 5 0 && mkdir only && ln -s ../etc only/l &&
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"usr/sock\")' &&
        head -c 400000 /dev/urandom > usr/bin/big && head -c 200000 /dev/zero > usr/bin/mixed &&
        head -c 3000 /dev/urandom >> usr/bin/mixed && truncate -s 1M usr/bin/holes && printf end >> usr/bin/holes &&
        head -c 90000 /etc/services > usr/bin/text && chmod 4755 usr/bin/big && chmod 1777 void && chown -h 7:70000 etc/link usr/fifo &&
        setfattr -n user.text -v 'some text' etc/name && setfattr -n user.bin -v 0x0102ff etc/name &&
        setfattr -n user.nul -v 0x610062 etc && setfattr -n user.utf -v '\u{e9}' usr &&
        for n in $(seq 1 600); do : > many/a-rather-long-name-of-a-file-$n; done &&
        find . -exec touch -h -d @1700000000.5 {} + && touch -d @5.25 etc/name";
    sh(dir.path(), script);
    link(dir.path(), "rdsquashfs");
    dir
}

const NAME: &str = "lines_and_trees_are_those_of_rdsquashfs";

#[test]
fn lines_and_trees_are_those_of_rdsquashfs() {
    let dir = prepare();
    let dir = dir.path();
    succeed(dir, &["build", "t", "-o", "t.sqfs", "-q", "--time", "1700000000"]);
    let there = have(NAME, "rdsquashfs");
    let lines = [
        "-l / t.sqfs",
        "--list etc t.sqfs",
        "-l /usr/bin/ t.sqfs",
        "-l usr t.sqfs",
        "-l etc/link t.sqfs",
        "-l usr/disk t.sqfs",
        "-l only/l/ssl t.sqfs",
        "-c etc/name t.sqfs",
        "-c usr/bin/holes t.sqfs",
        "-c etc t.sqfs",
        "-c etc/link t.sqfs",
        "-c nosuch t.sqfs",
        "-x /etc/name t.sqfs",
        "-x etc t.sqfs",
        "-x usr t.sqfs",
        "-x usr/bin t.sqfs",
        "-s / t.sqfs",
        "-s etc t.sqfs",
        "--stat=many t.sqfs",
        "-s etc/name t.sqfs",
        "-s etc/link t.sqfs",
        "-s usr/bin/big t.sqfs",
        "-s usr/bin/mixed t.sqfs",
        "-s usr/bin/holes t.sqfs",
        "-s usr/bin/text t.sqfs",
        "-s usr/disk t.sqfs",
        "-s usr/fifo t.sqfs",
        "-s usr/sock t.sqfs",
        "-d t.sqfs",
        "--describe -p pre/fix t.sqfs",
        "-d -D -L t.sqfs",
        "-dDSFLE t.sqfs",
        "-l / nosuch",
        "-l / t",
        "-l .. t.sqfs",
        "t.sqfs",
        "-q -d",
    ];
    for line in lines {
        let ours = run(dir, dir.join("rdsquashfs"), line);
        if there {
            let theirs = run(dir, "rdsquashfs", line);
            assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{line}: {}", stderr(&ours));
            assert_eq!(ours.status.code(), theirs.status.code(), "{line}: {}", stderr(&ours));
        }
    }
    let told = text(&run(dir, dir.join("rdsquashfs"), "-dDSF -p from t.sqfs").stdout);
    assert!(told.starts_with("dir etc 0755 0 0\nfile etc/back\\slash 0644 0 0 from/etc/back\\slash\n"), "{told}");
    assert!(told.contains("\nfile \"etc/ssl/a \\\"b\\\".pem\" 0644 0 0 from/etc/ssl/a \"b\".pem\n"), "{told}");
    assert!(told.contains("\nslink etc/link 0777 7 70000 name\n") && !told.contains("\npipe"), "{told}");
}

#[test]
fn trees_are_unpacked_as_rdsquashfs_does() {
    let test = "trees_are_unpacked_as_rdsquashfs_does";
    let dir = prepare();
    let dir = dir.path();
    succeed(dir, &["build", "t", "-o", "t.sqfs", "-q"]);
    let there = have(test, "rdsquashfs");
    for (line, status) in [
        ("-q -u / -p to t.sqfs", 0),
        ("-q -u / -CTXO -p to t.sqfs", 0),
        ("-q -u usr --chmod --chown --unpack-root to/deep/er t.sqfs", 0),
        ("-q -u /usr/bin/ -Z -T -p to t.sqfs", 0),
        ("-q -u etc/name -X -C -p to t.sqfs", 0),
        ("-q -u etc/link -p to t.sqfs", 0),
        ("-q -u / -D -S -F -p to t.sqfs", 0),
        ("-q -u / -D -L -E -p to t.sqfs", 0),
        ("-q -u only -L -E -p to t.sqfs", 0),
        ("-q -u nosuch -p to t.sqfs", 1),
    ] {
        // rdsquashfs makes a file of each name.
        let script = "[ -e to ] && cd to && find . -mindepth 1 \\( -type p -o -type s -o -type c -o -type b \\) \
                      -printf '%p %y %U:%G\\n' -o -mindepth 1 -printf '%p %y %m %U:%G %l\\n' && \
                      find . -type f -exec cksum {} + && find . -print0 | xargs -0 getfattr -h -d -m - || true";
        let states = [false, true].map(|ours| {
            if !ours && !there {
                return None;
            }
            sh(dir, "rm -rf to");
            let done = run(dir, either(dir, "rdsquashfs", ours), line);
            // Before 1.3, it fails for every directory but the root.
            if !ours && stderr(&done).contains("constructing full path") {
                return None;
            }
            assert_eq!(done.status.code(), Some(status), "{line}, ours: {ours}: {}", stderr(&done));
            let times = if line.contains('T') { "find to -mindepth 1 -printf '%p %Ts\\n' | sort" } else { ":" };
            Some([sh(dir, script), sh(dir, times)].concat().lines().map(str::to_owned).collect::<BTreeSet<_>>())
        });
        if let [Some(theirs), Some(ours)] = &states {
            assert_eq!(theirs.symmetric_difference(ours).collect::<Vec<_>>(), [""; 0], "{line}");
        }
    }
    sh(dir, "rm -rf to");
    let done = run(dir, dir.join("rdsquashfs"), "-q -u /usr/ -C -O -S -p to/deep/er t.sqfs");
    assert!(done.status.success(), "{}", stderr(&done));
    let found = sh(dir, "cd to && find . -maxdepth 3 -printf '%y %P %m %U:%G\\n' | sort");
    assert_eq!(
        found,
        "b deep/er/disk 644 0:0\nc deep/er/null 644 0:0\nd  755 0:0\nd deep 755 0:0\nd deep/er 755 0:0\n\
         d deep/er/bin 755 0:0\nd deep/er/dev 755 0:0\nf deep/er/other 644 0:0\np deep/er/fifo 644 7:70000\n"
    );
    sh(dir, "rm -rf to");
    for (path, entry) in [("etc/name", "f name"), ("etc/link", "l link"), ("void", "d deep")] {
        assert!(run(dir, dir.join("rdsquashfs"), &format!("-u {path} -p to t.sqfs")).status.success());
        assert_eq!(sh(dir, "find to -mindepth 1 -printf '%y %P\\n' && rm -r to"), format!("{entry}\n"));
    }
    for status in [0, 1] {
        let done = run(dir, dir.join("rdsquashfs"), "-u usr/bin -p to t.sqfs");
        assert_eq!(done.status.code(), Some(status), "existing files are not replaced: {}", stderr(&done));
    }
    let table = succeed(dir, &["as", "--list", "rdsquashfs"]);
    if there {
        let help = text(&run(dir, "rdsquashfs", "--help").stdout);
        let names: Vec<&str> = help
            .split_whitespace()
            .filter(|word| word.starts_with('-'))
            .map(|word| word.trim_end_matches([',', '.']))
            .collect();
        assert!(names.len() >= 38, "{names:?}");
        for name in names {
            let has = table.split([' ', ',', '\n', '=']).any(|known| known == name);
            assert!(has, "{name} is not in the table");
        }
    }
}

#[test]
fn a_pack_list_gives_the_same_image_again() {
    let dir = prepare();
    let dir = dir.path();
    for format in FORMATS {
        succeed(dir, &["build", "t", "-o", "t.img", "-fq", "--format", format]);
        sh(dir, "rm -rf files files.list");
        // As a user who may set nothing: the list has all attributes.
        succeed(
            dir,
            &["extract", "t.img", "-C", "files", "-q", "--no-owner", "--no-xattrs", "--no-times", "--mode=u=rwX,go="],
        );
        let list = succeed(dir, &["list", "--pack-list=files", "t.img"]);
        std::fs::write(dir.join("files.list"), &list).unwrap();
        let inside = succeed(dir, &["list", "--pack-list", "t.img"]);
        std::fs::write(dir.join("files/.list"), inside).unwrap();
        for list in ["@files.list", "@files/.list"] {
            succeed(dir, &["build", list, "-o", "again.img", "-fq", "--format", format]);
            assert_eq!(text(&run_in(dir, &["diff", "t.img", "again.img"]).stdout), "", "{format} {list}");
        }
        let script = "find m -mindepth 1 -printf '%P %y %m %U:%G %n %T@ %s %l\\n' | grep -v ' d ' | sort";
        let Some(first) = kernel::inside("a_pack_list_gives_the_same_image_again", &dir.join("t.img"), script) else {
            return;
        };
        let again = kernel::inside("a_pack_list_gives_the_same_image_again", &dir.join("again.img"), script);
        assert_eq!(again, Some(first), "{format}");
    }
    let part = succeed(dir, &["list", "--pack-list", "t.img", "etc/ssl", "usr/other", "--exclude-types", "l"]);
    let nodes: Vec<_> = part.lines().filter(|line| !line.starts_with("time") && !line.starts_with("xattr")).collect();
    assert_eq!(
        nodes,
        [
            "dir / 0755 0 0",
            "dir etc 0755 0 0",
            "dir etc/ssl 0755 0 0",
            "file \"etc/ssl/a \\\"b\\\".pem\" 0644 0 0",
            "dir usr 0755 0 0",
            "file usr/other 0644 0 0",
        ]
    );
    sh(dir, "mkdir bad && ln -s 'a\nb' bad/l");
    succeed(dir, &["build", "bad", "-o", "bad.sqfs", "-q"]);
    let told = fail(dir, 1, &["list", "--pack-list", "bad.sqfs"]);
    assert!(told.contains("l: a pack list cannot hold the target, `a\\nb`"), "{told}");
    let told = fail(dir, 2, &["list", "--exclude-types", "d", "t.img"]);
    assert!(told.contains("flbcps"), "{told}");
}

#[test]
fn types_and_empty_directories_are_left_out() {
    let dir = prepare();
    let dir = dir.path();
    succeed(dir, &["build", "t", "-o", "t.erofs", "-q"]);
    succeed(
        dir,
        &["extract", "t.erofs", "-C", "to", "-q", "--exclude-types=bc", "--exclude-types=ps", "--no-empty-dirs"],
    );
    let found = sh(dir, "find to ! -name 'a-rather*' -printf '%y %P\\n' | sort");
    assert_eq!(
        found,
        "d \nd etc\nd etc/ssl\nd many\nd only\nd usr\nd usr/bin\nf etc/back\\slash\nf etc/name\nf etc/ssl/a \"b\".pem\n\
         f usr/bin/big\nf usr/bin/holes\nf usr/bin/mixed\nf usr/bin/text\nf usr/other\nl etc/link\nl only/l\n"
    );
    let archive = succeed(
        dir,
        &["tar", "t.erofs", "-o", "a.tar", "--exclude-types=fl", "--no-empty-dirs", "--strict", "usr/dev"],
    );
    assert_eq!(archive, "");
    assert_eq!(sh(dir, "tar -tf a.tar"), "usr/\nusr/dev/\nusr/dev/tty\n");
}
