//! File contents for tests: generated from a few numbers, at any offset.

use std::path::PathBuf;

use crate::{Contents, FileReader};
use crate::{Error, Result};

/// A stretch of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Bytes that no codec can shrink; equal seeds give equal bytes.
    Noise {
        /// Seed of the bytes.
        seed: u64,
        /// Length.
        len: u64,
    },
    /// Bytes that every codec shrinks.
    Text {
        /// Seed of the bytes.
        seed: u64,
        /// Length.
        len: u64,
    },
    /// Zeros that are stored.
    Zeros(u64),
    /// Zeros that are not stored.
    Hole(u64),
    /// A cut of an endless stream. Cuts of one stream share the bytes of positions that both contain.
    Cut {
        /// The stream.
        of: ByteStream,
        /// Position of the first byte in the stream.
        from: u64,
        /// Length.
        len: u64,
    },
}

/// An endless stream of bytes that repeats nothing from another one of more than a few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteStream {
    /// Bytes that no codec can shrink, by seed.
    Noise(u64),
    /// Words with a little noise between them, by seed: every codec halves them, also in clusters of 4 KiB.
    Words(u64),
}

const TEXT: [u8; 91] = *b"The quick brown fox jumps over the lazy dog, and packs my box with five dozen liquor jugs. ";

/// Returns a piece that no codec can shrink.
pub fn noise(seed: u64, len: u64) -> Piece {
    Piece::Noise { seed, len }
}

/// Returns a piece that every codec shrinks.
pub fn text(seed: u64, len: u64) -> Piece {
    Piece::Text { seed, len }
}

impl Piece {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match *self {
            Piece::Noise { len, .. } | Piece::Text { len, .. } | Piece::Cut { len, .. } => len,
            Piece::Zeros(len) | Piece::Hole(len) => len,
        }
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the bytes from `offset` of this piece on into `buf`.
    pub fn fill(&self, buf: &mut [u8], offset: u64) {
        match *self {
            Piece::Zeros(_) | Piece::Hole(_) => buf.fill(0),
            Piece::Noise { seed, .. } => ByteStream::Noise(seed).fill(buf, offset),
            Piece::Cut { of, from, .. } => of.fill(buf, from + offset),
            Piece::Text { seed, .. } => units(buf, offset + seed, |_| TEXT),
        }
    }
}

impl ByteStream {
    /// Writes the bytes from `position` on into `buf`.
    fn fill(&self, buf: &mut [u8], position: u64) {
        match *self {
            ByteStream::Noise(seed) => {
                let seed = seed.wrapping_mul(0x1234_5678_9abc_def1);
                units(buf, position, |n| mix(seed.wrapping_add(n)).to_le_bytes());
            }
            ByteStream::Words(seed) => {
                let seed = seed.wrapping_mul(0xfedc_ba98_7654_3211);
                units(buf, position, |n| word(mix(seed.wrapping_add(n))));
            }
        }
    }
}

/// Returns one of 64 words of 12 bytes, followed by 4 bytes of noise.
fn word(noise: u64) -> [u8; 16] {
    let [first, second] = [0, 1].map(|half| mix(2 * (noise % 64) + half).to_le_bytes());
    let mut unit = [0; 16];
    unit[..8].copy_from_slice(&first);
    unit[8..].copy_from_slice(&second);
    unit[12..].copy_from_slice(&noise.to_be_bytes()[..4]);
    unit
}

/// Fills `buf` from `offset` on with units; `unit` makes the n-th unit.
fn units<const LEN: usize>(buf: &mut [u8], offset: u64, unit: impl Fn(u64) -> [u8; LEN]) {
    let mut at = offset;
    let mut rest = buf;
    while !rest.is_empty() {
        let from = index(at % LEN as u64);
        let (now, later) = rest.split_at_mut(rest.len().min(LEN - from));
        now.copy_from_slice(&unit(at / LEN as u64)[from..from + now.len()]);
        (at, rest) = (at + now.len() as u64, later);
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("less than the length of an array")
}

/// splitmix64: maps every number to a well-mixed one.
pub fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Files of pieces that only exist in memory.
#[derive(Debug, Default)]
pub struct Memory(pub Vec<Vec<Piece>>);

impl Contents for Memory {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        let pieces = usize::try_from(key).ok().and_then(|at| self.0.get(at));
        let pieces = pieces.ok_or_else(|| Error::Misuse(format!("there is no file {key}")))?;
        Ok(Box::new(Reader(pieces)))
    }

    fn path(&self, key: u64) -> PathBuf {
        format!("memory file {key}").into()
    }
}

