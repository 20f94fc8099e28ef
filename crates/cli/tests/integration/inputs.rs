//! Which files a build takes: lists of paths, regular expressions, a depth; and the same by other programs' options.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use packfs_blocks::testing::noise;

use crate::common::program::is_current;
use crate::common::{FORMATS, fail, kernel, packfs, run_in, script_dir, stderr, succeed};

/// A directory with `root` in it.
fn workplace() -> tempfile::TempDir {
    let script = "mkdir -p root/usr/lib/x root/etc/empty && echo 1 > root/usr/lib/a.so && echo 2 > root/usr/lib/x/b.so.1 &&
        echo 3 > root/etc/one.conf && ln root/etc/one.conf root/usr/two.conf && ln -s one.conf root/etc/link &&
        echo 4 > root/top && chmod 700 root/usr/lib && chown 7:8 root/usr/lib && find root -exec touch -h -d @1700000000 {} +";
    script_dir(script)
}

/// Runs a program with this text on its standard input.
fn feed(mut command: Command, dir: &Path, text: &[u8]) -> Output {
    let mut child = command
        .current_dir(dir)
        .env_remove("SOURCE_DATE_EPOCH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its options does not read.
    let _ = child.stdin.take().unwrap().write_all(text);
    child.wait_with_output().unwrap()
}

#[test]
fn listed_files_are_packed_with_the_directories_that_lead_there() {
    let test = "listed_files_are_packed_with_the_directories_that_lead_there";
    let dir = workplace();
    let dir = dir.path();
    let wanted =
        ["", "root", "root/etc", "root/etc/link", "root/etc/one.conf", "root/usr", "root/usr/lib", "root/usr/two.conf"];
    let paths = ["root/etc/one.conf", "./root/usr/lib", "root/usr/two.conf", "root/etc/link"];
    std::fs::write(dir.join("list"), paths.join("\n")).unwrap();
    for format in FORMATS {
        let build = ["build", "-o", "image", "-fq", "--format", format];
        for (options, text) in [
            (&["--files-from", "list"][..], String::new()),
            (&["--files-from", "-"], paths.join("\n")),
            (&["--files-from=-", "--null"], paths.join("\0")),
        ] {
            let made = feed(packfs([&build[..], options].concat()), dir, text.as_bytes());
            assert!(made.status.success(), "{options:?}: {}", stderr(&made));
            let script =
                "find m -printf '%P\\n' | sort; stat -c '%a %u:%g %Y' m/root/usr/lib; stat -c %h m/root/etc/one.conf";
            let Some(lines) = kernel::inside(test, &dir.join("image"), script) else { return };
            let (names, facts) = lines.split_at(wanted.len());
            assert_eq!(names, wanted, "{format} {options:?}");
            assert_eq!(facts, ["700 7:8 1700000000", "2"], "{format} {options:?}");
        }
    }
    std::fs::write(dir.join("bad"), "root/top\nroot/gone\n").unwrap();
    assert!(fail(dir, 1, &["build", "--files-from", "bad", "-o", "new"]).contains("root/gone"));
    assert!(fail(dir, 2, &["build", "--files-from", "none", "-o", "new"]).contains("--files-from none: cannot read"));
    assert!(fail(dir, 2, &["build", "-", "--files-from", "-", "-o", "new"]).contains("read only once"));
    assert!(fail(dir, 2, &["build", "root", "--null", "-o", "new"]).contains("--files-from"));
    let skipped = run_in(dir, &["build", "--files-from", "bad", "-o", "image", "-f", "--on-error", "skip"]);
    assert_eq!((skipped.status.code(), stderr(&skipped).contains("left out: root/gone")), (Some(1), true));
}

#[test]
fn expressions_and_depths_leave_out_entries_of_every_source() {
    let dir = workplace();
    let dir = dir.path();
    succeed(dir, &["build", "root", "-o", "root.sqfs", "-q"]);
    succeed(dir, &["tar", "root.sqfs", "-o", "root.tar", "-q"]);
    let all =
        "etc etc/empty etc/link etc/one.conf top usr usr/lib usr/lib/a.so usr/lib/x usr/lib/x/b.so.1 usr/two.conf";
    for (options, left) in [
        (
            &["--exclude-regex", "\\.so(\\.[0-9]+)?$"][..],
            all.replace(" usr/lib/a.so", "").replace(" usr/lib/x/b.so.1", ""),
        ),
        (&["--exclude-regex", "^usr/", "--exclude", "top"], all[..all.find(" usr/lib").unwrap()].replace(" top", "")),
        (&["--max-depth", "1"], "etc top usr".to_owned()),
        (&["--max-depth", "0"], String::new()),
    ] {
        for source in ["root", "root.tar", "root.sqfs"] {
            succeed(dir, &[&["build", source, "-o", "image", "-fq"], options].concat());
            let listed =
                succeed(dir, &["list", "image"]).lines().filter(|path| *path != ".").collect::<Vec<_>>().join(" ");
            assert_eq!(listed.trim(), left, "{source} {options:?}");
        }
    }
    let told = fail(dir, 2, &["build", "root", "-o", "new", "--exclude-regex", "a(b"]);
    assert!(told.contains("`a(b` is not a regular expression"), "{told}");
    let listed = succeed(dir, &["list", "root.sqfs", "--exclude-regex", "^(usr|etc)$"]);
    assert_eq!(listed, ".\ntop\n");
}

/// The large file has two names, holes, and data that no codec shrinks.
#[test]
fn files_above_a_size_are_left_out_of_every_source_and_counted() {
    const LARGE: u64 = 3 << 20;
    let dir = workplace();
    let dir = dir.path();
    std::fs::write(dir.join("root/usr/large"), noise(1 << 20, 1)).unwrap();
    let grown = std::fs::OpenOptions::new().write(true).open(dir.join("root/usr/large")).unwrap();
    grown.set_len(LARGE).unwrap();
    std::fs::hard_link(dir.join("root/usr/large"), dir.join("root/etc/same")).unwrap();
    succeed(dir, &["build", "root", "-o", "root.erofs", "-q"]);
    succeed(dir, &["tar", "root.erofs", "-o", "root.tar", "-q"]);
    succeed(dir, &["tar", "root.erofs", "-o", "root.tar.gz", "-q"]);
    let streamed = std::fs::read(dir.join("root.tar")).unwrap();
    let all = succeed(dir, &["list", "root.erofs"]);
    let without = all.replace("etc/same\n", "").replace("usr/large\n", "");

    for format in FORMATS {
        for (source, input) in [("root", &b""[..]), ("root.erofs", b""), ("root.tar.gz", b""), ("-", &streamed)] {
            for (limit, oversized, listed) in [("3M", 0, &all), ("3145727", 1, &without), ("2", 1, &without)] {
                let what = format!("{format} {source} {limit}");
                let words = ["build", source, "-o", "image", "-fq", "--json", "--format", format, "--max-file-size"];
                let made = feed(packfs([&words[..], &[limit]].concat()), dir, input);
                assert!(made.status.success(), "{what}: {}", stderr(&made));
                let report: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
                let counted = serde_json::json!({ "files": oversized, "bytes": oversized * LARGE });
                assert_eq!(report["oversized"], counted, "{what}");
                assert_eq!(report["left_out"], serde_json::json!([]), "{what}");
                assert_eq!(&succeed(dir, &["list", "image"]), listed, "{what}");
                succeed(dir, &["check", "image", "-q"]);
                // Data of streams is not kept, either.
                let len = std::fs::metadata(dir.join("image")).unwrap().len();
                assert_eq!(len < 100_000, oversized > 0, "{what}: {len} bytes");
            }
        }
    }

    let planned = succeed(dir, &["build", "root", "-o", "new", "--max-file-size", "1M", "--dry-run", "--json"]);
    let planned: serde_json::Value = serde_json::from_str(&planned).unwrap();
    assert_eq!(planned["oversized"]["files"], 1, "{planned}");
    assert_eq!(planned["files"], 4, "{planned}");
    let unlimited = succeed(dir, &["build", "root", "-o", "image", "-fq", "--json"]);
    assert!(unlimited.contains("\"oversized\": null"), "{unlimited}");
    let told = stderr(&run_in(dir, &["build", "root", "-o", "image", "-f", "--max-file-size", "1M"]));
    assert!(told.contains("oversized   1 file with 3.00 MiB left out"), "{told}");
    let told = stderr(&run_in(dir, &["plan", "root", "-o", "plan", "--shards", "2", "--max-file-size", "1M"]));
    assert!(told.contains("oversized   1 file with 3.00 MiB left out"), "{told}");
    // What an image has already stays.
    succeed(dir, &["build", "root/top", "-o", "both.erofs", "--append", "root.erofs", "-q", "--max-file-size", "0"]);
    assert_eq!(succeed(dir, &["list", "both.erofs"]), all);
}

#[test]
fn other_programs_options_take_the_same_files() {
    let test = "other_programs_options_take_the_same_files";
    if !is_current(test, "mksquashfs") || !is_current(test, "mkfs.erofs") {
        return;
    }
    let dir = workplace();
    let dir = dir.path();
    let found = |print: &str| Command::new("find").args(["root", print]).current_dir(dir).output().unwrap().stdout;
    for (line, text) in [
        ("mksquashfs - IMAGE -cpiostyle -noappend", found("-print")),
        ("mksquashfs - IMAGE -cpiostyle0 -noappend", found("-print0")),
        ("mksquashfs - IMAGE -cpiostyle -noappend", b"root/usr/lib/a.so\n./root/etc\nroot/usr/two.conf\n".to_vec()),
        ("mksquashfs root IMAGE -noappend -max-depth 2", Vec::new()),
        ("mksquashfs root IMAGE -noappend -regex -e usr/l.b", Vec::new()),
        ("mksquashfs root IMAGE -noappend -regex -e u/^lib$/x$", Vec::new()),
        ("mksquashfs root IMAGE -noappend -regex -e u/[^z]$/[^]a]", Vec::new()),
        ("mkfs.erofs --exclude-regex=usr/.*[a-z]$ IMAGE root", Vec::new()),
        ("mkfs.erofs --exclude-regex=^li --exclude-regex=conf IMAGE root", Vec::new()),
    ] {
        let (program, rest) = line.split_once(' ').unwrap();
        let words = |image: &str| rest.replace("IMAGE", image).split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut theirs = Command::new(program);
        theirs.args(words("theirs"));
        let made = feed(theirs, dir, &text);
        assert!(made.status.success(), "{line}: {}", stderr(&made));
        let mut ours = packfs(["as", program]);
        ours.args(words("ours"));
        let made = feed(ours, dir, &text);
        assert!(made.status.success(), "{line}: {}", stderr(&made));
        // The root of listed files is nobody's: mksquashfs gives it the time of the run.
        for image in ["theirs", "ours"] {
            let same = format!("{image}-root");
            let root = ["--add", "dir / 0755 0 0", "--add", "time / 0"];
            succeed(dir, &[&["build", image, "-o", &same, "-fq"][..], &root].concat());
        }
        let different = run_in(dir, &["diff", "theirs-root", "ours-root"]);
        assert_eq!(String::from_utf8_lossy(&different.stdout), "", "{line}");
    }
}
