//! Files of noise, and whether an image still holds a piece of one.

use super::{Node, Piece};

/// Bytes that tell noise from any other.
pub const PROBE_LEN: usize = 16;

/// A file of noise.
pub fn noise(seed: u64, len: u64) -> Node {
    Node::file(vec![Piece::Noise { seed, len }])
}

/// The bytes of such a file at an offset.
pub fn probe(seed: u64, at: u64) -> [u8; PROBE_LEN] {
    let mut bytes = [0; PROBE_LEN];
    Piece::Noise { seed, len: u64::MAX }.fill(&mut bytes, at);
    bytes
}

/// Whether these bytes are anywhere in an image.
pub fn holds(image: &[u8], probe: [u8; PROBE_LEN]) -> bool {
    image.windows(PROBE_LEN).any(|bytes| bytes == probe)
}
