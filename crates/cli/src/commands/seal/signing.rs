//! The signature of a root hash, made with a key or made elsewhere.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use packfs_image::name::display;
use packfs_seal::RootHash;
use packfs_seal::signature::{DetachedSignature, SignerCertificate, SigningKey, sign};

use crate::output::failure::UsageError;

/// Largest file of a key, a certificate or a signature in bytes: all are a few KiB.
const FILE_MAX: u64 = 1 << 20;

/// Files that options name.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignatureFiles<'f> {
    pub(super) key: Option<&'f Path>,
    pub(super) certificate: Option<&'f Path>,
    /// A signature that was made elsewhere.
    pub(super) made: Option<&'f Path>,
}

/// How a signature comes about. Files are read, and compared as far as possible, before the image is.
pub(super) enum RootSignature {
    Made { key: SigningKey, certificate: SignerCertificate },
    Attached { bytes: Vec<u8>, parsed: DetachedSignature, certificate: SignerCertificate, name: String },
}

impl RootSignature {
    /// Reads key, certificate and signature; `None` if there is no certificate.
    pub(super) fn read(files: SignatureFiles<'_>) -> Result<Option<Self>> {
        let Some(certificate) = files.certificate else { return Ok(None) };
        let certificate = read_certificate(certificate)?;
        if let Some(path) = files.key {
            let key = SigningKey::parse(&read_small(path)?).with_context(|| display(path).to_string())?;
            return Ok(Some(RootSignature::Made { key, certificate }));
        }
        let Some(path) = files.made else {
            return Err(
                UsageError("--certificate alone does not sign: also give --key or --attach-signature".into()).into()
            );
        };
        let bytes = read_small(path)?;
        let name = display(path).to_string();
        let parsed = DetachedSignature::parse(&bytes).with_context(|| name.clone())?;
        Ok(Some(RootSignature::Attached { bytes, parsed, certificate, name }))
    }

    /// Returns the signature of a root hash.
    pub(super) fn make(self, root_hash: &RootHash) -> Result<MadeSignature> {
        match self {
            RootSignature::Made { key, certificate } => {
                let der = sign(root_hash, &key, &certificate)?;
                Ok(MadeSignature { der, certificate })
            }
            RootSignature::Attached { bytes, parsed, certificate, name } => {
                parsed.verify(root_hash, &certificate).with_context(|| name)?;
                Ok(MadeSignature { der: bytes, certificate })
            }
        }
    }
}

/// A signature of the root hash, and the certificate that verifies it.
pub(super) struct MadeSignature {
    /// PKCS#7 in DER.
    pub(super) der: Vec<u8>,
    pub(super) certificate: SignerCertificate,
}

/// Reads a certificate.
pub(in crate::commands) fn read_certificate(path: &Path) -> Result<SignerCertificate> {
    SignerCertificate::parse(&read_small(path)?).with_context(|| display(path).to_string())
}

/// Reads a file that must be small.
fn read_small(path: &Path) -> Result<Vec<u8>> {
    let cannot = || format!("{}: cannot read", display(path));
    // First, so that a wrong name, such as that of the image, is not read into memory.
    let found = fs::metadata(path).with_context(cannot)?;
    if found.len() > FILE_MAX {
        anyhow::bail!("{}: {} is too long for a key, a certificate or a signature", display(path), found.len());
    }
    fs::read(path).with_context(cannot)
}
