//! Placement of every file of images by packfs, mksquashfs and mkfs.erofs: reading the bytes at the positions, and
//! decoding them, gives the files.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::*;
use crate::erofs::{self, Features};
use crate::image::FileType;
use crate::sink::Walk;
use crate::testing::{Node, Piece, Source, Spec, erofs_utils, have, skipped};
use crate::{AnyImage, Builder, Choice, Codec, Image, OpenOptions};
use packfs_blocks::testing::Random;

/// A tree with equal files, incompressible data, holes, small files and a large file.
fn spec() -> Spec {
    let text = |seed, len| Node::file(vec![Piece::Text { seed, len }]);
    let noise = |seed, len| Node::file(vec![Piece::Noise { seed, len }]);
    let sparse = vec![Piece::Text { seed: 3, len: 8192 }, Piece::Hole(1 << 20), Piece::Noise { seed: 4, len: 5000 }];
    Spec::of([
        (b"a".to_vec(), text(1, 300_000)),
        (b"copy".to_vec(), text(1, 300_000)),
        (b"noise".to_vec(), noise(2, 100_001)),
        (b"small".to_vec(), text(5, 100)),
        (b"small-noise".to_vec(), noise(6, 3000)),
        (b"sparse".to_vec(), Node::file(sparse)),
        (b"empty".to_vec(), Node::file(Vec::new())),
    ])
}

fn placed(image: &AnyImage, nid: Nid) -> Vec<PlacedPiece> {
    let mut all = Vec::new();
    let visit = &mut |placed| {
        all.push(placed);
        ControlFlow::Continue(())
    };
    image.placement(nid, visit).unwrap();
    all
}

fn open(bytes: Vec<u8>) -> AnyImage {
    AnyImage::open(Arc::new(bytes), OpenOptions::default()).unwrap()
}

/// Returns the bytes of a piece, or `None` if they cannot be decoded.
fn read(image: &dyn Image, nid: Nid, piece: &PlacedPiece) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(piece.len).unwrap()];
    let got = image.read_at(nid, &mut bytes, piece.offset).ok()?;
    assert_eq!(got, bytes.len());
    Some(bytes)
}

/// Checks the pieces of all files of an image; returns the number of pieces with a codec, of raw ones, of holes and of
/// fragments.
fn check(bytes: &[u8], what: &str) -> [usize; 4] {
    let image = open(bytes.to_vec());
    let mut counts = [0; 4];
    let mut walk = Walk::new(image.image(), &[]).unwrap();
    while let Some(visit) = walk.step().unwrap() {
        let FileType::File { size } = visit.stat.kind else { continue };
        let (nid, mut at) = (visit.nid, 0);
        let what = format!("{what}: {}", visit.path.escape_ascii());
        for (n, piece) in placed(&image, nid).iter().enumerate() {
            assert_eq!(piece.offset, at, "{what}");
            at += piece.len;
            counts[3] += usize::from(piece.fragment.is_some());
            let plain = read(image.image(), nid, piece).unwrap();
            let Some(stored) = piece.stored else {
                counts[2] += 1;
                assert!(plain.iter().all(|byte| *byte == 0), "{what}");
                continue;
            };
            counts[usize::from(stored.codec.is_none())] += 1;
            if n % 5 < 2 && stored.area == Area::Image {
                check_stored(bytes, nid, piece, stored, &plain, &what);
            }
        }
        assert_eq!(at, size, "{what}");
    }
    counts
}

/// Checks that a piece comes from its stored bytes: with others in their place it is another.
fn check_stored(bytes: &[u8], nid: Nid, piece: &PlacedPiece, stored: StoredLocation, plain: &[u8], what: &str) {
    let range = usize::try_from(stored.position).unwrap()..usize::try_from(stored.position + stored.len).unwrap();
    if stored.codec.is_none() && piece.fragment.is_none() {
        let same = &bytes[range.clone()] == plain;
        // A cluster may be longer than what it holds, and rotated.
        assert!(same || range.len() > plain.len() || range.len() == 4096, "{what}: {piece:?}");
    }
    let mut other = bytes.to_vec();
    other[range].iter_mut().for_each(|byte| *byte ^= 0xa5);
    // A checksum protects the first block of EROFS.
    let opened = AnyImage::open(Arc::new(other), OpenOptions::default());
    let read = opened.ok().and_then(|image| read(image.image(), nid, piece));
    assert_ne!(read.as_deref(), Some(plain), "{what}: {piece:?}");
}

