//! Estimates whether a block is worth compressing, from a small part of its bytes.
//!
//! Two things make a block shorter: bytes that are not evenly distributed, and stretches that repeat. The first is
//! estimated from samples, the second from places chosen by content, so that a repeat is seen at any distance. What saves
//! about a hundredth or less is stored as it is;
//! `docs/design/incompressible-data.md` has what the limits below cost and save.

/// Length of a sample in bytes.
const SAMPLE: usize = 1024;
/// Distance between samples, in bytes.
const STRIDE: usize = 8192;
/// Number of samples at least. Blocks that are shorter than these together are always worth trying.
const SAMPLES: usize = 4;
/// Saving by coding bytes one by one, as a fraction of a block in 2^-16, from which on it is worth trying: 1.4 %.
const ORDER_0: u64 = 917;
/// One repeat found in so many bytes is enough, and so is one byte repeated of each [`FEW`].
const RARE: usize = 32 << 10;
/// See [`RARE`].
const FEW: usize = 1000;
/// Three values of a byte; groups of bytes that begin with one of them are looked up. Even in random data, one of 85 does.
const SIGNS: [u8; 3] = [0x2b, 0x8e, 0xd5];
/// Length of a group in bytes.
const GROUP: usize = 5;

/// Returns true if no codec here would shrink `block` noticeably. Blocks shorter than 4 KiB are always worth trying.
pub fn is_incompressible(block: &[u8]) -> bool {
    block.len() >= SAMPLES * SAMPLE && !is_uneven(block) && !repeats(block)
}

/// Returns true if coding each byte by itself saves something. Most blocks that do compress show it in the first sample.
fn is_uneven(block: &[u8]) -> bool {
    let count = (block.len() / STRIDE).max(SAMPLES);
    let stride = block.len() / count;
    let enough = ORDER_0 * u64::try_from(count).unwrap_or(u64::MAX);
    let mut saved = 0;
    block.chunks_exact(stride).any(|part| {
        saved += saving(&part[(stride - SAMPLE) / 2..][..SAMPLE]);
        saved >= enough
    })
}

/// Returns the fraction that an order-0 coder saves of a sample, in 2^-16; nothing if that may be by chance.
fn saving(sample: &[u8]) -> u64 {
    // Two counters per value, so that consecutive equal bytes do not wait for each other.
    let mut counts = [[0u16; 256]; 2];
    for pair in sample.chunks_exact(2) {
        counts[0][usize::from(pair[0])] += 1;
        counts[1][usize::from(pair[1])] += 1;
    }
    let [even, odd] = counts;
    let order: u64 = even.iter().zip(odd).map(|(even, odd)| u64::from(ORDER[usize::from(even + odd)])).sum();
    // A sample of random bytes has 7.82 bits a byte, and hardly ever less than 7.8.
    const RANDOM: u64 = ((10 << 16) - (78 << 16) / 10) * SAMPLE as u64;
    order.saturating_sub(RANDOM) / (8 * SAMPLE as u64)
}

/// `n log2 n` in 2^-16. In integers, so that every machine decides alike.
static ORDER: [u32; SAMPLE + 1] = {
    let mut table = [0; SAMPLE + 1];
    let mut n = 1u32;
    while (n as usize) < table.len() {
        table[n as usize] = n * log2(n);
        n += 1;
    }
    table
};

/// Returns the logarithm in 2^-16: each squaring gives one more bit of it.
const fn log2(n: u32) -> u32 {
    let mut log = n.ilog2();
    // Between 1 and 2, in 2^-31.
    let mut part = (n as u64) << (31 - log);
    let mut bit = 0;
    while bit < 16 {
        part = (part * part) >> 31;
        log <<= 1;
        if part >= 1 << 32 {
            part >>= 1;
            log += 1;
        }
        bit += 1;
    }
    log
}

/// Returns true if groups of bytes occur again, at any distance.
fn repeats(block: &[u8]) -> bool {
    const BITS: u32 = 11;
    // Place of the last group of each hash.
    let mut table = [0u32; 1 << BITS];
    let mut hits = 0;
    let mut bytes = 0;
    let mut end = 0;
    let [one, two, three] = SIGNS;
    for at in memchr::memchr3_iter(one, two, three, &block[..block.len() - GROUP]) {
        let group = u32::from_le_bytes([block[at + 1], block[at + 2], block[at + 3], block[at + 4]]);
        let slot = &mut table[(group.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize];
        let before = std::mem::replace(slot, u32::try_from(at).unwrap_or(u32::MAX)) as usize;
        if at < end || before >= at || block[before..before + GROUP] != block[at..at + GROUP] {
            continue;
        }
        // The whole stretch, before and after the group.
        let ahead = block[before..].iter().zip(&block[at..]).take_while(|(one, other)| one == other).count();
        let behind = block[..before].iter().rev().zip(block[end..at].iter().rev());
        bytes += ahead + behind.take_while(|(one, other)| one == other).count();
        hits += 1;
        end = at + ahead;
        if hits * RARE >= block.len() || bytes * FEW >= block.len() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use packfs_codec::testing::noise;

    use super::*;

    #[test]
    fn random_blocks_are_recognised_at_every_size() {
        for len in [4096, 8192, 65536, 131_072, 1 << 20] {
            for seed in 1..20 {
                assert!(is_incompressible(&noise(len, seed)), "{len} seed {seed}");
            }
        }
    }

    #[test]
    fn a_hundredth_is_not_worth_a_try_and_two_are() {
        // Streams of deflate and JPEG are not quite even. Of `most` in `of` bytes the upper half of the values is left out:
        // 7.92 bits a byte in the first case, 7.81 in the second.
        for (most, of, worth) in [(1, 3, false), (1, 2, true)] {
            for len in [32 << 10, 128 << 10, 1 << 20] {
                let uneven = noise(len, 3).into_iter().zip(noise(len, 5));
                let uneven: Vec<u8> = uneven.map(|(b, dice)| if dice % of < most { b & 0x7f } else { b }).collect();
                assert_eq!(!is_incompressible(&uneven), worth, "{most} of {of}, {len} bytes");
            }
        }
    }

    #[test]
    fn repeats_are_found_at_any_distance() {
        for distance in [5000, 60_001, 100_003] {
            let mut block = noise(128 << 10, distance as u64);
            block.copy_within(0..1000, distance);
            assert!(!is_incompressible(&block), "{distance}");
        }
    }

    #[test]
    fn logarithms_are_those_of_floating_point() {
        for n in 1..=u16::try_from(SAMPLE).unwrap() {
            let wanted = f64::from(n) * f64::from(n).log2() * 65536.0;
            assert!((f64::from(ORDER[usize::from(n)]) - wanted).abs() <= f64::from(n), "{n}");
        }
    }

    #[test]
    fn blocks_that_can_shrink_are_never_refused() {
        let noise = noise(1 << 17, 42);
        let mut hidden = noise.clone();
        hidden.copy_within(0..4096, 100_000); // one repeat of 4 KiB: 3 % to gain
        let base64: Vec<u8> = noise.iter().map(|b| b % 64 + 40).collect();
        let half: Vec<u8> = noise.iter().enumerate().map(|(n, b)| if n < 65536 { *b } else { 7 }).collect();
        let skewed: Vec<u8> = noise.iter().map(|b| if *b < 24 { 0 } else { *b }).collect();
        for (name, block) in [("repeat", hidden), ("base64", base64), ("half", half), ("skewed", skewed)] {
            assert!(!is_incompressible(&block), "{name}");
        }
        assert!(!is_incompressible(&noise[..4095]), "short blocks are tried");
    }
}
