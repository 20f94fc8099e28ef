//! Tests of orders of whole trees, and of images built with them.

use std::collections::HashMap;
use std::path::Path;

use packfs_blocks::io::Memory;
use packfs_blocks::{Output, pipeline};

use super::*;
use crate::build::{AnyOptions, SharedOptions};
use crate::source::{Dir, ExcludeRules, FromImage, Source, Spool, Store, archive, dir};
use crate::testing::{self, Node, Piece, Spec, findings, sh, snapshot_image, snapshot_tree, whole_seconds};
use crate::{AnyImage, Fs, OpenOptions, Plan, erofs, squashfs};

mod hot;

const SMALL_MAX: u64 = 50_000;

/// Returns the paths of a tree's files in order, computed by `threads` workers.
fn paths(tree: &Tree, order: Order, ranks: &[FileRank], threads: usize) -> Vec<String> {
    paths_in(tree, (order, None), ranks, threads)
}

fn paths_in(tree: &Tree, (order, shards): (Order, Option<Shards>), ranks: &[FileRank], threads: usize) -> Vec<String> {
    let progress = Progress::default();
    let arranged = pipeline::scope(
        threads,
        || (),
        |pool| FileOrderer { order, small_max: SMALL_MAX, shards, pool, progress: &progress }.arrange(tree, ranks),
    );
    let (files, len) = arranged.unwrap();
    let mut names = HashMap::new();
    tree.walk(|ino, path| {
        names.insert(ino, String::from_utf8(path.to_vec()).unwrap());
        Ok(())
    })
    .unwrap();
    assert_eq!(len, files.iter().map(|ino| source(tree, *ino).2).sum::<u64>());
    files.iter().map(|ino| names[ino].clone()).collect()
}

/// Files, some of which are similar to others that are not adjacent by name.
fn spec() -> Spec {
    let noise = |seed, len| Piece::Noise { seed, len };
    let file = |pieces: &[Piece]| Node::file(pieces.to_vec());
    let dir = |files: Vec<(&str, Node)>| Node::dir(files.into_iter().map(|(name, file)| (name.into(), file)));
    Spec::of([
        (b"a".to_vec(), dir(vec![("one.py", file(&[noise(1, 9000)])), ("copyright", file(&[noise(2, 500)]))])),
        (b"b".to_vec(), dir(vec![("big.py", file(&[noise(3, 70_000)])), ("two.py", file(&[noise(4, 9000)]))])),
        (b"c".to_vec(), dir(vec![("x.c", file(&[noise(5, 4000)])), ("copyright", file(&[noise(2, 499)]))])),
        (b"d".to_vec(), dir(vec![("zero.py", file(&[noise(6, 300), noise(1, 8000)])), ("empty", file(&[]))])),
    ])
}

#[test]
fn files_lie_by_path_by_type_or_by_what_they_have_in_common() {
    let tree = spec().tree().unwrap();
    let table = [
        (Order::Path, "a/copyright a/one.py b/big.py b/two.py c/copyright c/x.c d/zero.py"),
        (Order::Type, "b/big.py c/copyright a/copyright c/x.c a/one.py b/two.py d/zero.py"),
        (Order::Similar, "b/big.py c/copyright a/copyright c/x.c a/one.py d/zero.py b/two.py"),
    ];
    for (order, expected) in table {
        for threads in [0, 1, 2, 7] {
            assert_eq!(paths(&tree, order, &[], threads).join(" "), expected, "{order}, {threads} threads");
        }
    }
}

