//! UUIDs of superblocks and partitions.

use std::fmt;
use std::str::FromStr;

use packfs_image::erofs::uuid_text;

use crate::error::{Error, Result};
use crate::hex::from_hex;

/// A UUID, with its bytes in the order of its digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Makes a UUID of the first 16 bytes of a digest: version 8, the one for such purposes (RFC 9562, 5.8).
    pub(crate) fn from_digest(digest: &[u8]) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        // Version and variant (RFC 9562, 4.1 and 4.2), or tools that print UUIDs call it invalid.
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&uuid_text(self.0))
    }
}

impl FromStr for Uuid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = Error::BadText { what: "UUID", why: "it has the form 01234567-89ab-cdef-0123-456789abcdef" };
        // The length first: it makes the indices valid.
        let has_hyphens = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-');
        let bytes = from_hex(&text.replace('-', "")).filter(|_| has_hyphens).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Uuid).ok_or(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_are_in_the_same_order() {
        let text = "01234567-89ab-cdef-0123-456789abcdef";
        let uuid: Uuid = text.parse().unwrap();
        assert_eq!((uuid.0[0], uuid.0[15], uuid.to_string().as_str()), (0x01, 0xef, text));
        for wrong in ["", "0123456789abcdef0123456789abcdef", "01234567-89ab-cdef-0123-456789abcdeg", &text[1..]] {
            assert!(wrong.parse::<Uuid>().is_err(), "{wrong}");
        }
        assert_eq!(Uuid::from_digest(&[0xff; 32]).to_string(), "ffffffff-ffff-8fff-bfff-ffffffffffff");
    }
}
