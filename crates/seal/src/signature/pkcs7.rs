//! SignedData of PKCS#7: made without attributes, as systemd-repart does, because they would hold the time; read with either.

use cms::cert::{CertificateChoices, IssuerAndSerialNumber};
use cms::content_info::{CmsVersion, ContentInfo};
use cms::signed_data::{
    CertificateSet, EncapsulatedContentInfo, SignedAttributes, SignedData, SignerIdentifier, SignerInfo, SignerInfos,
};
use der::asn1::{Any, ObjectIdentifier, OctetString, SetOfVec};
use der::{Decode, Encode};
use ring::digest::{SHA256, SHA384, SHA512, digest};
use ring::signature::{UnparsedPublicKey, VerificationAlgorithm};
use x509_cert::ext::pkix::SubjectKeyIdentifier;
use x509_cert::spki::AlgorithmIdentifierOwned;

use super::key::SignatureScheme;
use super::message::{MessageHash, OID_EC, OID_RSA};
use super::{SignatureError, SignerCertificate, SigningKey};
use crate::tree::RootHash;

const OID_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const OID_SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const OID_ENVELOPED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.3");
const OID_MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const OID_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const OID_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const OID_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");
const OID_RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const OID_RSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const OID_RSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
const OID_ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const OID_ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");

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
    let signature = sign_bytes(root_hash.to_string().as_bytes(), key, certificate)?;
    encode(key.scheme(), certificate, signature, None).map_err(|_| SignatureError::Failed)
}

/// Signs bytes; returns a signature in DER that contains them and the certificate.
///
/// # Errors
/// [`SignatureError::OtherKey`] if the certificate is that of another key.
pub fn sign_content(
    content: &[u8],
    key: &SigningKey,
    certificate: &SignerCertificate,
) -> Result<Vec<u8>, SignatureError> {
    let signature = sign_bytes(content, key, certificate)?;
    encode(key.scheme(), certificate, signature, Some(content)).map_err(|_| SignatureError::Failed)
}

fn sign_bytes(bytes: &[u8], key: &SigningKey, certificate: &SignerCertificate) -> Result<Vec<u8>, SignatureError> {
    if key.belongs_to(certificate) { key.sign(bytes) } else { Err(SignatureError::OtherKey) }
}

/// Writes a signature. With `content`, that and the certificate are part of it.
fn encode(
    scheme: SignatureScheme,
    certificate: &SignerCertificate,
    signature: Vec<u8>,
    content: Option<&[u8]>,
) -> der::Result<Vec<u8>> {
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
        sid: identifier(certificate),
        digest_alg: digest_alg.clone(),
        // Attributes hold the time of signing, which would make every signature a different one.
        signed_attrs: None,
        signature_algorithm,
        signature: OctetString::new(signature)?,
        unsigned_attrs: None,
    };
    // Without content, the signature is detached: it is that of the root hash, which consumers have already. They have their
    // own certificates, too. RAUC has only those of authorities, and looks for the signer's in the signature.
    let econtent = content.map(|content| Any::encode_from(&OctetString::new(content)?)).transpose()?;
    let certificates = match content {
        Some(_) => {
            let own = CertificateChoices::Certificate(certificate.certificate.clone());
            Some(CertificateSet(SetOfVec::try_from(vec![own])?))
        }
        None => None,
    };
    let signed = SignedData {
        version: CmsVersion::V1,
        digest_algorithms: SetOfVec::try_from(vec![digest_alg])?,
        encap_content_info: EncapsulatedContentInfo { econtent_type: OID_DATA, econtent },
        certificates,
        crls: None,
        signer_infos: SignerInfos(SetOfVec::try_from(vec![signer])?),
    };
    ContentInfo { content_type: OID_SIGNED_DATA, content: Any::encode_from(&signed)? }.to_der()
}

