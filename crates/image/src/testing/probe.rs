//! Files of noise, and a test whether an image still contains a piece of one.

use super::{Node, Piece};

/// Number of bytes that identify a piece of noise.
pub const PROBE_LEN: usize = 16;

/// A file of noise.
pub fn noise(seed: u64, len: u64) -> Node {
    Node::file(vec![Piece::Noise { seed, len }])
}

/// Returns the bytes of such a file at an offset.
pub fn probe(seed: u64, at: u64) -> [u8; PROBE_LEN] {
    let mut bytes = [0; PROBE_LEN];
    Piece::Noise { seed, len: u64::MAX }.fill(&mut bytes, at);
    bytes
}

/// Returns true if an image contains these bytes anywhere.
pub fn holds(image: &[u8], probe: [u8; PROBE_LEN]) -> bool {
    image.windows(PROBE_LEN).any(|bytes| bytes == probe)
}
