use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use packfs_blocks::io::ObservedReads;
use packfs_codec::{Choice, Codec};

use super::*;
use crate::sink::fake::FakeImage;
use crate::source::Entry;
use crate::{Builder, Fs};

/// Bytes that compress, and differ from file to file.
fn content(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|n| u8::try_from((n / 7 + seed * 31 + (n * seed) % 13) % 251).unwrap()).collect()
}

/// Lines of numbers: bytes that compress a little everywhere.
fn numbers(len: usize) -> Vec<u8> {
    let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let lines =
        (0..).flat_map(|n| format!("a line with the number {:x}, as all others have one\n", number(n)).into_bytes());
    lines.take(len).collect()
}

/// Names and contents: blocks and tails, duplicates, a hole, an empty file.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = (0..60).map(|n| (format!("small/{n:02}"), content(n, n * 37 % 3000))).collect();
    files.push(("large".into(), content(70, 700_001)));
    files.push(("copy-of-large".into(), content(70, 700_001)));
    files.push(("beginning-of-large".into(), content(70, 131_072)));
    files.push(("empty".into(), Vec::new()));
    files.push(("hole".into(), [content(1, 9000), vec![0; 3_000_000], content(2, 9000)].concat()));
    files
}

fn builders() -> Vec<(&'static str, Builder<'static>)> {
    let squashfs = |codec| Builder::squashfs().codec(Choice::new(codec)).block_size(64 << 10);
    vec![
        ("squashfs gzip", squashfs(Codec::Gzip)),
        ("squashfs zstd", squashfs(Codec::Zstd)),
        ("squashfs lz4", squashfs(Codec::Lz4)),
        ("erofs lz4", Builder::erofs()),
        (
            "erofs deflate",
            Builder::erofs().codec(Choice::new(Codec::Deflate)).target_kernel(crate::erofs::Kernel::new(6, 10)),
        ),
    ]
}

fn image_of(builder: Builder<'static>) -> Vec<u8> {
    let entries: Vec<_> = files().into_iter().map(|(name, bytes)| Entry::file(name, bytes)).collect();
    builder.entries(entries).write_to(Cursor::new(Vec::new())).unwrap().0.into_inner()
}

#[test]
fn every_way_of_reading_gives_the_bytes_of_the_file() {
    for (what, builder) in builders() {
        let fs = Fs::from_reader(image_of(builder)).unwrap();
        for (name, bytes) in files() {
            let nid = fs.inode(&name).unwrap();
            assert!(fs.read(&name).unwrap() == bytes, "{what}: {name}");
            assert!(fs.read_inode(nid).unwrap() == bytes, "{what}: {name}");
            let mut exact = vec![1; bytes.len()];
            assert_eq!(fs.read_into(&name, &mut exact).unwrap(), bytes.len(), "{what}: {name}");
            assert!(exact == bytes, "{what}: {name}");
            let mut longer = vec![1; bytes.len() + 3];
            assert_eq!(fs.read_into(&name, &mut longer).unwrap(), bytes.len(), "{what}: {name}");
            let mut shorter = vec![1; bytes.len() / 2];
            assert_eq!(fs.read_into(&name, &mut shorter).unwrap(), bytes.len() / 2, "{what}: {name}");
            assert!(shorter == bytes[..bytes.len() / 2], "{what}: {name}");
        }
    }
}

