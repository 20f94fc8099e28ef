//! Options that EROFS or the target kernel does not support are errors that name the limit and
//! leave no image behind. Data that both formats support survives conversion in both directions.

use super::*;
use crate::diff::diff;
use crate::source::{ExcludeRules, FromImage, Source, Store};
use crate::squashfs;
use crate::testing::{Attrs, Node, Piece, What, everything, findings};

fn one(name: &str, what: What) -> Spec {
    Spec::of([(name.as_bytes().to_vec(), Node { attrs: Attrs::plain(0o644), what })])
}

/// Returns the error of a build, which leaves nothing behind.
fn refused(spec: &Spec, options: &ErofsOptions) -> String {
    let dir = tempfile::tempdir().unwrap();
    let error = write(spec.tree().unwrap(), &dir.path().join("image"), options).unwrap_err().to_string();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind: {error}");
    error
}

#[test]
fn limits_of_options_are_named() {
    type Change = fn(&mut ErofsOptions);
    let cases: [(Change, &str); 22] = [
        (|o| o.block_size = 0, "a power of two from 512 to 4K"),
        (|o| o.block_size = 256, "a power of two from 512 to 4K"),
        (|o| o.block_size = 1000, "a power of two from 512 to 4K"),
        (|o| o.block_size = 8192, "a power of two from 512 to 4K"),
        (|o| o.cluster_size = 0, "a multiple of the block"),
        (|o| o.cluster_size = 4097, "a multiple of the block"),
        (|o| o.cluster_size = (1 << 20) + 4096, "up to 1 MiB"),
        (|o| o.label = "sixteen bytes ab".into(), "the limit is 15"),
        (|o| o.label = "a\0b".into(), "NUL"),
        (|o| o.features = Features::UNALIGNED, "it needs the feature 48bit"),
        (|o| o.features = Features::METABOX, "it needs the feature 48bit"),
        (|o| o.features = Features::COMPACT_INODES | Features::EXTENDED_INODES, "the opposite"),
        (|o| o.fragment_cluster = Some(4097), "a multiple of the block"),
        (|o| o.chunk_size = 12 << 10, "a power of two from the block (4 KiB) to 16 MiB"),
        (|o| o.chunk_size = 32 << 20, "a power of two from the block (4 KiB) to 16 MiB"),
        (|o| assert_eq!(o.build.recipes.codec("xz".parse().unwrap()).unwrap(), 1), "xz"),
        (
            |o| {
                o.build.codec = "none".parse().unwrap();
                o.build.recipes.cluster(8192).unwrap();
            },
            "choose a codec, and `store` the other files",
        ),
        (
            |o| {
                o.target_kernel = "6.18".parse().unwrap();
                for n in 1..=15 {
                    o.build.recipes.codec(format!("zstd:{n}").parse().unwrap()).unwrap();
                    o.build.recipes.cluster(4096 + 4096 * n).unwrap();
                }
                o.fragment_cluster = Some(1 << 20);
            },
            "codecs with a cluster size each",
        ),
        (|o| o.build.codec = "xz".parse().unwrap(), "xz"),
        (|o| (o.block_size, o.cluster_size) = (512, 257 * 512), "up to 256 blocks, which are 128 KiB"),
        (
            |o| {
                o.build.codec = "lzma:0".parse().unwrap();
                (o.block_size, o.cluster_size, o.target_kernel) = (512, 1 << 20, "6.8".parse().unwrap());
            },
            "2048 blocks; the index of a file counts up to 2047 blocks",
        ),
        (|o| o.target_kernel = "5.3".parse().unwrap(), "5.4 is the first"),
    ];
    for (change, want) in cases {
        let mut options = options("lz4", 4096);
        change(&mut options);
        let error = refused(&one("f", What::Fifo), &options);
        assert!(error.contains(want), "{error} should say {want}");
    }
}

