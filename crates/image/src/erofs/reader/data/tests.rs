//! Files that mkfs.erofs never makes, in hand-made images: two algorithms in one file, plain
//! clusters of several blocks, large logical clusters, records of every length. The kernel decides
//! what is right.
#![allow(clippy::cast_possible_truncation, reason = "numbers of tests are small")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use packfs_codec::Codec;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

use crate::Image;
use crate::ReadAt;
use crate::erofs::format::{self, Incompat, Layout, algorithm};
use crate::erofs::reader::data::InodeData;
use crate::erofs::reader::inode::Inode;
use crate::erofs::reader::map::tests::write::{Form, Listed, Shape, write};
use crate::erofs::reader::{ErofsReader, ReadOptions};
use crate::image::Nid;
use crate::source::{ExtentStorage, StayingData, StoredExtent};
use crate::testing::{Mount, Node, Piece, Spec, can_mount, skipped};

const BLOCK: usize = 4096;
/// Inodes are in block 1, the root's entries in block 2, clusters after them.
const INODES: usize = BLOCK;
const ENTRIES: usize = 2 * BLOCK;
const DATA: usize = 3 * BLOCK;
const ROOT: u64 = 2;
const FILE: u64 = 4;

/// Storage of a part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Plain,
    Deflate,
    Zstd,
    /// By deflate, with this many more bytes that belong to another file.
    Shared(usize),
}

/// A file in an image, and its expected contents.
struct Handmade {
    image: Vec<u8>,
    content: Vec<u8>,
}

/// Makes a file of parts of these lengths.
fn handmade(shape: Shape, rotated: bool, parts: &[(How, usize)]) -> Handmade {
    let shape = Shape { at: (INODES + FILE as usize * 32 + 64) as u64, ..shape };
    let (mut data, mut content, mut list) = (vec![0; DATA], Vec::new(), Vec::new());
    for (n, (how, len)) in parts.iter().enumerate() {
        let more = if let How::Shared(more) = how { *more } else { 0 };
        let bytes = bytes(n as u64, len + more);
        let at = data.len();
        match how {
            How::Plain if rotated => rotate(&mut data, &bytes, content.len()),
            How::Plain => data.extend(&bytes),
            How::Zstd => encode(&mut data, Codec::Zstd, &bytes),
            How::Deflate | How::Shared(_) => encode(&mut data, Codec::Deflate, &bytes),
        }
        data.resize(data.len().next_multiple_of(BLOCK), 0);
        list.push(Listed {
            logical: content.len() as u64,
            len: *len as u64,
            block: (at / BLOCK) as u64,
            blocks: ((data.len() - at) / BLOCK) as u64,
            plain: *how == How::Plain,
            second: *how == How::Zstd,
            partial: more > 0,
        });
        content.extend(&bytes[..*len]);
    }
    let mut made = write(shape, list, 0);
    let at = shape.at as usize;
    made.bytes[at + 4] |= u8::from(rotated) << 4;
    data[at..made.bytes.len()].copy_from_slice(&made.bytes[at..]);
    let records = !matches!(shape.form, Form::Full | Form::Loose | Form::Dense);
    superblock(&mut data, records);
    inodes(&mut data, made.facts.layout, content.len());
    Handmade { image: data, content }
}

/// Bytes that compress.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    Piece::Text { seed, len: len as u64 }.fill(&mut out, 0);
    out
}

/// Appends a stream at the end of its blocks.
fn encode(data: &mut Vec<u8>, codec: Codec, bytes: &[u8]) {
    let choice = packfs_codec::Choice::new(codec);
    let mut out = vec![0; bytes.len()];
    let mut encoder = choice.cluster_encoder(choice.cluster_window(64 << 10)).unwrap();
    let len = encoder.encode(bytes, &mut out).unwrap().expect("it compresses");
    data.resize(data.len() + len.next_multiple_of(BLOCK) - len, 0);
    data.extend(&out[..len]);
}

