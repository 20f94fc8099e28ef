//! The name of a public key in an envelope: the fingerprint that `ssh-keygen -l` prints for it.
//!
//! Source: RFC 4253, 6.6, and RFC 5656, 3.1, for what is hashed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use der::Decode;
use der::asn1::Any;

use super::message::{P256_POINT_LEN, P384_POINT_LEN};
use crate::hashing::HashAlgorithm;

/// Returns the fingerprint of a key: a point for ECDSA, a modulus and an exponent in DER for RSA. `None` for any other.
pub(super) fn key_id(public_key: &[u8]) -> Option<String> {
    let blob = match public_key.len() {
        P256_POINT_LEN => fields([b"ecdsa-sha2-nistp256", b"nistp256", public_key]),
        P384_POINT_LEN => fields([b"ecdsa-sha2-nistp384", b"nistp384", public_key]),
        _ => {
            let numbers = Vec::<Any>::from_der(public_key).ok()?;
            let [modulus, exponent] = <[Any; 2]>::try_from(numbers).ok()?;
            // DER and SSH write numbers alike: the shortest form with a sign.
            fields([b"ssh-rsa", exponent.value(), modulus.value()])
        }
    };
    Some(format!("SHA256:{}", STANDARD_NO_PAD.encode(HashAlgorithm::Sha256.digest(&blob))))
}

/// Writes strings as SSH does, each after its length.
fn fields(strings: [&[u8]; 3]) -> Vec<u8> {
    let mut blob = Vec::new();
    for string in strings {
        // A key has a few hundred bytes.
        blob.extend(u32::try_from(string.len()).unwrap_or_default().to_be_bytes());
        blob.extend(string);
    }
    blob
}
