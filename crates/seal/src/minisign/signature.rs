//! The file with a signature.

use packfs_blocks::{Progress, ReadAt};

use super::public_key::key_id_text;
use super::text::{UNTRUSTED, decode, encode, lines_after_comment, take};
use super::{ED25519, ED25519_PREHASHED, FileDigest, KeyId, MinisignError, MinisignPublicKey, SIGNATURE_LEN};
use crate::error::{Error, Result};

/// Algorithm, number of the key, and signature.
const RECORD_LEN: usize = 2 + 8 + SIGNATURE_LEN;
/// Beginning of the line with the comment that is signed.
const TRUSTED: &str = "trusted comment: ";
/// Longest line with a trusted comment that minisign reads, in bytes with its end.
const TRUSTED_MAX: usize = 8192;
/// Longest file that minisign reads for a signature of the file as it is, which is read into memory, in bytes.
const UNHASHED_MAX: u64 = 1 << 30;

/// A signature with its comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinisignSignature {
    /// True for a signature of the digest of a file, and not of the file as it is.
    is_prehashed: bool,
    key_id: KeyId,
    signature: [u8; SIGNATURE_LEN],
    trusted_comment: String,
    /// Signature of the signature and the comment.
    global_signature: [u8; SIGNATURE_LEN],
}

impl MinisignSignature {
    /// Reads a file such as `FILE.minisig`.
    ///
    /// # Errors
    /// [`MinisignError::BadSignature`].
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, MinisignError> {
        Self::read(bytes).map_err(MinisignError::BadSignature)
    }

    fn read(bytes: &[u8]) -> std::result::Result<Self, &'static str> {
        let mut lines = lines_after_comment(bytes)?;
        let record: [u8; RECORD_LEN] = decode(lines.next())?;
        let comment = lines.next().and_then(|line| line.strip_prefix(TRUSTED)).ok_or("it has no trusted comment")?;
        if TRUSTED.len() + comment.len() >= TRUSTED_MAX - 1 {
            return Err("its trusted comment is longer than minisign reads");
        }
        let global_signature = decode(lines.next())?;
        let mut rest = &record[..];
        let is_prehashed = match take::<2>(&mut rest) {
            ED25519_PREHASHED => true,
            ED25519 => false,
            _ => return Err("its algorithm is not Ed25519"),
        };
        let key_id = take(&mut rest);
        let signature = take(&mut rest);
        Ok(MinisignSignature { is_prehashed, key_id, signature, trusted_comment: comment.to_owned(), global_signature })
    }

    /// Returns the comment, which [`MinisignSignature::verify`] verifies as well.
    pub fn trusted_comment(&self) -> &str {
        &self.trusted_comment
    }

    /// Verifies that a key signed a file and the comment. The inner error says what is wrong.
    ///
    /// A signature of the old kind is that of the file as it is, which is then read into memory.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Interrupted`].
    pub fn verify(
        &self,
        data: &dyn ReadAt,
        key: &MinisignPublicKey,
        progress: &Progress,
    ) -> Result<std::result::Result<(), MinisignError>> {
        if self.key_id != key.key_id {
            let found = key_id_text(&self.key_id);
            return Ok(Err(MinisignError::OtherKey { found, expected: key_id_text(&key.key_id) }));
        }
        let is_signed = if self.is_prehashed {
            key.has_signed(&FileDigest::of(data, progress)?.0, &self.signature)
        } else if data.len() > UNHASHED_MAX {
            return Ok(Err(MinisignError::LongFile));
        } else {
            let mut message = vec![0; usize::try_from(data.len()).unwrap_or(usize::MAX)];
            data.read_exact_at(&mut message, 0).map_err(Error::io("cannot read the file"))?;
            key.has_signed(&message, &self.signature)
        };
        if !is_signed {
            return Ok(Err(MinisignError::OtherContent));
        }
        let commented = [&self.signature[..], self.trusted_comment.as_bytes()].concat();
        let is_comment_signed = key.has_signed(&commented, &self.global_signature);
        Ok(if is_comment_signed { Ok(()) } else { Err(MinisignError::OtherComment) })
    }
}

/// Returns the contents of a file with a signature of a digest.
pub(super) fn write_signature(
    key_id: &KeyId,
    signature: &[u8; SIGNATURE_LEN],
    trusted_comment: &str,
    global_signature: &[u8; SIGNATURE_LEN],
) -> String {
    let record = [&ED25519_PREHASHED[..], key_id, signature].concat();
    let lines =
        [format!("{UNTRUSTED}signature of a minisign key"), encode(&record), format!("{TRUSTED}{trusted_comment}")];
    format!("{}\n{}\n", lines.join("\n"), encode(global_signature))
}
