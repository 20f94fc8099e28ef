//! The document that is signed: digests of header, descriptors and objects, as JSON.

use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};
use serde::{Deserialize, Serialize};

use super::digest::{ObjectDigests, USUAL_NAME, digest_bytes, function_of};
use super::layout::{SifDescriptor, SifHeader};
use crate::error::Result;

const METADATA_VERSION: u32 = 1;

/// The signed document of a group. Its fields are written in this order, and without spaces, as the library of Apptainer
/// does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SignedMetadata {
    version: u32,
    header: HeaderDigest,
    pub(crate) objects: Vec<ObjectRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HeaderDigest {
    digest: String,
}

/// Digests of an object.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectRecord {
    /// Number of the object, relative to the first one of its group.
    pub(crate) relative_id: u32,
    descriptor_digest: String,
    pub(crate) object_digest: String,
}

impl SignedMetadata {
    /// Describes a file whose group has one object, the image.
    pub(super) fn of_partition(
        header: &SifHeader,
        partition: &SifDescriptor,
        image: &Arc<dyn ReadAt>,
        progress: &Progress,
    ) -> Result<Self> {
        let of_bytes = |bytes: &[u8]| digest_bytes(USUAL_NAME, bytes).unwrap_or_default();
        let object_digest = ObjectDigests::new(image, progress).of_range(USUAL_NAME, 0, image.len())?;
        let object = ObjectRecord {
            relative_id: 0,
            descriptor_digest: of_bytes(&partition.signed_bytes(0)),
            object_digest: object_digest.unwrap_or_default(),
        };
        let header = HeaderDigest { digest: of_bytes(&header.signed_bytes()) };
        Ok(SignedMetadata { version: METADATA_VERSION, header, objects: vec![object] })
    }

    /// Reads the document; `None` if it is not one of this version.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok().filter(|metadata: &SignedMetadata| metadata.version == METADATA_VERSION)
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        // A struct of strings and numbers always serialises.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns true if the header has the signed digest.
    pub(super) fn has_header(&self, header: &SifHeader) -> bool {
        is_digest_of(&self.header.digest, &header.signed_bytes())
    }

    /// Returns the digest of the first object without the name of its function.
    pub(super) fn first_object_digest(&self) -> &str {
        let digest = self.objects.first().and_then(|object| object.object_digest.split_once(':'));
        digest.map_or("", |(_, digits)| digits)
    }
}

impl ObjectRecord {
    /// Returns true if a descriptor has the signed digest.
    pub(crate) fn has_descriptor(&self, descriptor: &SifDescriptor) -> bool {
        is_digest_of(&self.descriptor_digest, &descriptor.signed_bytes(self.relative_id))
    }
}

/// Returns true if a digest, with the name of its function before it, is that of `bytes`.
fn is_digest_of(digest: &str, bytes: &[u8]) -> bool {
    digest_bytes(function_of(digest), bytes).is_some_and(|own| own.eq_ignore_ascii_case(digest))
}
