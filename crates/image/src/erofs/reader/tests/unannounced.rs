//! Images that use features their superblock does not announce: kernels read them, so they are sound.

use super::hostile::without_checksum;
use super::*;
use crate::erofs::format::{Incompat, algorithm};
use crate::erofs::reader::ErofsCompression;
use crate::erofs::reader::data::InodeData;
use crate::erofs::reader::map::{PieceStorage, StoredBytes, StoredPosition};
use crate::testing::{differences, snapshot_image};

const INCOMPAT: usize = 1024 + 0x50;
const LZ4_DISTANCE: usize = 1024 + 0x54;

fn spec() -> Spec {
    let file = |seed| Node::file(vec![text(seed, 30_000), noise(seed, 5000)]);
    Spec::of([(b"a".to_vec(), file(1)), (b"b".to_vec(), file(2)), (b"c".to_vec(), file(3))])
}

fn options(codec: &str, features: Features) -> ErofsOptions {
    ErofsOptions { features, cluster_size: 4096, ..ErofsOptions::default() }.with(|build| {
        build.codec = codec.parse().unwrap();
        build.threads = 0;
    })
}

/// Returns the image without a feature bit, and without a checksum.
fn without(image: &[u8], feature: Incompat) -> Vec<u8> {
    let mut image = without_checksum(image);
    let bits = u32::from_le_bytes(*image[INCOMPAT..].first_chunk().unwrap());
    assert_ne!(bits & feature.bits(), 0);
    image[INCOMPAT..INCOMPAT + 4].copy_from_slice(&(bits & !feature.bits()).to_le_bytes());
    image
}

/// Compares the trees, and expects one note that covers three inodes.
fn compare(image: &[u8], changed: &[u8], note: &str) {
    let (before, after) = (open(image).unwrap(), open(changed).unwrap());
    let snapshots = [&before, &after].map(|reader| snapshot_image(reader).unwrap());
    assert_eq!(differences(&snapshots[0], &snapshots[1]), Vec::<String>::new());
    let found = findings(&after, 0);
    let told = found.first().is_some_and(|one| one.starts_with("note: ") && one.contains(note));
    assert!(told && found.len() == 1 && found[0].contains("and 2 others"), "{found:?}");
}

/// As composefs makes them.
#[test]
fn files_in_chunks_without_the_bit_are_one_note() {
    let image = image_of(&spec(), &options("none", Features::CHUNKS));
    let changed = without(&image, Incompat::CHUNKED_FILES);
    compare(&image, &changed, "do not announce files in chunks");
}

/// As erofs-utils up to 1.5 made them with `-Elegacy-compress`: streams begin where their clusters begin.
#[test]
fn lz4_at_the_beginnings_of_clusters_is_a_note() {
    let image = image_of(&spec(), &options("lz4", Features::empty()));
    let mut changed = without(&image, Incompat::ZERO_PADDING | Incompat::BIG_CLUSTERS);
    changed[LZ4_DISTANCE..LZ4_DISTANCE + 2].copy_from_slice(&[0xff, 0xff]);
    let reader = open(&image).unwrap();
    for entry in reader.read_dir(reader.root()).unwrap() {
        let inode = reader.inode(entry.nid).unwrap();
        InodeData::open(&reader, &inode)
            .unwrap()
            .each(&mut |extent| {
                if let PieceStorage::Packed { stored: StoredBytes { place: StoredPosition::Image(at), len }, .. } =
                    extent.data
                {
                    let cluster = &mut changed[at as usize..(at + len) as usize];
                    let start = cluster.iter().position(|byte| *byte != 0).unwrap();
                    cluster.rotate_left(start);
                }
                Ok(())
            })
            .unwrap();
    }
    compare(&image, &changed, "start of their clusters");
    let stays = |bytes: &[u8]| {
        let reader = open(bytes).unwrap();
        let entries = reader.read_dir(reader.root()).unwrap();
        entries.iter().filter(|entry| reader.staying_data(entry.nid).unwrap().is_some()).count()
    };
    assert_eq!((stays(&image), stays(&changed)), (3, 0), "no new image can say that its clusters are like these");
    let reader = open(&changed).unwrap();
    let compression = &reader.superblock().compression;
    assert!(matches!(compression[..], [ErofsCompression::Lz4 { max_distance: 65_535, max_cluster_blocks: 1 }]));
    assert_eq!(compression[0].number(), algorithm::LZ4);
}
