//! The certificate by which a signature is verified.

use der::{Decode, DecodePem, Encode};
use x509_cert::Certificate;

use super::SignatureError;
use crate::hex::to_hex;

/// Beginning of a file in PEM.
const PEM_BEGIN: &str = "-----BEGIN";

/// An X.509 certificate of a signer. Only its key, issuer and serial number matter: nobody asks who issued it, or until
/// when it is valid.
#[derive(Debug, Clone)]
pub struct SignerCertificate {
    pub(super) certificate: Certificate,
}

impl SignerCertificate {
    /// Reads a certificate in PEM or DER. Of several, the first counts.
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        // DER may be UTF-8 by accident, so the PEM marker decides and not the encoding alone.
        let certificate = match std::str::from_utf8(bytes) {
            Ok(text) if text.contains(PEM_BEGIN) => Certificate::from_pem(first_certificate(text)),
            _ => Certificate::from_der(bytes),
        };
        let why = "it is not an X.509 certificate in PEM or DER";
        certificate
            .map(|certificate| SignerCertificate { certificate })
            .map_err(|_| SignatureError::BadCertificate(why))
    }

    /// Returns the public key: a point for ECDSA, a modulus and an exponent in DER for RSA.
    pub(super) fn public_key(&self) -> &[u8] {
        self.certificate.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes()
    }

    /// Returns the SHA-256 of the certificate in DER, in hexadecimal digits: its usual fingerprint.
    pub fn fingerprint(&self) -> Result<String, SignatureError> {
        let der =
            self.certificate.to_der().map_err(|_| SignatureError::BadCertificate("it cannot be written as DER"))?;
        Ok(to_hex(&crate::hashing::HashAlgorithm::Sha256.digest(&der)))
    }
}

/// Returns the text from the first certificate on to its end: a file may begin with a key.
fn first_certificate(text: &str) -> &str {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    // Without a marker, the parser gets the whole text, and refuses it.
    let start = text.find(BEGIN).unwrap_or_default();
    let len = text[start..].find(END).map_or(text.len() - start, |at| at + END.len());
    &text[start..start + len]
}
