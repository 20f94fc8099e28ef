//! Data that a later member of a stream replaces does not stay in the image.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;

use super::matrix::{self, say};
use super::*;
use crate::name::display;
use crate::placement::PlacedPiece;
use crate::source::archive;
use crate::testing::probe::{holds, noise, probe};
use crate::testing::{self, Mount, Node, can_mount, differences, findings, sh, snapshot, snapshot_image};

#[test]
fn replaced_members_leave_nothing() {
    let can_mount = can_mount("replaced_members_leave_nothing");
    let name = |name: &str| name.as_bytes().to_vec();
    let old = testing::Source::new(&Spec::of([
        (name("a-live"), noise(1, 3000)),
        (name("b-small"), noise(2, 3000)),
        (name("c-live"), Node::file(matrix::mixed(3, 70_000))),
        (name("d-large"), noise(4, (2 << 20) + 5000)),
        (name("e-live"), noise(5, 9000)),
    ]));
    let new = testing::Source::new(&Spec::of([(name("b-small"), noise(6, 4000)), (name("d-large"), noise(7, 10))]));
    let archive = old.tree().with_extension("tar");
    let (first, second, to) = (old.tree(), new.tree(), display(&archive).to_string());
    sh(&format!(
        "tar --sort=name -C {} -cf {to} . && tar --sort=name -C {} -rf {to} .",
        display(&first),
        display(&second)
    ));
    sh(&format!("cp -a {}/. {}", display(&second), display(&first)));
    let want = testing::whole_seconds(snapshot(&first).unwrap());
    let cases = [
        ("none", Features::empty()),
        ("none", Features::CHUNKS),
        ("lz4", Features::empty()),
        ("lz4", Features::FRAGMENTS),
        ("lz4", Features::FRAGMENTS | Features::DEDUPE),
        ("lz4", Features::ALL_FRAGMENTS),
        ("lz4", Features::ZTAILPACKING),
        ("lz4", Features::BITS_48 | Features::FRAGMENTS),
        ("deflate:1", Features::BITS_48 | Features::UNALIGNED | Features::FRAGMENTS),
    ];
    for (codec, features) in cases {
        let options = ErofsOptions { features, cluster_size: 16 << 10, ..options(codec, 4096) };
        let what = say(&options);
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        build(&image, &options, &Progress::default(), |store| {
            let mut tree = Tree::default();
            let input = Box::new(File::open(&archive).unwrap());
            archive::from_stream(input, &archive, archive::Options::default())?.scan(&mut tree, store)?;
            Ok(Plan { tree, order: Vec::new() })
        })
        .unwrap();
        let bytes = std::fs::read(&image).unwrap();
        for (seed, at) in [(2, 0), (2, 1500), (4, 0), (4, 1 << 20), (4, (2 << 20) + 4900)] {
            assert!(!holds(&bytes, probe(seed, at)), "{what}: byte {at} of what was replaced ({seed}) is there");
        }
        if !codec.starts_with("deflate") {
            assert!(holds(&bytes, probe(1, 1500)) && holds(&bytes, probe(6, 1500)), "{what}: what is left is there");
        }
        let open = open(&image).unwrap();
        assert_eq!(differences(&want, &snapshot_image(&*open).unwrap()), Vec::<String>::new(), "{what}");
        assert_eq!(findings(&*open, 2), Vec::<String>::new(), "{what}");
        if can_mount {
            let mount = Mount::new(&image, "erofs").unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(differences(&want, &snapshot(&mount.path()).unwrap()), Vec::<String>::new(), "{what}");
        }
    }
}

