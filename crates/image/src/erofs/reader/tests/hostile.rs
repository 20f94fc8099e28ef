//! Damaged and hostile images: nothing may panic, hang or use unbounded memory.

use std::time::{Duration, Instant};

use packfs_blocks::units::Size;

use super::*;
use crate::testing::{self, Source, erofs_utils};

/// Makes a tree with every feature.
pub(super) fn tree() -> Spec {
    let mut file = Node::file(vec![text(1, 2600), Piece::Hole(2048), text(2, 5)]);
    file.attrs.xattrs = BTreeMap::from([("user.name".to_owned(), b"value".to_vec())]);
    let mut other = Node::file(vec![noise(4, 1100)]);
    other.attrs.xattrs = file.attrs.xattrs.clone();
    let mut spec = Spec::of([
        (b"file".to_vec(), file),
        (b"noise".to_vec(), other),
        (b"dir".to_vec(), Node::dir([(b"small".to_vec(), Node::file(vec![text(3, 50)]))])),
        (b"link".to_vec(), plain(What::Symlink(b"dir/small".to_vec()))),
        (b"fifo".to_vec(), plain(What::Fifo)),
    ]);
    spec.links.push((b"dir/small".to_vec(), b"again".to_vec()));
    spec
}

/// Makes small images of every layout: with our own writer, and with mkfs.erofs if it is installed.
pub(super) fn small(test: &str, spec: &Spec) -> Vec<(&'static str, Vec<u8>)> {
    let ours = OURS.iter().map(|(codec, features)| {
        let options = ErofsOptions {
            features: *features,
            block_size: 512,
            cluster_size: 2048,
            target_kernel: "6.18".parse().unwrap(),
            ..ErofsOptions::default()
        }
        .with(|build| {
            build.codec = codec.parse().unwrap();
            build.threads = 0;
        });
        (*codec, image_of(spec, &options))
    });
    let images: Vec<_> = ours.chain(theirs(test, spec, &KINDS)).collect();
    for (options, image) in &images {
        assert_eq!(findings(&open(image).unwrap(), 0), Vec::<String>::new(), "{options}");
    }
    images
}

/// Images that mkfs.erofs makes with these options, if there is one.
pub(super) fn theirs(test: &str, spec: &Spec, kinds: &[&'static str]) -> Vec<(&'static str, Vec<u8>)> {
    if !erofs_utils(test) {
        return Vec::new();
    }
    let source = Source::new(spec);
    let make = |options: &&'static str| {
        let image = source.make(&format!("mkfs.erofs --quiet -b512 -T1 {options} $IMAGE $TREE"));
        (*options, std::fs::read(image).unwrap())
    };
    kinds.iter().map(make).collect()
}

/// Codecs and features of our own images.
const OURS: [(&str, Features); 4] = [
    ("none", Features::EXTENDED_INODES),
    ("lz4", Features::ZTAILPACKING),
    ("zstd", Features::BITS_48.union(Features::UNALIGNED)),
    ("deflate", Features::FULL_INDEX.union(Features::FRAGMENTS)),
];

/// One for each layout of inodes, and for each form of map.
const KINDS: [&str; 9] = [
    "-x1",
    "--chunksize=1024 -Eforce-chunk-indexes,48bit",
    "-zlz4 -C2048",
    "-zdeflate -Elegacy-compress,ztailpacking",
    "-zlzma -Efragments,dedupe",
    "-zzstd -Eall-fragments -C4096",
    "-zlz4 -E48bit -C4096",
    "-zlz4 -C4096 -m4096",
    "-zlz4 --zD --xattr-prefix=user.na",
];

/// Exercises an image in every way, whatever the result.
pub(super) fn exercise(image: &[u8]) {
    let Ok(reader) = open(image) else { return };
    testing::exercise(&reader, 30, 9);
}

#[test]
fn every_byte_may_be_wrong() {
    for (_, image) in small("every_byte_may_be_wrong", &tree()) {
        let begun = Instant::now();
        // Every byte in every round; as many rounds as time allows, but at least one.
        for (round, flip) in [0xff, 0x01, 0x80, 0x10, 0x02, 0x40, 0x04, 0x20, 0x08, 0x7f].into_iter().enumerate() {
            if round >= 1 && begun.elapsed() > Duration::from_secs(2) {
                break;
            }
            for at in 1024..image.len() {
                let mut damaged = without_checksum(&image);
                damaged[at] ^= flip;
                exercise(&damaged);
            }
        }
    }
}

#[test]
fn every_word_may_be_an_extreme() {
    for (_, image) in small("every_word_may_be_an_extreme", &tree()) {
        let image = without_checksum(&image);
        for at in (1024..image.len() - 8).step_by(4) {
            for (len, value) in [(2, u64::MAX), (4, 0), (8, u64::MAX - 1)] {
                let mut damaged = image.clone();
                damaged[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
                exercise(&damaged);
            }
        }
    }
}

/// Clears the checksum: with it, every change of the superblock would be noticed immediately.
pub(super) fn without_checksum(image: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    image[1024 + 8] &= !1;
    image
}

#[test]
fn a_truncated_image_says_by_how_much() {
    for (options, image) in small("a_truncated_image_says_by_how_much", &tree()) {
        for len in (0..image.len()).step_by(13) {
            let missing = format!("{} of {} are missing", Size((image.len() - len) as u64), Size(image.len() as u64));
            match open(&image[..len]) {
                Err(error) if len < 1152 => assert!(error.to_string().contains("too short"), "{len}: {error}"),
                Err(error) => assert!(error.to_string().contains("missing"), "{options} {len}: {error}"),
                Ok(reader) => {
                    let found = findings(&reader, 0);
                    assert!(found.iter().any(|finding| finding.contains(&missing)), "{options} {len}: {found:?}");
                }
            }
        }
    }
}

#[test]
fn other_files_are_named() {
    let cut = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
    let mut squashfs = vec![0; 8192];
    squashfs[..4].copy_from_slice(b"hsqs");
    for (error, expected) in [
        (cut(&squashfs), "this is a SquashFS image"),
        (cut(&[b'x'; 2000]), "not an EROFS image"),
        (cut(b""), "only 0 bytes"),
    ] {
        assert!(error.contains(expected), "{error}");
    }
}
