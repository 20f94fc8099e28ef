//! Every codec decodes its own output to the original, at every size and into every destination.

use crate::{BLOCK, choices, noise, packed, roomy, text};
use packfs_codec::{Choice, Encoder};
use proptest::prelude::*;

/// Room that an encoder may demand beyond the result, so that a cheap check tells that it fits.
const SLACK: usize = 64;

/// Encodes `block` with little and with ample room, compares the results, and decodes them.
fn check(choice: &Choice, encoder: &mut dyn Encoder, block: &[u8]) {
    let what = format!("{choice}, {} bytes", block.len());
    let want = packed(choice, block);
    for room in [block.len().saturating_sub(1), want.len().saturating_sub(1), roomy(block.len()).len()] {
        let mut dst = vec![0x55; room];
        match encoder.encode(block, &mut dst).unwrap() {
            Some(len) => assert!(dst[..len] == want, "{what}: depends on the room or on earlier blocks"),
            None => assert!(room < want.len() + SLACK, "{what}: {} bytes do not fit into {room}", want.len()),
        }
    }
    let mut decoder = choice.codec().decoder().unwrap();
    for spare in [0, 100] {
        let mut back = vec![0x55; block.len() + spare];
        let len = decoder.decode(&want, &mut back).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(back[..len] == *block, "{what}: decodes to other bytes");
    }
}

#[test]
fn blocks_of_every_size_round_trip() {
    for choice in choices() {
        let mut encoder = choice.encoder(BLOCK).unwrap();
        for len in [0, 1, 2, 3, 4, 7, 12, 13, 100, 4095, 4096, BLOCK] {
            check(&choice, encoder.as_mut(), &text(len, 99));
        }
        check(&choice, encoder.as_mut(), &noise(20_000, 5));
        check(&choice, encoder.as_mut(), &[0; 20_000]);
    }
}

#[test]
fn a_block_that_does_not_shrink_does_not_fit() {
    for choice in choices() {
        let mut encoder = choice.encoder(BLOCK).unwrap();
        for len in [1, 5, 100, 4096, BLOCK] {
            let mut dst = vec![0; len - 1];
            assert_eq!(encoder.encode(&noise(len, 3), &mut dst), Ok(None), "{choice}: {len} bytes");
        }
    }
}

#[test]
fn decoders_read_the_output_of_metadata_encoders() {
    for choice in choices() {
        let block = text(8192, 7);
        let mut dst = roomy(block.len());
        let len = choice.metadata_encoder().unwrap().encode(&block, &mut dst).unwrap().unwrap();
        let mut back = vec![0; block.len()];
        assert_eq!(choice.codec().decoder().unwrap().decode(&dst[..len], &mut back), Ok(block.len()), "{choice}");
        assert!(back == block, "{choice}");
    }
}

/// Blocks of many kinds: random, constant, words, and a sequence of such pieces.
fn block() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (0..5000usize, any::<u64>()).prop_map(|(len, seed)| noise(len, seed)),
        (0..9000usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        (0..9000usize, any::<u64>()).prop_map(|(len, seed)| text(len, seed)),
        prop::collection::vec(0u8..4, 0..3000),
    ];
    prop::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]

    #[test]
    fn any_blocks_round_trip(blocks in prop::collection::vec(block(), 1..4)) {
        for choice in choices() {
            let mut encoder = choice.encoder(BLOCK).unwrap();
            for block in &blocks {
                check(&choice, encoder.as_mut(), block);
            }
        }
    }
}
