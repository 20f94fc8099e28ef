//! Sample blocks, and choices that together reach every encoder.

mod cluster;
mod hostile;
mod oracles;
mod round_trip;
#[allow(dead_code, unreachable_pub, reason = "shared with the unit tests and other crates")]
#[path = "../../src/testing.rs"]
mod testing;

use packfs_codec::{Choice, table};

pub(crate) use testing::noise;

/// Choices that together reach every encoder.
pub(crate) const CHOICES: &[&str] = &[
    "none",
    "gzip",
    "gzip:1",
    "gzip:12",
    "gzip:9:window=8",
    "gzip:3:window=14:strategies=filtered",
    "gzip:9:strategies=default+filtered+huffman+rle+fixed",
    "deflate",
    "deflate:0",
    "deflate:1",
    "deflate:12",
    "xz",
    "xz:0",
    "xz:9:extreme",
    "xz:dict=8K:bcj=x86+powerpc+ia64+arm+armthumb+sparc+arm64+riscv",
    "xz:bcj=auto:lc=0,lp=4,pb=4",
    "lzma",
    "lzma:1",
    "lzma:3:extreme:lc=0,lp=3,pb=4",
    "lzo",
    "lzo:1",
    "lzo:algorithm=lzo1x_1",
    "snappy",
    "lz4",
    "lz4:acceleration=50",
    "lz4hc",
    "lz4hc:0",
    "lz4hc:1",
    "lz4hc:4",
    "zstd",
    "zstd:-100",
    "zstd:1",
    "zstd:22",
];

/// Every choice, parsed; panics if the list above leaves out a codec.
pub(crate) fn choices() -> Vec<Choice> {
    let choices: Vec<Choice> = CHOICES.iter().map(|text| text.parse().unwrap()).collect();
    assert!(table::CODECS.iter().all(|info| choices.iter().any(|choice| choice.codec() == info.codec)));
    choices
}

/// The largest block of these tests.
pub(crate) const BLOCK: usize = 1 << 17;

/// Bytes that compress: words of a small set in a random order.
pub(crate) fn text(len: usize, seed: u64) -> Vec<u8> {
    let words: [&[u8]; 8] =
        [b"inode ", b"block ", b"of ", b"the ", b"fragment ", &[0; 40], b"xattr\n", b"\xE8\x10\0\0\0"];
    let picks = noise(len / 2 + 1, seed);
    let mut bytes: Vec<u8> = picks.iter().flat_map(|pick| words[usize::from(pick % 8)]).copied().collect();
    bytes.truncate(len);
    bytes
}

/// Returns a destination in which everything fits.
pub(crate) fn roomy(len: usize) -> Vec<u8> {
    vec![0xAA; len + len / 8 + 1024]
}

/// Encodes into a roomy destination with a new encoder.
pub(crate) fn packed(choice: &Choice, block: &[u8]) -> Vec<u8> {
    let mut dst = roomy(block.len());
    let len = choice.encoder(BLOCK).unwrap().encode(block, &mut dst).unwrap().expect("it fits");
    dst.truncate(len);
    dst
}
