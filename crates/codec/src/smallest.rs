//! Tries several encoders of one format on every block and keeps the smallest result.

use crate::{Encoder, Result};

/// Tries its encoders in order; of equal results the first wins.
pub(crate) struct SmallestEncoder {
    encoders: Vec<Box<dyn Encoder>>,
    spare: Vec<u8>,
}

impl SmallestEncoder {
    /// Combines the encoders into one; a single encoder is returned as it is.
    pub(crate) fn of(mut encoders: Vec<Box<dyn Encoder>>) -> Box<dyn Encoder> {
        match encoders.pop() {
            Some(only) if encoders.is_empty() => only,
            last => {
                encoders.extend(last);
                Box::new(SmallestEncoder { encoders, spare: Vec::new() })
            }
        }
    }
}

impl Encoder for SmallestEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let mut best: Option<usize> = None;
        for encoder in &mut self.encoders {
            let Some(len) = best else {
                best = encoder.encode(src, dst)?;
                continue;
            };
            // A result that is not smaller than the best so far may stop early.
            let room = len.saturating_sub(1);
            if self.spare.len() < room {
                self.spare.resize(room, 0);
            }
            if let Some(less) = encoder.encode(src, &mut self.spare[..room])? {
                dst[..less].copy_from_slice(&self.spare[..less]);
                best = Some(less);
            }
        }
        Ok(best)
    }
}
