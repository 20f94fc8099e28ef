//! Streams that a library decodes, in images: Linux decides whether they are sound.

use super::access::image_of;
use super::*;
use crate::squashfs::reader::inode::InodeBody;
use crate::squashfs::{Fragments, SquashfsOptions};
use crate::testing::{can_mount, kernel_reads, streams};

/// An image with one file of one block, and the positions of the block and its size word.
struct Base {
    image: Vec<u8>,
    block: usize,
    word: usize,
}

fn base(codec: &str, len: u64) -> Base {
    let spec = Spec::of([("f".into(), Node::file(vec![text(1, len)]))]);
    let options = SquashfsOptions {
        fragments: Fragments::None,
        plain_metadata: true,
        block_size: 8192,
        ..SquashfsOptions::default()
    }
    .with(|build| {
        build.codec = codec.parse().unwrap();
        build.threads = 0;
    });
    let image = image_of(&spec, &options);
    let reader = open(&image).unwrap();
    assert_eq!(findings(&reader, 0), Vec::<String>::new(), "{codec}");
    let nid = find(&reader, "f");
    let InodeBody::File(file) = reader.inode(nid).unwrap().0.body else { panic!("a file") };
    let inode = reader.superblock.inode_table + (nid.0 >> 16) + 2 + (nid.0 & 0xffff);
    Base { block: file.start as usize, word: inode as usize + 32, image }
}

impl Base {
    fn len(&self) -> usize {
        u32::from_le_bytes(*self.image[self.word..].first_chunk().unwrap()) as usize
    }

    /// Replaces the block by a stream.
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
fn streams_that_linux_cannot_decode_are_damage() {
    if !can_mount("streams_that_linux_cannot_decode_are_damage") {
        return;
    }
    let dictionary = |mut base: Base| {
        // Half of what the streams declare.
        base.image[98..102].copy_from_slice(&4096u32.to_le_bytes());
        base.image
    };
    let cases: [(&str, &str, Vec<u8>); 5] = [
        (
            "gzip",
            "damaged or not of this format",
            base("gzip", 8000).put(&streams::deflate_with_symbol_286(8000, true)),
        ),
        ("lz4", "distance 0", base("lz4", 250).put(&streams::lz4_with_distance_0(250))),
        ("zstd", "a window of 134217728 bytes", base("zstd:3:content-size=no", 8000).set(5, 0x88)),
        ("xz", "a dictionary of 8192 bytes; Linux allocates 4096", dictionary(base("xz:6:bcj=x86", 8000))),
        ("xz", "a dictionary of 8192 bytes; Linux allocates 1", {
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

/// The image of one file `f`, and where the length of something in it is: a size word or the header of a metadata block.
fn with_length(codec: &str, of: &str) -> (Vec<u8>, usize) {
    let len = if of == "short block" { 9000 } else { 8192 };
    let file = Node::file(vec![text(1, if of == "fragment" { 3000 } else { len })]);
    // Enough of them for tables that shrink.
    let others = (0..40).map(|n| (format!("one of many names {n}").into_bytes(), Node::file(vec![])));
    let spec = Spec::of(others.chain([("f".into(), file)]));
    let fragments = if of == "fragment" { Fragments::Tails } else { Fragments::None };
    let plain = !of.contains("table");
    let options = SquashfsOptions { fragments, plain_metadata: plain, block_size: 8192, ..SquashfsOptions::default() }
        .with(|build| {
            build.codec = codec.parse().unwrap();
            build.threads = 0;
        });
    let image = image_of(&spec, &options);
    let reader = open(&image).unwrap();
    let inode = reader.superblock.inode_table + 2 + (find(&reader, "f").0 & 0xffff);
    let at = match of {
        "block" => inode + 32,
        "short block" => inode + 36,
        "fragment" => reader.fragments.area().start + 2 + 8,
        "inode table" => reader.superblock.inode_table,
        "directory table" => reader.superblock.directory_table,
        _ => panic!("{of}"),
    };
    (image, at as usize)
}

/// Linux ignores bytes after a stream, except with lzo and lz4, whose decoders require all of them.
#[test]
fn lengths_beyond_the_end_of_a_stream_are_as_linux_has_them() {
    let mounts = can_mount("lengths_beyond_the_end_of_a_stream_are_as_linux_has_them");
    for codec in ["gzip", "xz", "zstd", "lzo", "lz4"] {
        for of in ["block", "short block", "fragment", "inode table", "directory table"] {
            let (sound, at) = with_length(codec, of);
            for more in [1, 2, 60] {
                let mut image = sound.clone();
                let low = u16::from_le_bytes(*image[at..].first_chunk().unwrap());
                image[at..at + 2].copy_from_slice(&(low + more).to_le_bytes());
                let ignored = ["gzip", "xz", "zstd"].contains(&codec);
                let what = format!("{codec}, {of}: {more} more");
                assert!(read_f(&image) == read_f(&sound).filter(|_| ignored), "{what}");
                assert!(!mounts || kernel_reads("squashfs", &image) == read_f(&image), "the kernel, {what}");
                let found = open(&image).map(|reader| findings(&reader, 0)).unwrap_or_else(|_| vec!["refused".into()]);
                assert_eq!(found.iter().all(|finding| finding.starts_with("note: ")), ignored, "{what}: {found:?}");
                assert!(!ignored || found.iter().any(|finding| finding.contains("its stream takes")), "{what}");
            }
        }
    }
}

/// The file `f` as the reader has it, if it can be read.
fn read_f(image: &[u8]) -> Option<Vec<u8>> {
    let reader = open(image).ok()?;
    let nid = reader.lookup(reader.root(), b"f").ok()??;
    let mut bytes = vec![0; 16 << 10];
    let len = reader.read_at(nid, &mut bytes, 0).ok()?;
    bytes.truncate(len);
    Some(bytes)
}
