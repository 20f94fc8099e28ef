//! The two checksums of the format: CRC-32C of the superblock and xxHash32 of the names of xattrs.

/// Computes the CRC-32C of `bytes`, continued from `crc`. The format begins with all ones and does
/// not invert the result.
pub(super) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    // There is one superblock per image: a table would cost more than it saves.
    let byte =
        |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)));
    bytes.iter().fold(crc, byte)
}

const PRIMES: [u32; 5] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1];

/// Computes the xxHash32 of `bytes`.
pub(super) fn xxh32(bytes: &[u8], seed: u32) -> u32 {
    let word = |chunk: &[u8; 4]| u32::from_le_bytes(*chunk);
    let (stripes, rest) = bytes.as_chunks::<16>();
    let mut hash = if stripes.is_empty() {
        seed.wrapping_add(PRIMES[4])
    } else {
        let mut lanes = [
            seed.wrapping_add(PRIMES[0]).wrapping_add(PRIMES[1]),
            seed.wrapping_add(PRIMES[1]),
            seed,
            seed.wrapping_sub(PRIMES[0]),
        ];
        for stripe in stripes {
            for (lane, chunk) in lanes.iter_mut().zip(stripe.as_chunks().0) {
                *lane = lane.wrapping_add(word(chunk).wrapping_mul(PRIMES[1])).rotate_left(13).wrapping_mul(PRIMES[0]);
            }
        }
        lanes.iter().zip([1, 7, 12, 18]).fold(0, |sum: u32, (lane, by)| sum.wrapping_add(lane.rotate_left(by)))
    };
    // Only the low 32 bits of the length are used.
    hash = hash.wrapping_add(u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or(0));
    let (words, rest) = rest.as_chunks();
    for chunk in words {
        hash = hash.wrapping_add(word(chunk).wrapping_mul(PRIMES[2])).rotate_left(17).wrapping_mul(PRIMES[3]);
    }
    for byte in rest {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(PRIMES[4])).rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(PRIMES[1]);
    hash = (hash ^ (hash >> 13)).wrapping_mul(PRIMES[2]);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_has_its_check_value() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn xxh32_has_its_published_values() {
        let table: [(&[u8], u32, u32); 4] = [
            (b"", 0, 0x02cc_5d05),
            (b"a", 0, 0x550d_7456),
            (b"abc", 0, 0x32d1_53ff),
            (b"Nobody inspects the spammish repetition", 0, 0xe229_3b2f),
        ];
        for (bytes, seed, hash) in table {
            assert_eq!(xxh32(bytes, seed), hash, "{}", bytes.escape_ascii());
        }
    }
}
