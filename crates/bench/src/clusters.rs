//! Storage as in EROFS: physical clusters of a fixed length, each filled with as much data as fits.

use packfs_codec::{EncodedPrefix, Encoder};

use crate::Result;

/// Returns the number of bytes of a file that one thread packs into clusters on its own: an upper limit that lets
/// several threads work, but enough for a few clusters.
pub(crate) fn segment_len(cluster_len: usize) -> usize {
    (16 * cluster_len).max(1 << 20)
}

/// A range of a file and its compressed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedRange {
    /// Length of the range.
    pub(crate) raw: usize,
    /// Compressed length; `None` if it is stored uncompressed.
    pub(crate) packed: Option<usize>,
}

/// Maximum number of attempts for a codec that cannot fill a cluster by itself. Each compresses the data once more.
const MAX_SEARCH_ATTEMPTS: usize = 6;

/// Packs all of `raw` into clusters, one after the other in `packed`, and adds each to `ranges`. `encoder_fills` is
/// true if the encoder itself takes as much data as fits.
pub(crate) fn pack_clusters(
    encoder: &mut dyn Encoder,
    encoder_fills: bool,
    raw: &[u8],
    packed: &mut [u8],
    cluster_len: usize,
    sector_len: usize,
    ranges: &mut Vec<PackedRange>,
) -> Result<()> {
    let mut raw_at = 0;
    let mut packed_at = 0;
    // A first guess of a ratio of 4; later ones come from the cluster before.
    let mut guess = 4 * cluster_len;
    while raw_at < raw.len() {
        let rest = &raw[raw_at..];
        let room = &mut packed[packed_at..];
        let room_len = room.len().min(cluster_len);
        let room = &mut room[..room_len];
        let prefix = match encoder_fills {
            true => encoder.encode_prefix(rest, room)?,
            false => encode_longest_prefix(encoder, rest, room, guess)?,
        };
        // Stored uncompressed unless it saves a sector, as EROFS does.
        let range = match prefix.filter(|prefix| prefix.len.next_multiple_of(sector_len) < prefix.taken) {
            Some(prefix) => PackedRange { raw: prefix.taken, packed: Some(prefix.len) },
            None => PackedRange { raw: rest.len().min(cluster_len), packed: None },
        };
        guess = range.raw;
        raw_at += range.raw;
        packed_at += range.packed.unwrap_or(0);
        ranges.push(range);
    }
    Ok(())
}

/// Searches for the longest prefix whose compressed form fits, beginning with `guess` bytes. Its encoding is left in
/// `dst`.
fn encode_longest_prefix(
    encoder: &mut dyn Encoder,
    src: &[u8],
    dst: &mut [u8],
    guess: usize,
) -> Result<Option<EncodedPrefix>> {
    let mut best = None::<EncodedPrefix>;
    let mut too_much = src.len() + 1;
    let mut taken = guess.min(src.len());
    let mut last = 0;
    for _ in 0..MAX_SEARCH_ATTEMPTS {
        last = taken;
        match encoder.encode(&src[..taken], dst)? {
            Some(len) => {
                best = Some(EncodedPrefix { taken, len });
                // Slightly less than the ratio so far would allow, so that the next attempt fits.
                taken = taken * dst.len() / len.max(1) * 63 / 64;
            }
            None => {
                too_much = taken;
                taken = best.map_or(taken / 2, |best| (best.taken + too_much) / 2);
            }
        }
        taken = taken.min(too_much - 1);
        // A gain of less than a 64th is not worth another attempt.
        if best.is_some_and(|best| taken <= best.taken + best.taken / 64) || taken == 0 {
            break;
        }
    }
    // `dst` has to contain the best attempt, and a later one that did not fit may have overwritten it.
    match best {
        Some(prefix) if prefix.taken != last => {
            let len = encoder.encode(&src[..prefix.taken], dst)?;
            Ok(len.map(|len| EncodedPrefix { len, ..prefix }))
        }
        best => Ok(best),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryReader, PageShares};
    use packfs_codec::Choice;

    #[test]
    fn clusters_are_full_and_come_back() {
        let raw = MemoryReader::bytes(3, "text=2,code=1,random=1".parse::<PageShares>().unwrap(), 1 << 20);
        for codec in ["lz4", "lz4hc:9", "zstd:3", "deflate:6", "lzma:1"] {
            let choice: Choice = codec.parse().unwrap();
            let mut encoder = choice.cluster_encoder(choice.cluster_window(16_384)).unwrap();
            let mut decoder = choice.codec().cluster_decoder().unwrap();
            let mut packed = vec![0; raw.len() + 16_384];
            let mut pieces = Vec::new();
            pack_clusters(encoder.as_mut(), choice.fills(), &raw, &mut packed, 16_384, 4096, &mut pieces).unwrap();
            assert_eq!(pieces.iter().map(|piece| piece.raw).sum::<usize>(), raw.len());
            let mut at = 0;
            let mut out = 0;
            let mut full = 0;
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
