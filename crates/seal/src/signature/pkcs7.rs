//! SignedData of PKCS#7: made without attributes and certificates, as systemd-repart does, and read with either.

use cms::cert::IssuerAndSerialNumber;
use cms::content_info::{CmsVersion, ContentInfo};
use cms::signed_data::{
    EncapsulatedContentInfo, SignedAttributes, SignedData, SignerIdentifier, SignerInfo, SignerInfos,
};
use der::asn1::{Any, ObjectIdentifier, OctetString, SetOfVec};
use der::{Decode, Encode};
use ring::digest::{SHA256, SHA384, SHA512, digest};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey,
    VerificationAlgorithm,
};
use x509_cert::spki::AlgorithmIdentifierOwned;

use super::key::SignatureScheme;
use super::{SignatureError, SignerCertificate, SigningKey};
use crate::tree::RootHash;

const OID_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const OID_SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const OID_MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const OID_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const OID_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const OID_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");
const OID_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const OID_RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const OID_RSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const OID_RSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
const OID_EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const OID_ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const OID_ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");

/// Lengths of points that are not compressed, in bytes, by which the curves of keys differ.
const P256_POINT_LEN: usize = 65;
const P384_POINT_LEN: usize = 97;

/// Signs a root hash; returns the signature in DER.
///
/// The bytes signed are the hexadecimal digits without a newline. With RSA, the signature has the bytes of `openssl smime
/// -sign -nocerts -noattr -binary -outform der`.
///
/// # Errors
/// [`SignatureError::OtherKey`] if the certificate is that of another key.
pub fn sign(
    root_hash: &RootHash,
    key: &SigningKey,
    certificate: &SignerCertificate,
) -> Result<Vec<u8>, SignatureError> {
    if !key.belongs_to(certificate) {
        return Err(SignatureError::OtherKey);
    }
    let signature = key.sign(root_hash.to_string().as_bytes())?;
    encode(key.scheme(), certificate, signature).map_err(|_| SignatureError::Failed)
}

fn encode(scheme: SignatureScheme, certificate: &SignerCertificate, signature: Vec<u8>) -> der::Result<Vec<u8>> {
    // Parameters are NULL or absent as openssl writes them, so that RSA signatures have its bytes.
    let with_null = |oid| AlgorithmIdentifierOwned { oid, parameters: Some(Any::null()) };
    let bare = |oid| AlgorithmIdentifierOwned { oid, parameters: None };
    let (digest_alg, signature_algorithm) = match scheme {
        SignatureScheme::RsaSha256 => (with_null(OID_SHA256), with_null(OID_RSA)),
        SignatureScheme::P256Sha256 => (with_null(OID_SHA256), bare(OID_ECDSA_SHA256)),
        SignatureScheme::P384Sha384 => (with_null(OID_SHA384), bare(OID_ECDSA_SHA384)),
    };
    let signer = SignerInfo {
        version: CmsVersion::V1,
        sid: SignerIdentifier::IssuerAndSerialNumber(identity(certificate)),
        digest_alg: digest_alg.clone(),
        // Attributes hold the time of signing, which would make every signature a different one.
        signed_attrs: None,
        signature_algorithm,
        signature: OctetString::new(signature)?,
        unsigned_attrs: None,
    };
    let signed = SignedData {
        version: CmsVersion::V1,
        digest_algorithms: SetOfVec::try_from(vec![digest_alg])?,
        // Detached: the content is the root hash, which consumers have already.
        encap_content_info: EncapsulatedContentInfo { econtent_type: OID_DATA, econtent: None },
        certificates: None,
        // Consumers have their own certificates: one that came with the signature would prove nothing.
        crls: None,
        signer_infos: SignerInfos(SetOfVec::try_from(vec![signer])?),
    };
    ContentInfo { content_type: OID_SIGNED_DATA, content: Any::encode_from(&signed)? }.to_der()
}

fn identity(certificate: &SignerCertificate) -> IssuerAndSerialNumber {
    let signed_part = &certificate.certificate.tbs_certificate;
    IssuerAndSerialNumber { issuer: signed_part.issuer.clone(), serial_number: signed_part.serial_number.clone() }
}

/// A signature apart from what is signed.
#[derive(Debug, Clone)]
pub struct DetachedSignature {
    signers: Vec<SignerInfo>,
}

