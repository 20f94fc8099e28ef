//! Statistics of images by packfs, mksquashfs and mkfs.erofs: everything is counted, and nothing twice.

use std::path::Path;
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_blocks::testing::Random;

use super::*;
use crate::erofs::{self, Features};
use crate::testing::{Attrs, Node, Piece as Content, Source, Spec, What, erofs_utils, have, skipped};
use crate::{Builder, Choice, Codec, OpenOptions};

/// A tree with equal files, a file that repeats itself, holes, small files, a hard link and a large file.
fn spec() -> Spec {
    let text = |seed, len| Node::file(vec![Content::Text { seed, len }]);
    let noise = |seed, len| Node::file(vec![Content::Noise { seed, len }]);
    let small = (0..40).map(|n| (format!("{n}.conf").into_bytes(), text(n + 100, 100 + n * 90)));
    let libs = [("liba.so.1", text(1, 300_000)), ("libb.so.2", text(2, 90_001)), ("copy.so", text(1, 300_000))];
    let sparse =
        vec![Content::Text { seed: 3, len: 8192 }, Content::Hole(1 << 20), Content::Text { seed: 4, len: 5000 }];
    let dirs = [
        (b"etc".to_vec(), Node::dir(small)),
        (b"lib".to_vec(), Node::dir(libs.map(|(name, node)| (name.as_bytes().to_vec(), node)))),
        (b"noise.bin".to_vec(), noise(5, 1 << 18)),
        (b"sparse.img".to_vec(), Node::file(sparse)),
        (b"empty".to_vec(), Node::file(Vec::new())),
    ];
    let mut spec = Spec::of(dirs);
    if let What::Dir(entries) = &mut spec.root.what {
        let link = Node { attrs: Attrs::plain(0o777), what: What::Symlink(vec![b'x'; 200]) };
        entries.insert(b"link".to_vec(), link);
        for name in ["etc", "noise.bin", "sparse.img", "empty"] {
            let xattrs = &mut entries.get_mut(name.as_bytes()).unwrap().attrs.xattrs;
            xattrs.insert("user.one".into(), b"the same value everywhere, to be shared".to_vec());
            xattrs.insert(format!("user.{name}"), name.into());
        }
    }
    spec.links.push((b"noise.bin".to_vec(), b"second.bin".to_vec()));
    spec
}

fn measure(path: &Path) -> (Stats, AnyImage) {
    let file = Arc::new(FileAt::open(path, 0).unwrap());
    let image = AnyImage::open(file, OpenOptions::default()).unwrap();
    (Stats::measure(&image).unwrap(), image)
}

/// Checks that the parts add up to the file, and that each file has the data that its extents say.
fn check(path: &Path, what: &str) -> Stats {
    let (stats, image) = measure(path);
    let metadata: u64 = stats.metadata.iter().map(|(_, bytes)| bytes).sum();
    let len = std::fs::metadata(path).unwrap().len();
    assert_eq!(stats.image_bytes, len, "{what}");
    assert_eq!(stats.file_bytes() + metadata + stats.unused_bytes, len, "{what}");
    for groups in [stats.by_type(), stats.by_folder(), stats.by_ratio()] {
        let (size, stored) = groups.iter().fold((0, 0), |sum, group| (sum.0 + group.size, sum.1 + group.stored));
        assert_eq!((size, stored), (stats.all().size, stats.file_bytes()), "{what}");
    }
    for entry in stats.entries.iter().filter(|entry| entry.kind == EntryType::File) {
        let extents = image.image().extents(entry.nid).unwrap();
        let data: u64 = extents.iter().filter(|extent| !extent.hole).map(|extent| extent.len).sum();
        assert_eq!(entry.data, data, "{what}: {}", entry.name.escape_ascii());
    }
    check_unused(path, &stats, &image, what);
    stats
}

fn find<'s>(stats: &'s Stats, path: &str) -> &'s EntryStats {
    let n = (0..stats.entries.len()).find(|n| stats.path(*n) == path.as_bytes()).unwrap();
    &stats.entries[n]
}

