//! The command line as users see it: help, mistakes, exit status.

use std::path::Path;

use crate::common::{self, fail, packfs, stderr, succeed};

const COMMANDS: [&str; 10] = ["build", "extract", "tar", "list", "cat", "info", "check", "diff", "completions", "man"];

fn here() -> &'static Path {
    Path::new(".")
}

#[test]
fn help_names_every_command_and_every_command_explains_itself() {
    let help = succeed(here(), &["--help"]);
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is not in:\n{help}");
        let own = succeed(here(), &[command, "--help"]);
        assert!(own.contains("Usage: packfs "), "{own}");
        assert!(own.contains(&format!("packfs {command} ")), "no example in:\n{own}");
    }
    assert_eq!(succeed(here(), &["--version"]), format!("packfs {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_has_three_lengths_and_explains_single_options() {
    let lines = |args: &[&str]| succeed(here(), args).lines().count();
    let common = lines(&["build", "-h"]);
    let all = lines(&["build", "--help"]);
    let explained = lines(&["help", "build"]);
    assert!(common <= 60 && common < all && all < 200 && 2 * all < explained, "{common}, {all}, {explained}");
    let option = succeed(here(), &["help", "build", "--block-size"]);
    assert!(option.contains("--block-size <SIZE>") && !option.contains("--preset"), "{option}");
    assert_eq!(succeed(here(), &["help", "codecs"]), succeed(here(), &["build", "--codec", "help"]));
    for (topic, told) in
        [(&["biuld"][..], "no command and no option is called `biuld`"), (&["build", "block"], "`block`")]
    {
        let error = fail(here(), 2, &[&["help"], topic].concat());
        assert!(error.contains(told) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn mistakes_of_kind_name_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("data"), "data").unwrap();
    succeed(dir, &["build", "data", "-o", "image", "-q"]);
    let cases: [(i32, &[&str], &str); 5] = [
        (2, &["split", "data", "-o", "-"], "packfs: -: a part needs a name, also for `--resume`: give a file, "),
        (1, &["join", "image", "-o", "out"], "packfs: image: an image, not a part of a dump: packfs extract "),
        (
            2,
            &["list", "image", "--exclude-from", "no"],
            "packfs: --exclude-from no: cannot read: No such file or directory\n",
        ),
        (
            2,
            &["build", "data", "-o", "x", "--exclude-from", "no"],
            "packfs: --exclude-from no: cannot read: No such file",
        ),
        (2, &["build", "data", "-o", "-", "--json"], "packfs: --output -: standard output is for the image alone, "),
    ];
    for (status, args, told) in cases {
        let error = fail(dir, status, args);
        assert!(error.starts_with(told) && error.lines().count() == 1, "{args:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 2, "nothing was made");
}

#[test]
fn typing_errors_are_corrected() {
    assert!(fail(here(), 2, &["biuld"]).contains("'build'"));
    assert!(fail(here(), 2, &["build", "x", "-o", "y", "--block-sise", "4K"]).contains("'--block-size'"));
    assert!(fail(here(), 2, &["build", "x", "-o", "y", "--fragments", "tail"]).contains("'tails'"));
}

#[test]
fn wrong_usage_is_status_2_and_says_what_is_accepted() {
    let cases: [(&[&str], &str); 21] = [
        (&[], "Usage: packfs <COMMAND>"),
        (&["build"], "<SOURCE>"),
        (&["build", "x"], "--output <IMAGE>"),
        (&["extract", "x"], "--directory <DIR>"),
        (&["build", "x", "-o", "y", "-b", "5000"], "a power of two from 4K to 1M"),
        (&["build", "x", "-o", "y", "-b", "big"], "powers of 1024"),
        (&["build", "x", "-o", "y", "--codec", "brotli"], "zstd"),
        (&["build", "x", "-o", "y", "--codec", "gzip:99"], "1 to 12"),
        (&["build", "x", "-o", "y", "--codec", "xz:bcj=z80"], "armthumb"),
        (&["build", "x", "-o", "y", "-j", "many"], "0 (serial)"),
        (&["build", "x", "-o", "y", "--owner", "root"], "USER:GROUP"),
        (&["build", "x", "-o", "y", "--time", "yesterday"], "a date in UTC"),
        (&["build", "x", "-o", "y", "--exclude-xattr", "user.["], "`user.[` is malformed"),
        (&["build", "x", "-o", "y.erofs", "-b", "5000"], "a multiple of the block"),
        (&["build", "x", "-o", "y.erofs", "-c", "xz"], "accepted: zstd, deflate, lzma, lz4, lz4hc, none"),
        (&["build", "x", "-o", "y.erofs", "-c", "zstd"], "choose 6.10"),
        (&["build", "x", "-o", "y.erofs", "--features", "tails"], "accepted: fragments, all-fragments, dedupe"),
        (&["build", "x", "-o", "y.erofs", "--target-kernel", "new"], "two numbers, such as 6.1"),
        (&["build", "x", "-o", "y.erofs", "--uuid", "1"], "32 hexadecimal digits"),
        (&["build", "x", "-o", "y.erofs", "--no-export"], "--no-export is for squashfs images"),
        (&["man", "fly"], "accepted: build, extract"),
    ];
    for (args, accepted) in cases {
        let message = fail(here(), 2, args);
        assert!(message.contains(accepted), "packfs {args:?} says:\n{message}");
    }
}

#[test]
fn errors_in_the_environment_are_usage_errors_too() {
    let build = packfs(["build", "x", "-o", "y"]).env("SOURCE_DATE_EPOCH", "soon").output().unwrap();
    assert_eq!(build.status.code(), Some(2));
    assert!(stderr(&build).contains("SOURCE_DATE_EPOCH"), "{}", stderr(&build));
}

#[test]
fn the_table_of_codecs_is_asked_for_by_name() {
    let table = succeed(here(), &["build", "--codec", "help"]);
    for codec in ["zstd", "gzip", "deflate", "xz", "lzma", "lzo", "lz4", "lz4hc", "none"] {
        assert!(table.lines().any(|line| line.split(' ').next() == Some(codec)), "{codec} is not in:\n{table}");
    }
}

#[test]
fn failures_are_status_1_with_one_line() {
    for command in ["info", "list", "check"] {
        let message = fail(here(), 1, &[command, "/nonexistent/image"]);
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.starts_with("packfs: /nonexistent/image: "), "{message}");
        assert_eq!(message.matches("No such file").count(), 1, "{message}");
    }
    assert!(fail(here(), 1, &["info", "/dev/null"]).contains("neither a SquashFS nor an EROFS image"));
}

#[test]
fn a_file_is_named_once_and_what_it_is_instead_is_said() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("data"), [7; 9000]).unwrap();
    succeed(dir.path(), &["build", "data", "-o", "i.sqfs", "-q"]);
    succeed(dir.path(), &["split", "data", "-o", "part", "-q"]);
    succeed(dir.path(), &["tar", "i.sqfs", "-o", "a.tar", "-q"]);
    let cases: [(&[&str], &str); 9] = [
        (&["build", "nosuch", "-o", "x.sqfs"], "packfs: nosuch: cannot open: No such file"),
        (&["build", "data", "-o", "i.sqfs"], "packfs: i.sqfs exists; --force replaces it"),
        (&["build", "data", "-o", "no/i.sqfs"], "packfs: no/i.sqfs: cannot create: No such file"),
        (&["split", "nosuch", "-o", "p"], "packfs: nosuch: cannot open: No such file"),
        (&["list", "."], "packfs: .: a directory, not an image: packfs build"),
        (&["list", "part"], "packfs: part: a part of a dump, not an image: packfs join"),
        (&["extract", "part", "-C", "to"], "packfs: part: a part of a dump, not an image: packfs join"),
        (&["tar", "a.tar"], "packfs: a.tar: an archive, not an image: packfs build"),
        (&["list", "data"], "packfs: data: neither a SquashFS nor an EROFS image"),
    ];
    for (args, told) in cases {
        let message = fail(dir.path(), 1, args);
        assert!(message.starts_with(told), "{args:?}: {message}");
    }
    for args in [&["list", "i.sqfs"][..], &["cat", "i.sqfs", "data"], &["tar", "i.sqfs"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = packfs(args).current_dir(dir.path()).stdout(full).output().unwrap();
        let message = stderr(&ran);
        let told = "standard output: cannot write: No space left on device";
        assert_eq!(
            (ran.status.code(), message.matches(told).count(), message.lines().count()),
            (Some(1), 1, 1),
            "{message}"
        );
    }
}

#[test]
fn a_name_writes_nothing_but_itself_to_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let (evil, other) = ("no\x1b[2Ksuch\npackfs: done", "no\x1b[2Kother");
    std::fs::write(dir.path().join(other), [7; 5000]).unwrap();
    let cases: [&[&str]; 18] = [
        &["build", evil, "-o", "y.sqfs"],
        &["build", other, "-o", other],
        &["extract", evil, "-C", "to"],
        &["extract", other, "-C", evil],
        &["tar", evil, "-o", "y.tar"],
        &["list", evil],
        &["list", other],
        &["cat", other, evil],
        &["info", evil],
        &["info", other, evil],
        &["check", evil],
        &["check", other],
        &["diff", evil, other],
        &["split", evil, "-o", "part"],
        &["split", other, "-o", other],
        &["join", evil, "-o", "whole"],
        &["join", other, "-o", "whole"],
        &["bench", "report", evil],
    ];
    for args in cases {
        let ran = packfs(args).current_dir(dir.path()).output().unwrap();
        let told = stderr(&ran);
        assert!(!ran.status.success(), "{args:?}");
        assert!(!told.contains('\x1b') && !told.contains("\npackfs: done"), "{args:?}: {told}");
    }
}

/// Status 0: done. 1: it failed, or damage or differences were found. 2: wrong usage.
#[test]
fn there_is_one_rule_for_the_exit_status() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    common::sample(dir);
    std::os::unix::net::UnixListener::bind(dir.join("root/etc/socket")).unwrap();
    std::fs::create_dir(dir.join("empty")).unwrap();
    std::fs::write(dir.join("dump"), vec![7; 100_000]).unwrap();
    let table: [(i32, &[&str]); 34] = [
        (0, &["build", "root", "-o", "a.sqfs"]),
        (0, &["build", "root", "-o", "a.erofs"]),
        (0, &["build", "empty", "-o", "b.sqfs"]),
        (1, &["build", "root", "-o", "a.sqfs"]),
        (1, &["build", "missing", "-o", "c.sqfs"]),
        (2, &["build", "root", "-o", "-", "--json"]),
        (2, &["build", "root", "-o", "c.sqfs", "-b", "5000"]),
        (2, &["build", "root", "-o", "c.erofs", "--label", "longer than it can be"]),
        (2, &["build", "root", "-o", "c.sqfs", "--exclude", "a["]),
        (2, &["build", "root", "-o", "c.sqfs", "--mode", "rw"]),
        (2, &["build", "root", "-o", "c.sqfs", "--sort", "missing"]),
        (0, &["list", "a.sqfs"]),
        (1, &["list", "missing"]),
        (1, &["list", "dump"]),
        (1, &["list", "a.sqfs", "missing"]),
        (0, &["tar", "a.sqfs", "-o", "a.tar"]),
        (1, &["tar", "a.sqfs", "-o", "a.tar"]),
        (1, &["tar", "a.sqfs", "-o", "strict.tar", "--strict"]),
        (0, &["extract", "a.erofs", "-C", "out"]),
        (1, &["extract", "a.erofs", "-C", "out"]),
        (0, &["cat", "a.sqfs", "etc/motd", "--range", "0:3"]),
        (1, &["cat", "a.sqfs", "etc/motd", "--range", "9:3"]),
        (1, &["cat", "a.sqfs", "etc"]),
        (2, &["cat", "a.sqfs"]),
        (0, &["diff", "a.sqfs", "a.erofs"]),
        (1, &["diff", "a.sqfs", "b.sqfs"]),
        (0, &["check", "a.sqfs"]),
        (1, &["check", "a.sqfs", "--against", "empty"]),
        (2, &["check", "a.sqfs", "b.sqfs"]),
        (0, &["split", "dump", "-o", "p0", "-o", "p1"]),
        (1, &["split", "missing", "-o", "q0"]),
        (2, &["join", "p0", "p0", "-o", "back"]),
        (0, &["join", "p0", "p1", "-o", "back"]),
        (1, &["join", "p0", "a.sqfs", "-o", "other"]),
    ];
    for (status, args) in table {
        let output = common::run_in(dir, args);
        assert_eq!(output.status.code(), Some(status), "packfs {args:?}: {}", stderr(&output));
    }
}

