//! Selection of entries of an image: globs, `--exclude`, `--strip-components`, orders and totals.

use std::path::Path;
use std::process::Command;

use crate::common::{self, fail, succeed};

/// Makes a tree, and an image of it.
fn image() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = "mkdir -p t/usr/lib/x t/usr/bin t/etc && echo 123456789 > t/usr/lib/a.so && echo 1234 > t/usr/lib/x/b.so &&
        echo 12 > t/usr/bin/tool && ln t/usr/lib/a.so t/usr/bin/also && echo conf > t/etc/one.conf && echo f2 > t/etc/two.conf &&
        ln -s one.conf t/etc/link.conf && ln -s ../usr t/etc/usr.conf && echo top > t/top &&
        touch -d @3 t/top && touch -d @2 t/usr/bin/tool && touch -d @1 t/etc/one.conf";
    sh(dir.path(), script);
    succeed(dir.path(), &["build", "t", "-o", "t.sqfs", "-q"]);
    dir
}

fn sh(dir: &Path, script: &str) -> String {
    let ran = Command::new("sh").args(["-ec", script]).current_dir(dir).output().unwrap();
    assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn list_tar_and_extract_take_the_same_globs_and_exclusions() {
    let dir = image();
    std::fs::write(dir.path().join("out"), "# all objects\n*.so\n\nusr/lib/x\n").unwrap();
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--regex", "/[ab]\\.so$"], &["usr/lib/a.so", "usr/lib/x/b.so"]),
        (&["usr/lib/*.so"], &["usr/lib/a.so"]),
        (&["**/*.so"], &["usr/lib/a.so", "usr/lib/x/b.so"]),
        (&["usr", "--exclude", "lib/"], &["usr", "usr/bin", "usr/bin/also", "usr/bin/tool"]),
        (&["usr", "--exclude", "usr/lib", "--exclude", "tool"], &["usr", "usr/bin", "usr/bin/also"]),
        (&["usr", "--exclude-from", "out", "--exclude", "bin"], &["usr", "usr/lib"]),
    ];
    for (args, expected) in cases {
        let run = |command: &[&str]| succeed(dir.path(), &[command, args].concat());
        assert_eq!(lines(&run(&["list", "t.sqfs"])), expected, "{args:?}");
        run(&["tar", "t.sqfs", "-o", "t.tar", "--force", "-q"]);
        run(&["extract", "t.sqfs", "-C", "to", "-q"]);
        // Both also have the parent directories.
        let archived = sh(dir.path(), "tar -tf t.tar | sed 's:/$::' | grep -v '^.$' | sort");
        let extracted = sh(dir.path(), "cd to && find . -mindepth 1 | sed 's:^./::' | sort; rm -rf ../to");
        assert_eq!(archived, extracted, "{args:?}");
        assert!(expected.iter().all(|path| lines(&archived).contains(path)), "{args:?}: {archived}");
    }
}

#[test]
fn components_are_stripped_as_tar_does() {
    let dir = image();
    for n in ["1", "2", "3"] {
        succeed(dir.path(), &["extract", "t.sqfs", "-C", n, "-q", "--strip-components", n, "--exclude", "etc"]);
        succeed(dir.path(), &["tar", "t.sqfs", "-o", "t.tar", "--force", "-q", "--exclude", "etc"]);
        sh(dir.path(), &format!("mkdir by-tar && tar -C by-tar --strip-components={n} -xf t.tar"));
        let find = "find . -mindepth 1 -printf '%p %y %s %m %n %T@\\n' | sort";
        let [ours, theirs] = [n, "by-tar"].map(|tree| sh(&dir.path().join(tree), find));
        assert_eq!(ours, theirs, "{n} components");
        sh(dir.path(), "rm -rf by-tar");
    }
}

