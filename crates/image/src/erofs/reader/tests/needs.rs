//! The decoder parameters that our writer declares are sufficient even on a kernel that has mounted
//! nothing else. The need of every cluster is computed, as existing decoders of a kernel may be
//! larger than requested.

use super::*;
use crate::erofs::format::Layout;
use crate::erofs::reader::data::InodeData;
use crate::erofs::reader::map::PieceStorage;
use crate::erofs::reader::{ErofsCompression, Inode};
use crate::erofs::tests::matrix;

/// Data that repeats at distances near the window sizes.
fn spec() -> Spec {
    let again = |kib: u64| {
        let far = vec![noise(kib, 3000), text(kib, (kib << 10) - 3000), noise(kib, 3000), text(kib + 1, 5000)];
        (format!("far{kib}").into_bytes(), Node::file(far))
    };
    let mut files: Vec<_> = [4, 15, 31, 60, 65, 120, 250, 500, 1000].map(again).into();
    files.push((b"mixed".to_vec(), Node::file(matrix::mixed(1, 100_000))));
    files.push((b"noise".to_vec(), Node::file(vec![noise(1, 100_000), text(1, 1)])));
    Spec::of(files)
}

/// Returns the window that a frame's header declares.
fn zstd_window(frame: &[u8]) -> u64 {
    assert_eq!(frame[..4], [0x28, 0xb5, 0x2f, 0xfd]);
    let (flags, rest) = (frame[4], &frame[5..]);
    let dictionary = [0, 1, 2, 4][usize::from(flags & 3)];
    if flags & 0x20 == 0 {
        let base = 1u64 << (10 + (rest[0] >> 3));
        return base + base / 8 * u64::from(rest[0] & 7);
    }
    // A single segment: the whole content of the frame.
    let (len, add) = [(1, 0), (2, 256), (4, 0), (8, 0)][usize::from(flags >> 6)];
    let mut bytes = [0; 8];
    bytes[..len].copy_from_slice(&rest[dictionary..dictionary + len]);
    u64::from_le_bytes(bytes) + add
}

/// Returns the number of bytes of history, or blocks, that a cluster needs.
fn need(declared: ErofsCompression, stream: &[u8], len: usize) -> u64 {
    match declared {
        ErofsCompression::Zstd { .. } => zstd_window(stream),
        ErofsCompression::Lzma { .. } => super::lzma::decode(stream, len).1 as u64,
        // The limit of the format.
        ErofsCompression::Deflate { .. } => 32 << 10,
        ErofsCompression::Lz4 { .. } => 65_535,
    }
}

fn given(declared: ErofsCompression) -> u64 {
    match declared {
        ErofsCompression::Zstd { window_log } => 1 << window_log,
        ErofsCompression::Lzma { dict_size } => dict_size.into(),
        ErofsCompression::Deflate { window_bits } => 1 << window_bits,
        ErofsCompression::Lz4 { max_distance, .. } => max_distance.into(),
    }
}

/// Returns the largest need among an image's files and its packed inode.
fn needs(reader: &ErofsReader, declared: ErofsCompression) -> u64 {
    let block = u64::from(reader.superblock().block_size);
    let names = reader.read_dir(reader.root()).unwrap();
    let mut inodes: Vec<Inode> = names.iter().map(|entry| reader.inode(entry.nid).unwrap()).collect();
    inodes.extend(reader.packed.clone());
    inodes.retain(|inode| inode.size > 0);
    let mut most = 0;
    for inode in inodes {
        let file = InodeData::open(reader, &inode).unwrap();
        file.each(&mut |extent| {
            let (stored, packed) = match extent.data {
                PieceStorage::Packed { stored, .. } => (stored, true),
                PieceStorage::Plain { stored, .. } => (stored, false),
                _ => return Ok(()),
            };
            let compressed = matches!(inode.layout, Layout::CompressedFull | Layout::CompressedCompact);
            if let (ErofsCompression::Lz4 { max_cluster_blocks, .. }, true) = (declared, compressed) {
                assert!(stored.len.div_ceil(block) <= max_cluster_blocks.into());
            }
            if packed {
                let mut bytes = vec![0; stored.len as usize];
                reader.read_stored("data", inode.payload.space, stored.place, &mut bytes)?;
                let start = bytes.iter().position(|byte| *byte != 0).unwrap();
                most = most.max(need(declared, &bytes[start..], extent.len as usize));
            }
            Ok(())
        })
        .unwrap();
    }
    most
}

#[test]
fn the_needs_of_decoders_are_declared() {
    let spec = spec();
    for cluster_size in [4 << 10, 64 << 10, 1 << 20] {
        for codec in ["lz4", "deflate:6", "lzma:1", "zstd:1", "zstd:15"] {
            for features in [Features::empty(), Features::ALL_FRAGMENTS, Features::BITS_48 | Features::UNALIGNED] {
                let what = format!("{codec}, {cluster_size}, {features:?}");
                let options = ErofsOptions {
                    features,
                    cluster_size,
                    target_kernel: "6.18".parse().unwrap(),
                    ..ErofsOptions::default()
                }
                .with(|build| build.codec = codec.parse().unwrap());
                let reader = open(&image_of(&spec, &options)).unwrap();
                let declared = reader.superblock().compression[0];
                let (need, given) = (needs(&reader, declared), given(declared));
                assert!(need > 1000 && need <= given, "{what}: {need} are needed, {given} declared");
            }
        }
    }
}

/// The decoder that reports distances decodes correctly, so its reports are right.
#[test]
fn distances_of_lzma_are_reported() {
    let choice: packfs_codec::Choice = "lzma:6".parse().unwrap();
    let mut encoder = choice.cluster_encoder(1 << 20).unwrap();
    for distance in [1, 2, 100, 4096, 65_536, 200_000] {
        let mut bytes = vec![0; distance];
        noise(1, distance as u64).fill(&mut bytes, 0);
        bytes.extend_from_within(..);
        bytes.extend(b"text text texts of a text");
        let mut stream = vec![0; bytes.len() + 4096];
        let len = encoder.encode(&bytes, &mut stream).unwrap().unwrap();
        let (decoded, farthest) = super::lzma::decode(&stream[..len], bytes.len());
        assert!(decoded == bytes, "{distance}");
        assert!(farthest >= distance, "{farthest} of {distance}");
    }
}