#[test]
fn many_reads_give_the_bytes_of_single_ones_for_any_number_of_threads() {
    for (what, builder) in builders() {
        let fs = Fs::from_reader(image_of(builder)).unwrap();
        let files = files();
        // Every third request is a range, and every file comes twice; the order is not that of the image.
        let mut requests = Vec::new();
        let mut expected = Vec::new();
        for n in 0..2 * files.len() {
            let (name, bytes) = &files[n * 29 % files.len()];
            let nid = fs.inode(name).unwrap();
            let size = bytes.len() as u64;
            let range = match n % 3 {
                0 => size / 3..size / 3 * 2,
                1 => 0..u64::MAX,
                _ => size / 4..size + 10,
            };
            let end = usize::try_from(range.end.min(size)).unwrap();
            let start = usize::try_from(range.start).unwrap().min(end);
            expected.push(bytes[start..end].to_vec());
            requests.push(ReadRequest { nid, range });
        }
        for threads in [0, 1, 2, 7] {
            let many = fs.read_many(&requests, threads).unwrap();
            assert_eq!(many.offsets.len(), requests.len() + 1);
            assert!(many.bytes == expected.concat(), "{what}, {threads} threads");
            for (n, bytes) in expected.iter().enumerate() {
                assert!(many.get(n).unwrap() == bytes, "{what}, {threads} threads, request {n}");
            }
        }
        assert_eq!(fs.read_many(&[], 2).unwrap(), ManyBytes { bytes: Vec::new(), offsets: vec![0] });
    }
}

#[test]
fn the_units_of_a_file_cover_any_range_of_it() {
    for (what, builder) in builders() {
        let fs = Fs::from_reader(image_of(builder)).unwrap();
        for (name, bytes) in files() {
            let nid = fs.inode(&name).unwrap();
            let size = bytes.len() as u64;
            for range in [0..size, size / 3..size / 2, size.saturating_sub(1)..size] {
                let mut at = range.start;
                let visit = &mut |piece: StoredPiece| {
                    assert_eq!(piece.offset, at, "{what}: {name}");
                    at += piece.len;
                };
                if !range.is_empty() {
                    fs.image().stored_pieces(nid, range.clone(), visit).unwrap();
                    assert_eq!(at, range.end, "{what}: {name}");
                }
            }
        }
    }
}

#[test]
fn each_unit_is_read_once() {
    for (what, builder) in builders() {
        let bytes = image_of(builder);
        let len = bytes.len() as u64;
        let read = Arc::new(AtomicU64::new(0));
        let fs = Fs::from_reader(ObservedReads::counting(Arc::new(bytes), read.clone())).unwrap();
        let mut requests = Vec::new();
        for (name, _) in files() {
            let nid = fs.inode(name).unwrap();
            requests.push(ReadRequest::whole(nid));
            requests.push(ReadRequest { nid, range: 5..600 });
        }
        requests.rotate_left(17);
        read.store(0, Ordering::Relaxed);
        fs.read_many(&requests, 0).unwrap();
        let read = read.load(Ordering::Relaxed);
        assert!(read <= len, "{what}: {read} bytes were read of an image of {len}");
    }
}

#[test]
fn the_lowest_request_that_fails_is_named() {
    let fake = || {
        let mut fake = FakeImage::default()
            .dir(0, &[("a", 1), ("b", 2), ("c", 3), ("d", 4)])
            .file(1, &[1; 400_000])
            .file(2, &[2; 400_000])
            .file(3, &[3; 400_000])
            .dir(4, &[]);
        fake.inodes.get_mut(&2).unwrap().damaged = true;
        fake.inodes.get_mut(&3).unwrap().damaged = true;
        Fs::from(Arc::new(fake) as Arc<dyn Image>)
    };
    let whole = |nids: &[u64]| nids.iter().map(|nid| ReadRequest::whole(Nid(*nid))).collect::<Vec<_>>();
    for threads in [0, 2, 5] {
        let error = fake().read_many(&whole(&[1, 3, 2, 1, 2]), threads).unwrap_err();
        assert_eq!(error.request, 1, "{threads} threads");
        assert_eq!(error.to_string(), "request 1: data block at byte 0: does not decode");
        let error = fake().read_many(&whole(&[1, 4]), threads).unwrap_err();
        assert!(matches!((error.request, error.source), (1, Error::WrongType { .. })));
        assert_eq!(fake().read_many(&whole(&[1]), threads).unwrap().bytes, [1; 400_000]);
    }
}