/// Checks what holds for every image of [`spec`] whose writer finds equal files.
fn check_sharing(stats: &Stats, what: &str) {
    let (first, copy) = (find(stats, "lib/copy.so"), find(stats, "lib/liba.so.1"));
    assert_eq!((first.duplicate / 300_000, copy.duplicate), (0, 300_000), "{what}");
    assert!(first.stored.abs_diff(copy.stored) <= 100, "{what}: {first:?} {copy:?}");
    let (name, link) = (find(stats, "noise.bin"), find(stats, "second.bin"));
    assert!(matches!(link.kind, EntryType::Link(_)) && link.stored == 0, "{what}");
    if name.fragment == 0 {
        assert!(name.stored.abs_diff(1 << 18) < 3000, "{what}: {name:?}");
    }
    let group = |groups: Vec<Group>, name: &str| {
        let group = groups.into_iter().find(|group| group.name == name.as_bytes()).unwrap();
        // Writers that cut files into small chunks find repetitions inside them as well.
        (group.files, group.size, group.duplicate.min(300_000))
    };
    assert_eq!(group(stats.by_folder(), "lib"), (3, 690_001, 300_000), "{what}");
    assert_eq!(group(stats.by_type(), ".so"), (3, 690_001, 300_000), "{what}");
    assert_eq!(group(stats.by_type(), ".bin"), (1, 1 << 18, 0), "{what}");
    assert_eq!(group(stats.by_folder(), ".").0, 3, "{what}");
    check_least_compressed(stats, what);
}

/// Checks that the least compressed directories are ranked by their ratio, and have the sums of the files in them.
fn check_least_compressed(stats: &Stats, what: &str) {
    let ranked = stats.least_compressed(usize::MAX);
    assert!(ranked.iter().any(|directory| directory.name == b"lib"), "{what}: {ranked:?}");
    for pair in ranked.windows(2) {
        let first = u128::from(pair[0].stored) * u128::from(pair[1].data);
        let second = u128::from(pair[1].stored) * u128::from(pair[0].data);
        assert!(first >= second, "{what}: {pair:?}");
    }
    for directory in &ranked {
        let parent = match &directory.name[..] {
            b"." => 0,
            name => (0..stats.entries.len()).find(|n| stats.path(*n) == name).unwrap(),
        };
        let inside = stats.entries.iter().filter(|entry| entry.kind == EntryType::File && entry.parent == parent);
        let (data, stored) = inside.fold((0, 0), |sum, entry| (sum.0 + entry.data, sum.1 + entry.stored));
        assert_eq!((directory.data, directory.stored), (data, stored), "{what}: {directory:?}");
        assert!(data * 1000 >= stats.all().data, "{what}: {directory:?}");
    }
    assert_eq!(stats.least_compressed(1), ranked[..1], "{what}");
}

/// Checks that bytes which belong to nothing are zeros, and as many as the statistics say.
fn check_unused(path: &Path, stats: &Stats, image: &AnyImage, what: &str) {
    let occupied = occupied(image);
    let mut bytes = std::fs::read(path).unwrap();
    let mut used = vec![false; bytes.len()];
    let mut mark = |piece: super::StoredRange| {
        let stored = usize::try_from(piece.stored.start).unwrap()..usize::try_from(piece.stored.end).unwrap();
        bytes[stored.clone()].fill(0);
        used[stored].fill(true);
    };
    occupied.tables(&mut |_, piece| mark(piece)).unwrap();
    for entry in &stats.entries {
        occupied.inode(entry.nid, &mut |_, piece| mark(piece)).unwrap();
        if entry.kind == EntryType::File {
            occupied.file(entry.nid, &mut mark).unwrap();
        }
    }
    let unused = used.iter().filter(|used| !**used).count() as u64;
    assert_eq!(unused, stats.unused_bytes, "{what}");
    let left: Vec<usize> = (0..bytes.len()).filter(|n| bytes[*n] != 0).collect();
    assert_eq!(left, Vec::<usize>::new(), "{what}: bytes that belong to nothing");
}

