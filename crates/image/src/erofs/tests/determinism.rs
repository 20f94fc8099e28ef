//! The same input gives the same bytes, whatever the number of threads, the memory or the kind of source.

use crate::name::display;
use std::fs::File;

use super::matrix::{self, PACKED, PLAIN, say};
use super::*;
use crate::source::{Dir, Source, Store, archive, dir};
use crate::testing::{self, Node, Piece, What, sh};

/// Files of every kind, many of them small, with parts that repeat.
fn spec() -> Spec {
    let files = (0..150u64).map(|n| {
        let pieces = match n % 6 {
            0 => vec![Piece::Text { seed: n, len: n * 37 }],
            1 => vec![Piece::Noise { seed: n / 3, len: n * 61 }],
            2 => vec![Piece::Text { seed: n % 7, len: 70_000 }, Piece::Hole(100_000), Piece::Noise { seed: n, len: 9 }],
            3 => vec![Piece::Text { seed: n % 20, len: 500 }],
            4 => [vec![Piece::Noise { seed: n, len: n % 97 }], matrix::mixed(n % 4, 60_000)].concat(),
            _ => matrix::mixed(n, 4096 + n),
        };
        (format!("{n:05}").into_bytes(), Node::file(pieces))
    });
    let big = |seed| Node::file([matrix::mixed(seed, 2 << 20), vec![Piece::Noise { seed, len: 1 << 20 }]].concat());
    let mut spec = Spec::of(files);
    let What::Dir(entries) = &mut spec.root.what else { panic!("the root is a directory") };
    entries.insert(b"big".to_vec(), big(1));
    spec
}

fn cases() -> Vec<ErofsOptions> {
    let codecs = ["lz4", "zstd:1", "deflate:1", "lz4hc:1", "lzma:0"];
    let packed = PACKED.iter().enumerate().map(|(n, features)| (codecs[n % codecs.len()], *features));
    packed
        .chain(PLAIN.iter().map(|features| ("none", *features)))
        .map(|(codec, features)| ErofsOptions { features, cluster_size: 16 << 10, ..options(codec, 4096) })
        .collect()
}

fn image(options: &ErofsOptions, fill: impl FnOnce(&mut dyn Store) -> Result<Plan>) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    build(&image, options, &Progress::default(), fill).unwrap();
    std::fs::read(&image).unwrap()
}

/// Returns the result of `make` without threads, after checking that any number of threads and
/// little memory give the same.
fn same_bytes(options: &ErofsOptions, what: &str, make: &dyn Fn(&ErofsOptions) -> Vec<u8>) {
    let one = make(&options.clone().with(|build| build.threads = 0));
    for (threads, memory) in [(1, 1), (2, 64 << 20), (7, 1), (7, 1 << 30)] {
        let other = make(&options.clone().with(|build| {
            build.threads = threads;
            build.memory = memory;
        }));
        assert!(one == other, "{what}, {}: {threads} threads with {memory} bytes differ", say(options));
    }
}

#[test]
fn directories() {
    let source = testing::Source::new(&spec());
    for options in cases() {
        same_bytes(&options, "directory", &|options| {
            image(options, |store| {
                let mut tree = Tree::default();
                Dir::new(source.tree(), dir::Options::default()).scan(&mut tree, store)?;
                Ok(Plan { tree, order: Vec::new() })
            })
        });
    }
}

/// A file made mostly of holes is stored uncompressed next to data that workers compress.
#[test]
fn a_sparse_file_among_others() {
    let sparse = |seed| {
        Node::file(vec![Piece::Noise { seed, len: 5000 }, Piece::Hole(100 << 20), Piece::Text { seed, len: 70_000 }])
    };
    let more = |n| Node::file(matrix::mixed(n, 3 << 20));
    let spec = Spec::of([
        (b"a".to_vec(), more(1)),
        (b"b".to_vec(), sparse(2)),
        (b"c".to_vec(), more(3)),
        (b"d".to_vec(), sparse(4)),
        (b"e".to_vec(), more(5)),
    ]);
    for features in [Features::empty(), Features::FRAGMENTS, Features::DEDUPE] {
        let options = ErofsOptions { features, ..options("lz4", 4096) };
        same_bytes(&options, "sparse", &|options| {
            image(options, |_| Ok(Plan { tree: spec.tree()?, order: Vec::new() }))
        });
    }
}

/// One source reports holes where another one has zeros.
#[test]
fn sparse_files_from_directories_and_archives() {
    let file = |pieces: Vec<Piece>| Node::file(pieces);
    let noise = |seed, len| Piece::Noise { seed, len };
    let spec = Spec::of([
        (b"short-end".to_vec(), file(vec![noise(1, 300_000), Piece::Hole((4 << 20) + 100)])),
        (b"long-end".to_vec(), file(vec![noise(2, 5 << 20), Piece::Hole((4 << 20) + 5000)])),
        (b"zeros-end".to_vec(), file(vec![noise(3, 4 << 20), Piece::Zeros(100)])),
        (b"all".to_vec(), file(vec![Piece::Hole((6 << 20) + 1)])),
        (b"middle".to_vec(), file(vec![noise(4, 9), Piece::Hole(9 << 20), noise(5, 70_000), Piece::Hole(3 << 20)])),
    ]);
    let source = testing::Source::new(&spec);
    let archive = source.tree().with_extension("tar");
    let from_tar = |stream: bool| {
        move |archive: &Path| -> Result<Box<dyn Source>> {
            match stream {
                true => {
                    archive::from_stream(Box::new(File::open(archive).unwrap()), archive, archive::Options::default())
                }
                false => archive::open(Some(archive), archive::Options::default()),
            }
        }
    };
    // Fragments have no holes: if holes are reported, such files are stored elsewhere.
    let cases = cases().into_iter().filter(|options| !options.features.contains(Features::ALL_FRAGMENTS));
    for options in cases.step_by(2) {
        let build = |mut source: Box<dyn Source>| {
            image(&options, |store| {
                let mut tree = Tree::default();
                source.scan(&mut tree, store)?;
                Ok(Plan { tree, order: Vec::new() })
            })
        };
        let want = build(Box::new(Dir::new(source.tree(), dir::Options::default())));
        for sparse in ["", "-S"] {
            let tree = source.tree();
            sh(&format!("tar {sparse} -C {} --format=pax --sort=name -cf {} .", display(&tree), display(&archive)));
            for stream in [false, true] {
                let got = build(from_tar(stream)(&archive).unwrap());
                assert!(got == want, "{}: tar {sparse}, as a stream: {stream}", say(&options));
            }
        }
    }
}

#[test]
fn streams() {
    let source = testing::Source::new(&spec());
    let archive = source.tree().with_extension("tar");
    sh(&format!("tar -C {} --sort=name -cf {} .", display(&source.tree()), display(&archive)));
    for options in cases().into_iter().step_by(2) {
        same_bytes(&options, "tar", &|options| {
            image(options, |store| {
                let mut tree = Tree::default();
                let input = Box::new(File::open(&archive).unwrap());
                archive::from_stream(input, &archive, archive::Options::default())?.scan(&mut tree, store)?;
                Ok(Plan { tree, order: Vec::new() })
            })
        });
    }
}
