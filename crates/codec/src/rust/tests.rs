//! Compares each Rust decoder with the C library that it replaces: on encoder output, on the same
//! output damaged, and on inputs kept from fuzzing.

use proptest::prelude::*;

use crate::rust::{inflate::ZlibRsDecoder, lz4, xz, zstd};
use crate::testing::letters;
use crate::{Choice, Codec, Decoder, Error};

/// Relation of the verdicts of two decoders on damaged bytes.
#[derive(Clone, Copy, PartialEq)]
enum VerdictRule {
    /// Both accept the same streams.
    Same,
    /// The library accepts everything that the Rust decoder accepts, and more: libdeflate ignores
    /// codes without a meaning, liblzma checks and filters that no image has.
    Stricter,
    /// Each accepts streams that the other refuses; if both accept one, their results agree.
    Free,
}

struct DecoderPair {
    codec: Codec,
    c: Box<dyn Decoder>,
    rust: Box<dyn Decoder>,
    verdicts: VerdictRule,
}

fn pairs() -> Vec<DecoderPair> {
    let rust: [(Codec, Box<dyn Decoder>, VerdictRule); 6] = [
        (Codec::Gzip, Box::new(ZlibRsDecoder::zlib()), VerdictRule::Stricter),
        (Codec::Deflate, Box::new(ZlibRsDecoder::raw()), VerdictRule::Stricter),
        (Codec::Xz, Box::new(xz::RustXzDecoder::default()), VerdictRule::Stricter),
        (Codec::Lzma, Box::new(xz::RustLzmaDecoder::default()), VerdictRule::Stricter),
        (Codec::Lz4, Box::new(lz4::RustLz4Decoder::new(65_535)), VerdictRule::Same),
        (Codec::Zstd, Box::new(zstd::RustZstdDecoder::default()), VerdictRule::Free),
    ];
    let pair =
        |(codec, rust, verdicts): (Codec, _, _)| DecoderPair { codec, c: codec.decoder().unwrap(), rust, verdicts };
    rust.into_iter().map(pair).collect()
}

impl DecoderPair {
    /// Gives `src` to both decoders, once whole and once for its beginning, with room for `len` bytes.
    fn compare(&mut self, src: &[u8], len: usize) {
        let name = self.codec.name();
        let mut c = vec![0x55; len];
        let mut rust = vec![0x55; len];
        let by_c = self.c.decode(src, &mut c);
        let by_rust = self.rust.decode(src, &mut rust);
        match (&by_c, &by_rust) {
            (Ok(want), Ok(got)) => assert!(want == got && c[..*want] == rust[..*got], "{name}: {want} and {got} bytes"),
            (Err(Error::Corrupt { .. }), Err(Error::Corrupt { .. })) => {}
            (Ok(_), Err(Error::Corrupt { .. })) if self.verdicts != VerdictRule::Same || self.no_distance(src) => {}
            (Err(Error::Corrupt { .. }), Ok(_)) if self.verdicts == VerdictRule::Free => {}
            other => panic!("{name}: {len} bytes of {}: {other:?}", src.escape_ascii()),
        }
        if by_c.is_err() || !self.can_stop_early() {
            return;
        }
        for part in [0, 1, len / 3, len] {
            let mut c = vec![0; part];
            let mut rust = vec![0; part];
            match (self.c.decode_prefix(src, &mut c), self.rust.decode_prefix(src, &mut rust)) {
                (Ok(()), Ok(())) => assert!(c == rust, "{name}: the first {part} bytes"),
                (Err(_), Err(_)) => {}
                (Ok(()), Err(_)) if by_rust.is_err() => {}
                (Ok(()), Err(Error::Corrupt { .. })) | (Err(_), Ok(())) if self.verdicts == VerdictRule::Free => {}
                other => panic!("{name}: the first {part} bytes of {}: {other:?}", src.escape_ascii()),
            }
        }
    }

    /// Returns true if both decoders can decode the beginning of a stream only.
    fn can_stop_early(&self) -> bool {
        !matches!(self.codec, Codec::Gzip | Codec::Xz | Codec::Lzma)
    }

    /// True for LZ4 with a match at distance 0, which liblz4 accepts.
    fn no_distance(&mut self, src: &[u8]) -> bool {
        self.codec == Codec::Lz4 && src.windows(2).any(|pair| pair == [0, 0])
    }
}

/// Bytes with matches of many lengths at many distances.
fn mixed(len: usize, seed: u64) -> Vec<u8> {
    let picks = letters(len / 2 + 2, seed, 251);
    let mut all: Vec<u8> = Vec::with_capacity(len + 600);
    for (at, pick) in picks.iter().enumerate() {
        if all.len() >= len {
            break;
        }
        let pick = usize::from(*pick);
        if pick < 60 && !all.is_empty() {
            let distance = 1 + pick * 37 * (at % 7 + 1) % all.len();
            let from = all.len() - distance;
            (0..pick * 5).for_each(|n| all.push(all[from + n]));
        } else {
            all.push(picks[(at * 7) % picks.len()]);
        }
    }
    all.resize(len, b'.');
    all
}

