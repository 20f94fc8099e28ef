//! The private key that signs.

use std::fmt;

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};

use super::{SignatureError, SignerCertificate};

/// A private key: RSA with 2048 to 4096 bits, or ECDSA on P-256 or P-384.
///
/// Signatures of RSA are the same each time. Those of ECDSA depend on random numbers, so that they differ.
pub struct SigningKey(KeyKind);

enum KeyKind {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
}

/// Says which kind of key it is, and nothing of it.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            KeyKind::Rsa(_) => "SigningKey(RSA)",
            KeyKind::P256(_) => "SigningKey(P-256)",
            KeyKind::P384(_) => "SigningKey(P-384)",
        })
    }
}

/// Algorithm of a signature, as PKCS#7 names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureScheme {
    RsaSha256,
    P256Sha256,
    P384Sha384,
}

impl SigningKey {
    /// Reads a private key in PEM: PKCS#8, or PKCS#1 for RSA. It must not be encrypted.
    pub fn parse(pem: &[u8]) -> Result<Self, SignatureError> {
        let bad = SignatureError::BadKey;
        let (label, der) = der::pem::decode_vec(pem).map_err(|_| bad("it is not in PEM"))?;
        let rsa = match label {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&der),
            "PRIVATE KEY" => RsaKeyPair::from_pkcs8(&der),
            "ENCRYPTED PRIVATE KEY" => {
                return Err(bad("it is encrypted; decrypt it (openssl pkcs8), or make the signature elsewhere"));
            }
            "EC PRIVATE KEY" => return Err(bad("it is not in PKCS#8; convert it (openssl pkcs8 -topk8 -nocrypt)")),
            _ => return Err(bad("it is not a private key")),
        };
        // The label "PRIVATE KEY" does not say the algorithm, so each is tried in turn.
        if let Ok(rsa) = rsa {
            return Ok(SigningKey(KeyKind::Rsa(Box::new(rsa))));
        }
        let random = SystemRandom::new();
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random) {
            return Ok(SigningKey(KeyKind::P256(key)));
        }
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_ASN1_SIGNING, &der, &random) {
            return Ok(SigningKey(KeyKind::P384(key)));
        }
        Err(bad("it is neither RSA with 2048 to 4096 bits nor ECDSA on P-256 or P-384"))
    }

    pub(super) fn scheme(&self) -> SignatureScheme {
        match self.0 {
            KeyKind::Rsa(_) => SignatureScheme::RsaSha256,
            KeyKind::P256(_) => SignatureScheme::P256Sha256,
            KeyKind::P384(_) => SignatureScheme::P384Sha384,
        }
    }

    /// Returns true if signatures of this key can be verified by a certificate.
    pub(super) fn belongs_to(&self, certificate: &SignerCertificate) -> bool {
        // The key alone decides, and not the names in the certificate: a renewed one keeps its key.
        self.public_key() == certificate.public_key()
    }

    /// Returns the public key: a point for ECDSA, a modulus and an exponent in DER for RSA.
    pub(super) fn public_key(&self) -> &[u8] {
        match &self.0 {
            KeyKind::Rsa(key) => key.public().as_ref(),
            KeyKind::P256(key) | KeyKind::P384(key) => key.public_key().as_ref(),
        }
    }

    /// Signs the digest of a message.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignatureError> {
        let random = SystemRandom::new();
        match &self.0 {
            KeyKind::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let signed = key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.map(|()| signature).map_err(|_| SignatureError::Failed)
            }
            KeyKind::P256(key) | KeyKind::P384(key) => {
                let signed = key.sign(&random, message);
                signed.map(|signature| signature.as_ref().to_vec()).map_err(|_| SignatureError::Failed)
            }
        }
    }
}
