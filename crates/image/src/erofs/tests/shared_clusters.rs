//! Files that share stretches of data: no cluster is longer than Linux reads, and Linux reads all of them, in any order
//! and however much is cached.

use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

use super::*;
use crate::testing::{
    Mount, Node, Piece, can_mount, differences, findings, noise, snapshot_image, snapshot_tree, text,
};

const PAGE: u64 = 4096;

fn files(files: &[&[Piece]]) -> Spec {
    let named = files.iter().enumerate().map(|(n, pieces)| (format!("f{n}").into_bytes(), Node::file(pieces.to_vec())));
    Spec::of(named)
}

/// Trees whose files share data that does not shrink.
fn trees() -> [(&'static str, Spec); 5] {
    [
        // A whole file is stored uncompressed, and another one has most of it.
        ("more than a mebibyte", files(&[&[noise(1, 1_200_000)], &[noise(1, 1_100_000), text(2, 300_000)]])),
        // The beginning of a file, then all of it.
        ("within a page", files(&[&[noise(3, 299_008)], &[noise(3, 195_123), noise(3, 299_008), text(4, 14_000)]])),
        (
            "at the end of a page",
            files(&[&[noise(5, 299_008)], &[noise(5, 163_840), noise(5, 20_000), text(6, 90_000)]]),
        ),
        (
            "at any offset",
            files(&[
                &[noise(7, 500_000)],
                &[text(1, 5001), noise(7, 500_000), text(2, 70_001), noise(7, 400_000), text(3, 9)],
            ]),
        ),
        (
            "often",
            files(&[
                &[noise(8, 60_000)],
                &[text(9, 100), noise(8, 60_000), noise(8, 50_001), noise(8, 60_000), text(9, 99), noise(8, 40_000)],
            ]),
        ),
    ]
}

fn cases() -> Vec<ErofsOptions> {
    let dedupe = Features::DEDUPE;
    let mut cases = Vec::new();
    for (codec, features, kib) in [
        ("lz4hc:4", dedupe, 64),
        ("lz4hc:4", dedupe, 1024),
        ("lz4", dedupe | Features::FRAGMENTS, 1024),
        ("lz4", dedupe | Features::ALL_FRAGMENTS, 256),
        ("zstd:1", dedupe | Features::ZTAILPACKING, 1024),
        ("zstd:1", dedupe, 4),
        ("deflate:1", dedupe | Features::FULL_INDEX, 512),
        ("lzma:0", dedupe, 1024),
        ("lz4", dedupe | Features::BITS_48, 1024),
        ("zstd:1", dedupe | Features::BITS_48 | Features::UNALIGNED, 64),
    ] {
        cases.push(ErofsOptions { features, cluster_size: kib << 10, ..options(codec, 4096) });
    }
    cases.push(ErofsOptions { features: dedupe, cluster_size: 16 << 10, ..options("lz4", 1024) });
    cases
}

#[test]
fn shared_data_reads_back_and_check_finds_nothing() {
    for (name, spec) in trees() {
        let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
        for options in cases() {
            let what = format!("{name}: {}", matrix::say(&options));
            let built = built(&spec, &options);
            let image = open(&built.image).unwrap();
            assert_eq!(differences(&want, &snapshot_image(&*image).unwrap()), Vec::<String>::new(), "{what}");
            assert_eq!(findings(&*image, 2), Vec::<String>::new(), "{what}");
        }
    }
}

#[test]
fn data_at_the_same_offset_in_a_page_is_shared() {
    let cut = noise(1, 300 * PAGE);
    let moved = [text(2, 3 * PAGE), noise(1, 300 * PAGE - 7)];
    let [apart, together] = [Features::empty(), Features::DEDUPE].map(|features| {
        let options = ErofsOptions { features, cluster_size: 64 << 10, ..options("lz4", 4096) };
        built(&files(&[std::slice::from_ref(&cut), &moved]), &options).summary.image_bytes
    });
    assert!(together < apart - 250 * PAGE, "{together} bytes with dedupe, {apart} without");
}

/// Reads pages one by one, and then the file from several places on.
fn unreadable(path: &Path, want: &[u8]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut compare = |file: &std::fs::File, from: usize, len: usize, how: &str| {
        let want = &want[from..want.len().min(from + len)];
        let mut got = vec![0; want.len()];
        match file.read_exact_at(&mut got, from as u64) {
            Ok(()) if got == want => {}
            Ok(()) => wrong.push(format!("{how}: other bytes at {from}")),
            Err(error) => wrong.push(format!("{how}: {error} at {from}")),
        }
    };
    let page_len = usize::try_from(PAGE).unwrap();
    let pages = want.len().div_ceil(page_len);
    for (advice, how) in [(Advice::Normal, "with readahead"), (Advice::Random, "without readahead")] {
        for stride in [1, 7, 16, pages / 2 + 1] {
            let file = std::fs::File::open(path).unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            fadvise(&file, 0, None, advice).unwrap();
            for page in (0..stride).flat_map(|first| (first..pages).step_by(stride)) {
                compare(&file, page * page_len, page_len, how);
            }
        }
        for first in [1, 9, 30, 47] {
            let file = std::fs::File::open(path).unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            fadvise(&file, 0, None, Advice::Random).unwrap();
            compare(&file, (first * page_len).min(want.len() - 1), 1, "a page");
            fadvise(&file, 0, None, advice).unwrap();
            compare(&file, 0, want.len(), how);
        }
    }
    wrong
}

#[test]
fn linux_reads_shared_data_in_any_order() {
    if !can_mount("linux_reads_shared_data_in_any_order") {
        return;
    }
    let mut wrong = Vec::new();
    for (name, spec) in trees() {
        for options in cases() {
            let built = built(&spec, &options);
            let mount = Mount::new(&built.image, "erofs").unwrap();
            for n in 0..2 {
                let file = format!("f{n}");
                let image = open(&built.image).unwrap();
                let node = crate::sink::lookup(&*image, file.as_bytes()).unwrap().unwrap();
                let mut want = vec![0; 4 << 20];
                let len = image.read_at(node, &mut want, 0).unwrap();
                want.truncate(len);
                let found = unreadable(&mount.path().join(&file), &want);
                wrong.extend(
                    found.iter().take(3).map(|line| format!("{name}, {file}, {}: {line}", matrix::say(&options))),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
