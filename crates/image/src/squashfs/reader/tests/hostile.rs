//! Damaged and hostile images: nothing may panic, hang or use unbounded memory.

use std::time::{Duration, Instant};

use packfs_blocks::units::Size;

use super::access::image_of;
use super::*;
use crate::squashfs::{Fragments, SquashfsOptions};
use crate::testing;

/// Makes a small image with every kind of table.
fn small(codec: &str, plain_metadata: bool) -> Vec<u8> {
    let mut root = BTreeMap::new();
    let mut add = |name: &str, node: Node| drop(root.insert(name.as_bytes().to_vec(), node));
    let mut file = Node::file(vec![text(1, 4096), Piece::Hole(4096), text(2, 5)]);
    file.attrs.xattrs = BTreeMap::from([("user.name".to_owned(), b"value".to_vec())]);
    add("file", file);
    add("dir", Node::dir([(b"small".to_vec(), Node::file(vec![text(3, 50)]))]));
    add("link", plain(What::Symlink(b"dir/small".to_vec())));
    add("fifo", plain(What::Fifo));
    let spec = Spec { root: plain(What::Dir(root)), links: vec![(b"dir/small".to_vec(), b"again".to_vec())] };
    let options =
        SquashfsOptions { block_size: 4096, fragments: Fragments::Tails, plain_metadata, ..SquashfsOptions::default() }
            .with(|build| {
                build.codec = codec.parse().unwrap();
                build.threads = 0;
            });
    let mut image = image_of(&spec, &options);
    let used = open(&image).unwrap().superblock().bytes_used;
    image.truncate(used as usize);
    image
}

/// Exercises an image in every way, whatever the result.
pub(super) fn exercise(image: &[u8]) {
    let Ok(reader) = open(image) else { return };
    testing::exercise(&reader, 200, 100);
}

const KINDS: [(&str, bool); 4] = [("zstd:1", true), ("gzip:1", false), ("lz4", true), ("xz:1", false)];

#[test]
fn every_byte_may_be_wrong() {
    for (codec, plain_metadata) in KINDS {
        let (image, begun) = (small(codec, plain_metadata), Instant::now());
        exercise(&image);
        // Every byte in every round; as many rounds as time allows, but at least three.
        for (round, flip) in [0xff, 0x01, 0x80, 0x10, 0x02, 0x40, 0x04, 0x20, 0x08, 0x7f].into_iter().enumerate() {
            if round >= 3 && begun.elapsed() > Duration::from_secs(5) {
                break;
            }
            for at in 0..image.len() {
                let mut damaged = image.clone();
                damaged[at] ^= flip;
                exercise(&damaged);
            }
        }
    }
}

#[test]
fn every_word_may_be_an_extreme() {
    for (codec, plain_metadata) in KINDS {
        let image = small(codec, plain_metadata);
        for at in 0..image.len() - 8 {
            for (len, value) in [(2, 0), (2, u64::MAX), (4, 0), (4, 0x7fff_ffff), (8, 0), (8, u64::MAX - 1)] {
                let mut damaged = image.clone();
                damaged[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
                exercise(&damaged);
            }
        }
    }
}

#[test]
fn a_truncated_image_says_by_how_much() {
    for (codec, plain_metadata) in KINDS {
        let image = small(codec, plain_metadata);
        for len in 0..image.len() {
            let error = open(&image[..len]).unwrap_err().to_string();
            let missing = format!("{} of {} are missing", Size((image.len() - len) as u64), Size(image.len() as u64));
            let expected = if len < 96 { "too short" } else { &missing };
            assert!(error.contains(expected), "{len}: {error}");
        }
    }
}

#[test]
fn other_files_are_named() {
    let cut = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
    let image = small("gzip", false);
    let with = |at: usize, bytes: &[u8]| {
        let mut image = image.clone();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        cut(&image)
    };
    let mut erofs = vec![0; 8192];
    erofs[1024..1028].copy_from_slice(&0xe0f5_e1e2_u32.to_le_bytes());
    for (error, expected) in [
        (cut(&erofs), "this is an EROFS image"),
        (cut(&[b'x'; 200]), "not a SquashFS image"),
        (cut(b""), "only 0 bytes"),
        (with(0, b"sqsh"), "big-endian"),
        (with(0, b"HSQS"), "a streamed image without a superblock"),
        (with(28, &3u16.to_le_bytes()), "SquashFS version 3.0"),
        (with(30, &1u16.to_le_bytes()), "SquashFS version 4.1"),
        (with(20, &7u16.to_le_bytes()), "compressor number 7"),
        (with(64, &u64::MAX.to_le_bytes()), "is not after the inode table"),
    ] {
        assert!(error.contains(expected), "{error}");
    }
}
