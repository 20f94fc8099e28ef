//! The fast LZ4 encoder: one look at each position, and only at matches worth their token.
//!
//! What costs time in such an encoder, and in decoding, is the branches a processor cannot foresee: a
//! few for each match. So matches are at least six bytes long, two more than the format wants, which
//! leaves fewer of them at almost the same size; short runs are written and short matches measured
//! without a loop; and the table holds nothing that needs a range check.

/// Blocks must be longer for the trade to pay: in shorter ones short matches make more of the whole.
pub(super) const PAYS_ABOVE: usize = 64 << 10;
/// log2 of the number of positions remembered: more would not leave the nearest cache room for the block.
const TABLE_BITS: u32 = 14;
/// What the format adds to the length of every match.
const MIN_MATCH: usize = 4;
/// The last bytes of a block are literals.
const LAST_LITERALS: usize = 5;
/// What a token's four bits hold when the length continues in further bytes.
const EXTENDED: usize = 15;
/// Bytes copied or compared at once.
const WIDE: usize = size_of::<u128>();
/// No match is looked for nearer to the end, so that short ones need not watch where the last literals begin.
const MARGIN: usize = MIN_MATCH + WIDE + LAST_LITERALS;
/// After so many (as log2) positions without a match, steps become one longer.
const SKIP_BITS: u32 = 4;

/// The low 16 bits of the last position of each hash.
///
/// Subtracted from a position they give a distance that is in the window and in the block, whatever
/// the slot holds: for an entry that is older than the window a wrong one, which the bytes there
/// disprove, as they disprove a slot never filled, which stands for position 0.
pub(super) struct Table(Box<[u16; 1 << TABLE_BITS]>);

impl Table {
    pub(super) fn new() -> Self {
        Table(Box::new([0; 1 << TABLE_BITS]))
    }

    /// Remembers `pos`, where `bytes` start, and returns how far before it the same six bytes may have been
    /// last; 0 is no distance.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "positions are kept modulo 2^16")]
    fn swap(&mut self, bytes: u64, pos: usize) -> u16 {
        const PRIME: u64 = 0x9E37_79B1_85EB_CA87;
        let hash = six(bytes).wrapping_mul(PRIME) >> (u64::BITS - TABLE_BITS);
        let slot = &mut self.0[hash as usize];
        let distance = (pos as u16).wrapping_sub(*slot);
        *slot = pos as u16;
        distance
    }
}

/// Compresses `src` into `dst`; `None` as soon as it does not fit.
pub(super) fn compress(table: &mut Table, src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let mut out = Out { dst, len: 0 };
    let mut anchor = 0;
    if let Some(last) = src.len().checked_sub(MARGIN) {
        table.0.fill(0);
        while let Some((found, distance)) = find(table, src, anchor, last) {
            let start = found - backwards(src, anchor, found, distance);
            let end = forwards(src, found + MIN_MATCH, distance);
            out.sequence(src, anchor, start, distance, end - start - MIN_MATCH)?;
            anchor = end;
            if end <= last {
                table.swap(load64(src, end - 2), end - 2);
            }
        }
    }
    out.literals(&src[anchor..], 0)?;
    Some(out.len)
}

/// The first position from `pos` to `last` where a match is seen, and its distance.
#[inline(always)]
fn find(table: &mut Table, src: &[u8], mut pos: usize, last: usize) -> Option<(usize, usize)> {
    let mut tries = 1usize << SKIP_BITS;
    while pos <= last {
        let bytes = load64(src, pos);
        let distance = usize::from(table.swap(bytes, pos));
        if six(bytes) == six(load64(src, pos - distance)) && distance != 0 {
            return Some((pos, distance));
        }
        pos += tries >> SKIP_BITS;
        tries += 1;
    }
    None
}

/// How many bytes, at most eight, before a match can belong to it.
#[inline(always)]
fn backwards(src: &[u8], anchor: usize, found: usize, distance: usize) -> usize {
    if found < distance + 8 {
        return 0;
    }
    let differing = load64(src, found - 8) ^ load64(src, found - distance - 8);
    (differing.leading_zeros() as usize / 8).min(found - anchor)
}

/// Where a match that holds up to `pos` ends.
#[inline(always)]
fn forwards(src: &[u8], pos: usize, distance: usize) -> usize {
    let differing = u128::from_le_bytes(load(src, pos)) ^ u128::from_le_bytes(load(src, pos - distance));
    match differing.trailing_zeros() as usize / 8 {
        WIDE => far_forwards(src, pos + WIDE, distance),
        common => pos + common,
    }
}

/// [`forwards`] for long matches, which may reach the last literals.
fn far_forwards(src: &[u8], mut pos: usize, distance: usize) -> usize {
    let end = src.len() - LAST_LITERALS;
    while pos + 8 <= end {
        let differing = load64(src, pos) ^ load64(src, pos - distance);
        if differing != 0 {
            return pos + differing.trailing_zeros() as usize / 8;
        }
        pos += 8;
    }
    while pos < end && src[pos] == src[pos - distance] {
        pos += 1;
    }
    pos
}

/// The block as far as it is written.
struct Out<'a> {
    dst: &'a mut [u8],
    len: usize,
}

