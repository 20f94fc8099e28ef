//! The key by which signatures are verified.

use std::fmt;

use ring::signature::{ED25519, UnparsedPublicKey};

use super::text::{decode, lines_after_comment, take};
use super::{KeyId, MinisignError};

/// Algorithm, number and key.
const RECORD_LEN: usize = 2 + 8 + 32;

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct MinisignPublicKey {
    pub(super) key_id: KeyId,
    key: [u8; 32],
}

impl MinisignPublicKey {
    /// Reads a file such as `minisign.pub`, or its second line alone, as `minisign -P` takes it.
    ///
    /// # Errors
    /// [`MinisignError::BadPublicKey`].
    pub fn parse(bytes: &[u8]) -> Result<Self, MinisignError> {
        let record = match lines_after_comment(bytes) {
            Ok(mut lines) => decode::<RECORD_LEN>(lines.next()),
            // Without a comment, the whole file may be the line.
            Err(why) => decode(std::str::from_utf8(bytes).ok().map(str::trim_end)).map_err(|_| why),
        };
        let record = record.map_err(MinisignError::BadPublicKey)?;
        let mut rest = &record[..];
        if take::<2>(&mut rest) != super::ED25519 {
            return Err(MinisignError::BadPublicKey("its algorithm is not Ed25519"));
        }
        Ok(MinisignPublicKey { key_id: take(&mut rest), key: take(&mut rest) })
    }

    /// Returns true if the key signed `message`.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.key).verify(message, signature).is_ok()
    }
}

impl fmt::Debug for MinisignPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MinisignPublicKey({})", key_id_text(&self.key_id))
    }
}

/// Returns the number of a key as minisign prints it.
pub(super) fn key_id_text(key_id: &KeyId) -> String {
    format!("{:X}", u64::from_le_bytes(*key_id))
}
