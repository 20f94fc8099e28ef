//! Code shared by both fast encoders: the table of positions, measuring matches, and writing sequences.

/// log2 of the number of table slots. With more, the L1 cache would have no room left for the block.
pub(super) const TABLE_BITS: u32 = 14;
/// Length of the shortest match, which the format adds to every stored length.
pub(super) const MIN_MATCH: usize = 4;
/// The last bytes of a block are literals.
const LAST_LITERALS: usize = 5;
/// Value of a token's four length bits if the length continues in further bytes.
pub(super) const EXTENDED: usize = 15;
/// Bytes copied or compared at once.
const WIDE: usize = size_of::<u128>();
/// No match starts nearer to the end than this, so that short ones need no check against the last literals.
pub(super) const MARGIN: usize = MIN_MATCH + WIDE + LAST_LITERALS;

/// The low 16 bits of the last position of each hash of the first bytes there.
///
/// Subtracted from a position, an entry gives a distance that lies within the window and the block,
/// whatever the slot holds. For an entry older than the window the distance is wrong, but comparing
/// the bytes there rejects it. The same holds for an unused slot, which stands for position 0.
pub(super) struct PositionTable(Box<[u16; 1 << TABLE_BITS]>);

impl PositionTable {
    pub(super) fn new() -> Self {
        PositionTable(Box::new([0; 1 << TABLE_BITS]))
    }

    /// Clears all positions.
    pub(super) fn clear<const BITS: u32>(&mut self) {
        self.0[..1 << BITS].fill(0);
    }

    /// Stores `pos`, where `bytes` start, and returns the position where the same first bytes may
    /// have occurred last.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "positions are kept modulo 2^16")]
    pub(super) fn swap<const BYTES: u32, const BITS: u32>(&mut self, bytes: u64, pos: usize) -> u16 {
        const PRIME: u64 = 0x9E37_79B1_85EB_CA87;
        let hash = first::<BYTES>(bytes).wrapping_mul(PRIME) >> (u64::BITS - BITS);
        std::mem::replace(&mut self.0[hash as usize], pos as u16)
    }

    /// As [`PositionTable::swap`], but returns the distance to that position; 0 is not a valid distance.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "positions are kept modulo 2^16")]
    pub(super) fn distance<const BYTES: u32, const BITS: u32>(&mut self, bytes: u64, pos: usize) -> usize {
        usize::from((pos as u16).wrapping_sub(self.swap::<BYTES, BITS>(bytes, pos)))
    }
}

/// Counts by how many bytes, at most eight, a match can be extended backwards.
#[inline(always)]
pub(super) fn backwards(src: &[u8], anchor: usize, found: usize, distance: usize) -> usize {
    // Near the beginning there are no eight bytes to load.
    if found < distance + 8 {
        return 0;
    }
    let differing = load64(src, found - 8) ^ load64(src, found - distance - 8);
    // What is before `anchor` is written already.
    (differing.leading_zeros() as usize / 8).min(found - anchor)
}

/// Returns the end of a match that is known to hold up to `pos`.
#[inline(always)]
pub(super) fn forwards(src: &[u8], pos: usize, distance: usize) -> usize {
    // `MARGIN` keeps so many bytes, and the last literals, after any match that begins.
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

/// The output block and how far it is written.
pub(super) struct SequenceWriter<'a> {
    pub(super) dst: &'a mut [u8],
    pub(super) len: usize,
}

impl SequenceWriter<'_> {
    /// Writes the literals from `anchor` to `start` and a match of `MIN_MATCH + len` bytes.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a distance has 16 bits, a short length four")]
    pub(super) fn sequence(
        &mut self,
        src: &[u8],
        anchor: usize,
        start: usize,
        distance: usize,
        len: usize,
    ) -> Option<()> {
        let literals = start - anchor;
        let distance = (distance as u16).to_le_bytes();
        // A short sequence is written by copies of fixed length, of which the next one overwrites the
        // surplus. One check of the room serves all of them.
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
        self.long_sequence(&src[anchor..start], distance, len)
    }

    /// [`SequenceWriter::sequence`] for literals that may lie less than [`WIDE`] bytes before the end of `src`.
    #[allow(clippy::cast_possible_truncation, reason = "a distance has 16 bits")]
    pub(super) fn sequence_near_end(
        &mut self,
        src: &[u8],
        anchor: usize,
        start: usize,
        distance: usize,
        len: usize,
    ) -> Option<()> {
        if anchor + WIDE <= src.len() {
            return self.sequence(src, anchor, start, distance, len);
        }
        self.long_sequence(&src[anchor..start], (distance as u16).to_le_bytes(), len)
    }

    #[allow(clippy::cast_possible_truncation, reason = "four bits")]
    fn long_sequence(&mut self, literals: &[u8], distance: [u8; 2], len: usize) -> Option<()> {
        self.literals(literals, len.min(EXTENDED) as u8)?;
        self.put(&distance)?;
        self.extend(len)
    }

    /// Writes a token with `low` bits and literals.
    #[allow(clippy::cast_possible_truncation, reason = "four bits")]
    pub(super) fn literals(&mut self, literals: &[u8], low: u8) -> Option<()> {
        self.put(&[(literals.len().min(EXTENDED) << 4) as u8 | low])?;
        self.extend(literals.len())?;
        self.put(literals)
    }

    /// Ends the block with as many literals as fit, and returns their number.
    pub(super) fn last_literals(&mut self, literals: &[u8]) -> usize {
        let Some(room) = self.dst.len().checked_sub(self.len + 1) else { return 0 };
        // Beyond the literals that a token counts itself, one byte in 256 is a length byte.
        let fitting = if room < EXTENDED { room } else { room - (room - EXTENDED) / 256 - 1 };
        let count = fitting.min(literals.len());
        self.literals(&literals[..count], 0).map_or(0, |()| count)
    }

    /// Writes the part of a length that exceeds its four bits.
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
pub(super) fn load<const N: usize>(src: &[u8], at: usize) -> [u8; N] {
    *src[at..].first_chunk().expect("a margin is kept to the end")
}

#[inline(always)]
pub(super) fn load64(src: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(load(src, at))
}

/// The first bytes of eight, shifted to the top.
#[inline(always)]
pub(super) fn first<const BYTES: u32>(bytes: u64) -> u64 {
    bytes << (u64::BITS - 8 * BYTES)
}
