//! Images read back by our own reader equal their source.

use proptest::prelude::*;

use super::*;
use crate::build::FormatDetails;
use crate::testing::{Node, Piece, Shape, deep, differences, snapshot_tree, specs, wide};

fn check(spec: &Spec, options: &SquashfsOptions) -> BuildSummary {
    let want = held(snapshot_tree(&spec.tree().unwrap()).unwrap());
    let (got, summary) = there_and_back(spec, options);
    assert_eq!(differences(&want, &got), Vec::<String>::new());
    summary
}

fn file(name: &str, pieces: Vec<Piece>) -> (Vec<u8>, Node) {
    (name.as_bytes().to_vec(), Node::file(pieces))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_trees(
        spec in specs(Shape::default()),
        codec in proptest::sample::select(&CODECS[..]),
        block_log in 12u32..=17,
        fragments in proptest::sample::select(vec![Fragments::None, Fragments::Small, Fragments::Tails]),
        (dedup, sparse, export) in any::<(bool, bool, bool)>(),
        (plain_metadata, plain_data, plain_fragments) in any::<(bool, bool, bool)>(),
    ) {
        let plain = SquashfsOptions { plain_metadata, plain_data, plain_fragments, ..options(codec, 1 << block_log) };
        let options = SquashfsOptions { fragments, export, ..plain }.with(|build| { build.dedup = dedup; build.sparse = sparse; });
        check(&spec, &options);
    }
}

/// Counts the blocks of an image that are uncompressed, and all its blocks, for text that shrinks.
fn raw_of_all(options: &SquashfsOptions) -> (u64, u64) {
    let text = |seed, len| vec![Piece::Text { seed, len }];
    let spec = Spec::of([
        file("blocks", text(1, 3 * 4096)),
        file("tail", text(2, 2 * 4096 + 3000)),
        file("small", text(3, 900)),
    ]);
    let (_, summary) = there_and_back(&spec, options);
    let FormatDetails::Squashfs(details) = summary.details else { panic!("no SquashFS image") };
    (details.data.raw_blocks, details.data.blocks)
}

#[test]
fn only_the_named_blocks_are_uncompressed() {
    // Three and two blocks of files, and one fragment block, or blocks for both tails.
    let table = [
        (Fragments::Tails, false, false, (0, 6)),
        (Fragments::Tails, true, false, (5, 6)),
        (Fragments::Tails, false, true, (1, 6)),
        (Fragments::Tails, true, true, (6, 6)),
        (Fragments::Small, true, false, (6, 7)),
        (Fragments::Small, false, true, (1, 7)),
        (Fragments::None, true, false, (7, 7)),
        (Fragments::None, false, true, (0, 7)),
    ];
    for (fragments, plain_data, plain_fragments, want) in table {
        let all = options("gzip:6", 4096).with(|build| build.dedup = false);
        let options = SquashfsOptions { fragments, plain_data, plain_fragments, ..all };
        assert_eq!(raw_of_all(&options), want, "{options:?}");
    }
}

#[test]
fn directories_of_every_awkward_size() {
    for entries in [0, 1, 255, 256, 257, 1000, 70_000] {
        check(&wide(entries), &options("zstd:1", 4096));
    }
    check(&deep(300, 200), &options("lz4", 4096));
}

#[test]
fn files_around_every_edge() {
    let (block, block_size) = (4096, 4096);
    for fragments in [Fragments::None, Fragments::Small, Fragments::Tails] {
        let lens = [0, 1, 2, block - 1, block, block + 1, 2 * block - 1, 2 * block, 2 * block + 1, 300 * block + 17];
        let files = lens.iter().enumerate().flat_map(|(n, &len)| {
            let seed = n as u64;
            [
                file(&format!("text{n}"), vec![Piece::Text { seed, len }]),
                file(&format!("noise{n}"), vec![Piece::Noise { seed, len }]),
                file(&format!("hole{n}"), vec![Piece::Hole(len)]),
                file(&format!("mixed{n}"), vec![Piece::Hole(len), Piece::Noise { seed, len: 10 }, Piece::Zeros(len)]),
            ]
        });
        check(&Spec::of(files), &SquashfsOptions { fragments, ..options("gzip:1", block_size) });
    }
}