/// Appends plain bytes: those up to the end of their first block in the file go to the same offset
/// of the last block.
fn rotate(data: &mut Vec<u8>, bytes: &[u8], logical: usize) {
    let place = logical % BLOCK;
    let (head, rest) = bytes.split_at((BLOCK - place).min(bytes.len()));
    let start = data.len();
    data.extend(rest);
    data.resize(start + bytes.len().next_multiple_of(BLOCK) - BLOCK + place, 0);
    data.extend(head);
}

fn superblock(data: &mut [u8], records: bool) {
    let mut raw = format::Superblock::new_zeroed();
    raw.magic = U32::new(format::MAGIC);
    raw.blkszbits = 12;
    raw.rb = U16::new(if records { 0 } else { ROOT as u16 });
    raw.rootnid_8b = U64::new(if records { ROOT } else { 0 });
    raw.inos = U64::new(2);
    raw.blocks_lo = U32::new((data.len() / BLOCK) as u32);
    raw.meta_blkaddr = U32::new((INODES / BLOCK) as u32);
    let mut incompat = Incompat::ZERO_PADDING
        | Incompat::BIG_CLUSTERS
        | Incompat::DEVICES_OR_SECOND_HEAD
        | Incompat::FRAGMENTS_OR_DEDUPE;
    incompat.set(Incompat::BITS_48, records);
    raw.feature_incompat = U32::new(incompat.bits());
    raw.u1 = U16::new(1 << algorithm::DEFLATE | 1 << algorithm::ZSTD);
    let mut out = raw.as_bytes().to_vec();
    let deflate = format::DeflateRecord { windowbits: 15, reserved: [0; 5] };
    let zstd = format::ZstdRecord { format: 0, windowlog: 10, reserved: [0; 4] };
    for record in [deflate.as_bytes(), zstd.as_bytes()] {
        out.extend((record.len() as u16).to_le_bytes());
        out.extend(record);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    data[1024..1024 + out.len()].copy_from_slice(&out);
}

fn inodes(data: &mut [u8], layout: Layout, size: usize) {
    let names: [(&[u8], u64, u8); 3] = [
        (b".", ROOT, format::file_type::DIR),
        (b"..", ROOT, format::file_type::DIR),
        (b"f", FILE, format::file_type::FILE),
    ];
    let (mut entries, mut text) = (Vec::new(), Vec::<u8>::new());
    for (name, nid, file_type) in names {
        let nameoff = U16::new((names.len() * 12 + text.len()) as u16);
        entries.extend(format::Dirent { nid: U64::new(nid), nameoff, file_type, reserved: 0 }.as_bytes());
        text.extend(name);
    }
    entries.extend(text);
    data[ENTRIES..ENTRIES + entries.len()].copy_from_slice(&entries);
    let mut put = |nid: u64, mode: u16, layout: Layout, size: usize, start: usize| {
        let mut raw = format::ExtendedInode::new_zeroed();
        raw.i_format = U16::new(1 | (layout as u16) << format::inode_format::LAYOUT_SHIFT);
        raw.i_mode = U16::new(mode);
        raw.i_size = U64::new(size as u64);
        raw.i_u = U32::new((start / BLOCK) as u32);
        raw.i_nlink = U32::new(if mode >> 12 == 4 { 2 } else { 1 });
        let at = INODES + nid as usize * 32;
        data[at..at + 64].copy_from_slice(raw.as_bytes());
    };
    put(ROOT, 0o040_755, Layout::Plain, entries.len(), ENTRIES);
    put(FILE, 0o100_644, layout, size, 0);
}

fn cases() -> Vec<(&'static str, Handmade)> {
    use How::{Deflate, Plain, Shared, Zstd};
    let shape = |form, bits| Shape::new(form, 12, bits, true, 0);
    let (full, dense) = (shape(Form::Full, 12), shape(Form::Dense, 12));
    let mixed = [(Deflate, 30_000), (Zstd, 50_001), (Plain, 4000), (Zstd, 9000), (Deflate, 100_000), (Plain, 20_480)];
    let one: Vec<_> = mixed.iter().filter(|part| part.0 != Zstd).copied().collect();
    let even = |n| vec![(Deflate, 16_384); n];
    let plain = [(Plain, 12_288), (Plain, 9000), (Plain, 20_000), (Deflate, 70_000), (Plain, 8192), (Deflate, 9999)];
    vec![
        ("two algorithms", handmade(full, false, &mixed)),
        ("plain clusters of several blocks", handmade(full, false, &plain)),
        ("the same in packs", handmade(dense, false, &plain)),
        ("the same rotated", handmade(full, true, &plain)),
        (
            "logical clusters of 16 KiB",
            handmade(shape(Form::Full, 14), false, &[(Zstd, 90_000), (Deflate, 70_000), (Plain, 4096), (Zstd, 33_333)]),
        ),
        ("a shared cluster", handmade(full, false, &[(Shared(30_000), 50_000), (Deflate, 20_000), (Shared(1), 9999)])),
        ("records of 4 bytes", handmade(shape(Form::Records(4), 14), false, &even(5))),
        ("records of 8 bytes", handmade(shape(Form::Records(8), 14), false, &even(5))),
        ("records of 16 bytes", handmade(shape(Form::Records(16), 12), false, &one)),
        ("records of 32 bytes", handmade(shape(Form::Records(32), 12), false, &one)),
        ("records, plain rotated", handmade(shape(Form::Records(16), 12), true, &plain)),
        (
            "records, shared",
            handmade(shape(Form::Records(16), 12), false, &[(Shared(30_000), 50_000), (Shared(7), 20_000)]),
        ),
    ]
}

#[test]
fn files_that_mkfs_never_makes_are_read() {
    for (what, Handmade { image, content }) in cases() {
        let image: Arc<dyn ReadAt> = Arc::new(image);
        let reader = ErofsReader::open(Arc::clone(&image), ReadOptions::default()).unwrap();
        let nid = crate::sink::lookup(&reader, b"f").unwrap().unwrap();
        let mut whole = vec![1; content.len() + 9];
        let got = reader.read_at(nid, &mut whole, 0).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(whole[..got] == content, "{what}");
        for (at, len) in [(0, 1), (1, 5000), (4095, 2), (16_383, 20_000), (content.len() - 3, 3), (7777, 77)] {
            let len = len.min(content.len() - at);
            let mut part = vec![1; len];
            assert_eq!(reader.read_at(nid, &mut part, at as u64).unwrap(), len);
            assert!(part == content[at..at + len], "{what}: {len} bytes at {at}");
        }
        let mut end = 0;
        for extent in reader.extents(nid).unwrap() {
            assert_eq!(extent.offset, end, "{what}");
            end += extent.len;
        }
        assert_eq!(end, content.len() as u64, "{what}");
        // Another image may refer to plain clusters only if their bytes are in order.
        let staying = reader.staying_data(nid).unwrap();
        let Some(StayingData::Extents(extents)) = staying else { continue };
        let mut at = 0;
        for StoredExtent { len, storage } in extents {
            if let ExtentStorage::Cluster { start, algorithm: None, .. } = storage {
                let mut stored = vec![0; len as usize];
                image.read_exact_at(&mut stored, start).unwrap();
                assert!(stored == content[at..at + stored.len()], "{what}: stored at byte {start}");
            }
            at += len as usize;
        }
    }
}

#[test]
fn the_kernel_reads_the_same() {
    if !can_mount("the_kernel_reads_the_same") {
        return;
    }
    for (what, Handmade { image, content }) in cases() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, image).unwrap();
        let mount = Mount::new(&path, "erofs").unwrap_or_else(|error| panic!("{what}: {error}"));
        let read = std::fs::read(mount.path().join("f")).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(read == content, "{what}");
    }
}

