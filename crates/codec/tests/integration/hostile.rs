//! Decoders on malicious input: they return an error or some bytes, never more than requested.

use crate::{BLOCK, choices, noise, packed, text};
use packfs_codec::{Codec, DecodedStream, Decoder, Error};
use proptest::prelude::*;

/// Decodes into the middle of a larger buffer and checks that nothing around it is touched.
fn decode(decoder: &mut dyn Decoder, src: &[u8], len: usize) -> Result<Vec<u8>, Error> {
    const GUARD: usize = 4096;
    let mut buffer = vec![0xC5; len + 2 * GUARD];
    let result = decoder.decode(src, &mut buffer[GUARD..GUARD + len]);
    assert!(buffer[..GUARD].iter().chain(&buffer[GUARD + len..]).all(|byte| *byte == 0xC5), "wrote outside");
    match result {
        Ok(got) => {
            assert!(got <= len, "{got} bytes of {len}");
            Ok(buffer[GUARD..GUARD + got].to_vec())
        }
        Err(error) => {
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            Err(error)
        }
    }
}

/// One choice of each codec.
fn codecs() -> Vec<packfs_codec::Choice> {
    let mut choices = choices();
    choices.dedup_by_key(|choice| choice.codec());
    choices
}

#[test]
fn streams_longer_than_their_block_are_refused() {
    for choice in codecs() {
        let mut decoder = choice.codec().decoder().unwrap();
        for block in [text(5000, 1), noise(5000, 1), vec![0; BLOCK]] {
            let bytes = packed(&choice, &block);
            for short in [0, 1, block.len() / 2, block.len() - 1] {
                let got = decode(decoder.as_mut(), &bytes, short);
                assert!(got.is_err(), "{choice}: {} bytes into {short}", block.len());
            }
            // The decoder still works afterwards.
            assert!(decode(decoder.as_mut(), &bytes, block.len()).unwrap() == block, "{choice}");
        }
    }
}

#[test]
fn bytes_after_the_stream_are_refused() {
    for choice in codecs() {
        let mut decoder = choice.codec().decoder().unwrap();
        let block = text(5000, 1);
        for tail in [&[0][..], &[0; 4], &[0xFF; 40], &packed(&choice, &block)] {
            let bytes = [&packed(&choice, &block), tail].concat();
            assert!(decode(decoder.as_mut(), &bytes, block.len()).is_err(), "{choice}: {} bytes more", tail.len());
        }
    }
}

#[test]
fn a_stream_that_marks_its_end_is_separated_from_following_bytes() {
    for choice in codecs() {
        let (codec, block) = (choice.codec(), text(5000, 1));
        let stream = packed(&choice, &block);
        let has_end = matches!(codec, Codec::Gzip | Codec::Deflate | Codec::Xz | Codec::Zstd);
        for mut decoder in [codec.decoder().unwrap(), codec.strict_decoder(1 << 17).unwrap()] {
            for tail in [&[][..], &[0], &[0; 4], &[0xFF; 40], &stream] {
                let bytes = [&stream, tail].concat();
                let mut dst = vec![0; block.len()];
                let decoded = decoder.decode_stream(&bytes, &mut dst);
                let expected = DecodedStream { taken: stream.len(), len: block.len() };
                match has_end || tail.is_empty() {
                    true => assert!(decoded.unwrap() == expected && dst == block, "{choice}: {} more", tail.len()),
                    false => assert!(decoded.is_err(), "{choice}: {} more", tail.len()),
                }
            }
        }
    }
}

#[test]
fn a_truncated_stream_never_gives_the_whole_block() {
    for choice in codecs() {
        let mut decoder = choice.codec().decoder().unwrap();
        let block = text(3000, 1);
        let bytes = packed(&choice, &block);
        for len in 0..bytes.len() {
            let got = decode(decoder.as_mut(), &bytes[..len], block.len());
            assert!(!got.is_ok_and(|got| got == block), "{choice}: {len} of {} bytes", bytes.len());
        }
    }
}

#[test]
fn a_damaged_stream_with_a_checksum_is_refused() {
    for choice in codecs().iter().filter(|choice| matches!(choice.codec(), Codec::Gzip | Codec::Xz)) {
        let mut decoder = choice.codec().decoder().unwrap();
        let block = text(3000, 1);
        let bytes = packed(choice, &block);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let got = decode(decoder.as_mut(), &damaged, block.len());
            // Some bits do not affect the content, such as zlib's level and window.
            assert!(got.is_err() || got.unwrap() == block, "{choice}: bit {bit}");
        }
    }
}

/// Streams longer than the block they encode are decoded like any other: some writers store them.
#[test]
fn encoded_streams_longer_than_their_block_are_read() {
    for choice in codecs().iter().filter(|choice| choice.codec() != Codec::None) {
        let block = noise(2000, 9);
        let bytes = packed(choice, &block);
        assert!(bytes.len() > block.len(), "{choice}");
        assert!(decode(choice.codec().decoder().unwrap().as_mut(), &bytes, block.len()).unwrap() == block);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_decode_or_are_corrupt(
        junk in prop::collection::vec(any::<u8>(), 0..600),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        len in 0..9000usize,
        seed: u64,
    ) {
        for choice in codecs() {
            let mut decoder = choice.codec().decoder().unwrap();
            let stream = packed(&choice, &text(4000, seed));
            let mut damaged = stream.clone();
            for (at, byte) in &flips {
                damaged[at.index(stream.len())] = *byte;
            }
            // A valid header lets the junk get farther.
            let headed = [&stream[..stream.len().min(24)], &junk].concat();
            for bytes in [&junk, &damaged, &headed] {
                let _ = decode(decoder.as_mut(), bytes, len);
            }
        }
    }
}