#[test]
fn images_of_mksquashfs_have_no_byte_left_over() {
    let test = "images_of_mksquashfs_have_no_byte_left_over";
    if !have("mksquashfs") {
        return skipped(test, "mksquashfs");
    }
    let source = Source::new(&spec());
    for options in ["", "-b 4096", "-no-fragments -comp xz", "-noD -noF", "-always-use-fragments -b 64K", "-no-exports"]
    {
        let image = source.make(&format!("mksquashfs $TREE $IMAGE -nopad -quiet -no-progress {options} >/dev/null"));
        let stats = check(&image, options);
        assert_eq!(stats.unused_bytes, 0, "{options}: {:?}", stats.metadata);
        check_sharing(&stats, options);
        let fragments = !options.contains("-no-fragments");
        assert_eq!(stats.fragment_bytes > 0, fragments, "{options}");
        let in_fragments = find(&stats, "etc/39.conf").fragment;
        assert_eq!(in_fragments > 0, fragments, "{options}");
    }
}

#[test]
fn images_of_mkfs_erofs_are_counted() {
    let test = "images_of_mkfs_erofs_are_counted";
    if !erofs_utils(test) {
        return;
    }
    let source = Source::new(&spec());
    let all = [
        "",
        "-zlz4",
        "-zlz4hc -C65536",
        "-zlz4hc -C65536 -Eall-fragments,dedupe",
        "-zlz4 -Efragments,ztailpacking -C16384",
        "-zdeflate -Elegacy-compress",
        "--chunksize=4096",
    ];
    for options in all {
        let image = source.make(&format!("mkfs.erofs --quiet {options} $IMAGE $TREE >/dev/null 2>&1"));
        let stats = check(&image, options);
        if options.contains("dedupe") || options.contains("chunksize") {
            check_sharing(&stats, options);
        }
    }
}

#[test]
fn own_images_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let source = Source::new(&spec());
    let image = dir.path().join("image");
    for codec in ["zstd", "lzo:9", "none", "xz:1"] {
        Builder::squashfs().codec(codec.parse::<Choice>().unwrap()).dir(source.tree()).build(&image).unwrap();
        let stats = check(&image, codec);
        check_sharing(&stats, codec);
        assert!(stats.unused_bytes < 4096, "more than padding: {}", stats.unused_bytes);
        std::fs::remove_file(&image).unwrap();
    }
    let features = [
        Features::empty(),
        Features::FRAGMENTS.union(Features::DEDUPE),
        Features::ALL_FRAGMENTS,
        Features::ZTAILPACKING,
        Features::BITS_48.union(Features::UNALIGNED),
        Features::CHUNKS,
        Features::EXTENDED_INODES.union(Features::NO_INLINE),
    ];
    for (n, features) in features.into_iter().enumerate() {
        let codec = if features.contains(Features::CHUNKS) { "none" } else { ["lz4", "zstd:3", "deflate:1"][n % 3] };
        let mut options =
            erofs::ErofsOptions { features, target_kernel: "6.18".parse().unwrap(), ..erofs::ErofsOptions::default() };
        options.build.codec = codec.parse().unwrap();
        let what = format!("{codec} {features:?}");
        Builder::new(options).dir(source.tree()).build(&image).unwrap();
        let stats = check(&image, &what);
        // The text compresses to less than a block, which follows each inode.
        if features != Features::ZTAILPACKING {
            check_sharing(&stats, &what);
        }
        std::fs::remove_file(&image).unwrap();
    }
}

#[test]
fn damaged_images_give_errors_or_sums_that_fit() {
    let dir = tempfile::tempdir().unwrap();
    let source = Source::new(&spec());
    let path = dir.path().join("image");
    for builder in [Builder::squashfs(), Builder::erofs()] {
        builder.codec(Codec::Lz4).dir(source.tree()).build(&path).unwrap();
        let sound = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut random = Random::new(1);
        let mut measured = 0;
        for n in 0..600_usize {
            let mut bytes = sound.clone();
            // Half of the damage hits the superblock, the rest what lies at the end: tables and inodes.
            for _ in 0..=n % 3 {
                let at = if n % 2 == 0 { random.below(1300) } else { bytes.len() - 1 - random.below(12_000) };
                bytes[at] ^= 1 << random.below(8);
            }
            let len = bytes.len() as u64;
            let Ok(image) = AnyImage::open(Arc::new(bytes), OpenOptions::default()) else { continue };
            let Ok(stats) = Stats::measure(&image) else { continue };
            assert_eq!(stats.file_bytes() + stats.metadata_bytes() + stats.unused_bytes, len);
            measured += 1;
        }
        assert!(measured > 0);
    }
}
