//! The origin of an object: the request for it, and credentials that can be renewed.

use std::fmt;

use ureq::http::HeaderMap;

use crate::error::{Error, FailureReason};
use crate::http::{AttemptFailure, HttpClient};
use crate::is_address;
use crate::oci::RegistryArtifact;
use crate::s3::BucketObject;
use crate::url::{HttpUrl, cleaned};

/// A way to request one object.
pub(crate) trait ObjectOrigin: Send + Sync + fmt::Debug {
    /// Returns the name for messages: no query, no user.
    fn name(&self) -> String;

    /// Returns a text that names the object in the cache, before its version.
    fn identity(&self) -> String;

    /// Returns the digest of the object if its address says it.
    fn digest(&self) -> Option<String> {
        None
    }

    /// Returns the length of the object if it is known before it is read.
    fn len(&self) -> Option<u64> {
        None
    }

    /// Finds out what requests need to know. Called before any other request, again if it failed and that may pass.
    fn prepare(&self, _: &HttpClient) -> Result<(), AttemptFailure> {
        Ok(())
    }

    /// Returns address and headers of a request.
    fn request(&self) -> Result<OriginRequest, FailureReason>;

    /// Reacts to a refusal of a request; returns true if it should be repeated. Several threads may be refused at once.
    fn renew(&self, _: &HttpClient, _: &OriginRequest, _status: u16, _: &HeaderMap) -> Result<bool, AttemptFailure> {
        Ok(false)
    }
}

/// Address and headers of a request.
pub(crate) struct OriginRequest {
    pub(crate) url: HttpUrl,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// A plain address.
#[derive(Debug)]
pub(crate) struct PlainAddress(pub(crate) HttpUrl);

impl OriginRequest {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| &**value)
    }
}

impl ObjectOrigin for PlainAddress {
    fn name(&self) -> String {
        self.0.clean()
    }

    fn identity(&self) -> String {
        self.0.identity()
    }

    fn request(&self) -> Result<OriginRequest, FailureReason> {
        Ok(OriginRequest { url: self.0.clone(), headers: Vec::new() })
    }
}

/// Returns the origin of the object at an address.
pub(crate) fn of_address(address: &str) -> crate::Result<Box<dyn ObjectOrigin>> {
    let wrong = |why: String| Error::new(&cleaned(address), FailureReason::Address(why));
    if !is_address(address) {
        return Err(wrong("its scheme is not supported".into()));
    }
    Ok(match address.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("s3") => {
            let bucket = BucketObject::new(address, |name| std::env::var(name).ok());
            Box::new(bucket.map_err(|why| Error::new(&cleaned(address), why))?)
        }
        Some((scheme, _)) if scheme.len() >= 3 && scheme[..3].eq_ignore_ascii_case("oci") => {
            let artifact = RegistryArtifact::new(address, |name| std::env::var(name).ok());
            Box::new(artifact.map_err(|why| Error::new(&cleaned(address), why))?)
        }
        _ => Box::new(PlainAddress(HttpUrl::parse(address).map_err(wrong)?)),
    })
}