#[test]
fn large_files_of_one_name_lie_together_if_they_are_cut() {
    let file = |len: u64| Node::file(vec![Piece::Text { seed: len, len }]);
    let dir = |n: u64| Node::dir([(b"x".to_vec(), file(60_000 + n)), (b"a.c".to_vec(), file(70_000 + n))]);
    let tree = Spec::of([(b"1".to_vec(), dir(1)), (b"2".to_vec(), dir(2)), (b"b".to_vec(), file(9))]).tree().unwrap();
    let count = |n| Some(Shards::Count(std::num::NonZeroU32::new(n).unwrap()));
    let size = |n| Some(Shards::Size(std::num::NonZeroU64::new(n).unwrap()));
    let (by_path, by_name) = ("1/a.c 1/x 2/a.c 2/x b", "1/a.c 2/a.c 1/x 2/x b");
    let weight = 2 * 130_003 + 9 + 5 * 4096;
    let table = [
        (Order::Type, count(2), by_name),
        (Order::Similar, count(2), by_name),
        (Order::Type, count(1), by_path),
        (Order::Path, count(2), by_path),
        (Order::Type, size(weight), by_path),
        (Order::Type, size(weight - 1), by_name),
        (Order::Type, None, by_path),
    ];
    for (order, shards, expected) in table {
        assert_eq!(paths_in(&tree, (order, shards), &[], 1).join(" "), expected, "{order}, {shards:?}");
    }
}

#[test]
fn ranks_stand_above_every_order() {
    let tree = spec().tree().unwrap();
    let rank = |path: &str, rank| FileRank { ino: tree.lookup(path.as_bytes()).unwrap(), rank };
    let ranks = [rank("d/zero.py", -5), rank("b/two.py", -6), rank("a/copyright", 1)];
    let table = [
        (Order::Path, "b/two.py d/zero.py a/one.py b/big.py c/copyright c/x.c a/copyright"),
        (Order::Type, "b/two.py d/zero.py b/big.py c/copyright c/x.c a/one.py a/copyright"),
        (Order::Similar, "b/two.py d/zero.py b/big.py c/copyright c/x.c a/one.py a/copyright"),
    ];
    for (order, expected) in table {
        assert_eq!(paths(&tree, order, &ranks, 2).join(" "), expected, "{order}");
    }
}

#[test]
fn a_file_that_cannot_be_read_keeps_its_place_by_name() {
    let mut tree = spec().tree().unwrap();
    for path in ["d/zero.py", "a/copyright"] {
        let ino = tree.lookup(path.as_bytes()).unwrap();
        let Kind::File { data: FileData::Source { from, .. }, .. } = tree.inode(ino).kind else { panic!("{path}") };
        let from = Arc::clone(from);
        tree.set_data(ino, FileData::Source { from, key: 1000 }).unwrap();
    }
    let expected = "b/big.py c/copyright a/copyright c/x.c a/one.py b/two.py d/zero.py";
    assert_eq!(paths(&tree, Order::Similar, &[], 2).join(" "), expected);
}

/// Options of both formats, with small blocks.
fn cases(order: impl Into<Option<Order>>, threads: usize) -> [AnyOptions; 2] {
    let order = order.into();
    let common = |build: &mut SharedOptions| {
        (build.order, build.threads, build.codec) = (order, threads, "lz4".parse().unwrap());
    };
    let squashfs =
        squashfs::SquashfsOptions { block_size: 16 << 10, ..squashfs::SquashfsOptions::default() }.with(common);
    let erofs = erofs::ErofsOptions { cluster_size: 16 << 10, ..erofs::ErofsOptions::default() }
        .set(|all| all.features |= erofs::Features::FRAGMENTS | erofs::Features::DEDUPE)
        .with(common);
    [squashfs.into(), erofs.into()]
}

/// Many files of a few types in mixed directories; some are longer than a block.
fn mixed() -> Spec {
    let dirs = (0..8u64).map(|d| {
        let files = (0..30u64).map(|n| {
            let ending = ["py", "c", "so.1", "txt", "gz"][usize::try_from(n % 5).unwrap()];
            let name = if n % 6 == 0 { format!("plain{n}") } else { format!("f{n}.{ending}") };
            let own = Piece::Noise { seed: d * 100 + n, len: n * 40 };
            let shared = Piece::Noise { seed: 7000 + (d * n) % 11, len: 700 * (n % 9) };
            (name.into_bytes(), Node::file(vec![own, shared, Piece::Text { seed: n, len: n * n * 30 }]))
        });
        (format!("dir{d}").into_bytes(), Node::dir(files))
    });
    let mut spec = Spec::of(dirs);
    spec.links = vec![(b"dir0/f1.c".to_vec(), b"dir7/linked".to_vec())];
    spec
}

