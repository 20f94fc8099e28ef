//! Streams that libraries decode and Linux does not. The tests of images ask Linux itself.

use crate::{Choice, Codec, Decoder};

fn packed(choice: &str, src: &[u8]) -> Vec<u8> {
    let choice: Choice = choice.parse().unwrap();
    let mut dst = vec![0; src.len() + 200];
    let len = choice.encoder(src.len()).unwrap().encode(src, &mut dst).unwrap().unwrap();
    dst.truncate(len);
    dst
}

fn decode(mut decoder: Box<dyn Decoder>, stream: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let mut dst = vec![0; len];
    let got = decoder.decode(stream, &mut dst).map_err(|error| error.to_string())?;
    dst.truncate(got);
    Ok(dst)
}

fn data() -> Vec<u8> {
    (0..60_000u32).map(|n| (n.wrapping_mul(n >> 3) >> 7).to_le_bytes()[0] & 31).collect()
}

#[test]
fn encoder_output_passes_unchanged() {
    let src = data();
    for choice in ["gzip:1", "gzip:9", "deflate:6", "xz:6", "xz:6:bcj=x86", "lz4", "lz4hc", "zstd:3", "zstd:19", "lzo"]
    {
        let codec = choice.parse::<Choice>().unwrap().codec();
        let stream = packed(choice, &src);
        for room in [src.len(), src.len() + 1000] {
            let got = decode(codec.strict_decoder(65_536).unwrap(), &stream, room);
            assert!(got.as_deref() == Ok(&src), "{choice}: {:?}", got.err());
        }
        let long = [&stream[..], b"x"].concat();
        assert!(decode(codec.strict_decoder(65_536).unwrap(), &long, src.len()).is_err(), "{choice}");
        assert!(decode(codec.strict_decoder(65_536).unwrap(), &stream, src.len() - 1).is_err(), "{choice}");
        assert!(decode(codec.strict_decoder(65_536).unwrap(), &stream[..stream.len() - 1], src.len()).is_err());
    }
}

#[test]
fn windows_are_limited() {
    let src = [data(), data()].concat();
    for (choice, enough, why) in [("zstd:19", 131_072, "a window of"), ("xz:6", 131_072, "a dictionary of")] {
        let codec = choice.parse::<Choice>().unwrap().codec();
        let stream = packed(choice, &src);
        let stream = if codec == Codec::Zstd { packed("zstd:19:content-size=no", &src) } else { stream };
        assert!(decode(codec.strict_decoder(enough).unwrap(), &stream, src.len()).is_ok_and(|got| got == src));
        let refused = decode(codec.strict_decoder(4096).unwrap(), &stream, src.len()).unwrap_err();
        assert!(refused.contains(why), "{choice}: {refused}");
    }
    // A frame that declares less than it needs: 2 KiB, with a match 3,000 bytes back.
    let noise: Vec<u8> = (1..=1000u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 11).to_le_bytes()[1]).collect();
    let src = [&noise[..], &[0; 2000], &noise].concat();
    let mut stream = packed("zstd:3:content-size=no", &src);
    stream[5] = 1 << 3;
    assert!(decode(Codec::Zstd.decoder().unwrap(), &stream, src.len()).is_ok_and(|got| got == src));
    assert!(decode(Codec::Zstd.strict_decoder(131_072).unwrap(), &stream, src.len()).is_err());
}

#[test]
fn huffman_codes_are_those_of_zlib() {
    for (stream, len) in [(too_many_lengths(), 3), (too_many_distances(), 3)] {
        assert!(decode(Codec::Deflate.decoder().unwrap(), &stream, len).is_ok(), "libdeflate accepts it: {stream:x?}");
        assert!(decode(Codec::Deflate.strict_decoder(32_768).unwrap(), &stream, len).is_err(), "{stream:x?}");
    }
}

/// Writes a deflate block with custom codes.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn number(&mut self, value: u32, bits: u32) {
        self.0.extend((0..bits).map(|bit| value >> bit & 1 == 1));
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        self.0.chunks(8).map(byte).collect()
    }
}

/// Encodes `aaa` with codes for `lengths` literals and lengths and for `distances` distances; `a`
/// and the end have codes of one bit.
fn block(lengths: u32, distances: u32) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.number(1, 1);
    bits.number(2, 2);
    bits.number(lengths - 257, 5);
    bits.number(distances - 1, 5);
    // Codes of the code lengths, one bit each: 1 stands for 18 (11 to 138 zeros), 0 for 1.
    bits.number(18 - 4, 4);
    for symbol in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1] {
        bits.number(u32::from([18, 1].contains(&symbol)), 3);
    }
    let zeros = |bits: &mut Bits, count: u32| {
        bits.number(1, 1);
        bits.number(count - 11, 7);
    };
    zeros(&mut bits, 97);
    bits.number(0, 1);
    zeros(&mut bits, 138);
    zeros(&mut bits, 20);
    bits.number(0, 1);
    // The other literals and lengths, and the distances, have no code.
    zeros(&mut bits, lengths - 257 + distances);
    for end in [0, 0, 0, 1] {
        bits.number(end, 1);
    }
    bits.bytes()
}

fn too_many_lengths() -> Vec<u8> {
    block(288, 30)
}

fn too_many_distances() -> Vec<u8> {
    block(286, 32)
}

#[test]
fn a_block_with_as_many_codes_as_there_are_is_taken() {
    assert_eq!(decode(Codec::Deflate.strict_decoder(32_768).unwrap(), &block(286, 30), 3).as_deref(), Ok(&b"aaa"[..]));
}
