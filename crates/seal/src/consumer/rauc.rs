//! RAUC: a bundle with the image, its tree and a signature that contains the manifest.
//!
//! Source: `open_local_bundle`, `check_bundle` and `prepare_verity` in src/bundle.c, `check_manifest_external` in
//! src/manifest.c, `cms_verify_bytes` and `cms_get_cert_chain` in src/signature.c. The manifest in the image does not count.
//! `CMS_verify` fails unless the keyring verifies every signer. After it, RAUC 1.8 refuses more than one; later versions take
//! several, and one is enough for them with `allow-single-signature`, which packfs does not assume.

use std::sync::Arc;

use packfs_blocks::ReadAt;

use super::parts::{FoundTree, ImageRange, check_known_tree};
use super::{OpenExamination, SealExamination, SealMistake, SealedImage};
use crate::error::{Error, Result};
use crate::rauc::{BLOCK_SIZE, BundleContents, BundleError, BundleManifest, BundleTrailer, ManifestTree};
use crate::signature::{EmbeddedSignature, SignatureError};
use crate::tree::HashEffort;

pub(super) fn examine(image: SealedImage<'_>, effort: &HashEffort) -> Result<SealExamination> {
    let mut findings = OpenExamination::default();
    let trailer = match BundleTrailer::read(&**image.data)? {
        Ok(trailer) => trailer,
        Err(why) => {
            findings.add(SealMistake::BadTrailer(why));
            return Ok(findings.conclude(None));
        }
    };
    findings.has_signature = true;
    let signature = match EmbeddedSignature::parse(&trailer.cms) {
        Ok(signature) => signature,
        Err(error) => {
            findings.add(match error {
                SignatureError::Detached => SealMistake::PlainBundle,
                SignatureError::Encrypted => SealMistake::CryptBundle,
                other => SealMistake::InvalidSignature(other),
            });
            return Ok(findings.conclude(None));
        }
    };
    check_signature(image, &signature, &mut findings);
    let parsed = BundleManifest::parse(signature.content());
    let (manifest, tree) = match parsed.and_then(|manifest| manifest.tree().map(|tree| (manifest, tree))) {
        Ok(read) => read,
        Err(error) => {
            findings.add(SealMistake::Bundle(error));
            return Ok(findings.conclude(None));
        }
    };
    if let Some(data) = check_payload(image, trailer.payload_len, &tree, effort, &mut findings)? {
        check_images(&data, &manifest, effort, &mut findings)?;
    }
    Ok(findings.conclude(Some(tree.root_hash)))
}

/// Verifies the signature by the certificates, if there are any.
fn check_signature(image: SealedImage<'_>, signature: &EmbeddedSignature, findings: &mut OpenExamination) {
    if !signature.has_certificates() {
        findings.add(SealMistake::NoSignerCertificate);
    }
    let count = signature.signer_count();
    if count > 1 {
        findings.add(SealMistake::SeveralSigners { count });
    }
    if image.certificates.is_empty() {
        return;
    }
    match signature.verify(image.certificates) {
        Ok(()) => findings.is_signed = true,
        Err(error) => findings.add(SealMistake::InvalidSignature(error)),
    }
}

/// Compares all data with the tree, and that with the root hash. Returns the data if nothing is wrong with them.
fn check_payload(
    image: SealedImage<'_>,
    payload_len: u64,
    tree: &ManifestTree,
    effort: &HashEffort,
    findings: &mut OpenExamination,
) -> Result<Option<Arc<dyn ReadAt>>> {
    if !payload_len.is_multiple_of(BLOCK_SIZE.into()) {
        findings.add(SealMistake::UnalignedPayload { len: payload_len });
        return Ok(None);
    }
    let Some(data_len) = payload_len.checked_sub(tree.len).filter(|len| *len > 0) else {
        let why = "is not less than the length of the bundle";
        let section = "bundle".into();
        findings.add(SealMistake::Bundle(BundleError::ManifestKey { section, key: "verity-size", why }));
        return Ok(None);
    };
    let area = tree.area(data_len);
    let needed = area.end().map_or(u64::MAX, |end| end - data_len);
    if needed != tree.len {
        findings.add(SealMistake::VeritySize { found: tree.len, needed });
    }
    if needed > tree.len {
        return Ok(None);
    }
    let data: Arc<dyn ReadAt> = Arc::new(ImageRange::new(image.data, 0, data_len));
    let payload = ImageRange::new(image.data, 0, payload_len);
    let found = FoundTree { file: &payload, offset: data_len, is_appended: false };
    let before = findings.mistakes.len();
    check_known_tree(SealedImage { data: &data, ..image }, found, &area, &tree.root_hash, effort, findings)?;
    Ok((findings.mistakes.len() == before).then_some(data))
}

/// Compares the files in the image with what the manifest says about them.
fn check_images(
    data: &Arc<dyn ReadAt>,
    manifest: &BundleManifest,
    effort: &HashEffort,
    findings: &mut OpenExamination,
) -> Result<()> {
    let compared = BundleContents::open(data).and_then(|contents| manifest.compare(&contents, &effort.progress));
    let faults = match compared {
        Err(Error::Bundle(fault)) => vec![fault],
        other => other?,
    };
    faults.into_iter().for_each(|fault| findings.add(SealMistake::Bundle(fault)));
    Ok(())
}
