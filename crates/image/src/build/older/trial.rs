//! A trial of an encoder on fixed data: a digest of its results tells encoders apart that have one name, such as those
//! of two releases of a library that does not tell its version.

use packfs_blocks::Digest;
use packfs_codec::Encoder;

use crate::Result;

/// Longest input of a trial. Some encoders treat blocks above 64 KiB differently.
const LONGEST: usize = 96 << 10;
/// Inputs, as shares of the longest: encoders choose parameters by length.
const SHARES: [usize; 3] = [1, 6, 24];

/// Returns a digest of all that `encoder` makes of the data, as 16 hexadecimal digits. No input is longer than `len`.
pub(in crate::build) fn digest(encoder: &mut dyn Encoder, len: usize) -> Result<String> {
    let data = data(len.min(LONGEST));
    let mut results = Vec::new();
    for input in SHARES.map(|share| &data[..data.len() / share]) {
        // Room for all: data that does not shrink is of no use here. Then room for a third, which a cluster encoder fills.
        let mut dst = vec![0; input.len() + input.len() / 8 + 1024];
        let encoded = encoder.encode(input, &mut dst)?.unwrap_or(0);
        results.push(Digest::of(&dst[..encoded]));
        let room = dst.len() / 3;
        let filled = encoder.encode_prefix(input, &mut dst[..room])?.map_or(0, |prefix| prefix.len);
        results.push(Digest::of(&dst[..filled]));
    }
    Ok(Digest::of_all(&results).short())
}

/// Data of all kinds: words, numbers, repeats from near and far, and noise.
fn data(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut data = Vec::with_capacity(len + 512);
    while data.len() < len {
        match draw(16) {
            0..7 => data.extend_from_slice(format!("word{} ", draw(200)).as_bytes()),
            7..10 => data.extend_from_slice(&(draw(4000) * 16).to_le_bytes()[..4]),
            10..14 if !data.is_empty() => {
                let from = usize::try_from(draw(data.len() as u64)).expect("a place in the data");
                let to = data.len().min(from + usize::try_from(draw(300)).expect("a short length"));
                data.extend_from_within(from..to);
            }
            _ => data.extend((0..draw(12)).map(|_| draw(256).to_le_bytes()[0])),
        }
    }
    data.truncate(len);
    data
}

#[cfg(test)]
mod tests {
    use packfs_codec::Choice;

    use super::*;

    fn of(codec: &str, len: usize) -> String {
        let choice: Choice = codec.parse().unwrap();
        digest(&mut *choice.encoder(len).unwrap(), len).unwrap()
    }

    #[test]
    fn encoders_that_differ_differ_in_their_trial() {
        for len in [4096, 64 << 10, 128 << 10] {
            let codecs = [
                "zstd:3",
                "zstd:5",
                "gzip:3",
                "gzip:9",
                "xz:1",
                "xz:1:lc=4",
                "lzo:3",
                "lz4",
                "lz4:acceleration=9",
                "lz4hc:3",
            ];
            let mut digests = codecs.map(|codec| of(codec, len)).to_vec();
            assert_eq!(digests, codecs.map(|codec| of(codec, len)), "the same again");
            digests.sort();
            digests.dedup();
            assert_eq!(digests.len(), codecs.len(), "blocks of {len}");
        }
    }

    #[test]
    fn clusters_are_tried_too() {
        for codec in ["lz4", "lz4hc:9", "zstd:3", "deflate:6", "lzma:1"] {
            let choice: Choice = codec.parse().unwrap();
            let digest = || digest(&mut *choice.cluster_encoder(64 << 10).unwrap(), LONGEST).unwrap();
            assert_eq!(digest(), digest(), "{codec}");
        }
    }
}
