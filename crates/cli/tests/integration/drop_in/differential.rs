//! The examples of the manuals, and random command lines, of the programs that packfs answers to, given to both: trees,
//! listings, exit statuses and the output that callers parse are the same.
//!
//! `PACKFS_DIFFERENTIAL=500 cargo test -p packfs --test integration differential::` tries 500 lines a program;
//! `PACKFS_DIFFERENTIAL_SEED` draws others. What is known to differ (docs/guide/drop-in.md) is left out of the lines or
//! of the comparison, with the reason.

mod examples;
mod lines;
mod manuals;
mod readers;
mod site;
mod tree;
mod writers;

use self::examples::ManualExample;
use self::lines::{Grammar, Line, judge_examples, judge_lines};
use crate::common::program::{EROFS_UTILS, SQUASHFS_TOOLS};

/// Compares a program that writes images.
fn writer(test: &str, grammar: &Grammar, examples: &[ManualExample], version: &str) {
    if !site::ready(test, &[(grammar.program, version)]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    writers::make(dir.path(), grammar.program);
    let judge = |line: &Line| writers::judge(dir.path(), grammar.program, line);
    judge_examples(grammar.program, examples, judge, |line| writers::ours(dir.path(), grammar.program, line));
    judge_lines(grammar, judge);
}

/// Compares a program that reads images, which `needed` make.
fn reader(test: &str, grammar: &Grammar, examples: &[ManualExample], needed: &[(&str, &str)]) {
    if !site::ready(test, needed) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    readers::make(dir.path(), grammar.program);
    let judge = |line: &Line| readers::judge(dir.path(), grammar.program, line);
    judge_examples(grammar.program, examples, judge, |line| readers::ours(dir.path(), grammar.program, line));
    judge_lines(grammar, judge);
}

#[test]
fn mksquashfs() {
    writer("mksquashfs", &writers::MKSQUASHFS, examples::MKSQUASHFS, SQUASHFS_TOOLS);
}

#[test]
fn sqfstar() {
    writer("sqfstar", &writers::SQFSTAR, examples::SQFSTAR, SQUASHFS_TOOLS);
}

#[test]
fn tar2sqfs() {
    writer("tar2sqfs", &writers::TAR2SQFS, examples::TAR2SQFS, "");
}

#[test]
fn gensquashfs() {
    writer("gensquashfs", &writers::GENSQUASHFS, &[], "");
}

#[test]
fn mkfs_erofs() {
    writer("mkfs_erofs", &writers::MKFS_EROFS, &[], EROFS_UTILS);
}

/// Judges lines of a manual, and panics with those for which two programs differ.
fn judge_manual(lines: &[(&'static str, &'static str)], judge: impl Fn(&lines::Line) -> lines::Judged) {
    let differences = lines.iter().filter_map(|line| {
        let told = judge(&manuals::line(*line)).err()?;
        Some(format!("{} {}\n{told}\n", line.0, line.1))
    });
    let differences: Vec<String> = differences.collect();
    assert!(differences.is_empty(), "{} differences:\n\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn lines_of_the_manual_of_mkfs_erofs() {
    if !site::ready("lines_of_the_manual_of_mkfs_erofs", &[("mkfs.erofs", EROFS_UTILS)]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    writers::make(dir.path(), "mkfs.erofs");
    judge_manual(manuals::MKFS_EROFS, |line| writers::judge(dir.path(), "mkfs.erofs", line));
    std::fs::write(dir.path().join("compress-hints"), manuals::HINTS).unwrap();
    writers::judge_instead(dir.path(), &manuals::line(manuals::COMPRESS_HINTS), "-zlz4hc,12 IMAGE t").unwrap();
}

#[test]
fn lines_of_the_manual_of_fsck_erofs() {
    let needed = [("mkfs.erofs", EROFS_UTILS), ("fsck.erofs", EROFS_UTILS)];
    if !site::ready("lines_of_the_manual_of_fsck_erofs", &needed) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    readers::make(dir.path(), "fsck.erofs");
    judge_manual(manuals::FSCK_EROFS, |line| readers::judge(dir.path(), "fsck.erofs", line));
}

#[test]
fn lines_of_the_manual_of_dump_erofs() {
    let needed = [("mkfs.erofs", EROFS_UTILS), ("dump.erofs", EROFS_UTILS)];
    if !site::ready("lines_of_the_manual_of_dump_erofs", &needed) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    readers::make(dir.path(), "dump.erofs");
    judge_manual(manuals::DUMP_EROFS, |line| readers::judge(dir.path(), "dump.erofs", line));
}

#[test]
fn unsquashfs() {
    reader(
        "unsquashfs",
        &readers::UNSQUASHFS,
        examples::UNSQUASHFS,
        &[("mksquashfs", ""), ("unsquashfs", SQUASHFS_TOOLS)],
    );
}

#[test]
fn sqfscat() {
    reader("sqfscat", &readers::SQFSCAT, examples::SQFSCAT, &[("mksquashfs", ""), ("sqfscat", SQUASHFS_TOOLS)]);
}

#[test]
fn rdsquashfs() {
    reader("rdsquashfs", &readers::RDSQUASHFS, &[], &[("mksquashfs", ""), ("rdsquashfs", "")]);
}

#[test]
fn sqfs2tar() {
    reader("sqfs2tar", &readers::SQFS2TAR, examples::SQFS2TAR, &[("mksquashfs", ""), ("sqfs2tar", "")]);
}

#[test]
fn sqfsdiff() {
    reader("sqfsdiff", &readers::SQFSDIFF, &[], &[("mksquashfs", ""), ("sqfsdiff", "")]);
}

#[test]
fn fsck_erofs() {
    reader("fsck_erofs", &readers::FSCK_EROFS, &[], &[("mkfs.erofs", EROFS_UTILS), ("fsck.erofs", EROFS_UTILS)]);
}

#[test]
fn dump_erofs() {
    reader("dump_erofs", &readers::DUMP_EROFS, &[], &[("mkfs.erofs", EROFS_UTILS), ("dump.erofs", EROFS_UTILS)]);
}