#[test]
fn damaged_blocks_fail_alike_alone_and_among_many() {
    for (what, builder) in builders() {
        let mut bytes = image_of(builder);
        let sound = Fs::from_reader(bytes.clone()).unwrap();
        let nid = sound.inode("large").unwrap();
        let mut unit = None;
        sound.image().stored_pieces(nid, 300_000..300_001, &mut |piece| unit = piece.unit).unwrap();
        let unit = unit.unwrap_or_else(|| panic!("{what}: not compressed"));
        let start = usize::try_from(unit.position).unwrap();
        bytes[start..start + usize::try_from(unit.len).unwrap()].fill(0x5a);
        let fs = Fs::from_reader(bytes).unwrap();
        let names = files();
        let fails: Vec<bool> = names.iter().map(|(name, _)| fs.read(name).is_err()).collect();
        let requests: Vec<_> = names.iter().map(|(name, _)| ReadRequest::whole(fs.inode(name).unwrap())).collect();
        for threads in [0, 3] {
            let failed = fs.read_many(&requests, threads).map_err(|error| error.request).map(drop);
            assert_eq!(failed.err(), fails.iter().position(|failed| *failed), "{what}, {threads} threads");
        }
    }
}

#[test]
fn the_sound_beginning_of_a_damaged_unit_is_read_in_every_way() {
    const LEN: usize = 3_000_000;
    for (what, builder) in [
        ("squashfs zstd", Builder::squashfs().codec(Choice::new(Codec::Zstd)).block_size(1 << 20)),
        ("squashfs lz4", Builder::squashfs().codec(Choice::new(Codec::Lz4)).block_size(1 << 20)),
        ("erofs lz4", Builder::erofs().block_size(128 << 10)),
        (
            "erofs zstd",
            Builder::erofs()
                .codec(Choice::new(Codec::Zstd))
                .target_kernel(crate::erofs::Kernel::new(6, 10))
                .block_size(128 << 10),
        ),
    ] {
        let entries = [Entry::file("f", numbers(LEN))];
        let mut bytes = builder.entries(entries).write_to(Cursor::new(Vec::new())).unwrap().0.into_inner();
        let sound = Fs::from_reader(bytes.clone()).unwrap();
        let nid = sound.inode("f").unwrap();
        let mut pieces = Vec::new();
        sound.image().stored_pieces(nid, 0..LEN as u64, &mut |piece| pieces.push(piece)).unwrap();
        // Not the first: whoever reads from the beginning of the file comes from a unit before.
        let piece = *pieces.iter().skip(1).max_by_key(|piece| piece.len).unwrap();
        assert!(piece.len > 90_000, "{what}: {pieces:?}, of which none is decoded in parts");
        let unit = piece.unit.unwrap();
        let damaged = usize::try_from(unit.position + unit.len * 2 / 3).unwrap()
            ..usize::try_from(unit.position + unit.len - 1).unwrap();
        bytes[damaged].fill(0xff);
        let mut readable = Vec::new();
        for part in [1, 1000, piece.len / 4, piece.len / 2, piece.len * 3 / 4, piece.len - 1, piece.len] {
            let range = 0..piece.offset + part;
            let request = ReadRequest { nid, range: range.clone() };
            let within = ReadRequest { nid, range: piece.offset..piece.offset + part };
            // Nothing is cached; the unit's first byte is; more than the wanted bytes were tried.
            let mut results = Vec::new();
            for before in [None, Some(1), Some(piece.len / 2), Some(piece.len)] {
                let fs = Fs::from_reader(bytes.clone()).unwrap();
                if let Some(len) = before {
                    let range = piece.offset..piece.offset + len;
                    let _ = fs.read_many(&[ReadRequest { nid, range }], 0);
                }
                let mut buf = vec![0; usize::try_from(range.end).unwrap()];
                results.push(fs.image().read_at(nid, &mut buf, 0).ok().map(|_| buf));
                results.push(fs.read_many(std::slice::from_ref(&request), 2).ok().map(|many| many.bytes));
                let two = fs.read_many(&[request.clone(), within.clone()], 2).ok();
                results.push(two.map(|many| many.get(0).unwrap().to_vec()));
            }
            let first = &results[0];
            let same: Vec<bool> = results.iter().map(|result| result == first).collect();
            assert!(same.iter().all(|same| *same), "{what}: {part} of {} bytes: {same:?}", piece.len);
            readable.push(first.is_some());
        }
        assert_eq!(readable.last(), Some(&false), "{what}: damage was not noticed");
        assert_eq!(readable[0], what != "squashfs lz4", "{what}: {readable:?}");
    }
}

