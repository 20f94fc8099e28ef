//! The certificate by which a signature is verified.

use der::{Decode, DecodePem, Encode};
use x509_cert::Certificate;

use super::{SignatureError, SignerKey};
use crate::hex::to_hex;

/// Beginning of a file in PEM.
const PEM_BEGIN: &str = "-----BEGIN";
/// Beginning of a certificate in PEM.
const CERTIFICATE_BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const NO_CERTIFICATE: SignatureError = SignatureError::BadCertificate("it is not an X.509 certificate in PEM or DER");

/// An X.509 certificate of a signer. Only its key, issuer and serial number matter: nobody asks who issued it, or until
/// when it is valid.
#[derive(Debug, Clone)]
pub struct SignerCertificate {
    pub(super) certificate: Certificate,
}

impl SignerCertificate {
    /// Reads a certificate in PEM or DER. Of several, the first counts.
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        match pem_text(bytes) {
            Some(text) => SignerCertificate::from_pem(first_certificate(text).0),
            None => Certificate::from_der(bytes).map_err(|_| NO_CERTIFICATE).map(SignerCertificate::from),
        }
    }

    /// Reads one certificate in DER, or all that a file in PEM has: at least one.
    pub fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, SignatureError> {
        let Some(mut text) = pem_text(bytes) else { return Ok(vec![SignerCertificate::parse(bytes)?]) };
        let mut certificates = Vec::new();
        loop {
            let (certificate, after) = first_certificate(text);
            certificates.push(SignerCertificate::from_pem(certificate)?);
            if !after.contains(CERTIFICATE_BEGIN) {
                return Ok(certificates);
            }
            text = after;
        }
    }

    fn from_pem(text: &str) -> Result<Self, SignatureError> {
        Certificate::from_pem(text).map_err(|_| NO_CERTIFICATE).map(SignerCertificate::from)
    }

    /// Returns the public key: a point for ECDSA, a modulus and an exponent in DER for RSA.
    pub(super) fn public_key(&self) -> &[u8] {
        self.certificate.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes()
    }

    /// Returns the public key with its algorithm.
    pub fn key(&self) -> SignerKey {
        SignerKey::from(self.certificate.clone())
    }

    /// Returns the SHA-256 of the certificate in DER, in hexadecimal digits: its usual fingerprint.
    pub fn fingerprint(&self) -> Result<String, SignatureError> {
        let der =
            self.certificate.to_der().map_err(|_| SignatureError::BadCertificate("it cannot be written as DER"))?;
        Ok(to_hex(&crate::hashing::HashAlgorithm::Sha256.digest(&der)))
    }
}

impl From<Certificate> for SignerCertificate {
    fn from(certificate: Certificate) -> Self {
        SignerCertificate { certificate }
    }
}

/// Returns the text of a file in PEM. DER may be UTF-8 by accident, so the marker decides and not the encoding alone.
fn pem_text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| text.contains(PEM_BEGIN))
}

/// Returns the first certificate in a text, which may begin with a key, and what follows.
fn first_certificate(text: &str) -> (&str, &str) {
    const END: &str = "-----END CERTIFICATE-----";
    // Without a marker, the parser gets the whole text, and refuses it.
    let start = text.find(CERTIFICATE_BEGIN).unwrap_or_default();
    let from_start = &text[start..];
    let len = from_start.find(END).map_or(from_start.len(), |at| at + END.len());
    from_start.split_at(len)
}
