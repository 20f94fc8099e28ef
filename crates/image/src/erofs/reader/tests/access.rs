//! Random access: any range of any file, from many threads; and any tree.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use packfs_blocks::io::ObservedReads;
use proptest::prelude::*;

use super::*;
use crate::testing::erofs_utils;
use crate::testing::{Shape, Source, differences, snapshot, snapshot_image, specs};

/// Ways to store files.
const KINDS: [&str; 9] = [
    "",
    "--chunksize=8192",
    "-zlz4",
    "-zlz4hc -C65536 -Efragments,dedupe",
    "-zdeflate -C16384 -Eztailpacking",
    "-zlzma -C131072 -Eall-fragments",
    "-zzstd -C65536 -E48bit",
    "-zlz4 -C32768 -E48bit --max-extent-bytes=-40000",
    "-zzstd -b1024 -C8192 -m8192",
];

/// Files with their whole contents, assembled from their pieces.
fn files() -> &'static [(ErofsReader, Nid, Vec<u8>)] {
    static FILES: OnceLock<Vec<(ErofsReader, Nid, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let pieces = [
            vec![],
            vec![text(1, 5)],
            vec![text(2, 4096)],
            vec![text(3, 4095)],
            vec![noise(4, 4097)],
            vec![text(5, 10_000), Piece::Zeros(20_000), noise(6, 9_000), Piece::Hole(8192), text(7, 3)],
            vec![text(8, 4096 * 100), Piece::Hole(4096 * 100), noise(9, 4096 * 100 + 1)],
        ];
        let entries = pieces.iter().enumerate();
        let source =
            Source::new(&Spec::of(entries.map(|(n, pieces)| (n.to_string().into(), Node::file(pieces.clone())))));
        let mut files = Vec::new();
        for options in KINDS {
            let image = std::fs::read(source.make(&format!("mkfs.erofs --quiet {options} $IMAGE $TREE"))).unwrap();
            for n in 0..pieces.len() {
                let reader = open(&image).unwrap();
                let nid = find(&reader, &n.to_string());
                files.push((reader, nid, std::fs::read(source.tree().join(n.to_string())).unwrap()));
            }
        }
        files
    })
}

#[test]
fn any_range_equals_that_of_the_whole_file() {
    if !erofs_utils("any_range_equals_that_of_the_whole_file") {
        return;
    }
    let len = prop_oneof![0..10usize, 4000..4200usize, 0..40_000usize];
    let ranges = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), len);
    proptest!(ProptestConfig::with_cases(2000), |((file, at, len) in ranges)| {
        let (reader, nid, whole) = file.get(files());
        let offset = at.index(whole.len() + 3);
        let mut buf = vec![0xa5; len];
        let got = reader.read_at(*nid, &mut buf, offset as u64).unwrap();
        let from = offset.min(whole.len());
        let want = &whole[from..whole.len().min(from + len)];
        prop_assert!(&buf[..got] == want, "{got} bytes at {offset}, not the {} it has there", want.len());
        prop_assert!(buf[got..].iter().all(|byte| *byte == 0xa5), "nothing is written past the end");
    });
}

#[test]
fn extents_cover_files_and_decode_on_their_own() {
    if !erofs_utils("extents_cover_files_and_decode_on_their_own") {
        return;
    }
    for (reader, nid, whole) in files() {
        let mut at = 0;
        for extent in reader.extents(*nid).unwrap() {
            assert_eq!(extent.offset, at);
            let mut buf = vec![0xa5; extent.len as usize];
            assert_eq!(reader.read_at(*nid, &mut buf, at).unwrap(), buf.len());
            assert!(buf == whole[at as usize..][..buf.len()], "{extent:?}");
            at += extent.len;
        }
        assert_eq!(at, whole.len() as u64);
    }
}

#[test]
fn stretches_cover_files_and_holes_are_zeros() {
    if !erofs_utils("stretches_cover_files_and_holes_are_zeros") {
        return;
    }
    for (reader, nid, whole) in files() {
        let mut at = 0;
        let mut before = None;
        while let Some(found) = reader.stretch(*nid, at).unwrap() {
            let end = found.offset + found.len;
            assert!(found.offset <= at && at < end && before != Some(found.hole), "{found:?}");
            assert!(!found.hole || whole[at as usize..end as usize].iter().all(|byte| *byte == 0), "{found:?}");
            (at, before) = (end, Some(found.hole));
        }
        assert_eq!(at, whole.len() as u64);
    }
}