#[test]
fn files_that_only_declare_their_size_take_no_memory() {
    let mut fake = FakeImage::default().dir(0, &[("huge", 1), ("short", 2)]).file(1, b"text").file(2, b"text");
    fake.inodes.get_mut(&1).unwrap().stat.kind = FileType::File { size: u64::MAX / 4 };
    fake.inodes.get_mut(&2).unwrap().stat.kind = FileType::File { size: 5 };
    let default = Fs::from(Arc::new(fake) as Arc<dyn Image>);
    for fs in [default.clone(), default.clone().with_read_limit(u64::MAX)] {
        let huge = fs.read("huge").unwrap_err();
        assert_eq!(huge.kind(), std::io::ErrorKind::OutOfMemory, "{huge}");
        let huge = fs.read_many(&[ReadRequest::whole(Nid(2)), ReadRequest::whole(Nid(1))], 2).unwrap_err();
        assert_eq!((huge.request, huge.source.kind()), (1, std::io::ErrorKind::OutOfMemory));
        assert!(fs.read("short").unwrap_err().to_string().contains("ends at byte 4, before its size"));
    }
}

#[test]
fn an_image_of_holes_takes_no_more_memory_than_the_limit() {
    const HOLE: u64 = 3 << 30;
    let dir = tempfile::tempdir().unwrap();
    let text = content(1, 5000);
    std::fs::write(dir.path().join("text"), text).unwrap();
    let hole = std::fs::File::create(dir.path().join("hole")).unwrap();
    hole.write_all_at(b"beginning", 0).unwrap();
    hole.set_len(HOLE).unwrap();
    for builder in [Builder::squashfs(), Builder::erofs()] {
        let image = builder.dir(dir.path()).write_to(Cursor::new(Vec::new())).unwrap().0.into_inner();
        assert!((image.len() as u64) < HOLE / 1000, "{}", image.len());
        let fs = Fs::from_reader(image).unwrap();
        let hole = fs.inode("hole").unwrap();
        let text = fs.inode("text").unwrap();
        let alone = [fs.read("hole").unwrap_err(), fs.read_inode(hole).unwrap_err()];
        let many = fs.read_many(&[ReadRequest::whole(text), ReadRequest::whole(hole)], 2).unwrap_err();
        assert_eq!(many.request, 1);
        for (error, needed) in alone.into_iter().map(|error| (error, HOLE)).chain([(many.source, HOLE + 5000)]) {
            assert!(
                matches!(error, Error::ReadLimit { needed: n, limit: 0x4000_0000, .. } if n == needed),
                "{error:?}"
            );
        }
        // Of a part, of several that together are too much, and exactly the limit.
        let part = ReadRequest { nid: hole, range: 5..105 };
        assert_eq!(fs.read_many(std::slice::from_ref(&part), 1).unwrap().bytes[..5], b"ning\0"[..]);
        let small = fs.clone().with_read_limit(5200);
        let parts = vec![part; 3];
        assert_eq!(small.read_many(&[&parts[..2], &[ReadRequest::whole(text)]].concat(), 1).unwrap().bytes.len(), 5200);
        let error = small.read_many(&[&[ReadRequest::whole(text)], &parts[..]].concat(), 1).unwrap_err();
        assert_eq!(error.request, 3);
        assert_eq!(
            error.source.to_string(),
            format!(
                "inode {}: 5300 bytes in memory, more than the limit of 5200; read the file in parts, or raise the limit",
                hole.0
            )
        );
        assert_eq!(small.read("text").unwrap().len(), 5000);
        assert!(small.with_read_limit(4999).read("text").is_err());
    }
}
