//! Selection of entries of an image: globs, `--exclude`, `--strip-components`, orders and totals.

mod common;

use std::path::Path;
use std::process::Command;

use common::{fail, succeed};

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
    let cases: [(&[&str], &[&str]); 5] = [
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
