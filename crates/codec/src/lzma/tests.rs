//! Round trips of the encoder through the decoders of liblzma, which is written by others.

use proptest::prelude::*;

use super::{LzmaEffort, LzmaEncoder, ModelBits};
use crate::Choice;

const USUAL: LzmaEffort = LzmaEffort { nice: 64, depth: 24, slack: 12, thorough: false };

/// Bytes with runs, repeats at near and far distances, and noise, by a recipe.
fn mixed(recipe: &[(u8, u16, u16)]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut noise = 0x2545_f491_4f6c_dd1d_u64;
    for &(kind, len, distance) in recipe {
        let len = usize::from(len);
        for _ in 0..len {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let back = usize::from(distance) % data.len().max(1) + 1;
            data.push(match kind % 5 {
                0 => (noise >> 56) as u8,
                1 => (noise >> 62) as u8 + b'a',
                2 => distance as u8,
                3 => data.len().checked_sub(back).map_or(0, |at| data[at]),
                // Counters in words of four bytes, which take repeats with literals between them.
                _ => ((data.len() / 4) >> (8 * (3 - data.len() % 4))) as u8,
            });
        }
    }
    data
}

fn choice(text: &str) -> Choice {
    text.parse().unwrap()
}

/// Encodes and decodes a block; panics with `text` if it does not come back.
fn round_trip(text: &str, block: &[u8]) -> usize {
    let choice = choice(text);
    let mut packed = vec![0; block.len() * 2 + 1024];
    let len = choice.encoder(block.len().max(1)).unwrap().encode(block, &mut packed).unwrap().unwrap();
    let mut back = vec![0; block.len()];
    let decoded = choice.codec().decoder().unwrap().decode(&packed[..len], &mut back).unwrap();
    assert_eq!((decoded, &back[..]), (block.len(), block), "{text}");
    len
}

