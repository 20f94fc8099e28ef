//! Storage as in EROFS: clusters of a fixed length on disk, each filled with as much data as fits.

use packfs_codec::{Encoder, Prefix};

use crate::Result;

/// Bytes of a file that are filled into clusters on their own, so that several threads have work: at most this many,
/// and at least enough for some clusters.
pub(crate) fn segment(cluster: usize) -> usize {
    (16 * cluster).max(1 << 20)
}

/// A part of a file and where its compressed form lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Bytes of the file.
    pub(crate) raw: usize,
    /// Length of the compressed form; nothing where it is stored as it is.
    pub(crate) packed: Option<usize>,
}

/// Number of tries of a codec that cannot fill a cluster.
const TRIES: usize = 6;

/// Fills clusters with all of `raw`, one after the other in `packed`.
pub(crate) fn fill(
    encoder: &mut dyn Encoder,
    fills: bool,
    raw: &[u8],
    packed: &mut [u8],
    (cluster, sector): (usize, usize),
    pieces: &mut Vec<Piece>,
) -> Result<()> {
    let (mut at, mut out, mut guess) = (0, 0, 4 * cluster);
    while at < raw.len() {
        let (rest, room) = (&raw[at..], &mut packed[out..]);
        let len = room.len().min(cluster);
        let prefix = match fills {
            true => encoder.encode_prefix(rest, &mut room[..len])?,
            false => search(encoder, rest, &mut room[..len], guess)?,
        };
        // What saves no sector is stored as it is.
        let piece = match prefix.filter(|prefix| prefix.len.next_multiple_of(sector) < prefix.taken) {
            Some(prefix) => Piece { raw: prefix.taken, packed: Some(prefix.len) },
            None => Piece { raw: rest.len().min(cluster), packed: None },
        };
        guess = piece.raw;
        (at, out) = (at + piece.raw, out + piece.packed.unwrap_or(0));
        pieces.push(piece);
    }
    Ok(())
}

/// The longest prefix that some tries find to fit, beginning with one of `guess` bytes; encoded last of all.
fn search(encoder: &mut dyn Encoder, src: &[u8], dst: &mut [u8], guess: usize) -> Result<Option<Prefix>> {
    let (mut best, mut too_much) = (None::<Prefix>, src.len() + 1);
    let mut taken = guess.min(src.len());
    let mut last = 0;
    for _ in 0..TRIES {
        last = taken;
        match encoder.encode(&src[..taken], dst)? {
            Some(len) => {
                best = Some(Prefix { taken, len });
                // By its ratio, a little less than what would fill the room.
                taken = taken * dst.len() / len.max(1) * 63 / 64;
            }
            None => {
                too_much = taken;
                taken = best.map_or(taken / 2, |best| (best.taken + too_much) / 2);
            }
        }
        taken = taken.min(too_much - 1);
        if best.is_some_and(|best| taken <= best.taken + best.taken / 64) || taken == 0 {
            break;
        }
    }
    // What stands in `dst` has to be the best, and a try that did not fit may have written over it.
    match best {
        Some(prefix) if prefix.taken != last => {
            let len = encoder.encode(&src[..prefix.taken], dst)?;
            Ok(len.map(|len| Prefix { len, ..prefix }))
        }
        best => Ok(best),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Shares};
    use packfs_codec::Choice;

    #[test]
    fn clusters_are_full_and_come_back() {
        let raw = Memory::bytes(3, "text=2,code=1,random=1".parse::<Shares>().unwrap(), 1 << 20);
        for codec in ["lz4", "lz4hc:9", "zstd:3", "deflate:6", "lzma:1"] {
            let choice: Choice = codec.parse().unwrap();
            let mut encoder = choice.cluster_encoder(choice.cluster_window(16_384)).unwrap();
            let mut decoder = choice.codec().cluster_decoder().unwrap();
            let (mut packed, mut pieces) = (vec![0; raw.len() + 16_384], Vec::new());
            fill(encoder.as_mut(), choice.fills(), &raw, &mut packed, (16_384, 4096), &mut pieces).unwrap();
            assert_eq!(pieces.iter().map(|piece| piece.raw).sum::<usize>(), raw.len());
            let (mut at, mut out, mut full) = (0, 0, 0);
            for piece in &pieces {
                if let Some(len) = piece.packed {
                    let mut back = vec![0; piece.raw];
                    decoder.decode(&packed[out..out + len], &mut back).unwrap();
                    assert!(back == raw[at..at + piece.raw], "{codec}");
                    out += len;
                    full += usize::from(len * 10 > 16_384 * 9);
                }
                at += piece.raw;
            }
            let kept = pieces.iter().filter(|piece| piece.packed.is_some()).count();
            assert!(kept > 10 && full * 10 >= kept * 8, "{codec}: {full} of {kept} are nearly full");
        }
    }
}
