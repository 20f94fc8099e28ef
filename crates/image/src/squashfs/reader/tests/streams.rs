//! Streams that a library decodes, in images: Linux says whether they are sound.

use super::access::image_of;
use super::*;
use crate::squashfs::reader::inode::Body;
use crate::squashfs::{Fragments, Options};
use crate::testing::{can_mount, kernel_reads, streams};

/// An image with one file of a block, and where its block and its size word are.
struct Base {
    image: Vec<u8>,
    block: usize,
    word: usize,
}

fn base(codec: &str, len: u64) -> Base {
    let spec = Spec::of([("f".into(), Node::file(vec![text(1, len)]))]);
    let options = Options { fragments: Fragments::None, plain_metadata: true, block_size: 8192, ..Options::default() }
        .with(|build| {
            build.codec = codec.parse().unwrap();
            build.threads = 0;
        });
    let image = image_of(&spec, &options);
    let reader = open(&image).unwrap();
    assert_eq!(findings(&reader, 0), Vec::<String>::new(), "{codec}");
    let nid = find(&reader, "f");
    let Body::File(file) = reader.inode(nid).unwrap().0.body else { panic!("a file") };
    let inode = reader.superblock.inode_table + (nid.0 >> 16) + 2 + (nid.0 & 0xffff);
    Base { block: file.start as usize, word: inode as usize + 32, image }
}

impl Base {
    fn len(&self) -> usize {
        u32::from_le_bytes(*self.image[self.word..].first_chunk().unwrap()) as usize
    }

    /// Puts a stream in the place of the block.
    fn put(mut self, stream: &[u8]) -> Vec<u8> {
        let len = self.len();
        assert!(stream.len() <= len, "{} bytes in {len}", stream.len());
        self.image[self.block..self.block + len].fill(0);
        self.image[self.block..self.block + stream.len()].copy_from_slice(stream);
        self.image[self.word..self.word + 4].copy_from_slice(&(stream.len() as u32).to_le_bytes());
        self.image
    }

    /// Changes a byte of the stream.
    fn set(mut self, at: usize, byte: u8) -> Vec<u8> {
        self.image[self.block + at] = byte;
        self.image
    }
}

#[test]
fn what_linux_does_not_decode_is_damage() {
    if !can_mount("what_linux_does_not_decode_is_damage") {
        return;
    }
    let dictionary = |mut base: Base| {
        // Half of what the streams declare.
        base.image[98..102].copy_from_slice(&4096u32.to_le_bytes());
        base.image
    };
    let cases: [(&str, &str, Vec<u8>); 5] = [
        ("gzip", "not such a stream", base("gzip", 8000).put(&streams::deflate_with_symbol_286(8000, true))),
        ("lz4", "distance 0", base("lz4", 250).put(&streams::lz4_with_distance_0(250))),
        ("zstd", "a window of 134217728 bytes", base("zstd:3:content-size=no", 8000).set(5, 0x88)),
        ("xz", "a dictionary of 8192 bytes, where Linux has one of 4096", dictionary(base("xz:6:bcj=x86", 8000))),
        ("xz", "a dictionary of 8192 bytes, where Linux has one of 1", {
            let mut base = base("xz:6:bcj=x86", 8000);
            base.image[98..102].copy_from_slice(&1u32.to_le_bytes());
            base.image
        }),
    ];
    for (codec, why, image) in cases {
        let reader = open(&image).unwrap();
        let mut ours = vec![0; 8000];
        let read = reader.read_at(find(&reader, "f"), &mut ours, 0);
        ours.truncate(*read.as_ref().unwrap_or_else(|error| panic!("{codec}: our decoder takes it: {error}")));
        assert!(codec == "lz4" || kernel_reads("squashfs", &image) != Some(ours), "{codec}: the kernel reads the same");
        let found = findings(&reader, 0);
        assert!(found.iter().any(|finding| finding.contains(why)), "{codec}: {found:?}");
    }
}

#[test]
fn a_size_word_that_is_too_large_is_damage() {
    // Of gzip it is read by Linux and unsquashfs, of xz and zstd by Linux, of others by neither.
    for codec in ["gzip", "xz", "lzo", "lz4", "zstd"] {
        let mut base = base(codec, 8000);
        let len = base.len() as u32 + 1;
        base.image[base.word..base.word + 4].copy_from_slice(&len.to_le_bytes());
        let found = findings(&open(&base.image).unwrap(), 0);
        assert!(found.iter().any(|finding| finding.contains("damaged data")), "{codec}: {found:?}");
    }
}
