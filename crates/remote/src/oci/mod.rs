//! Images in registries: `oci://registry/name:tag` or `oci://registry/name@sha256:...`.
//!
//! The protocol is that of the OCI distribution specification, version 1.1: a manifest names the layers, each layer is a
//! blob with a digest, and blobs are read by ranges. Registries lead to their store by redirections, and ask for a token
//! that another server gives.

mod access;
mod manifest;
mod reference;
mod repository;
mod session;

use std::fmt;
use std::sync::{Arc, OnceLock};

use ureq::http::HeaderMap;

use self::manifest::BlobDescriptor;
pub use self::repository::{Manifest, Repository};
use self::session::RepositorySession;
use crate::error::FailureReason;
use crate::http::{AttemptFailure, HttpClient};
use crate::origin::{ObjectOrigin, OriginRequest};

/// A layer of an artifact in a registry.
pub(crate) struct RegistryArtifact {
    session: Arc<RepositorySession>,
    /// The layer, once the manifest was read.
    blob: OnceLock<BlobDescriptor>,
}

/// Never shows credentials.
impl fmt::Debug for RegistryArtifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl RegistryArtifact {
    /// Splits an address. `variable` looks up the environment.
    pub(crate) fn new(address: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, FailureReason> {
        Ok(RegistryArtifact { session: Arc::new(RepositorySession::new(address, variable)?), blob: OnceLock::new() })
    }

    /// A blob whose digest and length are known.
    fn of_blob(session: Arc<RepositorySession>, blob: BlobDescriptor) -> Self {
        RegistryArtifact { session, blob: blob.into() }
    }

    /// Reads a manifest; `None` if there is none. `may_be_blob` says that the digest may be that of a blob.
    fn document(
        &self,
        client: &HttpClient,
        which: &str,
        may_be_blob: bool,
    ) -> Result<Option<serde_json::Value>, AttemptFailure> {
        let Some(found) = self.session.manifest(client, which, may_be_blob)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&found.bytes);
        Ok(Some(parsed.map_err(|why| FailureReason::Artifact(format!("its manifest cannot be read: {why}")))?))
    }

    /// Finds the layer: that of the manifest, the manifest for this machine in a list of them, or the blob itself.
    fn find(&self, client: &HttpClient) -> Result<BlobDescriptor, AttemptFailure> {
        let reference = self.session.reference();
        let Some(mut document) = self.document(client, &reference.which(), reference.digest().is_some())? else {
            // The digest is that of a blob.
            return match reference.digest() {
                Some(digest) => Ok(BlobDescriptor { digest: digest.to_owned(), len: None }),
                None => Err(AttemptFailure::Final(FailureReason::Status { status: 404, tries: 1 })),
            };
        };
        if let Some(digest) = manifest::find_this_machine(&document)? {
            let found = self.document(client, &digest, false)?;
            document =
                found.ok_or_else(|| FailureReason::Artifact("its list names a manifest that is not there".into()))?;
        }
        Ok(manifest::image_layer(&document)?)
    }
}

impl ObjectOrigin for RegistryArtifact {
    fn name(&self) -> String {
        self.session.name()
    }

    fn identity(&self) -> String {
        format!("{} {}", self.session.reference().registry, self.session.reference().repository)
    }

    fn digest(&self) -> Option<String> {
        self.blob.get().map(|blob| blob.digest.clone())
    }

    fn len(&self) -> Option<u64> {
        self.blob.get()?.len
    }

    fn prepare(&self, client: &HttpClient) -> Result<(), AttemptFailure> {
        if self.blob.get().is_some() {
            return Ok(());
        }
        let blob = self.find(client)?;
        self.blob.get_or_init(|| blob);
        Ok(())
    }

    fn request(&self) -> Result<OriginRequest, FailureReason> {
        let digest = self.digest().unwrap_or_default();
        let headers = self.session.access().map(|access| ("Authorization", access)).into_iter().collect();
        Ok(OriginRequest { url: self.session.url("blobs", &digest)?, headers })
    }

    /// A token is valid for minutes.
    fn renew(
        &self,
        client: &HttpClient,
        sent: &OriginRequest,
        status: u16,
        headers: &HeaderMap,
    ) -> Result<bool, AttemptFailure> {
        if status == 401 { self.session.authorise(client, sent.header("Authorization"), headers) } else { Ok(false) }
    }
}
