//! Images that refer to archives and to other images: what they show is what the sources hold.

use std::fs::File;

use super::*;
use crate::name::display;
use crate::source::{archive, open as sources};
use crate::testing::{
    self, LoopDevice, Mount, Node, Piece, Snapshot, can_mount, differences, findings, sh, snapshot, snapshot_image,
};

/// A tree with small, large, sparse, empty and linked files.
fn tree() -> Spec {
    let name = |name: &str| name.as_bytes().to_vec();
    let noise = |seed, len| Piece::Noise { seed, len };
    let mut spec = Spec::of([
        (name("block"), Node::file(vec![noise(1, 4096)])),
        (name("dir"), Node::dir([(name("large"), Node::file(vec![noise(2, 3_000_001)]))])),
        (name("empty"), Node::file(vec![])),
        (name("hole"), Node::file(vec![Piece::Hole(70_000)])),
        (name("small"), Node::file(vec![noise(3, 7)])),
        (name("sparse"), Node::file(vec![Piece::Hole(1 << 20), noise(4, 5000), Piece::Hole(1 << 20), noise(5, 9)])),
    ]);
    spec.links = vec![(name("dir/large"), name("link"))];
    spec
}

/// Builds an image that refers to the sources; an archive is read as a stream if `piped`.
fn refer(image: &Path, options: &ErofsOptions, paths: &[&Path], piped: bool) -> Result<BuildSummary> {
    let all = ErofsOptions { refer: u16::try_from(paths.len()).unwrap(), ..options.clone() };
    build(image, &all, &Progress::default(), |store| {
        let mut tree = Tree::default();
        for path in paths {
            let mut source = if piped {
                let options = archive::Options::default().set(|options| options.refer = true);
                archive::from_stream(Box::new(File::open(path).unwrap()), path, options)?
            } else {
                sources::open(
                    path.as_os_str(),
                    &sources::SourceReadOptions { refer: true, ..sources::SourceReadOptions::default() },
                )?
            };
            source.scan(&mut tree, store)?;
        }
        Ok(Plan { tree, order: Vec::new() })
    })
}

/// Compares an image with `want`: read with its devices, and mounted with them and as one file.
fn check(want: &Snapshot, image: &Path, devices: &[&Path], may_mount: bool) {
    let file = |path: &Path| Arc::new(FileAt::open(path, 0).unwrap());
    let given = devices.iter().map(|path| file(path) as Arc<dyn packfs_blocks::ReadAt>).collect();
    let reader = ErofsReader::open(file(image), ReadOptions { devices: given, ..ReadOptions::default() }).unwrap();
    assert_eq!(differences(want, &snapshot_image(&reader).unwrap()), Vec::<String>::new());
    assert_eq!(findings(&reader, 2), Vec::<String>::new());
    let flat = image.with_extension("flat");
    let all: Vec<u8> = std::iter::once(&image).chain(devices).flat_map(|path| std::fs::read(path).unwrap()).collect();
    std::fs::write(&flat, all).unwrap();
    let reader = ErofsReader::open(file(&flat), ReadOptions::default()).unwrap();
    assert_eq!(differences(want, &snapshot_image(&reader).unwrap()), Vec::<String>::new());
    if !may_mount {
        return;
    }
    let loops: Vec<_> = devices.iter().map(|path| LoopDevice::new(path).unwrap()).collect();
    for mounted in [Mount::with_devices(image, &loops), Mount::new(&flat, "erofs")] {
        let found = snapshot(&mounted.unwrap().path()).unwrap();
        assert_eq!(differences(want, &found), Vec::<String>::new());
    }
}