#[test]
fn a_dry_run_lists_and_writes_nothing() {
    let dir = image();
    let args = ["extract", "t.sqfs", "-C", "to", "usr/lib", "--strip-components", "1", "-q"];
    let dry = succeed(dir.path(), &[&args[..], &["--dry-run"]].concat());
    assert_eq!(lines(&dry), ["to/lib", "to/lib/a.so", "to/lib/x", "to/lib/x/b.so"]);
    assert!(!dir.path().join("to").exists());
    succeed(dir.path(), &args);
    let told = fail(dir.path(), 1, &[&args[..], &["--dry-run"]].concat());
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(told.contains("to/lib/a.so: it exists; --force replaces it"), "{told}");
    succeed(dir.path(), &[&args[..], &["--dry-run", "--force"]].concat());
    // Two entries with one name are reported before they conflict.
    let both = ["extract", "t.sqfs", "-C", "new", "--strip-components", "1", "--dry-run", "-q"];
    sh(dir.path(), "mkdir t/var && echo > t/var/bin");
    succeed(dir.path(), &["build", "t", "-o", "t.sqfs", "-q", "--force"]);
    assert!(fail(dir.path(), 1, &both).contains("new/bin: several entries would get this name"));
}

#[test]
fn cat_takes_globs_and_follows_links() {
    let dir = image();
    let cases: [(&[&str], &str); 3] =
        [(&["etc/*.conf"], "conf\nconf\nf2\n"), (&["etc/t*", "top"], "f2\ntop\n"), (&["etc/link.conf"], "conf\n")];
    for (paths, expected) in cases {
        assert_eq!(succeed(dir.path(), &[&["cat", "t.sqfs"], paths].concat()), expected, "{paths:?}");
    }
    for path in ["none", "none*", "usr/lib/x*/c", "etc", "etc/usr.conf"] {
        let told = fail(dir.path(), 1, &["cat", "t.sqfs", path]);
        assert_eq!((told.matches(path).count(), told.lines().count()), (1, 1), "{told}");
    }
}

#[test]
fn listings_are_sorted_summed_and_drawn() {
    let dir = image();
    let list = |args: &[&str]| succeed(dir.path(), &[&["list", "t.sqfs"], args].concat());
    let times = list(&["--sort", "time", "etc/one.conf", "top", "usr/bin/tool"]);
    assert_eq!(lines(&times), ["top", "usr/bin/tool", "etc/one.conf"]);
    let sizes = list(&["--du", "--sort", "size", "usr"]);
    let sizes: Vec<Vec<&str>> = sizes.lines().map(|line| line.split_whitespace().collect()).collect();
    // lib/a.so is bin/also, where it counts.
    assert_eq!(sizes[..3], [["18", "usr"], ["13", "usr/bin"], ["10", "usr/bin/also"]].map(Vec::from));
    assert_eq!(lines(&list(&["--human", "etc/one.conf"])), ["        5 B etc/one.conf"]);
    let tree = ["--tree", "usr/lib"];
    assert_eq!(
        lines(&list(&tree)),
        [".", "└── usr", "    └── lib", "        ├── a.so", "        └── x", "            └── b.so"]
    );
    let json: serde_json::Value = serde_json::from_str(&list(&["--json", "--du", "usr/lib"])).unwrap();
    assert_eq!((json["entries"][0]["total"].as_u64(), json["entries"][1].get("total")), (Some(15), None));
}

