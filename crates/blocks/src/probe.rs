//! Estimates whether a block is worth compressing: a cheap test that errs only on the safe side.

/// Length of the sample in bytes. If it looks random, the whole block must look random too to count
/// as incompressible.
const SAMPLE: usize = 4096;
/// Entropy in bits per byte above which order-0 coding saves less than about half a percent.
const RANDOM_BITS: f64 = 7.96;

/// Returns true if no codec here would shrink `block` noticeably: its bytes are evenly distributed
/// and no four of them repeat nearby. Blocks shorter than 4 KiB are always worth trying.
pub fn is_incompressible(block: &[u8]) -> bool {
    if block.len() < SAMPLE {
        return false;
    }
    // The middle is less often a header or an index than the start.
    let middle = &block[(block.len() - SAMPLE) / 2..][..SAMPLE];
    // 4096 random bytes measure about 7.95 bits by the estimate below; text and code far less.
    entropy(middle) > 7.9 && entropy(block) > threshold(block.len()) && !repeats(block)
}

/// Few random bytes measure less than 8 bits: by about 255 / (2 ln 2 n).
fn threshold(len: usize) -> f64 {
    let bias = 255.0 / (2.0 * std::f64::consts::LN_2 * len as f64);
    RANDOM_BITS.min(8.0 - 1.6 * bias)
}

/// Returns the order-0 entropy in bits per byte.
fn entropy(bytes: &[u8]) -> f64 {
    // Four counters per value, so that consecutive equal bytes do not wait for each other.
    let mut counts = [[0u32; 256]; 4];
    for chunk in bytes.chunks(4) {
        for (count, byte) in counts.iter_mut().zip(chunk) {
            count[usize::from(*byte)] += 1;
        }
    }
    let len = bytes.len() as f64;
    let logs: f64 = (0..256)
        .map(|value| f64::from(counts.iter().map(|count| count[value]).sum::<u32>()))
        .filter(|n| *n > 0.0)
        .map(|n| n * n.log2())
        .sum();
    len.log2() - logs / len
}

/// Returns true if groups of four bytes repeat more often than by chance.
///
/// Groups are sampled by content (those whose hash begins with four zero bits), so that a repeat is
/// seen at any distance with a table that fits in the L1 cache.
fn repeats(block: &[u8]) -> bool {
    const BITS: u32 = 14;
    let mut table = vec![0u32; 1 << BITS];
    let mut hits = 0usize;
    for word in block.windows(4) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let hash = word.wrapping_mul(0x9E37_79B1);
        if hash >> 28 == 0 {
            let slot = &mut table[(hash >> (28 - BITS)) as usize];
            hits += usize::from(*slot == word);
            *slot = word;
        }
    }
    // A sixteenth of all groups in 2^14 slots; by chance, one in 2^14 finds an equal group there.
    hits > 4 + block.len() / (1 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simple generator is enough: the bytes only need to look random.
    fn random(len: usize, mut seed: u64) -> Vec<u8> {
        (0..len)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                seed.to_le_bytes()[3]
            })
            .collect()
    }

    #[test]
    fn random_blocks_are_recognised_at_every_size() {
        for len in [4096, 8192, 65536, 131_072, 1 << 20] {
            for seed in 1..20 {
                assert!(is_incompressible(&random(len, seed)), "{len} seed {seed}");
            }
        }
    }

    #[test]
    fn blocks_that_can_shrink_are_never_refused() {
        let noise = random(1 << 17, 42);
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
