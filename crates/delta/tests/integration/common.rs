//! Images in memory, and patches between them.

use std::io::Cursor;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::testing::Random;
use packfs_delta::{DeltaOptions, Patch, PatchEffort, PatchSummary, apply_patch, make_patch};
use packfs_image::Builder;
use packfs_image::source::Entry;

/// A file of a tree: its path and its contents.
pub(crate) type TestFile = (String, Vec<u8>);

/// Text in which words repeat.
pub(crate) fn words(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = Vec::new();
    while text.len() < len {
        text.extend(format!("{:x} ", random.below(9000) * 7919).bytes());
    }
    text.truncate(len);
    text
}

/// A tree of small files, a large one, and one that does not shrink.
pub(crate) fn tree() -> Vec<TestFile> {
    let mut files: Vec<TestFile> =
        (1..201).zip(0..200).map(|(seed, n)| (format!("usr/share/{n}"), words(700 + 37 * n, seed))).collect();
    files.push(("usr/lib/large".into(), words(1_500_000, 77)));
    files.push(("usr/lib/noise".into(), Random::new(5).bytes(300_000)));
    files.push(("usr/lib/zeros".into(), vec![0; 500_000]));
    files.push(("etc/empty".into(), Vec::new()));
    files.push(("etc/copy".into(), words(700 + 37 * 90, 91)));
    files
}

/// The same tree after an update: files changed, came and went, and the large one has bytes inserted and replaced.
pub(crate) fn updated(mut files: Vec<TestFile>) -> Vec<TestFile> {
    files.remove(20);
    for n in [3, 50, 120] {
        files[n].1 = words(5000, 1000 + n as u64);
    }
    files[60].1.extend_from_slice(b"appended");
    let large = files.iter_mut().find(|(path, _)| path == "usr/lib/large").unwrap();
    large.1.splice(400_000..400_000, words(300, 9));
    large.1[900_000..900_100].fill(b'x');
    files.push(("usr/share/new".into(), words(40_000, 4242)));
    files
}

/// Builds an image in memory.
pub(crate) fn build(builder: Builder<'_>, files: &[TestFile]) -> Vec<u8> {
    let entries: Vec<_> = files
        .iter()
        .map(|(path, contents)| Entry::file(path.clone(), contents.clone()).mtime(std::time::SystemTime::UNIX_EPOCH))
        .collect();
    builder.entries(entries).write_to(Cursor::new(Vec::new())).unwrap().0.into_inner()
}

/// A patch, and what is known about it.
pub(crate) struct MadePatch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) summary: PatchSummary,
}

pub(crate) fn shared(bytes: &[u8]) -> Arc<dyn ReadAt> {
    Arc::new(bytes.to_vec())
}

pub(crate) fn effort(threads: usize) -> PatchEffort {
    PatchEffort { threads, ..PatchEffort::default() }
}

pub(crate) fn make(old: &[u8], new: &[u8], options: &DeltaOptions, threads: usize) -> MadePatch {
    let mut bytes = Vec::new();
    let summary = make_patch(&shared(old), &shared(new), &mut bytes, options, &effort(threads)).unwrap();
    assert_eq!(summary.patch_len, bytes.len() as u64);
    MadePatch { bytes, summary }
}

pub(crate) fn apply(old: &[u8], patch: &[u8], threads: usize) -> packfs_delta::Result<Vec<u8>> {
    let patch = Patch::open(shared(patch))?;
    let mut new = Vec::new();
    apply_patch(&old.to_vec(), &patch, &mut new, &effort(threads))?;
    Ok(new)
}

/// Makes a patch, applies it, and compares.
pub(crate) fn round_trip(old: &[u8], new: &[u8]) -> MadePatch {
    let made = make(old, new, &DeltaOptions::default(), 2);
    assert!(apply(old, &made.bytes, 2).unwrap() == new);
    made
}
