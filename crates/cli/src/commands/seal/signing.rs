//! The signature of a root hash or of a manifest, made with a key or made elsewhere.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use packfs_image::name::display;
use packfs_seal::RootHash;
use packfs_seal::signature::{
    DetachedSignature, EmbeddedSignature, SignatureError, SignerCertificate, SigningKey, sign, sign_content,
};

use crate::args::SealArgs;
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

impl SealArgs {
    /// Returns the files for the signature.
    pub(super) fn signature_files(&self) -> SignatureFiles<'_> {
        SignatureFiles {
            key: self.key.as_deref(),
            certificate: self.certificate.as_deref(),
            made: self.attach_signature.as_deref(),
        }
    }

    /// Returns true if a signature is written.
    pub(super) fn is_signed(&self) -> bool {
        self.key.is_some() || self.attach_signature.is_some() || self.minisign_key.is_some()
    }
}

/// How a signature comes about. Files are read, and compared as far as possible, before the image is.
pub(super) enum SignatureOrigin<Parsed> {
    Made { key: Box<SigningKey>, certificate: Box<SignerCertificate> },
    Attached { bytes: Vec<u8>, parsed: Parsed, certificates: Vec<SignerCertificate>, name: String },
}

/// Origin of the signature of a root hash.
pub(super) type RootSignature = SignatureOrigin<DetachedSignature>;
/// Origin of the signature of a manifest, which contains it.
pub(super) type ManifestSignature = SignatureOrigin<EmbeddedSignature>;

impl<Parsed> SignatureOrigin<Parsed> {
    /// Reads key, certificate and signature, which `parse` understands; `None` if there is no certificate.
    fn read_with(
        files: SignatureFiles<'_>,
        parse: impl FnOnce(&[u8]) -> Result<Parsed, SignatureError>,
    ) -> Result<Option<Self>> {
        let Some(certificate) = files.certificate else {
            return match files.key {
                Some(_) => Err(UsageError("--key needs --certificate, by which it is verified".into()).into()),
                None => Ok(None),
            };
        };
        let certificates = read_certificates(certificate)?;
        if let Some(path) = files.key {
            let certificate = Box::new(own_certificate(certificates));
            let key = read_signing_key(path)?;
            return Ok(Some(SignatureOrigin::Made { key: Box::new(key), certificate }));
        }
        let Some(path) = files.made else {
            let why = "--certificate alone does not sign: also give --key or --attach-signature";
            return Err(UsageError(why.into()).into());
        };
        let bytes = read_small(path)?;
        let name = display(path).to_string();
        let parsed = parse(&bytes).with_context(|| name.clone())?;
        Ok(Some(SignatureOrigin::Attached { bytes, parsed, certificates, name }))
    }
}

impl RootSignature {
    /// Reads key, certificate and signature; `None` if there is no certificate.
    pub(super) fn read(files: SignatureFiles<'_>) -> Result<Option<Self>> {
        Self::read_with(files, DetachedSignature::parse)
    }

    /// Returns the signature of a root hash.
    pub(super) fn make(self, root_hash: &RootHash) -> Result<MadeSignature> {
        match self {
            RootSignature::Made { key, certificate } => {
                let der = sign(root_hash, &key, &certificate)?;
                Ok(MadeSignature { der, certificate: *certificate })
            }
            RootSignature::Attached { bytes, parsed, certificates, name } => {
                parsed.verify(root_hash, &certificates).with_context(|| name)?;
                Ok(MadeSignature { der: bytes, certificate: own_certificate(certificates) })
            }
        }
    }
}

impl ManifestSignature {
    /// Reads key, certificate and signature; `None` if there is no certificate.
    pub(super) fn read(files: SignatureFiles<'_>) -> Result<Option<Self>> {
        Self::read_with(files, EmbeddedSignature::parse)
    }

    /// Returns the signature of a manifest in DER.
    pub(super) fn make(self, manifest: &str) -> Result<Vec<u8>> {
        match self {
            ManifestSignature::Made { key, certificate } => Ok(sign_content(manifest.as_bytes(), &key, &certificate)?),
            ManifestSignature::Attached { bytes, parsed, certificates, name } => {
                if parsed.content() != manifest.as_bytes() {
                    anyhow::bail!(
                        "{name}: another manifest was signed; sign what --manifest-only prints (openssl cms -sign \
                         with -nodetach and -binary)"
                    );
                }
                if !parsed.has_certificates() {
                    anyhow::bail!(
                        "{name}: it lacks the certificate of the signer (openssl cms -sign without -nocerts)"
                    );
                }
                parsed.verify(&certificates).with_context(|| name)?;
                Ok(bytes)
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

/// Reads a private key.
pub(super) fn read_signing_key(path: &Path) -> Result<SigningKey> {
    SigningKey::parse(&read_small(path)?).with_context(|| display(path).to_string())
}

/// Reads a certificate, or several in PEM.
pub(in crate::commands) fn read_certificates(path: &Path) -> Result<Vec<SignerCertificate>> {
    SignerCertificate::parse_all(&read_small(path)?).with_context(|| display(path).to_string())
}

/// Returns the certificate of the signer: the first, as others are those of authorities.
fn own_certificate(certificates: Vec<SignerCertificate>) -> SignerCertificate {
    certificates.into_iter().next().expect("a file without a certificate was refused")
}

/// Reads a file that must be small.
pub(super) fn read_small(path: &Path) -> Result<Vec<u8>> {
    let cannot = || format!("{}: cannot read", display(path));
    // First, so that a wrong name, such as that of the image, is not read into memory.
    let found = fs::metadata(path).with_context(cannot)?;
    if found.len() > FILE_MAX {
        anyhow::bail!("{}: {} is too long for a key, a certificate or a signature", display(path), found.len());
    }
    fs::read(path).with_context(cannot)
}