/// Returns text that compresses, and of which each stretch is found only once.
fn words(seed: u64, len: usize) -> Vec<u8> {
    let numbers = (0u64..).map(|at| format!("{:016x} of {seed}, ", (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    numbers.flat_map(String::into_bytes).take(len).collect()
}

/// Fails if a cluster of a file in the root decodes to more bytes than files use.
fn assert_decode_to_what_is_used(image: &Path, options: &ErofsOptions, what: &str) {
    let file = FileAt::open(image, 0).unwrap();
    let reader = ErofsReader::open(Arc::new(file), ReadOptions::default()).unwrap();
    let (mut used, mut is_shared) = (BTreeMap::new(), false);
    for entry in reader.read_dir(reader.root()).unwrap() {
        let mut visit = |placed: PlacedPiece| {
            let stored = placed.stored.filter(|stored| stored.codec.is_some() && placed.fragment.is_none());
            if let Some(stored) = stored {
                let (most, _) = used.entry(stored.position).or_insert((0, stored.len));
                *most = placed.len.max(*most);
                is_shared |= stored.partial;
            }
            ControlFlow::Continue(())
        };
        reader.placement(entry.nid, &mut visit).unwrap();
    }
    assert!(is_shared, "{what}: no file uses the beginning of a cluster");
    let bytes = std::fs::read(image).unwrap();
    let mut decoder = options.build.codec.codec().cluster_decoder().unwrap();
    for (position, (most, len)) in used {
        let [start, most, len] = [position, most, len].map(|n| usize::try_from(n).unwrap());
        let stored = &bytes[start..][..len];
        let stream = &stored[stored.iter().position(|byte| *byte != 0).unwrap()..];
        let mut decoded = vec![0; most + 1];
        decoder.decode_prefix(stream, &mut decoded[1..]).unwrap();
        assert!(decoder.decode_prefix(stream, &mut decoded).is_err(), "{what}: more than {most} bytes at {position}");
    }
}

#[test]
fn the_rest_of_a_cluster_whose_beginning_is_shared_goes_with_its_file() {
    let can_mount = can_mount("the_rest_of_a_cluster_whose_beginning_is_shared_goes_with_its_file");
    let gone = words(1, 1 << 20);
    // Ends of the shared parts lie within clusters; what follows is other text.
    let live = |at: usize| [&gone[..at], &words(at as u64, 300_000)[..]].concat();
    let source = tempfile::tempdir().unwrap();
    let (root, archive) = (source.path().join("root"), source.path().join("a.tar"));
    std::fs::create_dir(&root).unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(root.join(name), bytes).unwrap();
    put("a-gone", &gone);
    for (name, at) in [("b-live", 500_000), ("c-live", 501_000), ("d-live", 700_001)] {
        put(name, &live(at));
    }
    let (dir, to) = (display(&root).to_string(), display(&archive));
    sh(&format!("tar --sort=name -C {dir} -cf {to} ."));
    put("a-gone", b"new\n");
    sh(&format!("tar -C {dir} -rf {to} ."));
    let want = testing::whole_seconds(snapshot(&root).unwrap());
    let shared = Features::FRAGMENTS | Features::DEDUPE;
    let cases = [
        ("lz4", 16 << 10, shared),
        ("lz4hc:12", 64 << 10, shared),
        ("lzma:6", 64 << 10, shared),
        ("zstd:9", 64 << 10, shared),
        ("deflate:9", 64 << 10, shared),
        ("zstd:9", 64 << 10, shared | Features::BITS_48),
        ("deflate:9", 64 << 10, shared | Features::BITS_48 | Features::UNALIGNED),
    ];
    for (codec, cluster_size, features) in cases {
        let options = ErofsOptions { features, cluster_size, ..options(codec, 4096) };
        let what = say(&options);
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        build(&image, &options, &Progress::default(), |store| {
            let mut tree = Tree::default();
            let input = Box::new(File::open(&archive).unwrap());
            archive::from_stream(input, &archive, archive::Options::default())?.scan(&mut tree, store)?;
            Ok(Plan { tree, order: Vec::new() })
        })
        .unwrap();
        let open = open(&image).unwrap();
        assert_eq!(differences(&want, &snapshot_image(&*open).unwrap()), Vec::<String>::new(), "{what}");
        assert_eq!(findings(&*open, 2), Vec::<String>::new(), "{what}");
        assert_decode_to_what_is_used(&image, &options, &what);
        if can_mount {
            let mount = Mount::new(&image, "erofs").unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(differences(&want, &snapshot(&mount.path()).unwrap()), Vec::<String>::new(), "{what}");
        }
    }
}