fn identifier(certificate: &SignerCertificate) -> SignerIdentifier {
    let signed_part = &certificate.certificate.tbs_certificate;
    let issuer = signed_part.issuer.clone();
    let serial_number = signed_part.serial_number.clone();
    SignerIdentifier::IssuerAndSerialNumber(IssuerAndSerialNumber { issuer, serial_number })
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
        let signed = read_signed_data(bytes)?;
        if signed.encap_content_info.econtent.is_some() {
            let why = "it contains the signed data; it must be detached (openssl smime -sign without -nodetach)";
            return Err(SignatureError::BadSignature(why));
        }
        Ok(DetachedSignature { signers: signed.signer_infos.0.into_vec() })
    }

    /// Verifies that a root hash was signed by the key of one of `certificates`, and by no signer who is not among them.
    ///
    /// systemd verifies by `PKCS7_verify` of OpenSSL, which demands all. The kernel is content with one signer of its keyring
    /// if no other one of it signed something else.
    ///
    /// # Errors
    /// [`SignatureError::OtherSigner`], [`SignatureError::UntrustedSigner`], [`SignatureError::OtherContent`],
    /// [`SignatureError::SignedNewline`], or [`SignatureError::BadSignature`] for an algorithm that is not known.
    pub fn verify(&self, root_hash: &RootHash, certificates: &[SignerCertificate]) -> Result<(), SignatureError> {
        let signers = trusted_signers(&self.signers, certificates)?;
        let text = root_hash.to_string();
        if all_signed(&signers, text.as_bytes())? {
            return Ok(());
        }
        // `echo` instead of `printf %s` is the usual mistake: the key is right, and only a newline is wrong.
        let has_newline = all_signed(&signers, format!("{text}\n").as_bytes())?;
        Err(if has_newline { SignatureError::SignedNewline } else { SignatureError::OtherContent })
    }
}

/// A signature that contains what is signed.
#[derive(Debug, Clone)]
pub struct EmbeddedSignature {
    content: Vec<u8>,
    signers: Vec<SignerInfo>,
    certificates: Vec<SignerCertificate>,
}

impl EmbeddedSignature {
    /// Reads a signature in DER.
    ///
    /// # Errors
    /// [`SignatureError::Detached`], [`SignatureError::Encrypted`], [`SignatureError::BadSignature`].
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        let signed = read_signed_data(bytes)?;
        let econtent = signed.encap_content_info.econtent.ok_or(SignatureError::Detached)?;
        let content: OctetString = econtent
            .decode_as()
            .map_err(|_| SignatureError::BadSignature("what it contains is not a string of bytes"))?;
        let x509_of = |choice| match choice {
            CertificateChoices::Certificate(certificate) => Some(SignerCertificate { certificate }),
            CertificateChoices::Other(_) => None,
        };
        let certificates = signed.certificates.map(|set| set.0.into_vec()).unwrap_or_default();
        Ok(EmbeddedSignature {
            content: content.into_bytes(),
            signers: signed.signer_infos.0.into_vec(),
            certificates: certificates.into_iter().filter_map(x509_of).collect(),
        })
    }

    /// Returns what is signed.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns the number of signers, which is not zero.
    pub fn signer_count(&self) -> usize {
        self.signers.len()
    }

    /// Returns true if the signature contains the certificate of each signer.
    pub fn has_certificates(&self) -> bool {
        self.signers.iter().all(|signer| self.certificates.iter().any(|certificate| is_named(certificate, &signer.sid)))
    }

    /// Verifies that the content was signed by the key of one of `certificates`, and by no signer who is not among them.
    ///
    /// `CMS_verify` of OpenSSL also demands all: otherwise, the signature of a key that was withdrawn would go unnoticed
    /// beside that of a valid one.
    ///
    /// # Errors
    /// [`SignatureError::OtherSigner`], [`SignatureError::UntrustedSigner`], or [`SignatureError::BadSignature`].
    pub fn verify(&self, certificates: &[SignerCertificate]) -> Result<(), SignatureError> {
        let signers = trusted_signers(&self.signers, certificates)?;
        // OpenSSL goes by the certificate within the signature, and asks only then whether it is trusted.
        let is_other = |signer: &TrustedSigner<'_>, own: &SignerCertificate| {
            is_named(own, &signer.info.sid) && own.certificate != signer.certificate.certificate
        };
        if signers.iter().any(|signer| self.certificates.iter().any(|own| is_other(signer, own))) {
            let why = "the certificate in it has the name of the given one, but is another, or was changed";
            return Err(SignatureError::BadSignature(why));
        }
        if all_signed(&signers, &self.content)? {
            return Ok(());
        }
        let why = "what it contains was changed, or signed with another key than that of the certificate";
        Err(SignatureError::BadSignature(why))
    }
}

