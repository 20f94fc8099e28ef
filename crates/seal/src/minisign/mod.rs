//! Signatures of minisign: of any file, in a file beside it.
//!
//! Source: src/minisign.c and src/minisign.h of minisign 0.11. Unlike seals, they are verified when somebody asks for it, and
//! not by Linux when it reads the file.

mod error;
mod public_key;
mod secret_key;
mod signature;
mod text;

use std::path::{Path, PathBuf};

use blake2::{Blake2b512, Digest};
use packfs_blocks::{Progress, ReadAt};

pub use error::MinisignError;
pub use public_key::MinisignPublicKey;
pub use secret_key::MinisignSecretKey;
pub use signature::MinisignSignature;

use crate::error::{Error, Result};
use crate::names::with_suffix;

/// Algorithm of keys, and of signatures of a file as it is.
const ED25519: [u8; 2] = *b"Ed";
/// Algorithm of signatures of a digest: the only one that minisign still makes.
const ED25519_PREHASHED: [u8; 2] = *b"ED";
/// Length of a signature of Ed25519 in bytes.
const SIGNATURE_LEN: usize = 64;
/// Bytes of a file that are read and hashed at a time: enough that a call costs nothing beside them.
const PIECE_LEN: usize = 1 << 20;

/// Number by which a key is known, in files of keys and of signatures.
type KeyId = [u8; 8];

/// Returns the name under which minisign looks for the signature of a file.
pub fn signature_path(file: &Path) -> PathBuf {
    with_suffix(file.as_os_str(), ".minisig")
}

/// The BLAKE2b-512 of a file, which is signed in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDigest([u8; 64]);

impl FileDigest {
    /// Hashes a file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Interrupted`].
    pub fn of(data: &dyn ReadAt, progress: &Progress) -> Result<Self> {
        let mut hasher = Blake2b512::new();
        let mut piece = vec![0; PIECE_LEN];
        let mut offset = 0;
        loop {
            if progress.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let got = data.read_at(&mut piece, offset).map_err(Error::io("cannot read the file"))?;
            if got == 0 {
                return Ok(FileDigest(hasher.finalize().into()));
            }
            hasher.update(&piece[..got]);
            offset += got as u64;
        }
    }
}
