//! Decodes the payload of a chunk: the one way chunks are decoded, for reading and for verifying.

use packfs_codec::{Codec, Decoder};

use crate::format::{PAGE, sum};

/// Decodes chunks of one codec. It keeps its state, so each thread makes one.
pub struct ChunkDecoder {
    decoder: Box<dyn Decoder>,
}

impl std::fmt::Debug for ChunkDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkDecoder").finish_non_exhaustive()
    }
}

impl ChunkDecoder {
    /// Makes a decoder for chunks of `codec`.
    pub fn new(codec: Codec) -> packfs_codec::Result<Self> {
        Ok(ChunkDecoder { decoder: codec.decoder()? })
    }

    /// Fills `out`, the whole chunk, from its stored bytes, and checks that its sum is `expected`.
    /// The error describes the defect of the chunk.
    pub fn decode(
        &mut self,
        stored: &[u8],
        coded: bool,
        squeezed: bool,
        expected: u64,
        out: &mut [u8],
    ) -> Result<(), String> {
        self.decode_unchecked(stored, coded, squeezed, out)?;
        if sum(out) == expected { Ok(()) } else { Err("its checksum does not match".to_owned()) }
    }

    /// As [`ChunkDecoder::decode`], for callers with other means to verify the bytes.
    pub fn decode_unchecked(
        &mut self,
        stored: &[u8],
        coded: bool,
        squeezed: bool,
        out: &mut [u8],
    ) -> Result<(), String> {
        if squeezed { self.expand(stored, coded, out) } else { self.plain(stored, coded, out) }
    }

    fn plain(&mut self, stored: &[u8], coded: bool, out: &mut [u8]) -> Result<(), String> {
        let len = if coded {
            self.decoder.decode(stored, out).map_err(|error| error.to_string())?
        } else {
            // A length from the part may exceed the chunk.
            out.get_mut(..stored.len()).ok_or("longer than the chunk")?.copy_from_slice(stored);
            stored.len()
        };
        if len == out.len() { Ok(()) } else { Err(format!("its decoded length is {len} instead of {}", out.len())) }
    }

    /// Decodes the stored pages to the front of `out`, then moves each to its place, the last one first.
    fn expand(&mut self, stored: &[u8], coded: bool, out: &mut [u8]) -> Result<(), String> {
        let pages = out.len().div_ceil(PAGE);
        let (map, rest) = stored.split_at_checked(pages.div_ceil(8)).ok_or("its map of pages is cut off")?;
        let is_there = |page: usize| map[page / 8] >> (page % 8) & 1 == 1;
        let page_len = |page: usize| PAGE.min(out.len() - page * PAGE);
        let kept: usize = (0..pages).filter(|page| is_there(*page)).map(page_len).sum();
        // A chunk of nothing but zeros has only its map, and nothing to decode.
        if kept > 0 || !rest.is_empty() {
            self.plain(rest, coded, &mut out[..kept])?;
        }
        // From the end: a page only ever moves over places whose own pages have moved already.
        let mut from = kept;
        for page in (0..pages).rev() {
            let len = PAGE.min(out.len() - page * PAGE);
            if is_there(page) {
                from -= len;
                out.copy_within(from..from + len, page * PAGE);
            } else {
                out[page * PAGE..][..len].fill(0);
            }
        }
        Ok(())
    }
}

/// Fills `out` with repetitions of `pattern`, starting `skip` bytes into the run.
pub fn fill(pattern: [u8; 8], skip: u64, out: &mut [u8]) {
    if pattern.iter().all(|byte| *byte == pattern[0]) {
        return out.fill(pattern[0]);
    }
    let mut turned = pattern;
    turned.rotate_left(usize::from(skip.to_le_bytes()[0] % 8));
    for place in out.chunks_mut(8) {
        place.copy_from_slice(&turned[..place.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_is_in_step_wherever_it_is_entered() {
        let pattern = *b"abcdefgh";
        let mut whole = [0; 50];
        fill(pattern, 0, &mut whole);
        assert_eq!(&whole[..18], b"abcdefghabcdefghab");
        for skip in 0..20 {
            let mut some = [0; 13];
            fill(pattern, skip as u64, &mut some);
            assert_eq!(some, whole[skip..skip + 13]);
        }
    }

    #[test]
    fn squeezed_pages_are_restored_in_their_places() {
        let mut decoder = ChunkDecoder::new(Codec::None).unwrap();
        for (len, there) in [(5 * PAGE, vec![1, 3]), (2 * PAGE + 7, vec![2]), (PAGE, vec![]), (9 * PAGE, vec![0, 8])] {
            let mut chunk = vec![0; len];
            let mut stored = vec![0; len.div_ceil(PAGE).div_ceil(8)];
            for page in there {
                let end = len.min((page + 1) * PAGE);
                chunk[page * PAGE..end].fill(b'a' + u8::try_from(page).unwrap());
                stored[page / 8] |= 1 << (page % 8);
                stored.extend_from_slice(&chunk[page * PAGE..end]);
            }
            let mut out = vec![0xEE; len];
            decoder.decode(&stored, false, true, sum(&chunk), &mut out).unwrap();
            assert!(out == chunk);
            assert!(decoder.decode(&stored, false, true, 1, &mut out).is_err());
            stored.push(0);
            assert!(decoder.decode(&stored, false, true, sum(&chunk), &mut out).is_err());
            assert!(decoder.decode(&[], false, true, sum(&chunk), &mut out).is_err());
        }
    }
}
