//! Filling physical clusters with encoders that can only say how long a result is or that it is too long.
//!
//! A cluster takes whole blocks, so what counts is not that a result fills the largest cluster but that it
//! ends shortly before the end of some block. The first try follows the ratio seen so far; a second one,
//! longer or shorter by what is missing to a block's end, mostly hits: near the first the ratio hardly
//! changes. That is less than two passes over a byte where a search from scratch takes ten.

use packfs_codec::{Encoder, Prefix};

use crate::Result;

/// Input bytes an output byte, before anything is known.
const FIRST_RATIO: f64 = 2.2;
/// A first try aims at so much of a cluster.
const AIM: f64 = 0.93;
/// Tries after the first that fits.
const TRIES: usize = 3;

/// The search, as far as it learns within a piece of a file.
#[derive(Debug)]
pub(crate) struct Fit {
    ratio: f64,
    block: usize,
    scratch: Vec<u8>,
}

impl Fit {
    pub(crate) fn new(block: usize) -> Self {
        Fit { ratio: FIRST_RATIO, block, scratch: Vec::new() }
    }

    /// Forgets what was learnt: results depend on the piece alone.
    pub(crate) fn reset(&mut self) {
        self.ratio = FIRST_RATIO;
    }

    /// Compresses a prefix of `src` so that it ends shortly before the end of one of `dst`'s blocks.
    pub(crate) fn prefix(&mut self, encoder: &mut dyn Encoder, src: &[u8], dst: &mut [u8]) -> Result<Option<Prefix>> {
        let Some(mut best) = self.first(encoder, src, dst)? else { return Ok(None) };
        let tolerance = (dst.len() / 256).max(self.block / 32);
        let mut caution = 1.0;
        for _ in 0..TRIES {
            let end = best.len.next_multiple_of(self.block);
            if best.taken == src.len() || end - best.len <= tolerance {
                break;
            }
            // To the nearer end of a block; a cluster has at least one.
            let target = if end - best.len > self.block / 2 && end > self.block { end - self.block } else { end };
            let missing = target as f64 - best.len as f64;
            let margin = caution * (missing.abs() / 24.0 + self.block as f64 / 64.0);
            let taken = moved(best.taken, (missing - margin) * self.ratio).min(src.len());
            if taken <= target || taken == best.taken {
                break;
            }
            self.scratch.resize(target, 0);
            match encoder.encode(&src[..taken], &mut self.scratch)? {
                Some(len) => {
                    let found = Prefix { taken, len };
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

    /// The longest of a few prefixes that fits.
    fn first(&mut self, encoder: &mut dyn Encoder, src: &[u8], dst: &mut [u8]) -> Result<Option<Prefix>> {
        let mut taken = moved(0, dst.len() as f64 * self.ratio * AIM).max(dst.len() + 1).min(src.len());
        // What is left is worth a try at once if it is not much more.
        if src.len() - taken < taken / 8 {
            taken = src.len();
        }
        loop {
            if let Some(len) = encoder.encode(&src[..taken], dst)? {
                return Ok(Some(Prefix { taken, len }));
            }
            if taken <= dst.len() {
                return Ok(None);
            }
            taken = (taken * 3 / 4).max(dst.len());
        }
    }

    /// Input bytes a block.
    fn density(&self, found: Prefix) -> f64 {
        found.taken as f64 / found.len.div_ceil(self.block).max(1) as f64
    }
}

/// A position moved by a distance, down to 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn moved(from: usize, by: f64) -> usize {
    (from as f64 + by).max(0.0) as usize
}
