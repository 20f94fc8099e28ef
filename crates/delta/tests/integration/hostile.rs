//! Damaged and wrong patches give errors, and nothing else.

use packfs_blocks::testing::Random;
use packfs_delta::{DeltaOptions, Error};
use packfs_image::{Builder, Choice};

use crate::common::{TestFile, apply, build, make, tree, words};

fn pair() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let files: Vec<_> = tree().into_iter().take(60).collect();
    let builder = || Builder::erofs().codec("lz4hc:9".parse::<Choice>().unwrap());
    let old = build(builder(), &files);
    let new = build(builder(), &updated_few(files));
    let patch = make(&old, &new, &DeltaOptions::default(), 0).bytes;
    (old, new, patch)
}

fn updated_few(mut files: Vec<TestFile>) -> Vec<TestFile> {
    files[3].1 = words(4000, 4);
    files[30].1.extend_from_slice(b"more");
    files
}

/// Puts the right digest at the end of a patch.
fn with_digest(mut patch: Vec<u8>) -> Vec<u8> {
    let end = patch.len() - 32;
    let digest = packfs_blocks::Digest::of(&patch[..end]);
    patch[end..].copy_from_slice(digest.as_bytes());
    patch
}

#[test]
fn any_damage_is_noticed_before_anything_is_written() {
    let (old, _, patch) = pair();
    for at in (0..patch.len()).step_by(37) {
        let mut damaged = patch.clone();
        damaged[at] ^= 0x10;
        assert!(apply(&old, &damaged, 0).is_err());
        assert!(apply(&old, &patch[..at], 0).is_err());
    }
    let told = apply(&old, &patch[..patch.len() - 5], 0).unwrap_err().to_string();
    assert!(told.contains("it is damaged or was cut short"), "{told}");
    let told = apply(&old, b"hello", 0).unwrap_err().to_string();
    assert!(told.contains("it does not begin as patches of packfs do"), "{told}");
}

/// Who makes a patch on purpose gives it a digest, too.
#[test]
fn hostile_patches_end_in_errors() {
    let (old, new, patch) = pair();
    let mut random = Random::new(3);
    for round in 0..400 {
        let mut hostile = patch.clone();
        for _ in 0..=random.below(3) {
            // Lengths and programs are at the beginning.
            let reach = if round % 2 == 0 { 400.min(patch.len()) } else { patch.len() };
            let at = 8 + random.below(reach - 40);
            hostile[at] = random.number().to_le_bytes()[0];
        }
        if let Ok(result) = apply(&old, &with_digest(hostile), 0) {
            assert!(result == new);
        }
    }
}

/// Progress adds the lengths of both files, and more than `u64` holds stopped the program where additions are checked.
#[test]
fn lengths_that_no_file_has_are_refused() {
    let (old, _, patch) = pair();
    // After magic and length of the header: length and digest of the old file, then those of the new one.
    for length_at in [12, 52] {
        for length in [1 << 63, u64::MAX - 20, u64::MAX] {
            let mut hostile = patch.clone();
            hostile[length_at..length_at + 8].copy_from_slice(&u64::to_le_bytes(length));
            let told = apply(&old, &with_digest(hostile), 0).unwrap_err().to_string();
            assert!(told.contains("a file would be longer than files can be"), "{told}");
        }
    }
}

#[test]
fn another_old_file_is_refused_before_anything_is_written() {
    let (old, _, patch) = pair();
    let mut other = old.clone();
    other[5000] ^= 1;
    for (wrong, told) in [(&other[..], "bytes differ"), (&old[1..], "this one")] {
        let error = apply(wrong, &patch, 0).unwrap_err();
        assert!(matches!(error, Error::WrongOld { .. }) && error.to_string().contains(told), "{error}");
    }
}
