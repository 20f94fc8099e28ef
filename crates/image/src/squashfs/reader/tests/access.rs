//! Random access: any range of any file, from many threads.

use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;
use crate::Plan;
use crate::squashfs::{Fragments, SquashfsOptions, build};

/// Makes an image with our own writer, in memory.
pub(super) fn image_of(spec: &Spec, options: &SquashfsOptions) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let plan = Plan { tree: spec.tree().unwrap(), order: Vec::new() };
    build(&image, options, &Progress::default(), |_| Ok(plan)).unwrap();
    std::fs::read(image).unwrap()
}

/// Files with their whole contents, assembled from their pieces.
fn files() -> &'static [(SquashfsReader, Nid, Vec<u8>)] {
    static FILES: OnceLock<Vec<(SquashfsReader, Nid, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let pieces = [
            vec![],
            vec![text(1, 5)],
            vec![text(2, 4096)],
            vec![text(3, 4095)],
            vec![noise(4, 4097)],
            vec![text(5, 10_000), Piece::Zeros(20_000), noise(6, 9_000), Piece::Hole(8192), text(7, 3)],
            // More blocks than there are between two marks of a block map.
            vec![text(8, 4096 * 300), Piece::Hole(4096 * 300), noise(9, 4096 * 300 + 1)],
        ];
        let mut files = Vec::new();
        for (codec, fragments) in [("zstd:1", Fragments::Tails), ("lz4", Fragments::None), ("none", Fragments::Small)] {
            let entries = pieces.iter().enumerate();
            let spec = Spec::of(entries.map(|(n, pieces)| (n.to_string().into(), Node::file(pieces.clone()))));
            let codec = codec.parse().unwrap();
            let image = image_of(
                &spec,
                &SquashfsOptions { fragments, block_size: 4096, ..SquashfsOptions::default() }.with(|build| {
                    build.codec = codec;
                    build.threads = 0;
                }),
            );
            for (n, pieces) in pieces.iter().enumerate() {
                let reader = open(&image).unwrap();
                let nid = find(&reader, &n.to_string());
                files.push((reader, nid, contents(pieces)));
            }
        }
        files
    })
}

fn contents(pieces: &[Piece]) -> Vec<u8> {
    let fill = |piece: &Piece| {
        let mut bytes = vec![0; piece.len() as usize];
        piece.fill(&mut bytes, 0);
        bytes
    };
    pieces.iter().flat_map(fill).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_range_equals_that_of_the_whole_file(
        file in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        len in prop_oneof![0..10usize, 4000..4200usize, 0..40_000usize],
    ) {
        let (reader, nid, whole) = file.get(files());
        let offset = at.index(whole.len() + 3);
        let mut buf = vec![0xa5; len];
        let got = reader.read_at(*nid, &mut buf, offset as u64).unwrap();
        let from = offset.min(whole.len());
        let want = &whole[from..whole.len().min(from + len)];
        prop_assert_eq!(&buf[..got], want);
        prop_assert!(buf[got..].iter().all(|byte| *byte == 0xa5), "nothing is written past the end");
    }
}

#[test]
fn extents_cover_files_and_decode_on_their_own() {
    for (reader, nid, whole) in files() {
        let mut at = 0;
        for extent in reader.extents(*nid).unwrap() {
            assert_eq!(extent.offset, at);
            let mut buf = vec![0xa5; extent.len as usize];
            assert_eq!(reader.read_at(*nid, &mut buf, at).unwrap(), buf.len());
            assert_eq!(buf, whole[at as usize..][..buf.len()]);
            assert!(!extent.hole || buf.iter().all(|byte| *byte == 0));
            assert!(extent.hole || extent.len <= 4096);
            at += extent.len;
        }
        assert_eq!(at, whole.len() as u64);
    }
}

