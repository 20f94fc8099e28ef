//! The key that signs, which may be encrypted.

use std::fmt;

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use ring::signature::Ed25519KeyPair;

use super::signature::write_signature;
use super::text::{decode, lines_after_comment, take};
use super::{FileDigest, KeyId, MinisignError, SIGNATURE_LEN};

/// Algorithms of key, encryption and checksum; salt and limits of the encryption; number, key and checksum.
const RECORD_LEN: usize = 2 + 2 + 2 + 32 + 8 + 8 + ENCRYPTED_LEN;
const ENCRYPTED_LEN: usize = 8 + 64 + 32;
/// Encryption: scrypt of a password.
const SCRYPT: [u8; 2] = *b"Sc";
/// Checksum: BLAKE2b-256.
const BLAKE2: [u8; 2] = *b"B2";
/// Limits with which minisign encrypts, in operations and bytes. A key with larger ones would take more than a gigabyte of
/// memory or many seconds, and nobody has made it with minisign.
const OPERATIONS_MAX: u64 = 1 << 25;
const MEMORY_MAX: u64 = 1 << 30;

/// A secret key.
pub struct MinisignSecretKey {
    key_id: KeyId,
    pair: Ed25519KeyPair,
}

/// Says which key it is, and nothing of it.
impl fmt::Debug for MinisignSecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MinisignSecretKey({})", super::public_key::key_id_text(&self.key_id))
    }
}

impl MinisignSecretKey {
    /// Reads a file such as `minisign.key`. Decrypting takes as much memory and time as the file says: with the limits of
    /// minisign 1 GiB and a few seconds.
    ///
    /// # Errors
    /// [`MinisignError::BadSecretKey`], [`MinisignError::NeedsPassword`], [`MinisignError::WrongPassword`].
    pub fn parse(bytes: &[u8], password: Option<&[u8]>) -> Result<Self, MinisignError> {
        let bad = MinisignError::BadSecretKey;
        let record = lines_after_comment(bytes).and_then(|mut lines| decode::<RECORD_LEN>(lines.next()));
        let record = record.map_err(bad)?;
        let mut rest = &record[..];
        if take::<2>(&mut rest) != super::ED25519 {
            return Err(bad("its algorithm is not Ed25519"));
        }
        let encryption: [u8; 2] = take(&mut rest);
        if take::<2>(&mut rest) != BLAKE2 {
            return Err(bad("its checksum is not BLAKE2b"));
        }
        let salt: [u8; 32] = take(&mut rest);
        let operations = u64::from_le_bytes(take(&mut rest));
        let memory = u64::from_le_bytes(take(&mut rest));
        let mut secret: [u8; ENCRYPTED_LEN] = take(&mut rest);
        match encryption {
            // minisign -G -W, which leaves out the checksum.
            [0, 0] => {}
            SCRYPT => {
                let password = password.ok_or(MinisignError::NeedsPassword)?;
                let params = scrypt_params(operations, memory)?;
                let mut stream = [0; ENCRYPTED_LEN];
                scrypt::scrypt(password, &salt, &params, &mut stream).map_err(|_| bad("it cannot be decrypted"))?;
                secret.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
                let (checked, checksum) = secret.split_at(ENCRYPTED_LEN - 32);
                let expected = Blake2b::<U32>::new().chain_update(super::ED25519).chain_update(checked).finalize();
                if expected[..] != *checksum {
                    return Err(MinisignError::WrongPassword);
                }
            }
            _ => return Err(bad("its encryption is not scrypt")),
        }
        let mut rest = &secret[..];
        let key_id: KeyId = take(&mut rest);
        let seed: [u8; 32] = take(&mut rest);
        let public: [u8; 32] = take(&mut rest);
        let pair = Ed25519KeyPair::from_seed_and_public_key(&seed, &public);
        Ok(MinisignSecretKey { key_id, pair: pair.map_err(|_| bad("its halves do not belong together"))? })
    }

    /// Signs a file by its digest; returns the contents of the file with the signature. The same key, digest and comment
    /// give the same signature.
    ///
    /// `trusted_comment` is signed, too. It is one line: control characters in it become `?`.
    pub fn sign(&self, digest: &FileDigest, trusted_comment: &str) -> String {
        let comment = trusted_comment.replace(|character: char| character != '\t' && character.is_control(), "?");
        let signature = self.sign_bytes(&digest.0);
        let global = self.sign_bytes(&[&signature[..], comment.as_bytes()].concat());
        write_signature(&self.key_id, &signature, &comment, &global)
    }

    fn sign_bytes(&self, bytes: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.pair.sign(bytes).as_ref().try_into().expect("signatures of Ed25519 have one length")
    }
}

/// Returns the parameters that libsodium derives from limits (`pickparams` in `crypto_pwhash_scryptsalsa208sha256`).
fn scrypt_params(operations: u64, memory: u64) -> Result<scrypt::Params, MinisignError> {
    /// Bytes of a block of scrypt with `r` = 8, and operations for one.
    const BLOCK_LEN: u64 = 128 * 8;
    const BLOCK_OPERATIONS: u64 = 4 * 8;
    let bad = MinisignError::BadSecretKey;
    if operations > OPERATIONS_MAX || memory > MEMORY_MAX {
        return Err(bad("decrypting it would take more memory or time than minisign asks for"));
    }
    let operations = operations.max(1 << 15);
    let blocks = if operations < memory / 32 { operations / BLOCK_OPERATIONS } else { memory / BLOCK_LEN };
    // The smallest power of two from 2 on that is more than half of the blocks.
    let log_blocks = (blocks / 2 + 1).next_power_of_two().ilog2().max(1);
    let lanes = if operations < memory / 32 { 1 } else { ((operations / 4) >> log_blocks) / 8 };
    let lanes = u32::try_from(lanes).unwrap_or(u32::MAX);
    let log_blocks = u8::try_from(log_blocks).unwrap_or(u8::MAX);
    scrypt::Params::new(log_blocks, 8, lanes).map_err(|_| bad("its limits are not those of scrypt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_become_the_parameters_of_libsodium() {
        for (operations, memory, log_n, lanes) in [
            // Those of minisign, and those that libsodium calls interactive.
            (1 << 25, 1 << 30, 20, 1),
            (1 << 19, 1 << 24, 14, 1),
            (1 << 25, 1 << 25, 15, 32),
            (0, 1 << 24, 10, 1),
            (1 << 15, 1 << 14, 4, 64),
            (1 << 15, 3 << 14, 5, 32),
        ] {
            let params = scrypt_params(operations, memory).unwrap();
            assert_eq!((params.log_n(), params.r(), params.p()), (log_n, 8, lanes), "{operations} {memory}");
        }
        for (operations, memory) in [(1 << 26, 1 << 20), (1 << 20, (1 << 30) + 1)] {
            assert!(scrypt_params(operations, memory).is_err());
        }
        // Nothing panics at the lower end.
        for memory in [0, 1, 1 << 10, 1 << 11] {
            let _ = scrypt_params(0, memory);
        }
    }
}
