//! Any bytes as a cpio or a zip archive: the first byte chooses. What is a cpio archive reads the same as a stream.

use crate::tar_source::{as_stream, in_place};

/// First bytes that make the rest an archive of a kind.
const MAGICS: [&[u8]; 4] = [b"070701", b"070702", b"070707", b"PK\x03\x04"];

/// Reads it as a file, and if possible as a stream.
pub fn look(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let magic = MAGICS[usize::from(*kind) % MAGICS.len()];
    let bytes = [magic, &crate::zeros::unpack(rest)].concat();
    let placed = in_place(bytes.clone());
    if magic.starts_with(b"0")
        && let (Some(placed), Some(streamed)) = (placed, as_stream(bytes))
    {
        assert_eq!(placed, streamed, "in place and as a stream");
    }
}