#[test]
fn stretches_are_extents_of_one_kind_together() {
    for (reader, nid, whole) in files() {
        let extents = reader.extents(*nid).unwrap();
        let mut at = 0;
        while let Some(found) = reader.stretch(*nid, at).unwrap() {
            let end = found.offset + found.len;
            assert!(found.offset <= at && at < end, "{found:?}");
            let mut inside = extents.iter().filter(|extent| extent.offset < end && at < extent.offset + extent.len);
            assert!(inside.clone().all(|extent| extent.hole == found.hole), "{found:?}");
            assert!(inside.next_back().is_some_and(|last| last.offset + last.len == end));
            let next = extents.iter().find(|extent| extent.offset == end);
            assert!(next.is_none_or(|next| next.hole != found.hole), "{found:?}");
            // Also from the middle of it.
            let later = reader.stretch(*nid, at + (end - at) / 2).unwrap().unwrap();
            assert_eq!((later.offset + later.len, later.hole), (end, found.hole));
            at = end;
        }
        assert_eq!(at, whole.len() as u64);
        assert_eq!(reader.stretch(*nid, at + 1).unwrap(), None);
    }
}

/// Of large blocks the beginning is decoded first; shorter fragment blocks end before what is asked of them.
#[test]
fn beginnings_of_large_blocks_are_read_before_the_rest() {
    let file = |seed, len| Node::file(vec![Piece::Text { seed, len }]);
    let names = [(b"a".to_vec(), file(1, 3 << 20)), (b"b".to_vec(), file(2, 70_000)), (b"c".to_vec(), file(3, 20_000))];
    let spec = Spec::of(names.clone());
    for codec in ["zstd:3", "lz4", "gzip:1", "xz:1"] {
        let options = SquashfsOptions { block_size: 1 << 20, ..SquashfsOptions::default() };
        let image = image_of(&spec, &options.with(|build| build.codec = codec.parse().unwrap()));
        for (name, node) in &names {
            let What::File(pieces) = &node.what else { continue };
            let whole = contents(pieces);
            for at in [0, 9000, 69_000, 200_000, 1_000_000, 1_048_000, 3_145_000] {
                let reader = open(&image).unwrap();
                let nid = find(&reader, std::str::from_utf8(name).unwrap());
                // Forward from there in short reads: beginning, then whole block.
                for step in 0..40 {
                    let (from, mut buf) = (at + step * 5000, vec![0; 4096]);
                    let got = reader.read_at(nid, &mut buf, from as u64).unwrap();
                    let from = from.min(whole.len());
                    assert_eq!(buf[..got], whole[from..whole.len().min(from + 4096)], "{codec} {at} {step}");
                }
            }
        }
    }
}

#[test]
fn many_threads_read_the_same_files() {
    std::thread::scope(|scope| {
        for seed in 0..8usize {
            scope.spawn(move || {
                for round in 0..200 {
                    let (reader, nid, whole) = &files()[(seed + round) % files().len()];
                    let offset = (seed * 7919 + round * 104_729) % (whole.len() + 1);
                    let mut buf = vec![0; 10_000];
                    let got = reader.read_at(*nid, &mut buf, offset as u64).unwrap();
                    assert_eq!(buf[..got], whole[offset..whole.len().min(offset + 10_000)]);
                }
            });
        }
    });
}

#[test]
fn inodes_of_the_wrong_type_are_refused_as_such() {
    let spec = Spec::of([(b"f".to_vec(), Node::file(vec![])), (b"l".to_vec(), plain(What::Symlink(b"f".to_vec())))]);
    let reader = open(&image_of(&spec, &SquashfsOptions::default())).unwrap();
    let (file, link) = (find(&reader, "f"), find(&reader, "l"));
    for (result, why) in [
        (reader.read_dir(file).map(|_| ()), "is not a directory"),
        (reader.lookup(link, b"f").map(|_| ()), "is not a directory"),
        (reader.extents(link).map(|_| ()), "is not a regular file"),
        (reader.read_at(reader.root(), &mut [0], 0).map(|_| ()), "is not a regular file"),
    ] {
        assert!(result.unwrap_err().to_string().contains(why));
    }
}
