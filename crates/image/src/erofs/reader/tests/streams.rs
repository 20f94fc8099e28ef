//! Streams and extents that packfs reads and Linux does not, or reads as other bytes, in images:
//! Linux decides whether they are sound.

use super::*;
use crate::erofs::format::{Advise, Layout, cluster_type, inode_format};
use crate::erofs::reader::data::InodeData;
use crate::erofs::reader::map::{MappedExtent, PieceStorage, StoredPosition};
use crate::testing::{Source, can_mount, erofs_utils, kernel_reads, streams};

/// An image with one file.
struct Base {
    image: Vec<u8>,
    /// Its first stored extent.
    extent: MappedExtent,
    /// Offset of the file's map.
    map: usize,
}

fn base(codec: &str, features: Features, pieces: Vec<Piece>) -> Base {
    let spec = Spec::of([(b"f".to_vec(), Node::file(pieces))]);
    let options = ErofsOptions {
        features,
        block_size: 512,
        cluster_size: 4096,
        target_kernel: "6.18".parse().unwrap(),
        ..ErofsOptions::default()
    }
    .with(|build| {
        build.codec = codec.parse().unwrap();
        build.threads = 0;
    });
    let image = hostile::without_checksum(&image_of(&spec, &options));
    let reader = open(&image).unwrap();
    assert_eq!(findings(&reader, 0), Vec::<String>::new(), "{codec}");
    let inode = reader.inode(find(&reader, "f")).unwrap();
    let mut extents = Vec::new();
    let visit = &mut |extent: &MappedExtent| {
        extents.push(*extent);
        Ok(())
    };
    InodeData::open(&reader, &inode).unwrap().each(visit).unwrap();
    let stored =
        |extent: &&MappedExtent| matches!(extent.data, PieceStorage::Packed { .. } | PieceStorage::Plain { .. });
    let extent = *extents.iter().find(stored).unwrap_or_else(|| panic!("{codec}: {extents:?}"));
    Base { image, extent, map: inode.payload.byte.next_multiple_of(8) as usize }
}

impl Base {
    /// Places a stream at the end of the extent's cluster.
    fn put(mut self, stream: &[u8]) -> Vec<u8> {
        let PieceStorage::Packed { stored, .. } = self.extent.data else { panic!("{:?}", self.extent) };
        let StoredPosition::Image(at) = stored.place else { panic!("{:?}", self.extent) };
        let cluster = &mut self.image[at as usize..(at + stored.len) as usize];
        let (padding, room) = cluster.split_at_mut(stored.len as usize - stream.len());
        padding.fill(0);
        room.copy_from_slice(stream);
        self.image
    }

    /// Sets bits of a word of the map.
    fn set(mut self, at: usize, bits: u32) -> Vec<u8> {
        let word = self.image[self.map + at..].first_chunk_mut::<4>().unwrap();
        *word = (u32::from_le_bytes(*word) | bits).to_le_bytes();
        self.image
    }
}

#[test]
fn streams_that_linux_cannot_read_are_damage() {
    if !can_mount("streams_that_linux_cannot_read_are_damage") {
        return;
    }
    let full = Features::FULL_INDEX;
    let encoded = Features::BITS_48.union(Features::UNALIGNED);
    let frame = || base("zstd", encoded, vec![text(1, 9000)]);
    let window = {
        let base = frame();
        let PieceStorage::Packed { stored, .. } = base.extent.data else { panic!("{:?}", base.extent) };
        let mut image = base.image;
        image[stored.place.byte() as usize + 5] = 0x88;
        image
    };
    let cases: [(&str, &str, Vec<u8>); 5] = [
        ("deflate", "damaged or not of this format", {
            let base = base("deflate", full, vec![text(1, 4096)]);
            let len = base.extent.len as usize;
            base.put(&streams::deflate_with_symbol_286(len, false))
        }),
        ("lz4", "distance 0", {
            let base = base("lz4", full, vec![text(1, 4096)]);
            let len = base.extent.len as usize;
            base.put(&streams::lz4_with_distance_0(len))
        }),
        ("zstd", "a window of", window),
        // Length of the first record: 2^20 - 1 bytes, of which the file uses a few.
        ("lz4", "ends inside it", {
            let base = base("lz4", encoded, vec![noise(1, 9000)]);
            let record = (base.map + 8).next_multiple_of(16) - base.map;
            base.set(record, (1 << 20) - 1)
        }),
        // Type of the first entry.
        ("lz4", "a hole", base("lz4", full, vec![text(1, 9000)]).set(16, cluster_type::HOLE.into())),
    ];
    for (codec, why, image) in cases {
        let reader = open(&image).unwrap();
        let mut ours = vec![0; 9000];
        let read = reader.read_at(find(&reader, "f"), &mut ours, 0);
        ours.truncate(*read.as_ref().unwrap_or_else(|error| panic!("{codec}: packfs reads it: {error}")));
        // At distance 0 there happen to be the same bytes, and the kernel may skip the end of an extent.
        let chance = ["distance 0", "ends inside it"].contains(&why);
        assert!(chance || kernel_reads("erofs", &image) != Some(ours), "{codec}, {why}: the kernel reads the same");
        let found = findings(&reader, 0);
        assert!(found.iter().any(|finding| finding.contains(why)), "{codec}: {found:?}");
    }
}

/// Asserts that the kernel cannot read the file, and that a check says why.
fn refused_by_both(image: &[u8], why: &str) {
    assert_eq!(kernel_reads("erofs", image), None, "{why}");
    let found = findings(&open(image).unwrap(), 0);
    assert!(found.iter().any(|finding| finding.contains(why)), "{why}: {found:?}");
}

#[test]
fn whole_blocks_do_not_fit_after_an_inode() {
    if !can_mount("whole_blocks_do_not_fit_after_an_inode") {
        return;
    }
    let mut image = base("none", Features::empty(), vec![noise(1, 1024)]).image;
    let reader = open(&image).unwrap();
    let nid = find(&reader, "f");
    // From the plain layout to the one with a tail after the inode.
    image[reader.inode_place(nid).byte as usize] |= (Layout::Inline as u8) << inode_format::LAYOUT_SHIFT;
    refused_by_both(&image, "cross a block");
    assert!(open(&image).unwrap().read_at(nid, &mut [0; 1024], 0).is_err());
}

#[test]
fn fragments_are_never_uncompressed_extents() {
    const TEST: &str = "fragments_are_never_uncompressed_extents";
    if !can_mount(TEST) || !erofs_utils(TEST) {
        return;
    }
    let spec =
        Spec::of([(b"f".to_vec(), Node::file(vec![noise(4, 1100)])), (b"g".to_vec(), Node::file(vec![text(3, 50)]))]);
    let line = "mkfs.erofs --quiet -b512 -T1 -zlzma -Efragments,dedupe $IMAGE $TREE";
    let mut image = hostile::without_checksum(&std::fs::read(Source::new(&spec).make(line)).unwrap());
    let reader = open(&image).unwrap();
    assert_eq!(findings(&reader, 0), Vec::<String>::new());
    let map = reader.inode(find(&reader, "f")).unwrap().payload.byte.next_multiple_of(8) as usize;
    assert_ne!(u16::from(image[map + 4]) & Advise::FRAGMENT.bits(), 0, "the end lies in the packed inode");
    // The second pack of two entries, the first of which is the last head: its type.
    let entry = image[map + 16..].first_chunk_mut::<2>().unwrap();
    assert_eq!(u16::from_le_bytes(*entry) >> 12, cluster_type::HEAD1);
    entry[1] &= 0xf;
    refused_by_both(&image, "uncompressed, but in the packed inode");
}
