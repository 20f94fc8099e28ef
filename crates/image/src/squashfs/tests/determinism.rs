//! The same input gives the same bytes, whatever the number of threads or the kind of source.

use crate::name::display;
use std::fs::File;

use super::*;
use crate::build::Order;
use crate::source::{Dir, Source, archive, dir};
use crate::testing::{self, Node, Piece, sh};

#[test]
fn any_number_of_threads_writes_the_same_image() {
    let files = (0..400u64).map(|n| {
        let pieces = match n % 5 {
            0 => vec![Piece::Text { seed: n, len: n * 37 }],
            1 => vec![Piece::Noise { seed: n / 3, len: n * 61 }],
            2 => vec![Piece::Text { seed: n % 7, len: 70_000 }, Piece::Hole(100_000), Piece::Noise { seed: n, len: 9 }],
            3 => vec![Piece::Text { seed: n % 20, len: 500 }],
            _ => vec![Piece::Noise { seed: n % 9, len: 300_000 }],
        };
        (format!("{n:05}").into_bytes(), Node::file(pieces))
    });
    let spec = Spec::of(files);
    for codec in ["zstd:3", "lz4", "xz:0", "none"] {
        let image = |threads| {
            // Little memory, so that the windows fill up.
            let options = options(codec, 4096).with(|build| {
                build.threads = threads;
                build.memory = 1;
            });
            std::fs::read(&built(&spec, &options).image).unwrap()
        };
        let one = image(0);
        for threads in [1, 2, 7] {
            assert!(one == image(threads), "{codec}: {threads} threads differ from the serial reference");
        }
    }
}

#[test]
fn sparse_files_from_directories_and_archives_give_the_same_image() {
    let noise = |seed, len| Piece::Noise { seed, len };
    let spec = Spec::of([
        (b"short-end".to_vec(), Node::file(vec![noise(1, 30_000), Piece::Hole((64 << 10) + 100)])),
        (b"long-end".to_vec(), Node::file(vec![noise(2, 65_536), Piece::Hole((64 << 10) + 5000)])),
        (b"zeros-end".to_vec(), Node::file(vec![noise(3, 65_536), Piece::Zeros(100)])),
        (b"all".to_vec(), Node::file(vec![Piece::Hole((6 << 20) + 1)])),
        (
            b"middle".to_vec(),
            Node::file(vec![noise(4, 9), Piece::Hole(9 << 20), noise(5, 7_000), Piece::Hole(3 << 20)]),
        ),
    ]);
    let source = testing::Source::new(&spec);
    let archive = source.tree().with_extension("tar");
    let image = |mut source: Box<dyn Source>, options: &SquashfsOptions| {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let built = build(&image, options, &Progress::default(), |store| {
            let mut tree = Tree::default();
            source.scan(&mut tree, store)?;
            Ok(Plan { tree, order: Vec::new() })
        });
        built.unwrap();
        std::fs::read(&image).unwrap()
    };
    for (codec, fragments) in [("gzip:1", Fragments::Tails), ("zstd:1", Fragments::Small), ("none", Fragments::None)] {
        // A stream is put down by path.
        let options =
            SquashfsOptions { fragments, ..options(codec, 16_384) }.with(|build| build.order = Some(Order::Path));
        let want = image(Box::new(Dir::new(source.tree(), dir::Options::default())), &options);
        for sparse in ["", "-S"] {
            let (from, to) = (source.tree(), display(&archive).to_string());
            sh(&format!("tar {sparse} -C {} --format=pax --sort=name -cf {to} .", display(&from)));
            let place = archive::open(Some(&archive), archive::Options::default()).unwrap();
            let stream = Box::new(File::open(&archive).unwrap());
            let stream = archive::from_stream(stream, &archive, archive::Options::default()).unwrap();
            assert!(image(place, &options) == want, "{codec}: tar {sparse}");
            assert!(image(stream, &options) == want, "{codec}: tar {sparse} as a stream");
        }
    }
}
