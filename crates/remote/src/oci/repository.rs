//! A repository of a registry, whose manifests and blobs are read and written by their digests.

use std::io::{self, Read};
use std::sync::Arc;

use ureq::http::Method;

use super::RegistryArtifact;
use super::manifest::BlobDescriptor;
use super::session::RepositorySession;
use crate::RemoteOptions;
use crate::error::{Error, FailureReason, Result};
use crate::http::{AttemptFailure, HttpClient, RequestBody, header_text};
use crate::reader::RemoteObject;
use crate::retry::RetryPolicy;
use crate::url::cleaned;

/// A repository of a registry, and the tag or digest in its address. Nothing is requested until something is read.
#[derive(Debug)]
pub struct Repository {
    session: Arc<RepositorySession>,
    client: HttpClient,
    retry: RetryPolicy,
    options: RemoteOptions,
}

/// A manifest or index, as the registry has it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Manifest {
    /// Media type.
    pub media_type: String,
    /// The document.
    pub bytes: Vec<u8>,
}

impl Repository {
    /// Parses `oci://REGISTRY/NAME:TAG` or `oci://REGISTRY/NAME@DIGEST`. A login comes from the address, or from the
    /// files that docker, podman and skopeo write.
    ///
    /// # Errors
    /// [`FailureReason::Address`] if it is no such address.
    pub fn new(address: &str, options: &RemoteOptions) -> Result<Self> {
        let session = RepositorySession::new(address, |name| std::env::var(name).ok());
        let session = session.map_err(|why| Error::new(&cleaned(address), why))?;
        let retry = RetryPolicy::new(session.name(), options);
        Ok(Repository { session: Arc::new(session), client: HttpClient::new(options), retry, options: options.clone() })
    }

    /// Address without user and password.
    pub fn name(&self) -> &str {
        self.retry.name()
    }

    /// Tag or digest in the address; `latest` if there is neither.
    pub fn reference(&self) -> String {
        self.session.reference().which()
    }

    /// Tag in the address; `None` if it has a digest.
    pub fn tag(&self) -> Option<String> {
        self.session.reference().digest().is_none().then(|| self.reference())
    }

    /// Reads the manifest with a tag or digest; `None` if there is none. A manifest that is named by its digest was
    /// compared with it.
    pub fn manifest(&self, reference: &str) -> Result<Option<Manifest>> {
        self.retry.repeat(|| self.session.manifest(&self.client, reference, false))
    }

    /// Opens a blob of `len` bytes, to be read at any offset. Its bytes are not compared with the digest.
    pub fn blob(&self, digest: &str, len: u64) -> Result<RemoteObject> {
        let blob = BlobDescriptor { digest: digest.to_owned(), len: Some(len) };
        RemoteObject::from_origin(Box::new(RegistryArtifact::of_blob(Arc::clone(&self.session), blob)), &self.options)
    }

    /// Returns true if the repository has a blob.
    pub fn has_blob(&self, digest: &str) -> Result<bool> {
        self.retry.repeat(|| {
            let url = self.session.url("blobs", digest)?;
            let response = self.session.send(&self.client, &Method::HEAD, &url, &[], &RequestBody::None)?;
            match response.status().as_u16() {
                // Registries redirect only to blobs that they have.
                200 | 301 | 302 | 303 | 307 | 308 => Ok(true),
                404 => Ok(false),
                status => Err(AttemptFailure::of_status(status, response.headers())),
            }
        })
    }

    /// Adds a blob of `len` bytes. `open` returns its bytes from the beginning, again for each attempt.
    pub fn push_blob(&self, digest: &str, len: u64, open: &dyn Fn() -> io::Result<Box<dyn Read>>) -> Result<()> {
        self.retry.repeat(|| {
            let begin = self.session.url("blobs", "uploads/")?;
            let begun = self.session.send(&self.client, &Method::POST, &begin, &[], &RequestBody::Bytes(&[]))?;
            if begun.status() != 202 {
                return Err(AttemptFailure::of_status(begun.status().as_u16(), begun.headers()));
            }
            let no_address = || FailureReason::Contradiction("it begins an upload and names no address for it".into());
            let to = header_text(begun.headers(), "location").ok_or_else(no_address)?;
            // Registries keep the state of an upload in the query, to which the digest is added.
            let mark = if to.contains('?') { '&' } else { '?' };
            let to = begin.join(&format!("{to}{mark}digest={digest}")).map_err(FailureReason::Redirect)?;
            let headers = [("Content-Type", "application/octet-stream".to_owned())];
            let stored =
                self.session.send(&self.client, &Method::PUT, &to, &headers, &RequestBody::Stream { open, len })?;
            match stored.status().as_u16() {
                200..=299 => Ok(()),
                status => Err(AttemptFailure::of_status(status, stored.headers())),
            }
        })
    }

    /// Adds a manifest or index under a tag or its digest.
    pub fn push_manifest(&self, reference: &str, media_type: &str, bytes: &[u8]) -> Result<()> {
        self.retry.repeat(|| {
            let url = self.session.url("manifests", reference)?;
            let headers = [("Content-Type", media_type.to_owned())];
            let stored = self.session.send(&self.client, &Method::PUT, &url, &headers, &RequestBody::Bytes(bytes))?;
            match stored.status().as_u16() {
                200..=299 => Ok(()),
                status => Err(AttemptFailure::of_status(status, stored.headers())),
            }
        })
    }
}
