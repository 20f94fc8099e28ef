//! Apptainer: each group of objects is signed, and signatures name the digests of what they cover.
//!
//! Source: `NewVerifier`, `Verify` and `verifySignature` in pkg/integrity/verify.go, for all groups, as `apptainer verify` does
//! it. Signatures of OpenPGP are reported and not verified: they need a key ring.

use std::collections::BTreeSet;
use std::sync::Arc;

use packfs_image::{AnyImage, OpenOptions};

use super::parts::ImageRange;
use super::{OpenExamination, SealExamination, SealMistake, SealedImage};
use crate::error::{Error, Result};
use crate::sif::{
    ObjectDigests, ObjectKind, SifDescriptor, SifError, SifFile, SignedEnvelope, SignedMetadata, digest_function,
};
use crate::signature::SignerKey;
use crate::tree::HashEffort;

/// Longest signature that is read, in bytes. A group of 48 objects has one of 14 KiB.
const SIGNATURE_MAX: u64 = 1 << 20;

pub(super) fn examine(image: SealedImage<'_>, effort: &HashEffort) -> Result<SealExamination> {
    let mut findings = OpenExamination::default();
    let file = match SifFile::read(&**image.data)? {
        Ok(file) => file,
        Err(fault) => {
            findings.add(SealMistake::Sif(fault));
            return Ok(findings.conclude(None));
        }
    };
    check_partition(image, &file, &mut findings);
    let certified = image.certificates.iter().map(|certificate| certificate.key());
    let keys = image.signer_key.cloned().into_iter().chain(certified).collect();
    let digests = ObjectDigests::new(image.data, &effort.progress);
    GroupCheck { image, file: &file, keys, digests, findings: &mut findings }.run()?;
    // Without a mistake, there is a signature of each group, and all are valid.
    findings.is_signed = findings.mistakes.is_empty();
    Ok(findings.conclude(None))
}

/// Looks for the partition that Apptainer runs, and for SquashFS in it.
fn check_partition(image: SealedImage<'_>, file: &SifFile, findings: &mut OpenExamination) {
    let Some(primary) = file.descriptors.iter().find(|descriptor| descriptor.is_primary()) else {
        findings.add(SealMistake::Sif(SifError::NoPartition));
        return;
    };
    let (Some(start), Some(len)) = (primary.start(), primary.len()) else { return };
    let data = Arc::new(ImageRange::new(image.data, start, len));
    let opened = AnyImage::open(data, OpenOptions::default());
    if !primary.is_squashfs() || !matches!(opened, Ok(AnyImage::Squashfs(_))) {
        findings.add(SealMistake::Sif(SifError::NotSquashfs));
    }
}

/// Compares the objects of each group with its signatures.
struct GroupCheck<'c> {
    image: SealedImage<'c>,
    file: &'c SifFile,
    keys: Vec<SignerKey>,
    digests: ObjectDigests<'c>,
    findings: &'c mut OpenExamination,
}

impl GroupCheck<'_> {
    fn run(mut self) -> Result<()> {
        let file = self.file;
        for object in &file.descriptors {
            if object.group().is_none() && object.kind() != ObjectKind::Signature {
                self.add(SifError::NoGroup { id: object.id() });
            }
        }
        let groups: BTreeSet<u32> = file.descriptors.iter().filter_map(SifDescriptor::group).collect();
        for group in groups {
            let covers = |object: &&SifDescriptor| {
                object.kind() == ObjectKind::Signature && object.signed_group() == Some(group)
            };
            let signatures: Vec<&SifDescriptor> = file.descriptors.iter().filter(covers).collect();
            self.findings.has_signature |= !signatures.is_empty();
            if signatures.is_empty() {
                self.add(SifError::UnsignedGroup { group });
            }
            // Each has to be valid: Apptainer stops at the first one that is not.
            for signature in signatures {
                self.check_signature(group, signature)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, fault: SifError) {
        self.findings.add(SealMistake::Sif(fault));
    }

    fn check_signature(&mut self, group: u32, signature: &SifDescriptor) -> Result<()> {
        match self.signed_metadata(signature)? {
            Ok(metadata) => self.check_objects(group, &metadata),
            Err(fault) => {
                self.add(fault);
                Ok(())
            }
        }
    }

    /// Returns what a signature covers, if it is valid.
    fn signed_metadata(&self, signature: &SifDescriptor) -> Result<std::result::Result<SignedMetadata, SifError>> {
        let id = signature.id();
        let bad = |why| Ok(Err(SifError::BadEnvelope { id, why }));
        let (Some(start), Some(len)) = (signature.start(), signature.len()) else {
            return bad("it is not in the file");
        };
        if len > SIGNATURE_MAX {
            return bad("it is longer than 1 MiB");
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        self.image.data.read_exact_at(&mut bytes, start).map_err(Error::io("cannot read a signature"))?;
        if bytes.starts_with(b"-----BEGIN PGP") {
            return Ok(Err(SifError::PgpSignature { id }));
        }
        let Some(envelope) = SignedEnvelope::parse(&bytes) else { return bad("it is no envelope of DSSE") };
        if !signature.has_known_hash() {
            return bad("its hash function is unknown");
        }
        let Some(document) = envelope.document() else { return bad("its document is not in base 64") };
        if !envelope.is_signed(&document, &self.keys) {
            return Ok(Err(SifError::OtherKey { id }));
        }
        let Some(metadata) = SignedMetadata::parse(&document) else { return bad("its document is of another version") };
        Ok(Ok(metadata))
    }

    /// Compares the objects of a group with those that a signature names.
    fn check_objects(&mut self, group: u32, metadata: &SignedMetadata) -> Result<()> {
        let file = self.file;
        if !file.is_signed_header(metadata) {
            self.add(SifError::ChangedHeader);
        }
        // Numbers are relative, so that objects before the group may come and go.
        let first_id = file.group(group).map(SifDescriptor::id).min().unwrap_or_default();
        for record in &metadata.objects {
            let id = first_id.saturating_add(record.relative_id);
            if !file.group(group).any(|object| object.id() == id) {
                self.add(SifError::MissingObject { id });
            }
        }
        for object in file.group(group) {
            let id = object.id();
            let Some(record) =
                metadata.objects.iter().find(|record| first_id.checked_add(record.relative_id) == Some(id))
            else {
                self.add(SifError::UnsignedObject { id });
                continue;
            };
            if !record.has_descriptor(object) {
                self.add(SifError::ChangedDescriptor { id });
            }
            let start = object.start().unwrap_or_default();
            let len = object.len().unwrap_or_default();
            let signed = &record.object_digest;
            let own = self.digests.of_range(digest_function(signed), start, len)?;
            if !own.is_some_and(|own| own.eq_ignore_ascii_case(signed)) {
                self.add(SifError::ChangedObject { id });
            }
        }
        Ok(())
    }
}
