//! On-disk facts of inodes: those of `packfs info --inode` lead to the bytes of the files, and under the name of
//! dump.erofs they are those of dump.erofs.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::program::{either, is_current, link, run, sh, text};
use crate::common::{fail, stderr, succeed};
use serde_json::Value;

/// Makes a tree with files of several kinds of data.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let script = "mkdir -p t/sub t/empty && seq 1 30000 > t/seq && cp t/seq t/copy && echo hi > t/small && ln -s small t/link &&
        ln t/seq t/sub/hard && mkfifo t/fifo && truncate -s 3M t/sparse && printf x | dd of=t/sparse bs=1 seek=2000000 conv=notrunc 2>/dev/null &&
        head -c 100000 /dev/urandom > t/noise && : > t/zero && touch -d 2020-02-03T04:05:06.789Z t/small && chmod 4751 t/noise";
    sh(dir.path(), script);
    dir
}

/// Returns the facts of an inode.
fn facts(dir: &Path, image: &str, path: &str) -> Value {
    let document: Value = serde_json::from_str(&succeed(dir, &["info", image, "--inode", path, "--json"])).unwrap();
    assert_eq!((&document["schema"], &document["kind"]), (&1.into(), &"info".into()));
    document["inode"].clone()
}

#[test]
fn facts_lead_to_the_bytes_of_files() {
    let dir = tree();
    let dir = dir.path();
    for (image, options) in [
        ("plain.erofs", &["--codec", "none"][..]),
        ("lz4.erofs", &[]),
        ("gzip.sqfs", &["--codec", "gzip"]),
        ("none.sqfs", &["--codec", "none"]),
    ] {
        succeed(dir, &[&["build", "t", "-q", "-o", image], options].concat());
        let bytes = std::fs::read(dir.join(image)).unwrap();
        for path in ["seq", "/sub/hard", "noise", "small", "sparse", "zero"] {
            let about = facts(dir, image, path);
            let plain = std::fs::read(dir.join("t").join(path.trim_start_matches('/'))).unwrap();
            assert_eq!(about["size"], plain.len(), "{image} {path}");
            let (mut at, mut data) = (0, 0);
            for extent in about["extents"].as_array().unwrap() {
                let number = |name: &str| usize::try_from(extent[name].as_u64().unwrap()).unwrap();
                let (offset, len) = (number("offset"), number("len"));
                assert_eq!(offset, at, "{image} {path}");
                at += len;
                let plain = &plain[offset..at];
                if extent["position"].is_null() {
                    assert!(plain.iter().all(|byte| *byte == 0), "{image} {path}");
                    continue;
                }
                data += len;
                let (from, stored) = (number("position"), number("stored"));
                let skip = extent["fragment"]["index"].as_u64().and(extent["fragment"]["offset"].as_u64()).unwrap_or(0);
                let skip = usize::try_from(skip).unwrap();
                if extent["codec"].is_null() && stored >= skip + len {
                    assert!(bytes[from + skip..].starts_with(plain), "{image} {path}: {extent}");
                }
                assert!(from + stored <= bytes.len(), "{image} {path}: {extent}");
            }
            assert_eq!((at, &about["data_bytes"]), (plain.len(), &data.into()), "{image} {path}");
        }
        assert_eq!(facts(dir, image, "seq")["inode"], facts(dir, image, "sub/hard")["inode"]);
        assert_eq!(facts(dir, image, "link")["target"], "small", "links are not followed");
        assert!(facts(dir, image, "/")["position"].as_u64().unwrap() > 0);
        let shown = succeed(dir, &["info", image, "--inode", "seq"]);
        assert!(shown.contains("\ntype         file\n") && shown.contains("\nlinks        2\n"), "{shown}");
    }
    let shown = succeed(dir, &["info", "gzip.sqfs", "--inode", "small"]);
    assert!(shown.contains(", fragment "), "{shown}");
    let told = fail(dir, 1, &["info", "gzip.sqfs", "--inode", "nosuch"]);
    assert!(told.contains("nosuch: not found in the image"), "{told}");
}