fn image(options: &AnyOptions, fill: impl FnOnce(&mut dyn Store) -> Result<Tree>) -> Vec<u8> {
    let image = Arc::new(Memory::default());
    let plan = |store: &mut dyn Store| Ok(Plan { tree: fill(store)?, order: Vec::new() });
    options.build_to(Output::over(Arc::clone(&image), "image"), &Progress::default(), plan).unwrap();
    image.lock().unwrap().get_ref().clone()
}

#[test]
fn any_number_of_threads_gives_the_same_image_and_it_holds_the_files() {
    let spec = mixed();
    let want = whole_seconds(snapshot_tree(&spec.tree().unwrap()).unwrap());
    for order in [Order::Path, Order::Type, Order::Similar] {
        let images = |threads| cases(order, threads).map(|options| image(&options, |_| spec.tree()));
        let serial = images(0);
        for threads in [1, 2, 7] {
            assert!(images(threads) == serial, "{order}: {threads} threads differ from none");
        }
        for bytes in serial {
            let opened = AnyImage::open(Arc::new(bytes), OpenOptions::default()).unwrap().into_image();
            assert_eq!(whole_seconds(snapshot_image(&*opened).unwrap()), want, "{order}");
            assert_eq!(findings(&*opened, 0), Vec::<String>::new(), "{order}");
        }
    }
}

#[test]
fn each_format_has_its_usual_order() {
    let spec = mixed();
    let images = |order: Option<Order>| cases(order, 1).map(|options| image(&options, |_| spec.tree()));
    let [squashfs, erofs] = images(None);
    let [squashfs_by_path, erofs_by_path] = images(Some(Order::Path));
    let [squashfs_by_type, erofs_by_type] = images(Some(Order::Type));
    assert!(squashfs == squashfs_by_path && squashfs != squashfs_by_type);
    assert!(erofs == erofs_by_type && erofs != erofs_by_path);
}

#[test]
fn directories_archives_images_and_spools_give_the_same_bytes() {
    let source = testing::Source::new(&mixed());
    let archive = source.tree().with_extension("tar");
    let show = |path: &Path| crate::name::display(path).to_string();
    sh(&format!("tar -C {} --format=pax -cf {} .", show(&source.tree()), show(&archive)));
    let scan = |mut source: Box<dyn Source>, store: &mut dyn Store| {
        let mut tree = Tree::default();
        source.scan(&mut tree, store).map(|()| tree)
    };
    let dir = || Box::new(Dir::new(source.tree(), dir::Options::default()));
    for order in [Order::Type, Order::Similar] {
        for (n, options) in cases(order, 2).iter().enumerate() {
            let want = image(options, |store| scan(dir(), store));
            let place = || archive::open(Some(&archive), archive::Options::default()).unwrap();
            assert!(image(options, |store| scan(place(), store)) == want, "{order}: archive");
            // The same tree from an image of either format with another order of data.
            let [squashfs, erofs] = cases(Order::Path, 2).map(|other| image(&other, |store| scan(place(), store)));
            for bytes in [squashfs, erofs] {
                let fs = Fs::from_reader(bytes).unwrap();
                let from = FromImage::new(fs.into_image(), "image", ExcludeRules::default(), true);
                assert!(image(options, |store| scan(Box::new(from), store)) == want, "{order}: image as format {n}");
            }
            let stream = Box::new(std::fs::File::open(&archive).unwrap());
            let stream = archive::from_stream(stream, &archive, archive::Options::default()).unwrap();
            let spooled = image(options, |_| {
                let mut spool = Spool::new(archive.parent().unwrap())?;
                let mut tree = scan(stream, &mut spool)?;
                spool.serve(&mut tree).unwrap();
                Ok(tree)
            });
            assert!(spooled == want, "{order}: spooled stream");
        }
    }
}
