//! Compressed archives, whole and damaged.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;
use crate::testing::skipped;

/// Compresses `bytes` with `tool`; `None` if it is not installed.
fn compress(tool: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new(tool);
    let spawned = command.args(["-c", "-6"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(_) => {
            skipped("compressed archives", tool);
            return None;
        }
    };
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    Some(output.stdout)
}

fn sample() -> Vec<u8> {
    let noise: Vec<u8> =
        (0..300_000u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0]).collect();
    archive(&[member("noise", b'0', &noise), member("text", b'0', &b"text ".repeat(100_000))])
}

#[test]
fn every_compression_is_recognised_by_its_first_bytes() {
    let plain = sample();
    let want = snapshot_of(&plain);
    let dir = tempfile::tempdir().unwrap();
    for tool in ["gzip", "xz", "zstd", "bzip2"] {
        let (Some(whole), Some(head), Some(tail)) =
            (compress(tool, &plain), compress(tool, &plain[..9999]), compress(tool, &plain[9999..]))
        else {
            continue;
        };
        for bytes in [whole, [head, tail].concat()] {
            // The name does not reveal the compression.
            let path = dir.path().join("a.tar");
            std::fs::write(&path, &bytes).unwrap();
            let tree = scan(open(Some(&path), Options::default()).unwrap()).unwrap();
            assert_eq!(differences(&snapshot_tree(&tree).unwrap(), &want), Vec::<String>::new(), "{tool}");
            let streamed = snapshot_tree(&scan_stream(&bytes).unwrap()).unwrap();
            assert_eq!(differences(&streamed, &want), Vec::<String>::new(), "{tool}");
        }
    }
}

#[test]
fn members_of_any_compression_follow_each_other_with_zeros_between_them() {
    let plain = sample();
    let want = snapshot_of(&plain);
    let tools = ["gzip", "xz", "zstd", "bzip2"];
    for first in tools {
        for second in tools {
            let (Some(head), Some(tail)) = (compress(first, &plain[..9999]), compress(second, &plain[9999..])) else {
                continue;
            };
            for zeros in [0, 1, 9, 512, 300_000] {
                let padding = vec![0; zeros];
                let tree = scan_stream(&[&head[..], &padding, &tail, &padding].concat()).unwrap();
                let found = snapshot_tree(&tree).unwrap();
                assert_eq!(differences(&found, &want), Vec::<String>::new(), "{first}, {zeros} zeros, {second}");
            }
        }
        let Some(whole) = compress(first, &plain) else { continue };
        // A frame of zstd without contents, which is shorter than what formats are told apart by.
        let skippable = b"\x50\x2a\x4d\x18\0\0\0\0";
        for zeros in [0, 1, 2, 3, 600] {
            let tree = scan_stream(&[&skippable[..], &vec![0; zeros], &whole].concat()).unwrap();
            let found = snapshot_tree(&tree).unwrap();
            assert_eq!(differences(&found, &want), Vec::<String>::new(), "{zeros} zeros, {first}");
        }
        for (tail, why) in [
            (&b"no compressed data"[..], "is followed by bytes that are neither compressed nor zeros"),
            (b"\0\0\0x", "is followed by bytes that are neither compressed nor zeros"),
            (b"\x04\x22\x4d\x18....", "compressed with lz4"),
        ] {
            let error = scan_stream(&[&whole[..], tail].concat()).unwrap_err().to_string();
            assert!(error.contains(why) && error.starts_with("a.tar: "), "{first}: {error}");
        }
    }
}

#[test]
fn damaged_compressed_archives_are_errors_that_name_the_compression() {
    let plain = sample();
    for tool in ["gzip", "xz", "zstd", "bzip2"] {
        let Some(bytes) = compress(tool, &plain) else { continue };
        for cut in [bytes.len() - 1, bytes.len() / 2, 30] {
            let error = scan_stream(&bytes[..cut]).unwrap_err().to_string();
            assert!(error.starts_with("a.tar: ") && error.contains(tool), "{tool} cut at {cut}: {error}");
        }
        let mut changed = bytes.clone();
        let middle = changed.len() / 2;
        changed[middle..middle + 8].fill(0x55);
        // Which of the two notices it first depends on the format: zstd has no checksum by default.
        let error = scan_stream(&changed);
        assert!(error.is_err() || tool == "zstd", "{tool}");
    }
}

#[test]
fn other_compressions_are_named() {
    let cases: [(&[u8], &str); 4] = [
        (b"\x04\x22\x4d\x18....", "lz4"),
        (b"LZIP\x01....", "lzip"),
        (b"\x89LZO\0....", "lzop"),
        (b"\x1f\x9d...", "compress"),
    ];
    for (bytes, name) in cases {
        let error = scan_stream(bytes).unwrap_err().to_string();
        assert!(error.contains(&format!("compressed with {name}")), "{error}");
    }
}

#[test]
fn a_missing_archive_is_named() {
    let error = open(Some(Path::new("/nowhere/a.tar")), Options::default()).err().unwrap();
    assert!(error.to_string().starts_with("/nowhere/a.tar: cannot open"), "{error}");
}
