//! The fast encoder: one hash look-up per position; the first match found is taken.

use super::emit::LzoEmitter;
use super::{FAR_DISTANCE, chunk, common_len, low_word, table};

/// log2 of the number of hash slots: the table of 16-bit positions then stays in the L1 cache.
const HASH_BITS: u32 = 14;
/// Bytes hashed, and length of the shortest match.
const MIN_LEN: usize = 4;
/// log2 of the number of literals in a run after which the step between hashed positions grows by one.
const SKIP_SHIFT: usize = 5;
/// Hashing reads eight bytes: no match starts nearer to the end than this.
const TAIL: usize = 8;

/// Tables of the fast encoder.
#[derive(Debug)]
pub(super) struct FastTables {
    /// Low 16 bits of the last position with each hash. The upper bits are not kept: an old
    /// position that looks recent is rejected by comparing the bytes.
    slots: Box<[u16; 1 << HASH_BITS]>,
}

impl FastTables {
    pub(super) fn new() -> Self {
        FastTables { slots: table(0) }
    }

    /// Compresses `src`; returns `None` if `dst` is too short.
    pub(super) fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let mut out = LzoEmitter::new(dst);
        let mut anchor = 0;
        if src.len() > TAIL {
            anchor = self.matches(src, &mut out)?;
        }
        if anchor < src.len() {
            out.literals(src, anchor, src.len())?;
        }
        out.finish()
    }

    /// Writes everything up to the end of the last match and returns that end.
    fn matches(&mut self, src: &[u8], out: &mut LzoEmitter<'_>) -> Option<usize> {
        self.slots.fill(0);
        let last = src.len() - TAIL;
        let mut anchor = 0;
        // An empty slot stands for position 0.
        let mut at = 1;
        while at <= last {
            let (hash, head) = look(src, at);
            let distance = usize::from(low_word(at).wrapping_sub(self.slots[hash]));
            self.slots[hash] = low_word(at);
            // A distance of 0 is refused by this, too.
            if distance.wrapping_sub(1) >= FAR_DISTANCE
                || distance > at
                || u32::from_le_bytes(chunk(src, at - distance)) != head
            {
                at += 1 + ((at - anchor) >> SKIP_SHIFT);
                continue;
            }
            let mut start = at;
            while start > anchor && start > distance && src[start - 1] == src[start - 1 - distance] {
                start -= 1;
            }
            let end = at + MIN_LEN + common_len(src, at + MIN_LEN - distance, at + MIN_LEN, src.len());
            out.literals(src, anchor, start)?;
            out.repeat(end - start, distance, start - anchor)?;
            anchor = end;
            at = end;
            if end <= last {
                let (hash, _) = look(src, end - 2);
                self.slots[hash] = low_word(end - 2);
            }
        }
        Some(anchor)
    }
}

/// Returns the hash and the first bytes at `at`.
#[inline(always)]
fn look(src: &[u8], at: usize) -> (usize, u32) {
    let bytes = u64::from_le_bytes(chunk(src, at));
    let hash = (bytes << 32).wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - HASH_BITS);
    let [a, b, c, d, ..] = bytes.to_le_bytes();
    (usize::from(low_word(hash.try_into().unwrap_or(0))), u32::from_le_bytes([a, b, c, d]))
}