#[test]
fn facts_are_those_of_dump_erofs() {
    let test = "facts_are_those_of_dump_erofs";
    let dir = tree();
    let dir = dir.path();
    link(dir, "dump.erofs");
    succeed(dir, &["build", "t", "-q", "-o", "ours.erofs"]);
    if !is_current(test, "dump.erofs") || !is_current(test, "mkfs.erofs") {
        return;
    }
    let mut images = vec!["ours.erofs".to_owned()];
    for (n, options) in [
        "-T1600000000",
        "-zlz4",
        "-zlz4hc,9 -C65536 -Eztailpacking",
        "-zlz4hc -C65536 -Eall-fragments",
        "-zlz4 -C65536 -Efragments,dedupe",
        "-zdeflate -Elegacy-compress,force-inode-extended",
        "--chunksize=4096 --blobdev=blob",
        "-x1 -Enosbcrc,^inline_data",
    ]
    .iter()
    .enumerate()
    {
        let image = format!("{n}.erofs");
        // A chunk of zeros has no position.
        let left_out = if options.contains("chunk") { "--exclude-path=sparse" } else { "" };
        sh(dir, &format!("mkfs.erofs --quiet {options} {left_out} {image} t >/dev/null 2>&1"));
        images.push(image);
    }
    for image in images {
        let device = if image == "6.erofs" { "--device=blob " } else { "" };
        let paths = ["/", "/sub", "/empty", "/seq", "/copy", "/small", "/noise", "/sparse", "/zero", "/link", "/fifo"];
        let mut lines = vec![format!("{device}{image}"), format!("{device}-s --path=/seq {image}")];
        lines.extend([format!("{device}-S {image}"), format!("{device}-S -s --path=/small {image}")]);
        for path in paths.iter().filter(|path| device.is_empty() || **path != "/sparse") {
            lines.push(format!("{device}-e --path={path} {image}"));
            if ["/", "/sub", "/empty"].contains(path) {
                lines.push(format!("{device}--ls --path {path} {image}"));
            }
        }
        for path in ["seq", "/noise", "/small"] {
            lines.push(format!("{device}--cat --path={path} {image}"));
        }
        let inode = facts(dir, &image, "small")["inode"].to_string();
        lines.push(format!("{device}--nid={inode} -e {image}"));
        for line in lines {
            let [theirs, ours] = [false, true].map(|ours| run(dir, either(dir, "dump.erofs", ours), &line));
            assert!(ours.status.success() && theirs.status.success(), "{line}: {}", stderr(&ours));
            assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{line}");
        }
    }
    for (line, why) in [
        ("--ls --path=/seq ours.erofs", "not a directory"),
        ("--path=/nosuch ours.erofs", "not found"),
        ("--nid=1234567 ours.erofs", "has this number"),
        ("-e ours.erofs", "need an inode"),
        ("nosuch", "cannot open"),
        ("--nid=x ours.erofs", "--nid x: expected a number, 0 or more"),
        ("--blkid-udev ours.erofs", "blkid -p"),
    ] {
        let done = run(dir, dir.join("dump.erofs"), line);
        assert_eq!(done.status.code(), Some(1), "{line}");
        assert!(stderr(&done).contains(why), "{line}: {}", stderr(&done));
    }
}

#[test]
fn every_option_in_the_help_of_dump_erofs_is_in_the_table() {
    if !is_current("every_option_in_the_help_of_dump_erofs_is_in_the_table", "dump.erofs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let help = text(&run(dir.path(), "dump.erofs", "--help").stdout);
    let options: BTreeSet<String> = help
        .lines()
        .filter(|line| line.starts_with(" -"))
        .flat_map(|line| line.split_whitespace().take_while(|word| word.starts_with('-')))
        .map(|word| word.trim_end_matches(',').split('=').next().unwrap_or_default().to_owned())
        .collect();
    assert!(options.len() > 10, "{options:?}");
    let listed = succeed(dir.path(), &["as", "--list", "dump.erofs"]);
    let table: BTreeSet<_> = listed.split([' ', ',', '=']).collect();
    for option in options {
        assert!(table.contains(option.as_str()), "{option} is not in the table");
    }
}