fn read_signed_data(bytes: &[u8]) -> Result<SignedData, SignatureError> {
    let bad = SignatureError::BadSignature;
    if bytes.starts_with(b"-----BEGIN") {
        return Err(bad("it is in PEM; it must be in DER (openssl smime -outform der)"));
    }
    let info = ContentInfo::from_der(bytes).map_err(|_| bad("it is not PKCS#7 in DER"))?;
    let signed: SignedData = match info.content_type {
        OID_SIGNED_DATA => info.content.decode_as().map_err(|_| bad("its signed data cannot be read"))?,
        OID_ENVELOPED_DATA => return Err(SignatureError::Encrypted),
        _ => return Err(bad("it is PKCS#7, but not a signature")),
    };
    if signed.signer_infos.0.is_empty() {
        return Err(bad("nobody signed it"));
    }
    Ok(signed)
}

/// A signer, and the certificate by which the signature is verified.
struct TrustedSigner<'s> {
    info: &'s SignerInfo,
    certificate: &'s SignerCertificate,
}

/// Returns the signers with their certificates; fails if one has none.
fn trusted_signers<'s>(
    signers: &'s [SignerInfo],
    certificates: &'s [SignerCertificate],
) -> Result<Vec<TrustedSigner<'s>>, SignatureError> {
    let find = |signer: &SignerInfo| certificates.iter().find(|certificate| is_named(certificate, &signer.sid));
    let trusted: Vec<_> =
        signers.iter().filter_map(|info| Some(TrustedSigner { info, certificate: find(info)? })).collect();
    if trusted.is_empty() {
        return Err(SignatureError::OtherSigner);
    }
    let count = signers.len();
    if trusted.len() < count {
        return Err(SignatureError::UntrustedSigner { count });
    }
    Ok(trusted)
}

/// Returns true if each signer signed `content`.
fn all_signed(signers: &[TrustedSigner<'_>], content: &[u8]) -> Result<bool, SignatureError> {
    for signer in signers {
        if !is_signed(signer.info, signer.certificate, content)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if a signer is named as the owner of a certificate: by issuer and serial number, or by the identifier of
/// its key (`openssl cms -sign -keyid`).
fn is_named(certificate: &SignerCertificate, sid: &SignerIdentifier) -> bool {
    match sid {
        SignerIdentifier::IssuerAndSerialNumber(_) => *sid == identifier(certificate),
        SignerIdentifier::SubjectKeyIdentifier(wanted) => {
            let own = certificate.certificate.tbs_certificate.get::<SubjectKeyIdentifier>();
            own.is_ok_and(|extension| extension.is_some_and(|(_, own)| own == *wanted))
        }
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
    // All three are compared: the certificate's key and what the signature says of itself must fit together.
    let hash = match (key_oid, signer.digest_alg.oid, signer.signature_algorithm.oid) {
        (OID_RSA, OID_SHA256, OID_RSA | OID_RSA_SHA256) | (OID_EC, OID_SHA256, OID_ECDSA_SHA256) => {
            Some(MessageHash::Sha256)
        }
        (OID_RSA, OID_SHA384, OID_RSA | OID_RSA_SHA384) | (OID_EC, OID_SHA384, OID_ECDSA_SHA384) => {
            Some(MessageHash::Sha384)
        }
        (OID_RSA, OID_SHA512, OID_RSA | OID_RSA_SHA512) => Some(MessageHash::Sha512),
        _ => None,
    };
    let known = hash.and_then(|hash| certificate.key().algorithm(hash));
    known.ok_or(SignatureError::BadSignature("its algorithm is not RSA or ECDSA with SHA-256 or longer"))
}