#[test]
fn lists_depth_and_missing_paths_select_in_every_command() {
    let dir = image();
    std::fs::write(dir.path().join("wanted"), "usr/bin\netc/*.conf\n").unwrap();
    std::fs::write(dir.path().join("empty"), "\n").unwrap();
    let list = |args: &[&str]| succeed(dir.path(), &[&["list", "t.sqfs"], args].concat());
    let wanted = "etc/link.conf\netc/one.conf\netc/two.conf\netc/usr.conf\nusr/bin\nusr/bin/also\nusr/bin/tool\n";
    assert_eq!(list(&["--paths-from", "wanted"]), wanted);
    assert_eq!(list(&["--paths-from", "wanted", "top", "--max-depth", "1", "--ignore-missing"]), "top\n");
    assert_eq!(list(&["--max-depth", "1"]), ".\netc\ntop\nusr\n");
    assert!(fail(dir.path(), 1, &["list", "t.sqfs", "top", "no*"]).contains("no*"));
    assert_eq!(list(&["top", "no*", "nosuch", "--ignore-missing"]), "top\n");
    assert!(fail(dir.path(), 2, &["list", "t.sqfs", "--paths-from", "empty"]).contains("no path in it"));
    succeed(dir.path(), &["extract", "t.sqfs", "-C", "to", "-q", "--paths-from", "wanted"]);
    assert_eq!(
        sh(&dir.path().join("to"), "find usr etc | sort"),
        "etc\n".to_owned() + &wanted.replace("usr/bin\n", "usr\nusr/bin\n")
    );
    let piped = "printf 'top\\n' | \"$0\" tar t.sqfs --paths-from - -q | tar -t";
    let made = Command::new("sh").args(["-ec", piped, env!("CARGO_BIN_EXE_packfs")]).current_dir(dir.path()).output();
    assert_eq!(String::from_utf8(made.unwrap().stdout).unwrap(), "top\n");
}

#[test]
fn attributes_are_changed_as_they_are_written() {
    let dir = image();
    let numbers = sh(dir.path(), "id -u; id -g");
    let [uid, gid] = lines(&numbers)[..] else { panic!("{numbers}") };
    let owner = format!("{uid}:{gid}");
    let change = ["--owner", &owner, "--mode", "D0700,F0604", "--time", "1000"];
    succeed(dir.path(), &[&["extract", "t.sqfs", "-C", "to", "-q"], &change[..]].concat());
    let found = sh(&dir.path().join("to"), "stat -c '%A %u:%g %Y' usr top");
    assert_eq!(found, format!("drwx------ {owner} 1000\n-rw----r-- {owner} 1000\n"));
    let change = ["--owner", "7:8", "--mode", "u-w", "--time", "1970-01-02"];
    succeed(dir.path(), &[&["tar", "t.sqfs", "-o", "t.tar", "-q", "top"], &change[..]].concat());
    let listed = sh(dir.path(), "TZ=UTC tar --numeric-owner -tvf t.tar");
    assert!(listed.starts_with("-r--r--r-- 7/8 ") && listed.contains("1970-01-02 00:00"), "{listed}");
    assert!(fail(dir.path(), 2, &["extract", "t.sqfs", "-C", "x", "--no-owner", "--owner", "1:1"]).contains("--owner"));
}

#[test]
fn listings_show_names_of_owners() {
    let dir = tempfile::tempdir().unwrap();
    sh(dir.path(), "mkdir t && echo a > t/a && echo b > t/b");
    let owners = ["--add", "owner /a 0 0", "--add", "owner /b 4000000 4000001"];
    succeed(dir.path(), &[&["build", "t", "-o", "t.sqfs", "-q"], &owners[..]].concat());
    let listed = succeed(dir.path(), &["list", "-l", "--names", "t.sqfs", "a", "b"]);
    let of = |line: &str| line.split_whitespace().skip(2).take(2).map(str::to_owned).collect::<Vec<_>>();
    let owners: Vec<_> = listed.lines().map(of).collect();
    assert_eq!(owners, [["root", "root"], ["4000000", "4000001"]]);
}

#[test]
fn differences_can_be_ignored() {
    let dir = image();
    sh(dir.path(), "cp -a t u && echo TOP > u/top && chmod 600 u/top && rm u/etc/two.conf && touch -d @9 u/etc u/top");
    let diff = |ignore: &str| {
        let args = ["diff", "t.sqfs", "u", "-q", "--ignore", ignore];
        let ran = common::run_in(dir.path(), &args);
        (ran.status.code(), String::from_utf8(ran.stdout).unwrap().lines().count())
    };
    assert_eq!(diff("owner"), (Some(1), 5), "mode, two times, content and one entry");
    assert_eq!(diff("time,mode"), (Some(1), 2));
    assert_eq!(diff("time,mode,content"), (Some(1), 1));
    assert_eq!(diff("time,mode,content,entry"), (Some(0), 0));
}