#[test]
fn many_threads_read_the_same_files() {
    if !erofs_utils("many_threads_read_the_same_files") {
        return;
    }
    std::thread::scope(|scope| {
        for seed in 0..8usize {
            scope.spawn(move || {
                for round in 0..200 {
                    let (reader, nid, whole) = &files()[(seed + round) % files().len()];
                    let offset = (seed * 7919 + round * 104_729) % (whole.len() + 1);
                    let mut buf = vec![0; 10_000];
                    let got = reader.read_at(*nid, &mut buf, offset as u64).unwrap();
                    assert!(buf[..got] == whole[offset..whole.len().min(offset + 10_000)], "at {offset}");
                }
            });
        }
    });
}

#[test]
fn any_tree_is_read_back_unchanged() {
    if !erofs_utils("any_tree_is_read_back_unchanged") {
        return;
    }
    proptest!(ProptestConfig::with_cases(24), |(spec in specs(Shape::default()), kind in 0..KINDS.len())| {
        let source = Source::new(&spec);
        let line = format!("mkfs.erofs --quiet {} $IMAGE $TREE", KINDS[kind]);
        let reader = open_file(&source.make(&line)).unwrap();
        let (want, got) = (snapshot(&source.tree()).unwrap(), snapshot_image(&reader).unwrap());
        let whole = |shot| if KINDS[kind].contains("48bit") { crate::testing::whole_seconds(shot) } else { shot };
        prop_assert_eq!(differences(&whole(want), &whole(got)), Vec::<String>::new(), "{}", line);
        prop_assert_eq!(crate::testing::damage(&reader, 2), Vec::<String>::new(), "{}", line);
    });
}

#[test]
fn inodes_of_the_wrong_type_are_refused_as_such() {
    if !erofs_utils("inodes_of_the_wrong_type_are_refused_as_such") {
        return;
    }
    let spec = Spec::of([(b"f".to_vec(), Node::file(vec![])), (b"l".to_vec(), plain(What::Symlink(b"f".to_vec())))]);
    let source = Source::new(&spec);
    let reader = open_file(&source.make("mkfs.erofs --quiet $IMAGE $TREE")).unwrap();
    let (file, link) = (find(&reader, "f"), find(&reader, "l"));
    for (result, why) in [
        (reader.read_dir(file).map(|_| ()), "it is not a directory"),
        (reader.lookup(link, b"f").map(|_| ()), "it is not a directory"),
        (reader.extents(link).map(|_| ()), "it is not a regular file"),
        (reader.read_at(reader.root(), &mut [0], 0).map(|_| ()), "it is not a regular file"),
    ] {
        assert!(result.unwrap_err().to_string().contains(why));
    }
}

#[test]
fn an_extent_larger_than_the_cache_is_decoded_once_while_it_is_read() {
    const LEN: u64 = 26 << 20;
    const REQUEST: usize = 128 << 10;
    let files = (0..3).map(|n| (vec![b'0' + n], Node::file(vec![text(n.into(), LEN)])));
    let options = ErofsOptions {
        build: crate::build::SharedOptions::new("lz4".parse().unwrap()),
        cluster_size: 1 << 20,
        ..ErofsOptions::default()
    };
    let image = image_of(&Spec::of(files), &options);
    let (len, read) = (image.len() as u64, Arc::new(AtomicU64::new(0)));
    let options = ReadOptions { cache_bytes: 1 << 20, ..ReadOptions::default() };
    let reader =
        ErofsReader::open(Arc::new(ObservedReads::counting(Arc::new(image), Arc::clone(&read))), options).unwrap();
    let largest = reader.extents(find(&reader, "1")).unwrap().iter().map(|extent| extent.len).max().unwrap();
    assert!(largest >= 8 << 20, "extents of {largest} bytes show nothing");
    // One after the other, then two at a time.
    for pair in [&["0"][..], &["1", "2"]] {
        read.store(0, Ordering::Relaxed);
        let nids: Vec<Nid> = pair.iter().map(|path| find(&reader, path)).collect();
        for at in (0..LEN).step_by(REQUEST) {
            for nid in &nids {
                let mut buf = vec![0; REQUEST];
                assert_eq!(reader.read_at(*nid, &mut buf, at).unwrap(), REQUEST);
            }
        }
        // The first request decodes the beginning of an extent only.
        let got = read.load(Ordering::Relaxed);
        assert!(got < 4 * len, "{pair:?}: read {got} bytes of an image of {len}");
    }
}
