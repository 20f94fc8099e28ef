//! The JSON in the partition of a signature.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::signature::{SignatureError, SignerCertificate};
use crate::tree::RootHash;

/// Contents of the partition of a signature: `VERITY_SIG` of systemd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DdiSignature {
    /// Root hash in hexadecimal digits.
    pub root_hash: String,
    /// SHA-256 of the certificate in DER, in hexadecimal digits.
    #[serde(default)]
    pub certificate_fingerprint: String,
    /// PKCS#7 in DER, in base 64.
    signature: String,
}

impl DdiSignature {
    /// Describes a signature in DER of a root hash.
    ///
    /// # Errors
    /// [`SignatureError::BadCertificate`] if the certificate cannot be written.
    pub fn new(
        root_hash: &RootHash,
        certificate: &SignerCertificate,
        signature: &[u8],
    ) -> Result<Self, SignatureError> {
        Ok(DdiSignature {
            root_hash: root_hash.to_string(),
            certificate_fingerprint: certificate.fingerprint()?,
            signature: STANDARD.encode(signature),
        })
    }

    /// Reads a partition: the JSON, and zeros after it. `None` if it is not JSON of this kind.
    pub fn parse(partition: &[u8]) -> Option<Self> {
        let len = partition.iter().position(|byte| *byte == 0).unwrap_or(partition.len());
        serde_json::from_slice(&partition[..len]).ok()
    }

    /// Writes the JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the signature in DER; `None` if it is not in base 64.
    pub fn signature(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.signature).ok()
    }
}
