//! LZJB, the first codec of ZFS.
//!
//! Items are grouped by eight. A byte before each group has one bit per item, lowest first: 0 for a literal byte, 1 for
//! a match of two bytes (six bits of length minus 3, ten bits of distance). The stream does not contain its length.

use packfs_codec::{Decoder, Encoder, Error, Result};

/// Shortest match: a shorter one would take as many bytes as literals.
const MIN_LEN: usize = 3;
/// Longest match: six bits of length.
const MAX_LEN: usize = MIN_LEN + 63;
/// Farthest match: ten bits of distance.
const MAX_DISTANCE: usize = 1023;
/// Slots of the encoder's hash table. ZFS has the same number, so speed and ratio are comparable.
const SLOTS: usize = 1024;

/// LZJB encoder. The table contains the last position of each hash of three bytes, plus 1.
pub(super) struct LzjbEncoder(Box<[u32; SLOTS]>);

impl LzjbEncoder {
    pub(super) fn new() -> Self {
        LzjbEncoder(Box::new([0; SLOTS]))
    }

    /// Returns the position and length of an earlier match for the bytes at `at`.
    fn find_match(&mut self, src: &[u8], at: usize) -> Option<(usize, usize)> {
        let three = src.get(at..at + MIN_LEN)?;
        let word = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        // The upper ten bits of a multiplicative hash: 1,024 slots.
        let slot = &mut self.0[(word.wrapping_mul(0x9E37_79B1) >> 22) as usize];
        let seen = std::mem::replace(slot, u32::try_from(at + 1).ok()?) as usize;
        let from = seen.checked_sub(1)?;
        if at - from > MAX_DISTANCE || src[from..from + MIN_LEN] != *three {
            return None;
        }
        let max_len = MAX_LEN.min(src.len() - at);
        // The match may reach into the bytes that it makes, as runs do.
        let pairs = src[from..].iter().zip(&src[at..at + max_len]);
        Some((from, pairs.take_while(|(a, b)| a == b).count()))
    }
}

impl Encoder for LzjbEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        self.0.fill(0);
        let mut at = 0;
        let mut out = 0;
        // Position of the byte with the bits of the current group.
        let mut flags_at = 0;
        // Full from the start, so the first item begins a group.
        let mut item = 8;
        while at < src.len() {
            if item == 8 {
                flags_at = out;
                item = 0;
                let Some(slot) = dst.get_mut(out) else { return Ok(None) };
                *slot = 0;
                out += 1;
            }
            if let Some((from, len)) = self.find_match(src, at) {
                let Some(slots) = dst.get_mut(out..out + 2) else { return Ok(None) };
                // At most 63 and 1,023: both fit in 16 bits.
                let [.., high, low] = ((len - MIN_LEN) << 10 | (at - from)).to_be_bytes();
                slots.copy_from_slice(&[high, low]);
                dst[flags_at] |= 1 << item;
                at += len;
                out += 2;
            } else {
                let Some(slot) = dst.get_mut(out) else { return Ok(None) };
                *slot = src[at];
                at += 1;
                out += 1;
            }
            item += 1;
        }
        Ok(Some(out))
    }
}

/// LZJB decoder.
pub(super) struct LzjbDecoder;

impl Decoder for LzjbDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let mut at = 0;
        let mut out = 0;
        while at < src.len() {
            let flags = src[at];
            at += 1;
            for item in 0..8 {
                let Some(first) = src.get(at) else { break };
                if flags >> item & 1 == 0 {
                    *dst.get_mut(out).ok_or_else(|| corrupt("longer than its block"))? = *first;
                    at += 1;
                    out += 1;
                    continue;
                }
                let second = src.get(at + 1).ok_or_else(|| corrupt("ends within a match"))?;
                let word = usize::from(*first) << 8 | usize::from(*second);
                let len = (word >> 10) + MIN_LEN;
                let distance = word & MAX_DISTANCE;
                // In a damaged stream, a distance may lead before the block, or to bytes that are not there yet.
                if distance == 0 || distance > out {
                    return Err(corrupt("a match from before the block"));
                }
                if len > dst.len() - out {
                    return Err(corrupt("longer than its block"));
                }
                copy_earlier(dst, out, distance, len);
                at += 2;
                out += len;
            }
        }
        Ok(out)
    }
}

/// Writes `len` bytes at `out`, each a copy of the byte `distance` before it.
fn copy_earlier(dst: &mut [u8], out: usize, distance: usize, len: usize) {
    if distance >= len {
        // Without overlap, a copy at once; with it, each byte may be one that was just written.
        dst.copy_within(out - distance..out - distance + len, out);
    } else {
        (out..out + len).for_each(|at| dst[at] = dst[at - distance]);
    }
}

fn corrupt(why: &str) -> Error {
    Error::Corrupt { codec: "lzjb", why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams written by hand from the format description.
    #[test]
    fn streams_are_those_of_the_format() {
        let cases: [(&[u8], &[u8]); 4] = [
            (b"", b""),
            (b"abc", &[0, b'a', b'b', b'c']),
            // Three literals, then a match of 6 at distance 3: 3 << 10 | 3.
            (b"abcabcabc", &[0b1000, b'a', b'b', b'c', 0x0C, 3]),
            // One literal, a match of it with the maximum length 66, then a match of the other 5 bytes.
            (&[7; 72], &[0b110, 7, 0xFC, 1, 0x08, 66]),
        ];
        for (block, stream) in cases {
            let mut packed = vec![0; 100];
            let mut back = vec![0; block.len()];
            let len = LzjbEncoder::new().encode(block, &mut packed).unwrap().unwrap();
            assert_eq!(&packed[..len], stream);
            assert_eq!(LzjbDecoder.decode(stream, &mut back).unwrap(), block.len());
            assert_eq!(back, block);
        }
    }

    #[test]
    fn matches_from_nowhere_are_refused() {
        for stream in [&[1, 0, 0][..], &[1, 0, 5], &[2, b'a', 0, 2], &[1, 0]] {
            assert!(LzjbDecoder.decode(stream, &mut [0; 50]).is_err(), "{stream:?}");
        }
    }
}