#[test]
fn sparse_files_beyond_4_gib_cost_nothing() {
    let far = vec![
        Piece::Noise { seed: 1, len: 5000 },
        Piece::Hole(5 << 30),
        Piece::Noise { seed: 2, len: 100_000 },
        Piece::Hole((1 << 20) + 1),
    ];
    let spec = Spec::of([file("far", far), file("empty", vec![Piece::Hole(9 << 30)])]);
    let tree = spec.tree().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let summary = write(tree, &image, &options("lz4", 1 << 17)).unwrap();
    assert!(summary.padded_bytes() < 1 << 20, "{summary:?}");
    let image = open(&image).unwrap();
    let at = |name: &str| crate::sink::lookup(&*image, name.as_bytes()).unwrap().unwrap();
    let mut bytes = vec![1; 100_000];
    assert_eq!(image.read_at(at("far"), &mut bytes, (5 << 30) + 5000).unwrap(), bytes.len());
    let mut want = vec![0; 100_000];
    Piece::Noise { seed: 2, len: 100_000 }.fill(&mut want, 0);
    assert!(bytes == want);
    assert_eq!(image.read_at(at("empty"), &mut bytes, (9 << 30) - 10).unwrap(), 10);
    assert_eq!(bytes[..10], [0; 10]);
}

#[test]
fn equal_files_runs_and_tails_are_stored_once() {
    let block = 4096u64;
    let noise = |seed, blocks: u64| Piece::Noise { seed, len: blocks * block };
    let tail = Piece::Text { seed: 9, len: 100 };
    let spec = Spec::of([
        file("a", vec![noise(1, 10), tail]),
        file("b", vec![noise(1, 10), tail]),                            // all of a
        file("c", vec![noise(1, 10)]),                                  // its blocks
        file("d", vec![noise(2, 1), noise(1, 10)]),                     // its blocks after a new one: copied
        file("e", vec![noise(1, 10), noise(3, 1)]),                     // and before a new one: copied
        file("f", vec![tail]),                                          // its tail
        file("g", vec![noise(2, 1), Piece::Hole(block), noise(1, 10)]), // d's run around a hole
    ]);
    let summary = check(&spec, &options("zstd:1", 4096));
    let counts = summary.squashfs().unwrap().data;
    // Ten of a, one and ten of d, ten and one of e, and one fragment.
    assert_eq!((counts.blocks, counts.copied_blocks), (10 + 11 + 11 + 1, 20), "{counts:?}");
    assert_eq!(counts.packed_bytes, 12 * block + 100);
    assert_eq!(counts.duplicate_bytes, (10 + 10 + 10 + 10 + 11) * block + 200);
    let all = check(&spec, &options("zstd:1", 4096).with(|build| build.dedup = false));
    assert_eq!((all.squashfs().unwrap().data.copied_blocks, all.duplicate_bytes()), (0, 0));
}

#[test]
fn an_image_inside_a_file_keeps_the_start_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let spec = wide(3);
    write(spec.tree().unwrap(), &image, &options("gzip", 4096).with(|build| build.offset = 12_345)).unwrap();
    assert_eq!(std::fs::read(&image).unwrap()[..12_345], [0; 12_345]);
    let file = FileAt::open(&image, 12_345).unwrap();
    let reader = SquashfsReader::open(Arc::new(file), ReadOptions::default()).unwrap();
    let want = held(snapshot_tree(&spec.tree().unwrap()).unwrap());
    assert_eq!(differences(&want, &snapshot_image(&reader).unwrap()), Vec::<String>::new());
}

