//! Signatures of bytes as they are, which name neither signer nor algorithm: the key says both.

use der::asn1::ObjectIdentifier;
use der::{Decode, DecodePem};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey,
    VerificationAlgorithm,
};
use x509_cert::Certificate;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use super::key::SignatureScheme;
use super::key_id::key_id;
use super::{SignatureError, SignerCertificate, SigningKey};

pub(super) const OID_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
pub(super) const OID_EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// Lengths of points that are not compressed, in bytes, by which the curves of keys differ.
pub(super) const P256_POINT_LEN: usize = 65;
pub(super) const P384_POINT_LEN: usize = 97;

/// Hash function of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageHash {
    Sha256,
    Sha384,
    Sha512,
}

/// A signature of bytes that were hashed with SHA-256, without anything around it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MessageSignature {
    /// The signature: PKCS#1 1.5 for RSA, two numbers in DER for ECDSA.
    pub bytes: Vec<u8>,
    /// Name of the public key: its fingerprint as SSH has it, as in `SHA256:5Oqa…`.
    pub key_id: String,
}

impl MessageSignature {
    /// Signs a message. A certificate is not part of the signature; with one, the key has to be its own.
    ///
    /// # Errors
    /// [`SignatureError::OtherKey`], [`SignatureError::Failed`]; [`SignatureError::BadKey`] for a key on P-384, which is used
    /// with SHA-384 here.
    pub fn sign(
        message: &[u8],
        key: &SigningKey,
        certificate: Option<&SignerCertificate>,
    ) -> Result<Self, SignatureError> {
        if certificate.is_some_and(|certificate| !key.belongs_to(certificate)) {
            return Err(SignatureError::OtherKey);
        }
        if key.scheme() == SignatureScheme::P384Sha384 {
            let why = "Apptainer verifies with SHA-256, so sign elsewhere (openssl dgst -sha256), or take RSA or P-256";
            return Err(SignatureError::BadKey(why));
        }
        Ok(MessageSignature { bytes: key.sign(message)?, key_id: key_id(key.public_key()).unwrap_or_default() })
    }

    /// Takes a signature that was made elsewhere.
    ///
    /// # Errors
    /// [`SignatureError::BadSignature`] if it is not that of the message by the key.
    pub fn made_elsewhere(bytes: Vec<u8>, message: &[u8], key: &SignerKey) -> Result<Self, SignatureError> {
        if !key.has_signed(message, &bytes) {
            let why = "it is not that of the message with SHA-256 by the key of the certificate";
            return Err(SignatureError::BadSignature(why));
        }
        Ok(MessageSignature { bytes, key_id: key.id() })
    }
}

/// A public key: RSA, or ECDSA on P-256 or P-384.
#[derive(Debug, Clone)]
pub struct SignerKey {
    info: SubjectPublicKeyInfoOwned,
}

impl SignerKey {
    /// Reads a public key in PEM, or that of a certificate in PEM or DER.
    ///
    /// # Errors
    /// [`SignatureError::BadKey`].
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        let read = match std::str::from_utf8(bytes) {
            Ok(text) if text.contains("-----BEGIN CERTIFICATE") => {
                Certificate::from_pem(text).map(SignerKey::from).ok()
            }
            Ok(text) if text.contains("-----BEGIN PUBLIC KEY") => {
                SubjectPublicKeyInfoOwned::from_pem(text).map(|info| SignerKey { info }).ok()
            }
            _ => Certificate::from_der(bytes).map(SignerKey::from).ok(),
        };
        let key = read.ok_or(SignatureError::BadKey("it is neither a public key in PEM nor a certificate"))?;
        match key.algorithm(MessageHash::Sha256) {
            Some(_) => Ok(key),
            None => Err(SignatureError::BadKey("it is neither RSA nor ECDSA on P-256 or P-384")),
        }
    }

    /// Returns the name of the key: its fingerprint as SSH has it.
    pub(crate) fn id(&self) -> String {
        key_id(self.bytes()).unwrap_or_default()
    }

    /// Returns true if the key signed a message, hashed with SHA-256.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let Some(algorithm) = self.algorithm(MessageHash::Sha256) else { return false };
        UnparsedPublicKey::new(algorithm, self.bytes()).verify(message, signature).is_ok()
    }

    /// Returns the algorithm for this key and a hash function; `None` if nobody uses both together.
    pub(super) fn algorithm(&self, hash: MessageHash) -> Option<&'static dyn VerificationAlgorithm> {
        Some(match (self.info.algorithm.oid, self.bytes().len(), hash) {
            (OID_RSA, _, MessageHash::Sha256) => &RSA_PKCS1_2048_8192_SHA256,
            (OID_RSA, _, MessageHash::Sha384) => &RSA_PKCS1_2048_8192_SHA384,
            (OID_RSA, _, MessageHash::Sha512) => &RSA_PKCS1_2048_8192_SHA512,
            (OID_EC, P256_POINT_LEN, MessageHash::Sha256) => &ECDSA_P256_SHA256_ASN1,
            (OID_EC, P256_POINT_LEN, MessageHash::Sha384) => &ECDSA_P256_SHA384_ASN1,
            (OID_EC, P384_POINT_LEN, MessageHash::Sha256) => &ECDSA_P384_SHA256_ASN1,
            (OID_EC, P384_POINT_LEN, MessageHash::Sha384) => &ECDSA_P384_SHA384_ASN1,
            _ => return None,
        })
    }

    /// Returns the key alone: a point for ECDSA, a modulus and an exponent in DER for RSA.
    pub(super) fn bytes(&self) -> &[u8] {
        self.info.subject_public_key.raw_bytes()
    }
}

impl From<Certificate> for SignerKey {
    fn from(certificate: Certificate) -> Self {
        SignerKey { info: certificate.tbs_certificate.subject_public_key_info }
    }
}
