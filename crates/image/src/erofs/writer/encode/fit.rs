//! Fills physical clusters with encoders that can only report how long a result is or that it is too long.
//!
//! A cluster takes whole blocks, so a result need not fill the largest cluster, but should end
//! shortly before the end of some block. The first try follows the ratio seen so far. A second one,
//! longer or shorter by the distance to a block's end, mostly succeeds, as the ratio hardly changes
//! nearby. Slow encoders have a scout, a faster level of the same codec, whose lengths predict
//! theirs. That takes less than two passes over a byte where a search from scratch takes ten.

use packfs_codec::{EncodedPrefix, Encoder};

use crate::Result;

/// Ratio of input bytes to output bytes that the first try of a piece assumes. A wrong one costs at most a few tries:
/// each result corrects it. An estimate, not measured.
const FIRST_RATIO: f64 = 2.2;
/// Share of a cluster that a first try aims at. A try that does not fit is lost, so a higher share loses more of them;
/// a lower one leaves a larger gap for later tries to fill. Not measured.
const AIM: f64 = 0.93;
/// Ratio of results to those of the scout that the first try assumes: slow levels are a little denser. Not measured;
/// the first result corrects it.
const FIRST_GAIN: f64 = 0.97;
/// Maximum number of scout results before the first try. Each costs a pass of the faster level and brings the try
/// nearer to the end of a block. With scouts, gzip made 1.9 instead of 2.9 passes over each byte of clusters of 128K;
/// other numbers were not measured.
const SCOUTED: usize = 3;
/// Number of tries after the first that fits: each costs a pass, and the bytes that it can still win get fewer. Most
/// clusters need one, see above. Not measured.
const TRIES: usize = 3;

/// State of the search, as learned within a piece of a file.
#[derive(Debug)]
pub(crate) struct ClusterFit {
    ratio: f64,
    /// Ratio of the length of results to those of the scout.
    gain: f64,
    block: usize,
    scratch: Vec<u8>,
}

impl ClusterFit {
    pub(crate) fn new(block: usize) -> Self {
        ClusterFit { ratio: FIRST_RATIO, gain: FIRST_GAIN, block, scratch: Vec::new() }
    }

    /// Resets what was learned: results depend on the piece alone.
    pub(crate) fn reset(&mut self) {
        self.ratio = FIRST_RATIO;
        self.gain = FIRST_GAIN;
    }

