//! The fast LZ4 encoder for clusters: it encodes until its destination is full.
//!
//! A cluster starts without history and ends soon, so short matches matter more than in
//! [`fast`](super::fast): four bytes are enough, and the first positions after a match are all
//! tried. As long as positions fit in 16 bits, as in most clusters, the table holds them as they
//! are.

use super::emit::{
    MARGIN, MIN_MATCH, PositionTable, SequenceWriter, TABLE_BITS, backwards, first, forwards, load, load64,
};
use crate::EncodedPrefix;

/// Bytes hashed for each position. With four, most entries would soon be useless.
const BYTES: u32 = 5;
/// The format requires matches to begin twelve bytes before the end; four of these belong to the match.
const MATCH_TO_END: usize = 8;
/// First position that exceeds 16 bits.
const FAR: usize = 1 << 16;
/// Cluster size from which on a larger table pays off.
const LARGE: usize = 12 << 10;
/// Number of positions tried together.
const GROUP: usize = 4;

/// Step widths of a search that has not found a match yet.
#[derive(Clone, Copy)]
struct SearchSteps {
    /// Number of positions tried one after another at first.
    each: usize,
    /// Step after those.
    step: usize,
    /// log2 of the number of further positions after which the step grows by one.
    log: u32,
}

/// Compresses as much of `src` as fits in `dst`.
pub(super) fn fill(table: &mut PositionTable, src: &[u8], dst: &mut [u8], acceleration: i32) -> Option<EncodedPrefix> {
    // Kept free for the token and the literals that have to follow the last match.
    let mut out = SequenceWriter { len: 0, dst: dst.get_mut(..dst.len().checked_sub(1 + MATCH_TO_END)?)? };
    let sequences = match acceleration {
        ..=1 if out.dst.len() < LARGE => small,
        ..=1 => large,
        _ => hasty,
    };
    let anchor = sequences(table, src, &mut out, acceleration);
    let mut out = SequenceWriter { len: out.len, dst };
    let taken = anchor + out.last_literals(&src[anchor..]);
    EncodedPrefix::if_useful(taken, out.len)
}

// Three copies of the loops, so that the step widths are constants as far as possible.

#[inline(never)]
fn small(table: &mut PositionTable, src: &[u8], out: &mut SequenceWriter<'_>, _: i32) -> usize {
    sequences::<{ TABLE_BITS - 1 }>(table, src, out, SearchSteps { each: 24, step: 3, log: 5 })
}

#[inline(never)]
fn large(table: &mut PositionTable, src: &[u8], out: &mut SequenceWriter<'_>, _: i32) -> usize {
    sequences::<TABLE_BITS>(table, src, out, SearchSteps { each: 16, step: 2, log: 4 })
}

#[inline(never)]
fn hasty(table: &mut PositionTable, src: &[u8], out: &mut SequenceWriter<'_>, acceleration: i32) -> usize {
    let step = usize::try_from(acceleration).unwrap_or(1);
    sequences::<TABLE_BITS>(table, src, out, SearchSteps { each: 0, step, log: 6 })
}

/// Writes sequences as long as they fit, and returns the position in `src` where they end.
#[inline(always)]
fn sequences<const BITS: u32>(
    table: &mut PositionTable,
    src: &[u8],
    out: &mut SequenceWriter<'_>,
    steps: SearchSteps,
) -> usize {
    let Some(last) = src.len().checked_sub(MARGIN) else { return 0 };
    table.clear::<BITS>();
    // An empty slot stands for position 0.
    let near = write::<BITS>(table, src, out, 0, |table, pos| near::<BITS>(table, src, pos.max(1), last, steps));
    match near {
        Ok(anchor) if last >= FAR => {
            write::<BITS>(table, src, out, anchor, |table, pos| far::<BITS>(table, src, pos.max(FAR), last, steps))
                .unwrap_or_else(|full| full)
        }
        Ok(anchor) | Err(anchor) => anchor,
    }
}

/// Writes sequences from `anchor` on; `find` gives each as a position and a distance. Returns the
/// end of the last one: there are no more, or the next one does not fit.
#[inline(always)]
fn write<const BITS: u32>(
    table: &mut PositionTable,
    src: &[u8],
    out: &mut SequenceWriter<'_>,
    mut anchor: usize,
    find: impl Fn(&mut PositionTable, usize) -> Option<(usize, usize)>,
) -> Result<usize, usize> {
    while let Some((found, distance)) = find(table, anchor) {
        let start = found - backwards(src, anchor, found, distance);
        let end = forwards(src, found + MIN_MATCH, distance);
        let before = out.len;
        if out.sequence(src, anchor, start, distance, end - start - MIN_MATCH).is_none() {
            // Part of the sequence may have been written.
            out.len = before;
            return Err(anchor);
        }
        anchor = end;
        if end + MARGIN <= src.len() {
            table.swap::<BYTES, BITS>(load64(src, end - 2), end - 2);
        }
    }
    Ok(anchor)
}