#[test]
fn own_images_are_read_from_where_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let source = Source::new(&spec());
    let path = dir.path().join("image");
    for codec in ["zstd", "gzip", "none"] {
        Builder::squashfs().codec(codec.parse::<Choice>().unwrap()).dir(source.tree()).build(&path).unwrap();
        let [packed, _, holes, fragments] = check(&std::fs::read(&path).unwrap(), codec);
        assert_eq!((packed > 0, holes > 0, fragments > 0), (codec != "none", true, true), "{codec}");
        std::fs::remove_file(&path).unwrap();
    }
    let all = [
        (Features::empty(), "lz4"),
        (Features::FRAGMENTS.union(Features::DEDUPE), "zstd:3"),
        (Features::ALL_FRAGMENTS, "deflate:1"),
        (Features::ZTAILPACKING, "lz4"),
        (Features::BITS_48.union(Features::UNALIGNED), "lzma:1"),
        (Features::CHUNKS, "none"),
    ];
    for (features, codec) in all {
        let mut options =
            erofs::ErofsOptions { features, target_kernel: "6.18".parse().unwrap(), ..erofs::ErofsOptions::default() };
        options.build.codec = codec.parse().unwrap();
        let what = format!("{codec} {features:?}");
        Builder::new(options).dir(source.tree()).build(&path).unwrap();
        let [packed, _, _, fragments] = check(&std::fs::read(&path).unwrap(), &what);
        assert_eq!(packed > 0, codec != "none", "{what}");
        assert_eq!(fragments > 0, what.contains("FRAGMENTS"), "{what}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn images_of_peers_are_read_from_where_they_say() {
    let test = "images_of_peers_are_read_from_where_they_say";
    let source = Source::new(&spec());
    if have("mksquashfs") {
        for options in ["", "-b 4096", "-no-fragments -comp xz", "-noD -noF", "-always-use-fragments"] {
            let image = source.make(&format!("mksquashfs $TREE $IMAGE -quiet -no-progress {options} >/dev/null"));
            check(&std::fs::read(image).unwrap(), options);
        }
    } else {
        skipped(test, "mksquashfs");
    }
    if erofs_utils(test) {
        for options in ["", "-zlz4hc -C65536 -Ededupe", "-zlz4 -Eztailpacking", "-zlz4 -Efragments", "--chunksize=4096"]
        {
            let image = source.make(&format!("mkfs.erofs --quiet {options} $IMAGE $TREE >/dev/null 2>&1"));
            check(&std::fs::read(image).unwrap(), options);
        }
    }
}

#[test]
fn damaged_images_give_errors_or_pieces_inside_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let source = Source::new(&spec());
    let path = dir.path().join("image");
    for builder in [Builder::squashfs(), Builder::erofs()] {
        builder.codec(Codec::Lz4).dir(source.tree()).build(&path).unwrap();
        let sound = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut random = Random::new(1);
        let mut pieces = 0_u64;
        for n in 0..400_usize {
            let mut bytes = sound.clone();
            let at = if n % 2 == 0 { random.below(4096) } else { bytes.len() - 1 - random.below(12_000) };
            bytes[at] ^= 1 << random.below(8);
            let Ok(image) = AnyImage::open(Arc::new(bytes), OpenOptions::default()) else { continue };
            let Ok(mut walk) = Walk::new(image.image(), &[]) else { continue };
            while let Ok(Some(visit)) = walk.step() {
                let FileType::File { size } = visit.stat.kind else { continue };
                let _ = image.placement(visit.nid, &mut |placed| {
                    assert!(placed.offset < size && placed.len > 0);
                    pieces += 1;
                    ControlFlow::Continue(())
                });
            }
        }
        assert!(pieces > 1000);
    }
}
