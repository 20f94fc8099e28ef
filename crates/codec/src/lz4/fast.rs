//! The fast LZ4 encoder: looks at each position once and takes only matches that are worth their token.
//!
//! The time of such an encoder, and of decoding, goes into branches that a processor cannot
//! predict, a few for each match. So matches are at least six bytes long, two more than the format
//! requires, which leaves fewer of them at almost the same size. Short runs are written and short
//! matches measured without a loop, and table entries need no range check.

use super::emit::{MARGIN, MIN_MATCH, PositionTable, SequenceWriter, TABLE_BITS, backwards, first, forwards, load64};

/// Number of equal bytes that make a match worth taking.
const BYTES: u32 = 6;
/// Blocks must be longer than this for the trade to pay off: in shorter ones, short matches account
/// for more of the gain.
pub(super) const PAYS_ABOVE: usize = 64 << 10;
/// log2 of the number of positions without a match after which the step grows by one.
const SKIP_BITS: u32 = 4;

/// Compresses `src` into `dst`; returns `None` as soon as it does not fit.
pub(super) fn compress(table: &mut PositionTable, src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let mut out = SequenceWriter { dst, len: 0 };
    let mut anchor = 0;
    if let Some(last) = src.len().checked_sub(MARGIN) {
        // Entries of another block could lead to before the beginning of this one, and would make the result
        // depend on that block.
        table.clear::<TABLE_BITS>();
        while let Some((found, distance)) = find(table, src, anchor, last) {
            let start = found - backwards(src, anchor, found, distance);
            let end = forwards(src, found + MIN_MATCH, distance);
            out.sequence(src, anchor, start, distance, end - start - MIN_MATCH)?;
            anchor = end;
            if end <= last {
                // As in liblz4, one position near the end of a match is remembered. All others inside of it
                // are left out, which saves time.
                table.swap::<BYTES, TABLE_BITS>(load64(src, end - 2), end - 2);
            }
        }
    }
    out.literals(&src[anchor..], 0)?;
    Some(out.len)
}

/// Finds the first position from `pos` to `last` with a match, and the distance of the match.
#[inline(always)]
fn find(table: &mut PositionTable, src: &[u8], mut pos: usize, last: usize) -> Option<(usize, usize)> {
    let mut tries = 1usize << SKIP_BITS;
    while pos <= last {
        let bytes = load64(src, pos);
        let distance = table.distance::<BYTES, TABLE_BITS>(bytes, pos);
        if first::<BYTES>(bytes) == first::<BYTES>(load64(src, pos - distance)) && distance != 0 {
            return Some((pos, distance));
        }
        pos += tries >> SKIP_BITS;
        tries += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "made-up bytes")]

    use lzzzz::lz4;
    use proptest::prelude::*;

    use super::super::emit::EXTENDED;
    use super::*;
    use crate::testing::{letters, noise};

    /// Compresses with room to spare, then with just enough room and with one byte less.
    fn round_trip(src: &[u8]) -> usize {
        let mut table = PositionTable::new();
        let mut dst = vec![0; lz4::max_compressed_size(src.len()).max(1)];
        let len = compress(&mut table, src, &mut dst).expect("the bound holds");
        let mut back = vec![0; src.len()];
        assert_eq!(lz4::decompress(&dst[..len], &mut back).unwrap(), src.len());
        assert!(back == src, "{} bytes came back otherwise", src.len());

        // The table is used a second time, and the smaller buffer is written to its last byte.
        let mut exact = vec![0; len];
        assert_eq!(compress(&mut table, src, &mut exact), Some(len));
        assert!(exact == dst[..len]);
        assert_eq!(compress(&mut table, src, &mut exact[..len - 1]), None);
        len
    }

    #[test]
    fn small_blocks_of_every_size_round_trip() {
        for len in 0..=64 {
            round_trip(&vec![0; len]);
            round_trip(&noise(len, 7));
            for period in 1..=16 {
                round_trip(&(0..len).map(|n| (n % period) as u8).collect::<Vec<u8>>());
            }
        }
    }

    #[test]
    fn runs_become_nearly_nothing() {
        for period in [1usize, 2, 3, 6, 7, 100, 4096] {
            for len in [131_072, 131_071, 1 << 20] {
                let block: Vec<u8> = noise(period, 5).into_iter().cycle().take(len).collect();
                assert!(round_trip(&block) < len / 255 + 2 * period + 40, "{len} of period {period}");
            }
        }
    }

    #[test]
    fn noise_grows_by_its_lengths_only() {
        for len in [1000, 65_536, 131_072, 200_000] {
            assert_eq!(round_trip(&noise(len, 3)), 1 + (len - EXTENDED) / 255 + 1 + len);
        }
    }

    /// A repeat is found up to the largest distance of the format; beyond it the bytes are literals.
    #[test]
    fn distances_end_at_64_kib() {
        let piece = noise(64, 11);
        for (distance, found) in [(65_534, true), (65_535, true), (65_536, false), (65_537, false), (131_072, false)] {
            // All bytes between are equal: they cost one match, and every position of the second
            // piece is looked at.
            let mut block = piece.clone();
            block.resize(distance, 0);
            block.extend(&piece);
            block.extend([1; 40]);
            let between = 1 + 2 + distance / 255;
            let once = round_trip(&block) < between + piece.len() + 40;
            assert_eq!(once, found, "{distance}");
        }
    }

    /// Entries of the table that are a multiple of 2^16 bytes old give distance 0, and are skipped.
    #[test]
    fn positions_that_wrap_are_no_match_with_themselves() {
        let mut block = noise(65_536, 13);
        block.extend_from_within(..);
        block.extend_from_within(..);
        round_trip(&block);
    }

    proptest! {
        #[test]
        fn mixed_blocks_round_trip(
            pieces in proptest::collection::vec((0usize..60, 1usize..70_000, 0usize..3000), 0..60),
            seed in 1u64..,
            count in 1u8..,
        ) {
            let mut block: Vec<u8> = Vec::new();
            for (n, (fresh, distance, len)) in pieces.into_iter().enumerate() {
                block.extend(letters(fresh, seed.rotate_left(n as u32), count));
                for _ in 0..len {
                    block.push(block.len().checked_sub(distance).map_or(0, |from| block[from]));
                }
            }
            round_trip(&block);
        }
    }
}