#[test]
fn replaced_data_leaves_no_trace_in_fragments_that_others_share() {
    let noise = |seed, len: u64| {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        Piece::Noise { seed, len }.fill(&mut bytes, 0);
        bytes
    };
    // Three per fragment block; of each, the second is replaced, or all.
    let files: Vec<_> = (0..30).map(|n| noise(n, 1300)).collect();
    let stays = |n: usize| n % 3 != 1 && !(9..12).contains(&n);
    for codec in ["none", "gzip:1", "zstd:3", "xz:1"] {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let summary = build(&image, &options(codec, 4096), &Progress::default(), |store| {
            let mut tree = Tree::default();
            for (n, bytes) in files.iter().enumerate() {
                let file = store.put(&mut &bytes[..], 1300, &[(0, 1300)])?;
                if stays(n) {
                    let kind = crate::tree::Kind::File { size: 1300, data: crate::tree::FileData::Stored(file) };
                    let (name, meta) = (format!("f{n}"), crate::tree::InodeAttributes::IMPLICIT_DIR);
                    tree.add(crate::tree::ROOT, name.as_bytes(), meta, kind, crate::tree::ConflictPolicy::Refuse)?;
                }
            }
            Ok(Plan { tree, order: Vec::new() })
        })
        .unwrap();
        assert_eq!(summary.squashfs().unwrap().fragments, 9, "{codec}");
        let (bytes, reader) = (std::fs::read(&image).unwrap(), open(&image).unwrap());
        assert_eq!(crate::testing::findings(&*reader, 1), Vec::<String>::new(), "{codec}");
        for (n, want) in files.iter().enumerate() {
            // Noise is stored uncompressed, or in literals of a compressed block.
            let found = bytes.windows(16).any(|window| window == &want[600..616]);
            assert!(stays(n) || !found, "{codec}: f{n} is still in the image");
            if stays(n) {
                let mut got = vec![0; 1300];
                let nid = crate::sink::lookup(&*reader, format!("f{n}").as_bytes()).unwrap().unwrap();
                assert_eq!(reader.read_at(nid, &mut got, 0).unwrap(), 1300);
                assert!(got == *want, "{codec}: f{n}");
            }
        }
    }
}

#[test]
fn replaced_members_of_a_stream_leave_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let (image, clean) = (dir.path().join("image"), dir.path().join("clean"));
    let noise = |seed, len| {
        let mut bytes = vec![0; len];
        Piece::Noise { seed, len: len as u64 }.fill(&mut bytes, 0);
        bytes
    };
    // Of the first three files only one block remains, which the last one shares.
    let files = [noise(1, 3 * 4096), noise(2, 100), noise(3, 4000), noise(4, 4090), noise(1, 4096)];
    let build_from = |image: &Path, skip: usize| {
        build(image, &options("zstd:1", 4096), &Progress::default(), |store| {
            let mut tree = Tree::default();
            for (n, bytes) in files.iter().enumerate() {
                let file = store.put(&mut &bytes[..], bytes.len() as u64, &[(0, bytes.len() as u64)])?;
                if n >= skip {
                    let kind =
                        crate::tree::Kind::File { size: bytes.len() as u64, data: crate::tree::FileData::Stored(file) };
                    let name = format!("f{n}");
                    let meta = crate::tree::InodeAttributes::IMPLICIT_DIR;
                    tree.add(crate::tree::ROOT, name.as_bytes(), meta, kind, crate::tree::ConflictPolicy::Refuse)?;
                }
            }
            Ok(Plan { tree, order: Vec::new() })
        })
        .unwrap()
    };
    let summary = build_from(&image, 3);
    assert_eq!((summary.files, summary.squashfs().unwrap().fragments), (2, 1));
    build_from(&clean, 0);
    for image in [&image, &clean] {
        assert_eq!(crate::testing::findings(&*open(image).unwrap(), 1), Vec::<String>::new());
    }
    let bytes = std::fs::read(&image).unwrap();
    assert!(!bytes.windows(64).any(|window| window == &files[2][..64]), "replaced data is still in the image");
    let mut got = vec![0; 4096];
    let image = open(&image).unwrap();
    let last = crate::sink::lookup(&*image, b"f4").unwrap().unwrap();
    assert_eq!(image.read_at(last, &mut got, 0).unwrap(), 4096);
    assert!(got == files[4]);
}