struct Reader<'a>(&'a [Piece]);

impl Reader<'_> {
    fn pieces(&self) -> impl Iterator<Item = (u64, Piece)> {
        self.0.iter().scan(0, |at, piece| {
            let start = *at;
            *at += piece.len();
            Some((start, *piece))
        })
    }
}

impl FileReader for Reader<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        for (start, piece) in self.pieces() {
            let at = offset + done as u64;
            if done < buf.len() && at >= start && at < start + piece.len() {
                let n = usize::try_from(start + piece.len() - at).map_or(buf.len() - done, |n| n.min(buf.len() - done));
                piece.fill(&mut buf[done..done + n], at - start);
                done += n;
            }
        }
        if done == buf.len() {
            return Ok(());
        }
        Err(Error::Changed { path: "memory".into(), why: format!("ends before byte {}", offset + buf.len() as u64) })
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let data = |piece: &Piece| !matches!(piece, Piece::Hole(_)) && !piece.is_empty();
        let mut found: Option<(u64, u64)> = None;
        for (start, piece) in self.pieces().filter(|(start, piece)| data(piece) && start + piece.len() > offset) {
            match &mut found {
                None => found = Some((start.max(offset), start + piece.len())),
                Some((_, end)) if *end == start => *end += piece.len(),
                Some(_) => break,
            }
        }
        Ok(found)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_read_the_same_at_any_offset_and_holes_are_reported() {
        let memory = Memory(vec![vec![
            Piece::Hole(10),
            Piece::Noise { seed: 3, len: 21 },
            Piece::Zeros(5),
            Piece::Hole(4),
            Piece::Text { seed: 1, len: 9 },
        ]]);
        let mut whole = [1; 49];
        let mut file = memory.open(0).unwrap();
        file.read_exact_at(&mut whole, 0).unwrap();
        for at in 0..49 {
            let mut tail = vec![1; 49 - at];
            file.read_exact_at(&mut tail, at as u64).unwrap();
            assert_eq!(tail, whole[at..], "{at}");
        }
        assert!(file.read_exact_at(&mut [0; 2], 48).is_err());
        assert_eq!(&whole[40..], b"he quick ");
        assert_eq!(file.next_data(0).unwrap(), Some((10, 36)));
        assert_eq!(file.next_data(12).unwrap(), Some((12, 36)));
        assert_eq!(file.next_data(36).unwrap(), Some((40, 49)));
        assert_eq!(file.next_data(49).unwrap(), None);
        assert!(memory.open(1).is_err());
    }

    #[test]
    fn cuts_of_one_stream_share_bytes_and_those_of_others_do_not() {
        let bytes = |of: ByteStream, from: u64| {
            let mut bytes = vec![0; 100];
            Piece::Cut { of, from, len: 100 }.fill(&mut bytes, 0);
            bytes
        };
        for of in [ByteStream::Noise, ByteStream::Words] {
            assert_eq!(bytes(of(1), 70)[..30], bytes(of(1), 0)[70..]);
            assert_eq!(bytes(of(1), 3)[..97], bytes(of(1), 0)[3..]);
            assert_ne!(bytes(of(1), 0)[..20], bytes(of(2), 0)[..20]);
        }
        let mut noise = [0; 100];
        Piece::Noise { seed: 7, len: 100 }.fill(&mut noise, 0);
        assert_eq!(bytes(ByteStream::Noise(7), 0), noise);
    }
}
