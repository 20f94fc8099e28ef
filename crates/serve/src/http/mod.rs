//! The part of HTTP/1.1 (RFC 9110 and 9112) that a server of files needs: GET and HEAD without bodies, ranges,
//! conditions, persistent connections. It knows nothing about images.

pub(crate) mod condition;
pub(crate) mod date;
pub(crate) mod range;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod url;
