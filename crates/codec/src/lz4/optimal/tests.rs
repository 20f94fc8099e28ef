//! Round trips of the optimal parser, and comparisons with a search that leaves nothing out.
#![allow(clippy::cast_possible_truncation, reason = "made-up bytes")]

use lzzzz::{lz4, lz4_hc};
use proptest::prelude::*;

use super::*;
use crate::testing::letters;

/// Fresh bytes and copies of earlier ones, in turns.
fn pieces(pieces: &[(usize, usize, usize)], seed: u64, count: u8) -> Vec<u8> {
    let mut src: Vec<u8> = Vec::new();
    for (n, (fresh, distance, len)) in pieces.iter().enumerate() {
        src.extend(letters(*fresh, seed.rotate_left(n as u32) | 1, count));
        for _ in 0..*len {
            src.push(src.len().checked_sub(*distance).map_or(0, |from| src[from]));
        }
    }
    src
}

/// Compresses with room to spare, with just enough room and with one byte less.
fn whole(optimal: &mut OptimalEncoder, src: &[u8]) -> usize {
    let mut dst = vec![0; lz4::max_compressed_size(src.len()).max(1)];
    let len = optimal.compress(src, &mut dst).expect("the bound holds");
    let mut back = vec![0; src.len()];
    assert_eq!(lz4::decompress(&dst[..len], &mut back).unwrap(), src.len());
    assert!(back == src, "{} bytes came back otherwise", src.len());
    let mut exact = vec![0; len];
    assert_eq!(optimal.compress(src, &mut exact), Some(len));
    assert!(exact == dst[..len]);
    assert_eq!(optimal.compress(src, &mut exact[..len - 1]), None);
    len
}

fn filled(optimal: &mut OptimalEncoder, src: &[u8], room: usize) -> Option<EncodedPrefix> {
    let mut dst = vec![0; room];
    let prefix = optimal.fill(src, &mut dst)?;
    let mut back = vec![0; prefix.taken];
    assert_eq!(lz4::decompress(&dst[..prefix.len], &mut back).unwrap(), prefix.taken);
    assert!(back == src[..prefix.taken], "{} bytes in {room} came back otherwise", src.len());
    Some(prefix)
}

/// The least length of a block, by trying every match of every length at every position.
fn least(src: &[u8]) -> usize {
    let last_start = src.len().saturating_sub(MATCH_TO_END);
    let last_end = src.len().saturating_sub(LAST_LITERALS);
    // By position and number of literals before it.
    let mut costs = vec![vec![usize::MAX; src.len() + 1]; src.len() + 1];
    costs[0][0] = 0;
    for at in 0..src.len() {
        let longest = (0..at)
            .filter(|_| at <= last_start)
            .map(|from| (at..last_end).take_while(|place| src[*place] == src[from + place - at]).count())
            .max();
        for literals in 0..=at {
            let cost = costs[at][literals];
            if cost == usize::MAX {
                continue;
            }
            let one = cost + 1 + length_bytes(literals + 1) - length_bytes(literals);
            costs[at + 1][literals + 1] = costs[at + 1][literals + 1].min(one);
            for len in MIN_MATCH..=longest.unwrap_or(0) {
                let cost = cost + 3 + length_bytes(len - MIN_MATCH);
                costs[at + len][0] = costs[at + len][0].min(cost);
            }
        }
    }
    1 + costs[src.len()].iter().min().unwrap()
}

#[test]
fn small_blocks_of_every_size_round_trip() {
    let mut optimal = OptimalEncoder::default();
    for len in 0..=64 {
        whole(&mut optimal, &vec![0; len]);
        whole(&mut optimal, &letters(len, 7, 255));
        for period in 1..=16 {
            whole(&mut optimal, &(0..len).map(|n| (n % period) as u8).collect::<Vec<u8>>());
        }
    }
}

#[test]
fn every_room_is_filled() {
    let mut optimal = OptimalEncoder::default();
    let few = letters(20_000, 5, 2);
    for room in (0..80).chain((80..900).step_by(13)) {
        let prefix = filled(&mut optimal, &few, room);
        assert!(room < 400 || prefix.is_some_and(|prefix| prefix.len + 3 >= room), "{room}: {prefix:?}");
        for len in [0, 1, 4, 5, 12, 13, 24, 100, room, 2 * room] {
            filled(&mut optimal, &few[..len], room);
            filled(&mut optimal, &vec![7; len], room);
        }
    }
}