fn packed(text: &str, block: &[u8]) -> Vec<u8> {
    let choice: Choice = text.parse().unwrap();
    let mut dst = vec![0; block.len() + block.len() / 8 + 1024];
    let len = choice.encoder(1 << 20).unwrap().encode(block, &mut dst).unwrap().unwrap();
    dst.truncate(len);
    dst
}

const CHOICES: [(Codec, &[&str]); 6] = [
    (Codec::Gzip, &["gzip:1", "gzip:9", "gzip:9:window=9", "gzip:6:strategies=fixed", "gzip:6:strategies=huffman"]),
    (Codec::Deflate, &["deflate:0", "deflate:1", "deflate:12"]),
    (Codec::Xz, &["xz:1", "xz:6", "xz:0:bcj=x86:lc=0,lp=4,pb=4"]),
    (Codec::Lzma, &["lzma:1", "lzma:6", "lzma:0:lc=0,lp=3,pb=0"]),
    (Codec::Lz4, &["lz4", "lz4:acceleration=30", "lz4hc"]),
    (Codec::Zstd, &["zstd:-20", "zstd:1", "zstd:15", "zstd:22", "zstd:3:content-size=no"]),
];

#[test]
fn encoder_output_is_read() {
    for mut pair in pairs() {
        let (_, choices) = CHOICES.iter().find(|(codec, _)| *codec == pair.codec).unwrap();
        for text in *choices {
            for len in [0, 1, 5, 13, 100, 5000, 131_072, 1 << 20] {
                for block in [mixed(len, 3), letters(len, 5, 255), vec![0; len]] {
                    let stream = packed(text, &block);
                    let mut back = vec![0; len];
                    assert_eq!(pair.rust.decode(&stream, &mut back), Ok(len), "{text}");
                    assert!(back == block, "{text}: {len} bytes");
                    pair.compare(&stream, len);
                    pair.compare(&stream, len + 20);
                    pair.compare(&stream, len.saturating_sub(1));
                    pair.compare(&[&stream[..], &[0]].concat(), len);
                }
            }
        }
    }
}

/// Decoding the beginning of a stream needs only its beginning: the rest may be damaged or missing.
#[test]
fn decoding_a_beginning_needs_only_that_part() {
    for mut pair in pairs().into_iter().filter(DecoderPair::can_stop_early) {
        let block = mixed(700_000, 9);
        let stream = packed(CHOICES.iter().find(|(codec, _)| *codec == pair.codec).unwrap().1[1], &block);
        let half = &stream[..stream.len() / 2];
        let mut start = vec![0; 10_000];
        pair.rust.decode_prefix(half, &mut start).unwrap();
        assert!(start == block[..10_000], "{}", pair.codec.name());
        assert!(pair.rust.decode_prefix(half, &mut vec![0; 700_000]).is_err());
    }
}

/// A frame that declares a window of two gigabytes, and one that declares as much content.
#[test]
fn zstd_frames_do_not_decide_how_much_memory_is_used() {
    let block = mixed(50_000, 4);
    let mut frame = packed("zstd:3:content-size=no", &block);
    frame[5] = 21 << 3;
    let mut back = vec![0; block.len()];
    let mut decoder = zstd::RustZstdDecoder::default();
    assert_eq!(decoder.decode(&frame, &mut back), Ok(block.len()));
    assert!(back == block);
    let promise = [&[0x28, 0xb5, 0x2f, 0xfd, 0b1010_0000][..], &(2u32 << 30).to_le_bytes(), &[1, 0, 0]].concat();
    assert!(matches!(decoder.decode(&promise, &mut back), Err(Error::Corrupt { .. })));
    assert!(matches!(decoder.decode_prefix(&promise, &mut back), Err(Error::Corrupt { .. })));
}

/// Inputs of the fuzz target begin with a codec and a length; here every decoder gets them.
#[test]
fn kept_inputs_of_fuzzing_decode_alike() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/codec_decode");
    // The published crate does not contain them.
    let Ok(files) = std::fs::read_dir(kept) else { return };
    for file in files {
        let input = std::fs::read(file.unwrap().path()).unwrap();
        let Some((head, stream)) = input.split_at_checked(3) else { continue };
        let len = usize::from(u16::from_le_bytes([head[1], head[2]]) % 16_385);
        pairs().iter_mut().for_each(|pair| pair.compare(stream, len));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn damaged_streams_decode_alike(
        junk in prop::collection::vec(any::<u8>(), 0..300),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        len in 0..5000usize,
        room in 0..6000usize,
        seed: u64,
    ) {
        for pair in &mut pairs() {
            let (_, choices) = CHOICES.iter().find(|(codec, _)| *codec == pair.codec).unwrap();
            for text in *choices {
                let block = mixed(len, seed);
                let stream = packed(text, &block);
                let mut damaged = stream.clone();
                flips.iter().for_each(|(at, byte)| damaged[at.index(stream.len())] = *byte);
                let headed = [&stream[..stream.len().min(24)], &junk].concat();
                for src in [&stream, &damaged, &headed, &junk] {
                    pair.compare(src, room);
                    pair.compare(src, len);
                }
            }
        }
    }
}