/// Finds the first position from `pos` to `last` with a match, and its distance, while the table
/// holds whole positions.
#[inline(always)]
fn near<const BITS: u32>(
    table: &mut PositionTable,
    src: &[u8],
    mut pos: usize,
    last: usize,
    steps: SearchSteps,
) -> Option<(usize, usize)> {
    let first = pos;
    let last = last.min(FAR - 1);
    let mut seen = |pos| {
        let bytes = load64(src, pos);
        let from = usize::from(table.swap::<BYTES, BITS>(bytes, pos));
        // The match lies before `pos` anyway; stating it saves the compiler a check.
        (from <= last && load::<4>(src, from) == load(src, pos)).then(|| (pos, pos - from))
    };
    while pos + GROUP <= last && pos < first + steps.each {
        for ahead in 0..GROUP {
            if let Some(found) = seen(pos + ahead) {
                return Some(found);
            }
        }
        pos += GROUP;
    }
    let mut tries = steps.step << steps.log;
    while pos <= last {
        if let Some(found) = seen(pos) {
            return Some(found);
        }
        pos += tries >> steps.log;
        tries += 1;
    }
    None
}

/// As [`near`], but the table holds only the low bits of positions.
#[inline(always)]
fn far<const BITS: u32>(
    table: &mut PositionTable,
    src: &[u8],
    mut pos: usize,
    last: usize,
    steps: SearchSteps,
) -> Option<(usize, usize)> {
    let mut tries = if steps.each > 0 { 1 << steps.log } else { steps.step << steps.log };
    while pos <= last {
        let bytes = load64(src, pos);
        let distance = table.distance::<BYTES, BITS>(bytes, pos);
        if first::<BYTES>(bytes) == first::<BYTES>(load64(src, pos - distance)) && distance != 0 {
            return Some((pos, distance));
        }
        pos += tries >> steps.log;
        tries += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "made-up bytes")]

    use lzzzz::lz4;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::letters;

    /// Fills, decodes and compares; then follows the sequences to check that the block ends as the format requires.
    fn check(src: &[u8], room: usize, acceleration: i32) -> Option<EncodedPrefix> {
        let mut dst = vec![0; room];
        let prefix = fill(&mut PositionTable::new(), src, &mut dst, acceleration)?;
        let mut back = vec![0; prefix.taken];
        assert_eq!(lz4::decompress(&dst[..prefix.len], &mut back).unwrap(), prefix.taken);
        assert!(back == src[..prefix.taken], "{} bytes in {room} came back otherwise", src.len());

        let (last_match, last_literals) = last_match(&dst[..prefix.len]);
        if let Some(start) = last_match {
            assert!(last_literals >= 5 && start + 12 <= prefix.taken, "{} bytes in {room}", src.len());
        }
        Some(prefix)
    }

    /// Finds the start of the last match and the number of literals after it.
    fn last_match(block: &[u8]) -> (Option<usize>, usize) {
        let mut at = 0;
        let mut pos = 0;
        let mut last = None;
        let length = |at: &mut usize, field: u8| {
            let mut len = usize::from(field);
            let mut more = field == 15;
            while more {
                len += usize::from(block[*at]);
                more = block[*at] == 255;
                *at += 1;
            }
            len
        };
        loop {
            let token = block[at];
            at += 1;
            let literals = length(&mut at, token >> 4);
            (at, pos) = (at + literals, pos + literals);
            if at == block.len() {
                return (last, literals);
            }
            at += 2;
            last = Some(pos);
            pos += MIN_MATCH + length(&mut at, token & 15);
        }
    }

    #[test]
    fn every_room_is_filled() {
        let few = letters(20_000, 5, 2);
        for room in (0..80).chain((80..900).step_by(13)) {
            for acceleration in [1, 2, 40] {
                let prefix = check(&few, room, acceleration);
                // At most two bytes stay free: one more length byte for literals would leave no room for a literal. Who skips
                // much may find no match.
                let is_filled = prefix.map_or(acceleration == 40, |prefix| prefix.len + 2 >= room);
                assert!(room < 400 || is_filled, "{room}: {prefix:?}");
                for len in [0, 1, 24, 25, 26, 100, room, 2 * room] {
                    check(&few[..len], room, acceleration);
                    check(&vec![7; len], room, acceleration);
                }
            }
        }
    }

    /// The encoder switches to another table layout at positions of more than 16 bits.
    #[test]
    fn long_sources_round_trip() {
        for len in [65_535, 65_536, 65_537, 65_560, 65_561, 65_562, 200_000] {
            for src in [letters(len, 3, 4), letters(len, 3, 200), vec![1; len], letters(700, 1, 255).repeat(len / 700)]
            {
                for room in [4096, 40_000, 300_000] {
                    check(&src, room, 1);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn mixed_sources_round_trip(
            pieces in proptest::collection::vec((0usize..60, 1usize..70_000, 0usize..3000), 0..60),
            seed in 1u64..,
            count in 1u8..,
            room in 0usize..40_000,
            acceleration in 1..20,
        ) {
            let mut src: Vec<u8> = Vec::new();
            for (n, (fresh, distance, len)) in pieces.into_iter().enumerate() {
                src.extend(letters(fresh, seed.rotate_left(n as u32) | 1, count));
                for _ in 0..len {
                    src.push(src.len().checked_sub(distance).map_or(0, |from| src[from]));
                }
            }
            check(&src, room, acceleration);
        }
    }
}
