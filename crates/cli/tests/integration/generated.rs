//! Generated texts: completion scripts, tried in the shells themselves, and manual pages.

use std::path::Path;
use std::process::Command;

use crate::common::{fail, have, succeed};

const COMMANDS: [&str; 31] = [
    "build",
    "extract",
    "tar",
    "list",
    "cat",
    "info",
    "check",
    "diff",
    "delta",
    "apply",
    "update",
    "seal",
    "verify",
    "oci",
    "split",
    "join",
    "mount",
    "umount",
    "serve",
    "explore",
    "bench",
    "tune",
    "trace",
    "as",
    "plan",
    "shard",
    "assemble",
    "status",
    "completions",
    "man",
    "help",
];
const PROGRAMS: [&str; 15] = [
    "mksquashfs",
    "sqfstar",
    "tar2sqfs",
    "gensquashfs",
    "mkfs.erofs",
    "unsquashfs",
    "sqfscat",
    "fsck.erofs",
    "dump.erofs",
    "rdsquashfs",
    "sqfs2tar",
    "sqfsdiff",
    "squashfuse",
    "squashfuse_ll",
    "erofsfuse",
];
const OF_BENCH: [&str; 6] = ["codecs", "read", "build", "split", "report", "memory"];
const OF_OCI: [&str; 4] = ["convert", "export", "cache", "merge"];

fn here() -> &'static Path {
    Path::new(".")
}

/// Typed text, and the completions offered for it.
const TYPED: [(&str, &[&str]); 14] = [
    ("packfs b", &["bench", "build"]),
    ("packfs bench r", &["read", "report"]),
    ("packfs build --codec lz", &["lz4", "lz4hc", "lzma", "lzo"]),
    ("packfs build -c h", &["help"]),
    ("packfs build --features fr", &["fragments"]),
    ("packfs build --target-kernel 5.1", &["5.10", "5.13", "5.15", "5.16", "5.17"]),
    ("packfs oci convert --target-kernel 5.1", &["5.10", "5.13", "5.15", "5.16", "5.17"]),
    ("packfs as mk", &["mkfs.erofs", "mksquashfs"]),
    ("packfs split -c r", &["raw"]),
    ("packfs join --as k", &["kdump", "kdump-flat"]),
    ("packfs tune --goal s", &["size", "speed"]),
    ("packfs bench codecs --policy s", &["sector", "squashfs"]),
    ("packfs bench build --formats e", &["erofs"]),
    ("packfs man j", &["join"]),
];

/// Asks a shell for its completions of each typed line, with a script that gets the line as its `$1`.
fn try_in(shell: &str, script: &str) {
    let dir = tempfile::tempdir().unwrap();
    let completions = dir.path().join("completions");
    std::fs::write(&completions, succeed(here(), &["completions", shell])).unwrap();
    // Scripts for fish only know values of options.
    let is_operand = |typed: &str| typed.starts_with("packfs man") || typed.starts_with("packfs as");
    for (typed, expected) in TYPED.into_iter().filter(|(typed, _)| shell != "fish" || !is_operand(typed)) {
        let mut command = Command::new(shell);
        // Neither finds files that could be offered here.
        command.args(["-c", script]).current_dir(dir.path()).env("HOME", dir.path());
        if shell == "bash" {
            command.arg("bash");
        }
        let ran = command.arg(typed).output().unwrap();
        let out = String::from_utf8(ran.stdout).unwrap();
        // fish adds a description after a tab.
        let mut offered: Vec<_> = out.lines().filter_map(|line| line.split('\t').next()).collect();
        offered.sort_unstable();
        assert_eq!(offered, expected, "{shell}: {typed}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}

#[test]
fn bash_completes_commands_and_values() {
    if have("bash_completes_commands_and_values", "bash") {
        let call = "_packfs packfs \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"";
        try_in(
            "bash",
            &format!(
                "source ./completions; COMP_WORDS=($1); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); {call}
                printf '%s\\n' \"${{COMPREPLY[@]}}\""
            ),
        );
    }
}

#[test]
fn fish_completes_commands_and_values() {
    // It is not installed on every machine that runs the tests.
    if Command::new("fish").arg("--version").output().is_ok() {
        try_in("fish", "source ./completions; complete -C \"$argv[1]\"");
    }
}

#[test]
fn completions_cover_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = succeed(here(), &["completions", shell]);
        for command in COMMANDS.iter().chain(&OF_BENCH) {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn every_command_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("new/man1");
    succeed(here(), &["man", "--dir", pages.to_str().unwrap()]);
    let mut names: Vec<_> = COMMANDS.iter().map(|command| vec![*command]).collect();
    names.extend(OF_BENCH.iter().map(|command| vec!["bench", command]));
    names.extend(OF_OCI.iter().map(|command| vec!["oci", command]));
    assert_eq!(std::fs::read_dir(&pages).unwrap().count(), 1 + names.len() + PROGRAMS.len());
    for words in names {
        let name = words.join("-");
        let page = std::fs::read_to_string(pages.join(format!("packfs-{name}.1"))).unwrap();
        assert_eq!(page, succeed(here(), &[&["man"], &words[..]].concat()));
        let escaped = name.replace('-', "\\-");
        for part in [&format!("packfs\\-{escaped} \\-"), ".SH EXAMPLES", "EXIT STATUS", "SEE ALSO", "packfs(1)"] {
            assert!(page.contains(part), "{name}: no {part} in\n{page}");
        }
    }
    let all = std::fs::read_to_string(pages.join("packfs.1")).unwrap();
    assert!(COMMANDS.iter().all(|command| all.contains(&format!("packfs\\-{command}(1)"))), "{all}");
    assert!(succeed(here(), &["man", "bench", "read"]).contains("packfs\\-bench(1)"));
    assert!(succeed(here(), &["man", "split"]).contains("packfs\\-join(1)"), "the help text of split names it");
    assert!(fail(here(), 2, &["man", "bench", "fly"]).contains("accepted: codecs, read"));
    assert!(fail(here(), 2, &["man", "list", "fly"]).contains("no commands of its own"));
}

#[test]
fn every_program_that_packfs_replaces_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    succeed(dir.path(), &["man", "--dir", "."]);
    for program in PROGRAMS {
        let page = std::fs::read_to_string(dir.path().join(format!("packfs-as-{program}.1"))).unwrap();
        assert_eq!(page, succeed(here(), &["man", "as", program]));
        assert!(page.contains(".SH OPTIONS") && page.contains(program), "{page}");
    }
    let page = succeed(here(), &["man", "as", "mksquashfs"]);
    for part in ["\\-comp VALUE", "same: \\-\\-codec, with", "refused: ", "packfs\\-as(1)"] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }
    assert!(succeed(here(), &["man", "as"]).contains("packfs\\-as\\-mksquashfs(1)"));
    assert!(fail(here(), 2, &["man", "as", "mke2fs"]).contains("mke2fs: packfs answers to mksquashfs, "));
}

#[test]
fn pages_render_without_warnings() {
    if !have("pages_render_without_warnings", "groff") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    succeed(dir.path(), &["man", "--dir", "."]);
    for page in std::fs::read_dir(dir.path()).unwrap() {
        let path = page.unwrap().path();
        let ran = Command::new("groff").args(["-ww", "-man", "-Tutf8", "-K", "utf8"]).arg(&path).output().unwrap();
        let warnings = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && warnings.is_empty(), "{path:?}: {warnings}");
        let shown = String::from_utf8_lossy(&ran.stdout);
        assert!(shown.contains("packfs manual") && shown.contains(&format!("packfs {}", env!("CARGO_PKG_VERSION"))));
    }
}