fn recipes(len_max: u16) -> impl Strategy<Value = Vec<(u8, u16, u16)>> {
    prop::collection::vec((any::<u8>(), 0..len_max, any::<u16>()), 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_block_comes_back(recipe in recipes(3000), level in 4..=9, extreme: bool, lc in 0_u8..=4, lp in 0_u8..=4, pb in 0_u8..=4, fixed: bool) {
        let lp = lp.min(4 - lc);
        let bits = if fixed { format!("lc={lc},lp={lp},pb={pb}") } else { "bits=auto".to_owned() };
        let options = format!("{level}:extreme={}:{bits}", if extreme { "yes" } else { "no" });
        let block = mixed(&recipe);
        round_trip(&format!("xz:{options}"), &block);
        round_trip(&format!("xz:{options}:bcj=x86+arm64+riscv"), &block);
        round_trip(&format!("lzma:{options}"), &block);
    }

    #[test]
    fn a_cluster_of_any_size_is_filled_and_comes_back(recipe in recipes(3000), room in 6_usize..6000, nice in 16_usize..=273) {
        let block = mixed(&recipe);
        let mut dst = vec![0; room];
        let mut lzma = LzmaEncoder::new(None, LzmaEffort { nice, ..USUAL }, 8192);
        let done = lzma.fill(&block, &mut dst);
        prop_assert!(done.len <= room && done.taken <= block.len());
        // Nothing more fits: an operation takes far less than this.
        prop_assert!(done.taken == block.len() || room - done.len < 32, "{done:?} of {room}");
        prop_assert_eq!(dst[0], 0);
        if done.taken > 0 {
            dst[0] = !lzma.bits().properties();
            let mut back = vec![0; done.taken];
            crate::xz::micro_decoder(8 << 20).decode(&dst[..done.len], &mut back).unwrap();
            prop_assert_eq!(&back[..], &block[..done.taken]);
        }
    }

    #[test]
    fn distances_stay_within_the_window(recipe in recipes(9000), share in 0_usize..4) {
        // The decoder of a stream has no more than the dictionary that its header names.
        let block = mixed(&recipe);
        let block = &block[..block.len().min(64 << 10)];
        if block.len() == 64 << 10 {
            round_trip(&format!("xz:6:dict={}K", [8, 12, 16, 24][share]), block);
        }
    }
}

#[test]
fn chunks_change_between_plain_and_encoded_ones() {
    // Noise needs uncompressed chunks; 3 MiB of what shrinks needs several of either limit.
    let noise = |kb| vec![(0, 1024, 0); kb];
    let text = |kb| vec![(1, 1024, 0); kb];
    let zeros = |kb| vec![(2, 1024, 0); kb];
    for recipe in [
        [noise(80), text(80)].concat(),
        [text(300), noise(200), text(10)].concat(),
        [zeros(3072), noise(70)].concat(),
        [noise(1), zeros(1), noise(64), text(1)].concat(),
    ] {
        let block = mixed(&recipe);
        for text in ["xz:6", "xz:9:extreme", "lzma:6"] {
            let len = round_trip(text, &block);
            assert!(len < block.len() + block.len() / 50 + 64, "{text}: {len} of {}", block.len());
        }
    }
}

#[test]
fn noise_grows_by_chunk_headers_only() {
    let block = mixed(&vec![(0, 1024, 0); 128]);
    assert!(round_trip("xz:6", &block) <= block.len() + 128);
}

#[test]
fn results_do_not_depend_on_earlier_blocks() {
    let blocks = [mixed(&[(1, 9000, 0), (3, 9000, 500)]), mixed(&[(0, 7000, 0)]), mixed(&[(4, 30_000, 0)])];
    let choice = choice("xz:6:bcj=auto");
    let mut used = choice.encoder(32 << 10).unwrap();
    for _ in 0..3 {
        for block in &blocks {
            let mut one = vec![0; 40 << 10];
            let mut other = vec![0; 40 << 10];
            let fresh = choice.encoder(32 << 10).unwrap().encode(block, &mut one).unwrap();
            assert_eq!(used.encode(block, &mut other).unwrap(), fresh);
            assert_eq!(one, other);
        }
    }
}

#[test]
fn a_short_destination_ends_the_search_early_and_changes_nothing() {
    let block = mixed(&[(1, 9000, 0), (3, 9000, 500), (0, 2000, 0)]);
    for text in ["xz:6", "lzma:6"] {
        let mut encoder = choice(text).encoder(block.len()).unwrap();
        let mut dst = vec![0; block.len()];
        let len = encoder.encode(&block, &mut dst).unwrap().unwrap();
        for room in [0, 1, 12, 13, len / 2, len - 1] {
            assert_eq!(encoder.encode(&block, &mut dst[..room]).unwrap(), None, "{text} in {room}");
        }
        assert_eq!(encoder.encode(&block, &mut dst[..len]).unwrap(), Some(len), "{text}");
    }
}

#[test]
fn the_memory_bound_covers_the_encoder() {
    // Prices, nodes and probabilities take the same for every input; input, output and filtered input come on top.
    const FIXED: usize = 512 << 10;
    let most = Some(ModelBits { lc: 4, lp: 0, pb: 4 });
    for (block_len, bits) in [4096, 65_536, 1 << 20].into_iter().flat_map(|len| [(len, None), (len, most)]) {
        let block = mixed(&vec![(1, 1024, 0); block_len / 1024]);
        let mut out = Vec::new();
        let mut lzma = LzmaEncoder::new(bits, USUAL, u32::try_from(block_len).unwrap());
        assert!(lzma.encode_lzma2(&block, block_len, &mut out));
        let taken = lzma.allocated() + out.capacity() + block_len + FIXED;
        let promised = choice("xz:6").encoder_memory(block_len);
        assert!(taken <= promised, "{taken} of {promised} at {block_len}");
    }
}

#[test]
fn bits_suit_the_bytes() {
    // Words of four bytes with a slowly rising number each, whose bytes have little to do with those before them.
    let mut noise = 1_u32;
    let words: Vec<u8> = (0..16_384_u32)
        .flat_map(|n| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            [n as u8, (noise >> 29) as u8 + 10, (noise >> 25) as u8 & 7, (n >> 12) as u8 | 0x40]
        })
        .collect();
    let text = include_bytes!("tests.rs");
    let bits = |data: &[u8]| {
        let mut lzma = LzmaEncoder::new(None, USUAL, 65_536);
        assert!(lzma.encode_lzma2(data, data.len(), &mut Vec::new()));
        lzma.bits()
    };
    assert!(bits(&words).lp >= 1, "{:?}", bits(&words));
    assert!(bits(text).lp == 0, "{:?}", bits(text));
    let len = |text: &str, data: &[u8]| round_trip(text, data);
    assert!(len("xz:6", &words) * 100 < len("xz:6:bits=fixed", &words) * 98);
    assert!(len("xz:6", text) <= len("xz:6:lc=0:lp=2:pb=2", text));
}
