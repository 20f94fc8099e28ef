//! Every codec gives back what it took, at every size and into every destination.

use packfs_codec::{Choice, Codec, table};

/// Choices that together reach every encoder.
const CHOICES: &[&str] = &[
    "none",
    "gzip",
    "gzip:1",
    "gzip:12",
    "gzip:9:window=8",
    "gzip:9:strategies=default+filtered+huffman+rle+fixed",
    "xz",
    "xz:0",
    "xz:9:extreme",
    "lzma",
    "lzma:1",
    "lz4",
    "lz4:acceleration=50",
    "lz4hc",
    "lz4hc:1",
    "zstd",
    "zstd:22",
    "zstd:1",
    "zstd:-100",
];

/// Bytes that compress: words of a small set in a random order.
fn text(len: usize, mut seed: u64) -> Vec<u8> {
    let words: [&[u8]; 8] =
        [b"inode ", b"block ", b"of ", b"the ", b"fragment ", b"\0\0\0\0\0\0\0\0", b"xattr\n", b"7"];
    let mut bytes = Vec::with_capacity(len + 16);
    while bytes.len() < len {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        bytes.extend_from_slice(words[usize::from(seed.to_le_bytes()[3]) % 8]);
    }
    bytes.truncate(len);
    bytes
}

#[test]
fn blocks_come_back() {
    for name in CHOICES {
        let choice: Choice = name.parse().unwrap();
        let mut encoder = choice.encoder(1 << 17).unwrap();
        let mut decoder = choice.codec().decoder().unwrap();
        for len in [1, 2, 7, 100, 4095, 4096, 8192, 131_071, 131_072] {
            let block = text(len, 99);
            let mut packed = vec![0xAA; len + len / 16 + 1024];
            let packed_len = encoder.encode(&block, &mut packed).unwrap().unwrap();
            let mut back = vec![0x55; len];
            let got = decoder.decode(&packed[..packed_len], &mut back).unwrap_or_else(|e| panic!("{name} {len}: {e}"));
            assert_eq!((got, &back), (len, &block), "{name} {len}");
        }
    }
    assert!(
        table::CODECS.iter().all(|info| info.codec == Codec::Lzo || CHOICES.iter().any(|c| c.starts_with(info.name)))
    );
}