    /// Compresses a prefix of `src` so that it ends shortly before the end of one of `dst`'s blocks.
    pub(crate) fn encode_prefix(
        &mut self,
        encoder: &mut dyn Encoder,
        scout: Option<&mut (dyn Encoder + 'static)>,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<Option<EncodedPrefix>> {
        let Some(mut best) = self.encode_first(encoder, scout, src, dst)? else { return Ok(None) };
        // The longer a result, the less predictable are its last bytes.
        let tolerance = (dst.len() / 200).max(self.block / 32);
        let least_margin = tolerance as f64 / 2.0;
        let mut caution = 1.0;
        for _ in 0..TRIES {
            let end = best.len.next_multiple_of(self.block);
            if best.taken == src.len() || end - best.len <= tolerance {
                break;
            }
            // To the nearer end of a block; a cluster has at least one.
            let target = if end - best.len > self.block / 2 && end > self.block { end - self.block } else { end };
            let missing = target as f64 - best.len as f64;
            // The farther the target, the less exact is the guess.
            let margin = caution * (missing.abs() / 24.0 + least_margin);
            let taken = moved(best.taken, (missing - margin) * self.ratio).min(src.len());
            // The data does not shrink, or the same bytes were tried before.
            if taken <= target || taken == best.taken {
                break;
            }
            // Into the scratch: `dst` keeps the best result until there is a better one.
            self.scratch.resize(target, 0);
            match encoder.encode(&src[..taken], &mut self.scratch)? {
                Some(len) => {
                    let found = EncodedPrefix { taken, len };
                    if self.density(found) <= self.density(best) {
                        break;
                    }
                    best = found;
                    dst[..len].copy_from_slice(&self.scratch[..len]);
                }
                None => caution *= 3.0,
            }
        }
        self.ratio = best.taken as f64 / best.len.max(1) as f64;
        Ok(Some(best))
    }

    /// Returns the longest of a few prefixes that fit.
    fn encode_first(
        &mut self,
        encoder: &mut dyn Encoder,
        scout: Option<&mut (dyn Encoder + 'static)>,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<Option<EncodedPrefix>> {
        // At least one byte more than the room: as many as the room has would fit uncompressed, too.
        let mut taken = moved(0, dst.len() as f64 * self.ratio * AIM).max(dst.len() + 1).min(src.len());
        // The rest is worth a try immediately if it is not much more.
        if src.len() - taken < taken / 8 {
            taken = src.len();
        }
        let mut expected = None;
        let mut shorter = 0.75;
        // The proposal of the scout is nearly right, so a second try drops 3 % of it instead of a quarter.
        if let Some(scout) = scout {
            let (scouted, len) = self.estimate(scout, src, dst.len(), taken)?;
            taken = scouted;
            expected = Some(len);
            shorter = 0.97;
        }
        loop {
            let result = encoder.encode(&src[..taken], dst)?;
            if let Some(expected) = expected.take() {
                // A result that does not fit is at least as long as the room.
                self.gain *= result.unwrap_or(dst.len()) as f64 / expected;
            }
            if let Some(len) = result {
                return Ok(Some(EncodedPrefix { taken, len }));
            }
            // Not even as many bytes fit as the cluster has: they do not shrink.
            if taken <= dst.len() {
                return Ok(None);
            }
            taken = moved(0, taken as f64 * shorter).max(dst.len());
            shorter = 0.75;
        }
    }

    /// Estimates from the scout how much of `src` will nearly fill `room` bytes, and how many; starts at `taken`.
    fn estimate(&mut self, scout: &mut dyn Encoder, src: &[u8], room: usize, mut taken: usize) -> Result<(usize, f64)> {
        // Shortly before the end of the last block but one, so that a result longer than predicted also fits.
        let end = if room > 2 * self.block { room - self.block } else { room };
        let target = (end - room / 256) as f64;
        // Twice the room: a guess that is somewhat too long still returns a length to correct it by.
        self.scratch.resize(2 * room, 0);
        for _ in 0..SCOUTED {
            let Some(len) = scout.encode(&src[..taken], &mut self.scratch)? else {
                // The result is at least as long as that.
                taken = (taken / 2).max(room.min(src.len()));
                continue;
            };
            let expected = len as f64 * self.gain;
            let next = moved(0, taken as f64 * target / expected).max(room + 1).min(src.len());
            if next.abs_diff(taken) <= taken / 256 {
                return Ok((taken, expected));
            }
            taken = next;
        }
        Ok((taken, target))
    }

    /// Returns the number of input bytes per block.
    fn density(&self, found: EncodedPrefix) -> f64 {
        found.taken as f64 / found.len.div_ceil(self.block).max(1) as f64
    }
}

/// Moves a position by a distance, not below 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn moved(from: usize, by: f64) -> usize {
    (from as f64 + by).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use packfs_blocks::testing::Random;
    use packfs_codec::Choice;

    use super::*;

    const CLUSTER: u32 = 64 << 10;
    const BLOCK: usize = 4096;

    /// Counts the bytes that are encoded.
    struct Counting {
        encoder: Box<dyn Encoder>,
        bytes: usize,
    }

    impl Encoder for Counting {
        fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> packfs_codec::Result<Option<usize>> {
            self.bytes += src.len();
            self.encoder.encode(src, dst)
        }
    }

    /// Words of three kinds of texts, one after the other.
    fn texts(len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut random = Random::new(1);
        while out.len() < len {
            let many = [50, 2000, 60_000][out.len() / 100_000 % 3];
            out.extend(format!("{:x} ", random.below(many) * 7919).bytes());
        }
        out
    }

    /// Returns the number of blocks that clusters of all of `src` take, and of passes over a byte.
    fn fill(choice: &Choice, scouting: bool, src: &[u8]) -> (usize, f64) {
        let window = choice.cluster_window(CLUSTER);
        let mut encoder = Counting { encoder: choice.cluster_encoder(window).unwrap(), bytes: 0 };
        let mut scout = choice.scout().map(|scout| scout.cluster_encoder(window).unwrap());
        let mut fit = ClusterFit::new(BLOCK);
        let mut at = 0;
        let mut blocks = 0;
        let mut dst = vec![0; CLUSTER as usize];
        while at < src.len() {
            let scout = scout.as_deref_mut().filter(|_| scouting);
            let prefix = fit.encode_prefix(&mut encoder, scout, &src[at..], &mut dst).unwrap().expect("texts shrink");
            at += prefix.taken;
            blocks += prefix.len.div_ceil(BLOCK);
        }
        (blocks, encoder.bytes as f64 / src.len() as f64)
    }

    #[test]
    fn a_scout_saves_a_third_of_the_passes_and_no_room() {
        let src = texts(3_000_000);
        let choice: Choice = "deflate:9".parse().unwrap();
        let ((alone, many), (blocks, few)) = (fill(&choice, false, &src), fill(&choice, true, &src));
        assert!(few < 2.5 && few * 3.0 < many * 2.0, "{few} passes, {many} without a scout");
        assert!(blocks * 100 <= alone * 101, "{blocks} blocks, {alone} without a scout");
    }
}
