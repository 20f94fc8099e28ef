//! A rough estimate of a measurement's duration: each codec compresses and decompresses a small sample once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::codecs::CodecMethod;
use crate::units::whole_part;

/// Block size of the sample: the default of SquashFS.
const BLOCK_LEN: usize = 128 << 10;
/// Time limit per codec; no block is started after it. An estimate of 20 codecs then takes about a second.
const TIME_PER_CODEC: Duration = Duration::from_millis(60);
/// Seconds per byte for reading, hashing, copying and writing, whatever the codec: 1 GB/s. A rough figure, as the
/// estimate is.
const OTHER_WORK: f64 = 1e-9;

/// Measured cost of a codec on the sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CodecRate {
    /// Seconds per byte compressed, on one processor.
    pub encode: f64,
    /// Seconds per byte decompressed.
    pub decode: f64,
    /// Bytes stored per byte.
    pub ratio: f64,
}

impl CodecRate {
    /// Cost without a codec.
    pub const NONE: CodecRate = CodecRate { encode: OTHER_WORK, decode: OTHER_WORK, ratio: 1.0 };
}

/// Cost of several codecs on one sample.
#[derive(Debug, Clone, Default)]
pub struct CodecRates(BTreeMap<String, CodecRate>);

impl CodecRates {
    /// Measures each codec on the sample once.
    pub fn of<'c>(sample: &[u8], codecs: impl IntoIterator<Item = &'c str>) -> Self {
        let mut rates = BTreeMap::new();
        for codec in codecs {
            if !rates.contains_key(codec) {
                // A codec that cannot be made fails again when it is measured, and then its reason is shown.
                rates.insert(codec.to_owned(), measure_rate(sample, codec).unwrap_or(CodecRate::NONE));
            }
        }
        CodecRates(rates)
    }

    /// Returns the cost of a codec, or [`CodecRate::NONE`] if it is unknown.
    pub fn get(&self, codec: &str) -> CodecRate {
        self.0.get(codec).copied().unwrap_or(CodecRate::NONE)
    }

    /// Returns the size of the largest image of `bytes` bytes with any of the codecs.
    pub fn largest(&self, bytes: u64) -> u64 {
        self.0.values().map(|rate| scaled(bytes, rate.ratio)).max().unwrap_or(bytes)
    }
}

/// Returns `bytes` multiplied by `ratio`.
pub fn scaled(bytes: u64, ratio: f64) -> u64 {
    whole_part(bytes as f64 * ratio)
}

fn measure_rate(sample: &[u8], codec: &str) -> Option<CodecRate> {
    let method: CodecMethod = codec.parse().ok()?;
    let mut encoder = method.encoder(BLOCK_LEN).ok()?;
    let mut decoder = method.decoder().ok()?;
    let mut packed = vec![0; BLOCK_LEN];
    let mut back = vec![0; BLOCK_LEN];
    let mut encode = Duration::ZERO;
    let mut decode = Duration::ZERO;
    let mut raw = 0;
    let mut stored = 0;
    // Spread over the whole sample, because a slow codec gets only the first few blocks.
    let blocks: Vec<&[u8]> = sample.chunks(BLOCK_LEN).collect();
    let step = blocks.len() / 3 + 1;
    for block in (0..step).flat_map(|first| blocks.iter().skip(first).step_by(step)) {
        let begun = Instant::now();
        let len = encoder.encode(block, &mut packed).ok()?;
        encode += begun.elapsed();
        if let Some(len) = len {
            let begun = Instant::now();
            decoder.decode(&packed[..len], &mut back[..block.len()]).ok()?;
            decode += begun.elapsed();
        }
        raw += block.len();
        stored += len.unwrap_or(block.len());
        // A slow codec has seen a single block then, which still tells seconds from hours.
        if encode + decode > TIME_PER_CODEC {
            break;
        }
    }
    let per_byte = |time: Duration| OTHER_WORK + time.as_secs_f64() / raw as f64;
    (raw > 0).then(|| CodecRate {
        encode: per_byte(encode),
        decode: per_byte(decode),
        ratio: stored as f64 / raw as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryReader, PageShares};

    #[test]
    fn rates_tell_slow_codecs_from_fast_ones_and_dense_from_light() {
        let sample = MemoryReader::bytes(3, "text=1".parse::<PageShares>().unwrap(), 1 << 20);
        let rates = CodecRates::of(&sample, ["lz4", "xz:6", "none", "of a later version"]);
        let [lz4, xz] = ["lz4", "xz:6"].map(|codec| rates.get(codec));
        assert!(xz.encode > lz4.encode && xz.ratio < lz4.ratio && lz4.ratio < 1.0, "{lz4:?} {xz:?}");
        assert_eq!(rates.get("of a later version"), CodecRate::NONE);
        assert_eq!(rates.get("none").ratio, 1.0);
        assert_eq!(rates.largest(1000), 1000);
        assert_eq!(CodecRates::of(&[], ["lz4"]).get("lz4"), CodecRate::NONE, "nothing is known of no sample");
    }
}
