//! Reasons for which a key or signature of minisign cannot be used, or does not fit.

/// A key or signature of minisign that cannot be used, or does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MinisignError {
    /// A public key that cannot be read.
    #[error("not a public key of minisign: {0}")]
    BadPublicKey(&'static str),
    /// A secret key that cannot be read.
    #[error("not a secret key of minisign: {0}")]
    BadSecretKey(&'static str),
    /// A secret key that is encrypted.
    #[error("the key is encrypted: give its password")]
    NeedsPassword,
    /// A secret key that is encrypted with another password.
    #[error("the password is not that of the key")]
    WrongPassword,
    /// A signature that cannot be read.
    #[error("not a signature of minisign: {0}")]
    BadSignature(&'static str),
    /// A signature by another key.
    #[error("the signature is by the key {found}, not by {expected}")]
    OtherKey {
        /// Number of the key that signed, in hexadecimal digits as minisign prints it.
        found: String,
        /// Number of the public key.
        expected: String,
    },
    /// A signature of other bytes.
    #[error("the signature is not that of this file: the file was changed, or the signature belongs to another one")]
    OtherContent,
    /// A comment that was not signed.
    #[error("the trusted comment is not the one that was signed")]
    OtherComment,
    /// A file that is too long for a signature of the old kind.
    #[error("the signature is of the old kind, for which minisign takes at most 1 GiB: sign the file again")]
    LongFile,
}

impl MinisignError {
    /// Returns the name by which programs know the mistake. It never changes.
    pub fn name(&self) -> &'static str {
        match self {
            MinisignError::BadPublicKey(_) => "bad-public-key",
            MinisignError::BadSecretKey(_) => "bad-secret-key",
            MinisignError::NeedsPassword => "needs-password",
            MinisignError::WrongPassword => "wrong-password",
            MinisignError::BadSignature(_) => "bad-signature",
            MinisignError::OtherKey { .. } => "other-key",
            MinisignError::OtherContent => "other-content",
            MinisignError::OtherComment => "other-comment",
            MinisignError::LongFile => "long-file",
        }
    }
}
