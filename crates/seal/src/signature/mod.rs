//! Signatures: PKCS#7 (RFC 5652). Those of root hashes are detached, over the hexadecimal digits without a newline, as systemd
//! and the kernel take them; those of manifests contain the manifest, as RAUC takes them. SIF has signatures without PKCS#7.

mod certificate;
mod key;
mod key_id;
mod message;
mod pkcs7;

pub use certificate::SignerCertificate;
pub use key::SigningKey;
pub use message::{MessageSignature, SignerKey};
pub use pkcs7::{DetachedSignature, EmbeddedSignature, sign, sign_content};

/// A key, a certificate or a signature that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The key cannot be read.
    #[error("the key cannot be used: {0}")]
    BadKey(&'static str),
    /// The certificate cannot be read.
    #[error("the certificate cannot be used: {0}")]
    BadCertificate(&'static str),
    /// The key is that of another certificate.
    #[error("the key does not belong to the certificate, which therefore could not verify its signatures")]
    OtherKey,
    /// The signature cannot be read.
    #[error("the signature cannot be used: {0}")]
    BadSignature(&'static str),
    /// The signature does not contain what is signed, but has to.
    #[error("the signature does not contain what is signed (openssl cms -sign with -nodetach)")]
    Detached,
    /// The signature is encrypted for those who may see it.
    #[error("the signature is encrypted")]
    Encrypted,
    /// The signature was made with the key of another certificate.
    #[error("the signature is by another certificate: issuer and serial number differ")]
    OtherSigner,
    /// Only some of several signers are known.
    #[error("it has {count} signers, of whom not all have one of the certificates: OpenSSL demands that each has one")]
    UntrustedSigner {
        /// Number of signers.
        count: usize,
    },
    /// The signature is that of other bytes.
    #[error("the signature is not that of this root hash by the key of the certificate")]
    OtherContent,
    /// The signature is that of the root hash and a newline.
    #[error("the signature covers the root hash and a newline: sign the digits alone (printf %s, not echo)")]
    SignedNewline,
    /// The library failed to sign.
    #[error("the signature cannot be made")]
    Failed,
}