/// Other programs use the libraries, too: only the program names its options, in the hints of `output/failure.rs`.
#[test]
fn errors_of_libraries_name_no_options() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for library in ["codec", "blocks", "tree", "source", "image", "dump", "mount", "remote", "serve"] {
        let mut left = vec![crates.join(library).join("src")];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let name = path.to_string_lossy().into_owned();
            // Tests run programs, which have options.
            let of_tests = ["test", "oracle", "loop_device", "/assets/"].iter().any(|part| name.contains(part));
            if of_tests || !name.ends_with(".rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let text = without_help(&text);
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap().lines();
            let names = |line: &&str| {
                let line = line.trim_start();
                !line.starts_with("//") && line.split('"').skip(1).step_by(2).any(names_an_option)
            };
            found.extend(code.filter(names).map(|line| format!("{name}: {}", line.trim())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Returns code without the help of options, which stands in tables of the libraries and may name other options.
fn without_help(code: &str) -> String {
    let mut kept = String::new();
    let mut is_help = false;
    for line in code.lines() {
        let trimmed = line.trim_start();
        is_help |= ["default: \"", "details: \"", "help: \""].iter().any(|field| trimmed.starts_with(field));
        if is_help {
            is_help = !line.ends_with("\",");
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Returns true for text with a word such as `--force`.
fn names_an_option(text: &str) -> bool {
    let after = |at: usize| text[at + 2..].starts_with(|next: char| next.is_ascii_lowercase());
    text.match_indices("--").any(|(at, _)| after(at) && (at == 0 || text[..at].ends_with([' ', '`', '('])))
}

#[test]
fn help_of_plan_lists_nothing_that_plans_refuse() {
    let refused = [
        "--append",
        "--append-below",
        "--blob",
        "--composefs[=<HASH>]",
        "--data-align",
        "--delta-index",
        "--dry-run",
        "--index",
        "--max-extent",
        "--objects",
        "--percentage",
        "--prefix",
        "--refer",
        "--reuse",
        "--seal",
        "--seal-certificate",
        "--seal-key",
        "--spool",
        "--stream",
    ];
    let text = succeed(Path::new("."), &["plan", "--help"]);
    // Wrapped texts are indented further than options.
    let options = text.lines().filter(|line| line.starts_with("  -") || line.starts_with("      --"));
    let listed: Vec<&str> =
        options.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--"))).collect();
    assert!(listed.contains(&"--rsyncable[=<SIZE>]"), "{text}");
    for option in refused {
        assert!(!listed.contains(&option), "{option}");
    }
}