/// Options of mkfs.erofs that together use every form of map.
const MKFS: [&str; 18] = [
    "-zlz4",
    "-zlz4 -Elegacy-compress",
    "-zlz4 -C65536",
    "-zlz4 -C65536 -Elegacy-compress",
    "-zzstd -C65536 -Efragments",
    "-zzstd -C65536 -Efragments,legacy-compress",
    "-zlz4 -C16384 -Eall-fragments",
    "-zlz4 -C16384 -Eztailpacking",
    "-zlz4 -Eztailpacking,legacy-compress",
    "-zlz4 -Eztailpacking,fragments",
    "-zlz4 -C16384 -Ededupe",
    "-zlz4 -C16384 -Ededupe,fragments",
    "-zlz4 -b1024 -C4096 -Efragments",
    "-zzstd -C65536 -E48bit",
    "-zzstd -C65536 -E48bit,fragments",
    "-zzstd -C65536 -E48bit --max-extent-bytes=-131072",
    "--chunksize=4096",
    "--chunksize=8192 -E48bit",
];

/// Files of sizes around every boundary: compressible, incompressible, and duplicated ones.
fn source(dir: &Path) {
    let mut files = Vec::new();
    let mut add = |name: String, pieces: Vec<Piece>| files.push((name.into_bytes(), Node::file(pieces)));
    for len in [0, 1, 4095, 4096, 4097, 12_288, 65_535, 65_536, 65_537, 300_001] {
        add(format!("text{len}"), vec![Piece::Text { seed: len, len }]);
        add(format!("noise{len}"), vec![Piece::Noise { seed: len, len }]);
        add(format!("zeros{len}"), vec![Piece::Zeros(len)]);
        let mixed = |n| [Piece::Noise { seed: n, len: len / 5 }, Piece::Text { seed: n, len: len / 7 }];
        add(format!("mixed{len}"), (0..4).flat_map(mixed).collect());
        add(format!("again{len}"), (1..4).flat_map(mixed).collect());
    }
    Spec::of(files).create(dir).unwrap();
}