impl Out<'_> {
    /// Writes the literals from `anchor` to `start` and a match of `MIN_MATCH` and `len` bytes.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a distance has 16 bits, a short length four")]
    fn sequence(&mut self, src: &[u8], anchor: usize, start: usize, distance: usize, len: usize) -> Option<()> {
        let literals = start - anchor;
        let distance = (distance as u16).to_le_bytes();
        if literals < EXTENDED
            && len < EXTENDED
            && let Some(out) = self.dst[self.len..].first_chunk_mut::<{ 1 + WIDE + 2 }>()
        {
            out[0] = (literals << 4 | len) as u8;
            out[1..=WIDE].copy_from_slice(&load::<WIDE>(src, anchor));
            out[1 + literals..][..2].copy_from_slice(&distance);
            self.len += 1 + literals + 2;
            return Some(());
        }
        self.literals(&src[anchor..start], len.min(EXTENDED) as u8)?;
        self.put(&distance)?;
        self.extend(len)
    }

    /// Writes a token with `low` bits and literals.
    #[allow(clippy::cast_possible_truncation, reason = "four bits")]
    fn literals(&mut self, literals: &[u8], low: u8) -> Option<()> {
        self.put(&[(literals.len().min(EXTENDED) << 4) as u8 | low])?;
        self.extend(literals.len())?;
        self.put(literals)
    }

    /// Writes what of a length its four bits cannot hold.
    #[allow(clippy::cast_possible_truncation, reason = "a remainder of 255")]
    fn extend(&mut self, len: usize) -> Option<()> {
        let Some(rest) = len.checked_sub(EXTENDED) else { return Some(()) };
        let full = rest / 255;
        self.dst.get_mut(self.len..self.len + full)?.fill(255);
        self.len += full;
        self.put(&[(rest % 255) as u8])
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.dst.get_mut(self.len..self.len + bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }
}

#[inline(always)]
fn load<const N: usize>(src: &[u8], at: usize) -> [u8; N] {
    *src[at..].first_chunk().expect("a margin is kept to the end")
}

#[inline(always)]
fn load64(src: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(load(src, at))
}

/// The first six of eight bytes, moved to the top.
#[inline(always)]
fn six(bytes: u64) -> u64 {
    bytes << 16
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "made-up bytes")]

    use lzzzz::lz4;
    use proptest::prelude::*;

    use super::*;

    /// Compresses with room to spare, and again with just enough and with one byte less than that.
    fn round_trip(src: &[u8]) -> usize {
        let mut table = Table::new();
        let mut dst = vec![0; lz4::max_compressed_size(src.len()).max(1)];
        let len = compress(&mut table, src, &mut dst).expect("the bound holds");
        let mut back = vec![0; src.len()];
        assert_eq!(lz4::decompress(&dst[..len], &mut back).unwrap(), src.len());
        assert!(back == src, "{} bytes came back otherwise", src.len());

        // The table is used a second time, and the shorter room is written to its last byte.
        let mut exact = vec![0; len];
        assert_eq!(compress(&mut table, src, &mut exact), Some(len));
        assert!(exact == dst[..len]);
        assert_eq!(compress(&mut table, src, &mut exact[..len - 1]), None);
        len
    }

    fn noise(len: usize, mut seed: u64) -> Vec<u8> {
        let step = |_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed.to_le_bytes()[3]
        };
        (0..len).map(step).collect()
    }

    #[test]
    fn small_blocks_of_every_size_come_back() {
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

    /// A repeat is found up to the format's farthest distance; what is farther is literals again.
    #[test]
    fn distances_end_at_64_kib() {
        let piece = noise(64, 11);
        for (distance, found) in [(65_534, true), (65_535, true), (65_536, false), (65_537, false), (131_072, false)] {
            // All bytes between are equal: they cost a match, and no position of the second piece is left out.
            let mut block = piece.clone();
            block.resize(distance, 0);
            block.extend(&piece);
            block.extend([1; 40]);
            let between = 1 + 2 + distance / 255;
            let once = round_trip(&block) < between + piece.len() + 40;
            assert_eq!(once, found, "{distance}");
        }
    }

    /// Entries of the table that are a multiple of 2^16 bytes old give distance 0, and are passed over.
    #[test]
    fn positions_that_wrap_are_no_match_with_themselves() {
        let mut block = noise(65_536, 13);
        block.extend_from_within(..);
        block.extend_from_within(..);
        round_trip(&block);
    }

    proptest! {
        #[test]
        fn mixed_blocks_come_back(
            pieces in proptest::collection::vec((0usize..60, 1usize..70_000, 0usize..3000), 0..60),
            seed in 1u64..,
            letters in 1u8..,
        ) {
            let mut block: Vec<u8> = Vec::new();
            for (n, (fresh, distance, len)) in pieces.into_iter().enumerate() {
                block.extend(noise(fresh, seed.rotate_left(n as u32) | 1).iter().map(|byte| byte % letters));
                for _ in 0..len {
                    block.push(block.len().checked_sub(distance).map_or(0, |from| block[from]));
                }
            }
            round_trip(&block);
        }
    }
}
