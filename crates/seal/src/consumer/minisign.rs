//! minisign: a signature beside a file, which it verifies when it is asked to.
//!
//! Source: `verify` in src/minisign.c. Linux verifies nothing of it when the file is read.

use packfs_blocks::io::FileAt;
use std::path::PathBuf;

use super::parts::read_small;
use super::{OpenExamination, SealExamination, SealMistake, SealedImage};
use crate::error::{Error, Result};
use crate::minisign::{MinisignError, MinisignPublicKey, MinisignSignature, signature_path};
use crate::names::{ContainerdFiles, SystemdFiles};
use crate::tree::HashEffort;

pub(super) fn examine(image: SealedImage<'_>, effort: &HashEffort) -> Result<SealExamination> {
    let mut findings = OpenExamination::default();
    let expected = signature_path(image.path);
    let Some(bytes) = read_small(&expected)? else {
        findings.add(SealMistake::NoMinisig { expected });
        return Ok(findings.conclude(None));
    };
    findings.has_signature = true;
    let signature = match MinisignSignature::parse(&bytes) {
        Ok(signature) => signature,
        Err(error) => {
            findings.add(SealMistake::Minisign(error));
            return Ok(findings.conclude(None));
        }
    };
    let Some(key) = image.minisign_key else { return Ok(findings.conclude(None)) };
    match signature.verify(&**image.data, key, &effort.progress)? {
        Ok(()) => {
            findings.is_signed = true;
            findings.trusted_comment = Some(signature.trusted_comment().to_owned());
        }
        Err(error) => {
            let is_other = error == MinisignError::OtherContent;
            let signed = if is_other { signed_root_hash(image, &signature, key, effort)? } else { None };
            findings.add(signed.map_or(SealMistake::Minisign(error), |file| SealMistake::SignedRootHash { file }));
        }
    }
    Ok(findings.conclude(None))
}

/// Returns the file with the root hash, if the signature is that of it.
fn signed_root_hash(
    image: SealedImage<'_>,
    signature: &MinisignSignature,
    key: &MinisignPublicKey,
    effort: &HashEffort,
) -> Result<Option<PathBuf>> {
    for file in [SystemdFiles::of(image.path).root_hash, ContainerdFiles::of(image.path).metadata] {
        if !file.exists() {
            continue;
        }
        let data = FileAt::open(&file, 0).map_err(Error::io("cannot read a file beside the image"))?;
        if signature.verify(&data, key, &effort.progress)?.is_ok() {
            return Ok(Some(file));
        }
    }
    Ok(None)
}