#[test]
fn archives_are_indexed_where_they_are() {
    let may_mount = can_mount("archives_are_indexed_where_they_are");
    let source = testing::Source::new(&tree());
    let want = testing::whole_seconds(snapshot(&source.tree()).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let options = options("none", 512);
    for form in [
        "--format=ustar",
        "--format=gnu -S",
        "--format=pax -S --sparse-version=1.0",
        "--format=pax -S --sparse-version=0.1",
    ] {
        let archive = dir.path().join("a.tar");
        sh(&format!("tar {form} --xattrs --sort=name -C {} -cf {} .", display(&source.tree()), display(&archive)));
        let summary = refer(&image, &options, &[&archive], false).unwrap();
        assert!(summary.image_bytes < 8192, "{form}: {}", summary.image_bytes);
        assert!(summary.erofs().unwrap().referred_bytes >= 3_000_000, "{form}");
        check(&want, &image, &[&archive], may_mount);
        let seen = std::fs::read(&image).unwrap();
        refer(
            &image,
            &ErofsOptions {
                build: crate::build::SharedOptions { force: true, ..options.build.clone() },
                ..options.clone()
            },
            &[&archive],
            true,
        )
        .unwrap();
        assert_eq!(std::fs::read(&image).unwrap(), seen, "{form}: from a pipe");
        std::fs::remove_file(&image).unwrap();
    }
}

#[test]
fn images_are_merged_as_metadata() {
    let may_mount = can_mount("images_are_merged_as_metadata");
    let name = |name: &str| name.as_bytes().to_vec();
    let upper = Spec::of([
        (name("dir"), Node::dir([(name("new"), Node::file(vec![Piece::Noise { seed: 9, len: 5000 }]))])),
        (name("small"), Node::file(vec![Piece::Noise { seed: 8, len: 70_000 }])),
    ]);
    let dir = tempfile::tempdir().unwrap();
    // What lies in whole blocks stays in the image that has it, everything else is copied.
    let cases = [
        ("none", Features::NO_INLINE, 4096, 3_000_000, 20_000),
        ("none", Features::CHUNKS, 4096, 3_000_000, 20_000),
        ("none", Features::empty(), 512, 100_000, 4_000_000),
        ("lz4", Features::FRAGMENTS, 512, 0, 4_000_000),
    ];
    for (n, (codec, features, block_size, least, most)) in cases.into_iter().enumerate() {
        let path = |what: &str| dir.path().join(format!("{what}{n}"));
        let (a, b, image, full) = (path("a"), path("b"), path("image"), path("full"));
        let of_sources = ErofsOptions { features, ..options(codec, 4096) };
        write(tree().tree().unwrap(), &a, &of_sources).unwrap();
        write(upper.tree().unwrap(), &b, &of_sources).unwrap();
        let summary = refer(&image, &options("none", block_size), &[&a, &b], false).unwrap();
        let referred = summary.erofs().unwrap().referred_bytes;
        assert!(referred >= least && summary.image_bytes <= most, "{n}: {referred}, {}", summary.image_bytes);
        let merged = build(&full, &options("none", 4096), &Progress::default(), |store| {
            let mut tree = Tree::default();
            for path in [&a, &b] {
                sources::open(path.as_os_str(), &sources::SourceReadOptions::default())?.scan(&mut tree, store)?;
            }
            Ok(Plan { tree, order: Vec::new() })
        });
        merged.unwrap();
        check(&snapshot_image(&*open(&full).unwrap()).unwrap(), &image, &[&a, &b], may_mount);
    }
}

/// Trees of three layers with files of every size that matters: whole blocks, tails, several clusters, equal data.
fn layer_trees() -> [Spec; 3] {
    let name = |name: String| name.into_bytes();
    let text = |seed, len| Piece::Text { seed, len };
    let noise = |seed, len| Piece::Noise { seed, len };
    let small = |layer: u64, count: u64| {
        let len = move |n: u64| n * n * 7 % 6000 + 1;
        let file = move |n: u64| (name(format!("{layer}-{n}")), Node::file(vec![text(layer << 32 | n, len(n))]));
        (name(format!("small{layer}")), Node::dir((0..count).map(file)))
    };
    let base = Spec::of([
        small(0, 60),
        (name("both".into()), Node::dir([(name("old".into()), Node::file(vec![text(1, 30_001)]))])),
        (name("equal".into()), Node::file(vec![text(2, 300_000), noise(3, 70_000)])),
        (name("large".into()), Node::file(vec![text(4, 2_000_003), noise(5, 100_000), text(6, 77)])),
        (name("noise".into()), Node::file(vec![noise(7, 123_457)])),
        (name("replaced".into()), Node::file(vec![text(8, 50_000)])),
        (name("sparse".into()), Node::file(vec![text(9, 8192), Piece::Hole(1 << 20), text(10, 5)])),
    ]);
    let middle = Spec::of([
        small(1, 9),
        (name("again".into()), Node::file(vec![text(11, 40_960), text(2, 300_000), noise(3, 70_000)])),
        (name("both".into()), Node::dir([(name("new".into()), Node::file(vec![noise(12, 4097)]))])),
        (name("equal2".into()), Node::file(vec![text(2, 300_000), text(13, 70_000)])),
        (name("replaced".into()), Node::file(vec![text(14, 9_000)])),
    ]);
    let top = Spec::of([small(2, 70), (name("block".into()), Node::file(vec![text(15, 4096)]))]);
    [base, middle, top]
}

#[test]
fn compressed_images_are_merged_as_metadata() {
    let may_mount = can_mount("compressed_images_are_merged_as_metadata");
    let dir = tempfile::tempdir().unwrap();
    let usual = Features::FRAGMENTS | Features::DEDUPE;
    // Codecs and features of the layers; features of the merged image.
    type Layer = (&'static str, Features);
    let none = Features::empty();
    let cases: [([Layer; 3], Features); 13] = [
        ([("none", none); 3], none),
        ([("lz4", none); 3], none),
        ([("lz4", usual); 3], none),
        ([("lz4hc:3", usual); 3], none),
        ([("zstd:1", usual); 3], none),
        ([("zstd:1", Features::ALL_FRAGMENTS); 3], none),
        ([("deflate:1", usual); 3], none),
        ([("lzma:1", usual); 3], none),
        ([("lz4", Features::ZTAILPACKING), ("zstd:1", none), ("deflate:1", Features::FULL_INDEX)], none),
        ([("lz4", usual), ("zstd:1", usual), ("none", none)], none),
        ([("lz4", usual), ("zstd:1", usual), ("lz4", Features::FRAGMENTS)], none),
        ([("lz4", usual | Features::BITS_48); 3], Features::BITS_48),
        (
            [("zstd:1", usual | Features::BITS_48), ("lz4", usual), ("deflate:1", Features::ALL_FRAGMENTS)],
            Features::BITS_48,
        ),
    ];
    for (n, (layers, features)) in cases.into_iter().enumerate() {
        let path = |what: &str| dir.path().join(format!("{what}{n}"));
        let paths: Vec<PathBuf> = (0..3).map(|layer| path(&format!("layer{layer}-"))).collect();
        for ((path, spec), (codec, features)) in paths.iter().zip(layer_trees()).zip(layers) {
            let of_layer = ErofsOptions { features, cluster_size: 16 << 10, ..options(codec, 4096) };
            write(spec.tree().unwrap(), path, &of_layer).unwrap();
        }
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let image = path("image");
        let full = path("full");
        let merged = ErofsOptions { features, ..options("none", 4096) };
        let summary = refer(&image, &merged, &paths, false).unwrap();
        let referred = summary.erofs().unwrap().referred_bytes;
        // Without fragments, small files and tails follow their inodes.
        let copies = |(_, features): &Layer| !features.intersects(Features::FRAGMENTS | Features::ALL_FRAGMENTS);
        let copied = if layers.iter().any(copies) { 500_000 } else { 0 };
        assert!(referred >= 3_000_000 - copied, "{n}: {referred} bytes stay");
        assert!(summary.image_bytes <= 100_000 + copied, "{n}: {} bytes", summary.image_bytes);
        build(&full, &options("none", 4096), &Progress::default(), |store| {
            let mut tree = Tree::default();
            for path in &paths {
                sources::open(path.as_os_str(), &sources::SourceReadOptions::default())?.scan(&mut tree, store)?;
            }
            Ok(Plan { tree, order: Vec::new() })
        })
        .unwrap();
        check(&snapshot_image(&*open(&full).unwrap()).unwrap(), &image, &paths, may_mount);
    }
}

#[test]
fn sources_that_cannot_be_referred_to_are_refused() {
    let source = testing::Source::new(&tree());
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    sh(&format!("cd {} && tar -cf a.tar -C {} . && gzip -k a.tar", display(dir.path()), display(&source.tree())));
    sh(&format!(
        "cd {} && find . | cpio -o -H newc > {} 2> /dev/null",
        display(&source.tree()),
        display(&path("a.cpio"))
    ));
    let image = path("image");
    let refused = |options: &ErofsOptions, name: &str, piped| {
        let made = refer(&image, options, &[&path(name)], piped);
        assert!(!image.exists());
        made.unwrap_err().to_string()
    };
    let usual = options("none", 512);
    for piped in [false, true] {
        assert!(refused(&usual, "a.tar.gz", piped).contains("decompress it first"));
        assert!(refused(&usual, "a.cpio", piped).contains("convert it to tar"));
    }
    assert!(refused(&options("none", 4096), "a.tar", true).contains("comes from a pipe"));
    assert!(refused(&options("lz4", 512), "a.tar", false).contains("the codec has to be none"));
    let old = ErofsOptions { target_kernel: "5.15".parse().unwrap(), ..options("none", 4096) };
    assert!(refused(&old, "a.tar", false).contains("additional devices (since Linux 5.16)"));
    // An image without its devices does not hold the data that a third one would have to find in it.
    refer(&path("indexed"), &usual, &[&path("a.tar")], false).unwrap();
    assert!(refused(&usual, "indexed", false).contains("its 1 additional devices were not given"));
    let few = ErofsOptions { refer: 1, ..usual.clone() };
    let made = build(&image, &few, &Progress::default(), |store| {
        let mut tree = Tree::default();
        for _ in 0..2 {
            let all = sources::SourceReadOptions { refer: true, ..sources::SourceReadOptions::default() };
            sources::open(path("a.tar").as_os_str(), &all)?.scan(&mut tree, store)?;
        }
        Ok(Plan { tree, order: Vec::new() })
    });
    assert!(made.unwrap_err().to_string().contains("2 devices, for which there is no room"));
}

#[test]
fn data_goes_to_a_file_of_its_own() {
    let may_mount = can_mount("data_goes_to_a_file_of_its_own");
    let dir = tempfile::tempdir().unwrap();
    let (spec, whole) = (tree(), dir.path().join("whole"));
    let want = crate::testing::snapshot_tree(&spec.tree().unwrap()).unwrap();
    let cases = [
        (512, 4096, Features::CHUNKS),
        (4096, 65536, Features::CHUNKS | Features::CHUNK_INDEXES),
        (4096, 4096, Features::CHUNKS | Features::BITS_48),
    ];
    for (n, (block_size, chunk_size, features)) in cases.into_iter().enumerate() {
        let (image, blob) = (dir.path().join(format!("image{n}")), dir.path().join(format!("blob{n}")));
        let options = ErofsOptions { features, chunk_size, blob: Some(blob.clone()), ..options("none", block_size) };
        let summary = write(spec.tree().unwrap(), &image, &options).unwrap();
        let len = blob.metadata().unwrap().len();
        assert_eq!(summary.erofs().unwrap().blob_bytes, len);
        assert!(len >= 3_000_000 && summary.image_bytes < 64 << 10, "{len}, {}", summary.image_bytes);
        check(&want, &image, &[&blob], may_mount);
        // The same blocks as those of an image with everything in it.
        let in_image = ErofsOptions { blob: None, ..options.clone() };
        write(spec.tree().unwrap(), &whole, &in_image).unwrap();
        let (data, all) = (std::fs::read(&blob).unwrap(), std::fs::read(&whole).unwrap());
        assert!(all.windows(4096).step_by(block_size as usize).any(|part| data.starts_with(part)));
        std::fs::remove_file(&whole).unwrap();
        // Neither file replaces another.
        let error = write(spec.tree().unwrap(), &whole, &options).unwrap_err();
        assert!(matches!(&error, Error::Exists { path } if *path == blob), "{error}");
        assert!(!whole.exists());
    }
    // One file cannot be both, however its name is written.
    std::os::unix::fs::symlink(dir.path(), dir.path().join("here")).unwrap();
    for same in ["whole", "./whole", "here/whole"] {
        let mut options = ErofsOptions { features: Features::CHUNKS, ..options("none", 4096) };
        (options.blob, options.build.force) = (Some(dir.path().join(same)), true);
        let error = write(spec.tree().unwrap(), &whole, &options).unwrap_err().to_string();
        assert!(error.contains("the image itself has this name"), "{same}: {error}");
        assert!(!whole.exists());
    }
    let blob = dir.path().join("unused");
    for (change, why) in [
        (ErofsOptions { features: Features::empty(), ..options("none", 4096) }, "it needs the feature chunks"),
        (ErofsOptions { features: Features::CHUNKS, ..options("lz4", 4096) }, "the codec has to be none"),
        (ErofsOptions { features: Features::CHUNKS, refer: 1, ..options("none", 4096) }, "stays in the sources"),
    ] {
        let error =
            write(spec.tree().unwrap(), &whole, &ErofsOptions { blob: Some(blob.clone()), ..change }).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert!(!blob.exists() && !whole.exists());
    }
    // Nothing but holes and empty files.
    let empty = Spec::of([(b"hole".to_vec(), Node::file(vec![Piece::Hole(1 << 20)]))]);
    let options = ErofsOptions { features: Features::CHUNKS, blob: Some(blob.clone()), ..options("none", 4096) };
    write(empty.tree().unwrap(), &whole, &options).unwrap();
    assert_eq!(blob.metadata().unwrap().len(), 0);
    let want = crate::testing::snapshot_tree(&empty.tree().unwrap()).unwrap();
    let given: Vec<Arc<dyn packfs_blocks::ReadAt>> = vec![Arc::new(Vec::new())];
    let file = Arc::new(FileAt::open(&whole, 0).unwrap());
    let reader = ErofsReader::open(file, ReadOptions { devices: given, ..ReadOptions::default() }).unwrap();
    assert_eq!(differences(&want, &snapshot_image(&reader).unwrap()), Vec::<String>::new());
}