#[test]
fn features_of_later_kernels_are_refused() {
    for (codec, features, kernel, since) in [
        ("lz4", Features::FRAGMENTS, "6.0", "fragments (since Linux 6.1)"),
        ("lz4", Features::ALL_FRAGMENTS, "6.0", "fragments (since Linux 6.1)"),
        ("lz4", Features::DEDUPE, "6.0", "dedupe (since Linux 6.1)"),
        ("lz4", Features::ZTAILPACKING, "5.16", "ztailpacking (since Linux 5.17)"),
        ("lz4", Features::BITS_48, "6.14", "48bit (since Linux 6.15)"),
        ("none", Features::CHUNKS, "5.14", "(since Linux 5.15)"),
        ("lzma", Features::empty(), "5.15", "lzma (since Linux 5.16)"),
        ("deflate", Features::empty(), "6.5", "deflate (since Linux 6.6)"),
        ("zstd", Features::empty(), "6.9", "zstd (since Linux 6.10)"),
        ("lz4", Features::COMPRESSED_DIRS, "6.0", "compressed-dirs (since Linux 6.1)"),
        ("lz4", Features::METABOX | Features::BITS_48, "6.16", "metabox (since Linux 6.17)"),
    ] {
        let mut options = ErofsOptions { features, target_kernel: kernel.parse().unwrap(), ..options(codec, 4096) };
        let error = refused(&one("f", What::Fifo), &options);
        assert!(error.contains(since), "{codec} {features:?}: {error}");
        options.target_kernel = since.split(['(', ' ', ')']).find_map(|word| word.parse().ok()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        write(one("f", What::Fifo).tree().unwrap(), &dir.path().join("image"), &options).unwrap();
    }
}

#[test]
fn an_existing_target_stays_without_force() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    std::fs::write(&image, b"precious").unwrap();
    let spec = one("f", What::File(vec![Piece::Text { seed: 1, len: 9999 }]));
    let error = write(spec.tree().unwrap(), &image, &options("lz4", 4096)).unwrap_err();
    assert!(matches!(error, crate::Error::Exists { .. }), "{error}");
    assert_eq!(std::fs::read(&image).unwrap(), b"precious");
    write(spec.tree().unwrap(), &image, &options("lz4", 4096).with(|build| build.force = true)).unwrap();
    assert!(open(&image).is_ok());
}

/// Returns the whole of an image, as a plan for another.
fn converted(image: Arc<dyn Image>, store: &mut dyn Store) -> Result<Plan> {
    let mut tree = Tree::default();
    FromImage::new(image, "image", ExcludeRules::default(), true).scan(&mut tree, store)?;
    Ok(Plan { tree, order: Vec::new() })
}

fn differences(first: &dyn Image, second: &dyn Image) -> Vec<String> {
    let mut found = Vec::new();
    diff(first, second, &crate::diff::DiffOptions::default(), &Progress::default(), &mut |one| {
        found.push(one.describe(("a", "b")).to_string())
    })
    .unwrap();
    found
}

#[test]
fn conversion_there_and_back_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let squash = squashfs::SquashfsOptions::default().with(|build| {
        build.codec = "zstd:1".parse().unwrap();
        build.force = true;
    });
    let open_squash = |path: &Path| -> Arc<dyn Image> {
        let file = FileAt::open(path, 0).unwrap();
        Arc::new(squashfs::SquashfsReader::open(Arc::new(file), squashfs::ReadOptions::default()).unwrap())
    };
    for spec in [everything(4096, 65535), matrix::edges(4096, 16 << 10)] {
        squashfs::build(&at("first"), &squash, &Progress::default(), |_| {
            Ok(Plan { tree: spec.tree()?, order: Vec::new() })
        })
        .unwrap();
        let first = open_squash(&at("first"));
        for options in matrix::all(4096, 16 << 10).into_iter().step_by(3) {
            let what = matrix::say(&options);
            let options = options.with(|build| build.force = true);
            build(&at("second"), &options, &Progress::default(), |store| converted(first.clone(), store)).unwrap();
            let second = open(&at("second")).unwrap();
            assert_eq!(differences(&*first, &*second), Vec::<String>::new(), "{what}");
            assert_eq!(findings(&*second, 2), Vec::<String>::new(), "{what}");
            squashfs::build(&at("third"), &squash, &Progress::default(), |store| converted(second.clone(), store))
                .unwrap();
            let third = open_squash(&at("third"));
            assert_eq!(differences(&*first, &*third), Vec::<String>::new(), "{what}");
        }
    }
}