/// Input longer than a segment, with repeats across the seams, incompressible parts and very long matches.
#[test]
fn segments_join() {
    let mut optimal = OptimalEncoder::default();
    let sources = [
        letters(700_000, 3, 255),
        vec![1; 700_000],
        letters(50_000, 1, 255).repeat(12),
        letters(65_535, 1, 255).repeat(8),
        letters(300_000, 1, 2),
        letters(300_000, 1, 16),
        [letters(300_000, 1, 255), vec![0; 200_000], letters(3000, 9, 3).repeat(70)].concat(),
    ];
    for src in &sources {
        for cut in [0, 5, 4096] {
            whole(&mut optimal, &src[cut..]);
        }
        for room in [100, 4096, 65_536, 300_000] {
            filled(&mut optimal, src, room);
        }
    }
}

/// liblz4's densest level is nearly optimal, too.
#[test]
fn nothing_is_larger_than_by_the_library() {
    let mut optimal = OptimalEncoder::default();
    let text: Vec<u8> =
        (0..60_000_u32).flat_map(|n| format!("{} {:x}\n", n.wrapping_mul(n) >> 9, n / 7).into_bytes()).collect();
    let numbers: Vec<u8> = (0..60_000_u32).flat_map(|n| (n.wrapping_mul(n) >> 20).to_le_bytes()).collect();
    for src in [&text[..], &numbers, &letters(200_000, 1, 4), &text[..131_072], &numbers[..65_536]] {
        let mut dst = vec![0; lz4::max_compressed_size(src.len())];
        let theirs = lz4_hc::compress(src, &mut dst, 12).unwrap();
        let ours = whole(&mut optimal, src);
        assert!(ours <= theirs + theirs / 5000, "{ours} instead of {theirs}");
        for room in [4096, 16_384] {
            let (taken, len) = lz4_hc::compress_fill(src, &mut dst[..room], 12).unwrap();
            let prefix = filled(&mut optimal, src, room).unwrap();
            assert!(prefix.taken + 8 + taken / 5000 >= taken, "{prefix:?} instead of {taken} in {len}");
        }
    }
}

#[test]
fn memory_is_bounded() {
    for len in [4096, 131_072, 1 << 20] {
        let mut optimal = OptimalEncoder::default();
        for (share, count) in [(4, 255), (3, 3), (2, 16), (1, 4)] {
            whole(&mut optimal, &letters(len / share, 3, count));
        }
        assert!(optimal.allocated() <= memory(len), "{} bytes for {len}", optimal.allocated());
    }
    let mut optimal = OptimalEncoder::default();
    for room in [4096, 65_536, 1 << 20] {
        filled(&mut optimal, &letters(4 << 20, 3, 4), room);
    }
    assert!(optimal.allocated() <= memory(usize::MAX), "{} bytes", optimal.allocated());
}

proptest! {
    #[test]
    fn mixed_sources_round_trip(
        parts in proptest::collection::vec((0usize..60, 1usize..70_000, 0usize..3000), 0..60),
        seed in 1u64..,
        count in 1u8..,
        room in 0usize..40_000,
    ) {
        let src = pieces(&parts, seed, count);
        let mut optimal = OptimalEncoder::default();
        whole(&mut optimal, &src);
        filled(&mut optimal, &src, room);
    }

    /// Nothing shorter exists, but for a byte where literals and matches tie.
    #[test]
    fn small_blocks_are_as_short_as_can_be(
        parts in proptest::collection::vec((0usize..20, 1usize..60, 0usize..60), 0..8),
        seed in 1u64..,
        count in 1u8..6,
    ) {
        let src = pieces(&parts, seed, count);
        prop_assume!(src.len() < 300);
        let ours = whole(&mut OptimalEncoder::default(), &src);
        let least = least(&src);
        prop_assert!(least <= ours && ours <= least + 1, "{ours} instead of {least}");
    }
}
