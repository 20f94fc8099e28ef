//! The envelope of a signature (DSSE): the signed document in base 64, and signatures of it.
//!
//! Source: protocol.md and envelope.md of github.com/secure-systems-lab/dsse.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::{Deserialize, Serialize};

use crate::signature::{MessageSignature, SignerKey};

const PAYLOAD_TYPE: &str = "application/vnd.sylabs.sif-metadata+json";

/// A signed document.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SignedEnvelope {
    #[serde(rename = "payloadType")]
    payload_type: String,
    payload: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Debug, Serialize, Deserialize)]
struct EnvelopeSignature {
    /// Name of the key; empty if there is none. A key with another name is not tried.
    #[serde(default)]
    keyid: String,
    sig: String,
}

impl SignedEnvelope {
    /// Makes the envelope of a document that was signed.
    pub(super) fn new(document: &[u8], signature: &MessageSignature) -> Self {
        let signature = EnvelopeSignature { keyid: signature.key_id.clone(), sig: STANDARD.encode(&signature.bytes) };
        let payload = STANDARD.encode(document);
        SignedEnvelope { payload_type: PAYLOAD_TYPE.into(), payload, signatures: vec![signature] }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        // A struct of strings always serialises.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads an envelope of a document about a SIF file; `None` if it is none.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok().filter(|envelope: &SignedEnvelope| envelope.payload_type == PAYLOAD_TYPE)
    }

    /// Returns the document; `None` if it is not in base 64.
    pub(crate) fn document(&self) -> Option<Vec<u8>> {
        decode(&self.payload)
    }

    /// Returns true if one of the signatures is that of `document` by one of the keys. Apptainer demands no more.
    pub(crate) fn is_signed(&self, document: &[u8], keys: &[SignerKey]) -> bool {
        let message = signed_message(document);
        let is_by = |signature: &EnvelopeSignature, key: &SignerKey| {
            let may_be = signature.keyid.is_empty() || signature.keyid == key.id();
            may_be && decode(&signature.sig).is_some_and(|bytes| key.has_signed(&message, &bytes))
        };
        self.signatures.iter().any(|signature| keys.iter().any(|key| is_by(signature, key)))
    }
}

/// Returns the bytes that are signed for a document. Its type is among them, so that a signature for another purpose does
/// not count.
pub(super) fn signed_message(document: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), document.len());
    [head.as_bytes(), document].concat()
}

/// Decodes base 64, in whose both alphabets envelopes may be.
fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}
