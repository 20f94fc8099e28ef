//! The origin of an object: the request for it, and credentials that can be renewed.

use std::fmt;

use ureq::http::HeaderMap;

use crate::error::FailureReason;
use crate::http::{AttemptFailure, HttpClient};
use crate::url::HttpUrl;

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