impl DetachedSignature {
    /// Reads a signature in DER.
    ///
    /// # Errors
    /// [`SignatureError::BadSignature`], also for PEM, which neither systemd nor the kernel reads.
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        let bad = SignatureError::BadSignature;
        if bytes.starts_with(b"-----BEGIN") {
            return Err(bad("it is in PEM; it must be in DER (openssl smime -outform der)"));
        }
        let info = ContentInfo::from_der(bytes).map_err(|_| bad("it is not PKCS#7 in DER"))?;
        if info.content_type != OID_SIGNED_DATA {
            return Err(bad("it is PKCS#7, but not a signature"));
        }
        let signed: SignedData = info.content.decode_as().map_err(|_| bad("its signed data cannot be read"))?;
        if signed.encap_content_info.econtent.is_some() {
            return Err(bad(
                "it contains the signed data; it must be detached (openssl smime -sign without -nodetach)",
            ));
        }
        Ok(DetachedSignature { signers: signed.signer_infos.0.into_vec() })
    }

    /// Verifies that the key of `certificate` signed a root hash.
    ///
    /// # Errors
    /// [`SignatureError::OtherSigner`], [`SignatureError::OtherContent`], [`SignatureError::SignedNewline`], or
    /// [`SignatureError::BadSignature`] for an algorithm that is not known.
    pub fn verify(&self, root_hash: &RootHash, certificate: &SignerCertificate) -> Result<(), SignatureError> {
        let wanted = SignerIdentifier::IssuerAndSerialNumber(identity(certificate));
        let signer = self.signers.iter().find(|signer| signer.sid == wanted).ok_or(SignatureError::OtherSigner)?;
        let text = root_hash.to_string();
        if is_signed(signer, certificate, text.as_bytes())? {
            return Ok(());
        }
        // `echo` instead of `printf %s` is the usual mistake: the key is right, and only a newline is wrong.
        let has_newline = is_signed(signer, certificate, format!("{text}\n").as_bytes())?;
        Err(if has_newline { SignatureError::SignedNewline } else { SignatureError::OtherContent })
    }
}

/// Returns true if a signer signed `content`, directly or through attributes with its digest.
fn is_signed(signer: &SignerInfo, certificate: &SignerCertificate, content: &[u8]) -> Result<bool, SignatureError> {
    // openssl signs attributes, if there are any, and puts the digest of the content among them (RFC 5652, 5.4).
    let message = match &signer.signed_attrs {
        None => content.to_vec(),
        Some(attributes) if has_digest(attributes, &signer.digest_alg.oid, content)? => {
            // Encoded as SET OF, as it was signed; in the message itself it has another tag.
            attributes.to_der().map_err(|_| SignatureError::BadSignature("its attributes cannot be read"))?
        }
        Some(_) => return Ok(false),
    };
    let key = UnparsedPublicKey::new(algorithm(signer, certificate)?, certificate.public_key());
    Ok(key.verify(&message, signer.signature.as_bytes()).is_ok())
}

/// Returns true if signed attributes have the digest of `content`.
fn has_digest(
    attributes: &SignedAttributes,
    digest_oid: &ObjectIdentifier,
    content: &[u8],
) -> Result<bool, SignatureError> {
    let function = match *digest_oid {
        OID_SHA256 => &SHA256,
        OID_SHA384 => &SHA384,
        OID_SHA512 => &SHA512,
        _ => return Err(SignatureError::BadSignature("its digest is not SHA-256, SHA-384 or SHA-512")),
    };
    let attribute = attributes.iter().find(|attribute| attribute.oid == OID_MESSAGE_DIGEST);
    let value = attribute.and_then(|attribute| attribute.values.get(0)).map(Any::value);
    Ok(value == Some(digest(function, content).as_ref()))
}

/// Returns the algorithm for the digest of a signature and the key of a certificate.
fn algorithm(
    signer: &SignerInfo,
    certificate: &SignerCertificate,
) -> Result<&'static dyn VerificationAlgorithm, SignatureError> {
    let key_oid = certificate.certificate.tbs_certificate.subject_public_key_info.algorithm.oid;
    let key_len = certificate.public_key().len();
    // All four are compared: the certificate's key and what the signature says of itself must fit together.
    Ok(match (key_oid, key_len, signer.digest_alg.oid, signer.signature_algorithm.oid) {
        (OID_RSA, _, OID_SHA256, OID_RSA | OID_RSA_SHA256) => &RSA_PKCS1_2048_8192_SHA256,
        (OID_RSA, _, OID_SHA384, OID_RSA | OID_RSA_SHA384) => &RSA_PKCS1_2048_8192_SHA384,
        (OID_RSA, _, OID_SHA512, OID_RSA | OID_RSA_SHA512) => &RSA_PKCS1_2048_8192_SHA512,
        (OID_EC, P256_POINT_LEN, OID_SHA256, OID_ECDSA_SHA256) => &ECDSA_P256_SHA256_ASN1,
        (OID_EC, P256_POINT_LEN, OID_SHA384, OID_ECDSA_SHA384) => &ECDSA_P256_SHA384_ASN1,
        (OID_EC, P384_POINT_LEN, OID_SHA256, OID_ECDSA_SHA256) => &ECDSA_P384_SHA256_ASN1,
        (OID_EC, P384_POINT_LEN, OID_SHA384, OID_ECDSA_SHA384) => &ECDSA_P384_SHA384_ASN1,
        _ => return Err(SignatureError::BadSignature("its algorithm is not RSA or ECDSA with SHA-256 or longer")),
    })
}