fn each_inode(reader: &ErofsReader, dir: Nid, visit: &mut dyn FnMut(&str, &Inode)) {
    for entry in reader.read_dir(dir).unwrap() {
        visit(&entry.name.escape_ascii().to_string(), &reader.inode(entry.nid).unwrap());
    }
    visit("/", &reader.inode(dir).unwrap());
    reader.packed.iter().for_each(|packed| visit("packed inode", packed));
}

#[test]
fn the_maps_of_mkfs_have_no_defects() {
    let version = Command::new("mkfs.erofs").arg("-V").output();
    if !version.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains(" 1.9")) {
        return skipped("the_maps_of_mkfs_have_no_defects", "mkfs.erofs 1.9");
    }
    let place = tempfile::tempdir().unwrap();
    let (tree, image) = (place.path().join("tree"), place.path().join("image"));
    std::fs::create_dir(&tree).unwrap();
    source(&tree);
    for options in MKFS {
        drop(std::fs::remove_file(&image));
        let made = Command::new("mkfs.erofs").args(options.split(' ')).args([&image, &tree]).output().unwrap();
        assert!(made.status.success(), "{options}: {}", String::from_utf8_lossy(&made.stderr));
        let reader = ErofsReader::open(Arc::new(std::fs::read(&image).unwrap()), ReadOptions::default()).unwrap();
        each_inode(&reader, reader.root(), &mut |name, inode| {
            if inode.size == 0 {
                return;
            }
            let mut found = Vec::new();
            let file = InodeData::open(&reader, inode).unwrap();
            file.check_map(&mut |error| found.push(error.to_string())).unwrap();
            assert_eq!(found, Vec::<String>::new(), "{options}: {name}");
            if let Ok(want) = std::fs::read(tree.join(name)) {
                let mut got = vec![1; want.len()];
                crate::erofs::reader::data::read_file(&reader, inode, &mut got, 0).unwrap();
                assert!(got == want, "{options}: {name}");
            }
        });
    }
}
