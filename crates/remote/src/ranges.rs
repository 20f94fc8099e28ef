//! `RangeFetcher`: ranges of an object exactly as they are asked for, for callers that need each byte once.
//!
//! [`RemoteObject`](crate::RemoteObject) reads units of 64 KiB, which serve what is read next as well. Here each further
//! byte would be wasted, so there are no units, no cache and no reading ahead.

use std::ops::Range;

use crate::RemoteOptions;
use crate::error::{Error, FailureReason, Result};
use crate::object::{OpenedObject, VersionedObject};
use crate::origin;
use crate::url::{HttpUrl, cleaned};

/// An object whose ranges are fetched, by any number of threads.
///
/// As for [`RemoteObject`](crate::RemoteObject), failures that may pass are repeated, and every answer is checked to be of
/// the version that was opened.
#[derive(Debug)]
pub struct RangeFetcher {
    object: VersionedObject,
    /// All of an object that came when it was opened, because the server does not answer ranges or the object is a byte.
    whole: Option<Vec<u8>>,
}

impl RangeFetcher {
    /// Opens the object at an address, of the kinds that [`RemoteObject::open`](crate::RemoteObject::open) takes. Of the
    /// options, those about memory and the cache do not matter.
    ///
    /// If the server does not answer ranges, an object of up to 4 MiB is fetched as a whole here.
    pub fn open(address: &str, options: &RemoteOptions) -> Result<Self> {
        // One byte shows length and version, and that ranges are answered.
        let OpenedObject { object, bytes } = VersionedObject::open(origin::of_address(address)?, options, 1, 0)?;
        let whole = bytes.into_iter().map(|(_, bytes)| bytes).find(|bytes| bytes.len() as u64 == object.len());
        Ok(RangeFetcher { object, whole })
    }

    /// Returns the address as it may be shown.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// Returns the length of the object in bytes.
    pub fn len(&self) -> u64 {
        self.object.len()
    }

    /// Returns true if the object has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of requests so far, that of opening and repeated ones included.
    pub fn requests(&self) -> u64 {
        self.object.requests()
    }

    /// Fetches a range within the object and passes its bytes on in order. After an error some of them may have been passed
    /// on.
    ///
    /// # Panics
    /// If the range is empty or ends after the object.
    pub fn fetch(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        assert!(range.start < range.end && range.end <= self.len(), "a range outside of the object");
        let Some(whole) = &self.whole else { return self.object.fetch(&range, take) };
        // It is in memory, so its length fits.
        let start = usize::try_from(range.start).unwrap_or(usize::MAX);
        let end = usize::try_from(range.end).unwrap_or(usize::MAX);
        take(&whole[start..end]);
        Ok(())
    }
}

/// Returns the address that `location` means in a document at `address`: `location` itself if it is an address of HTTP,
/// otherwise the one beside the document. User and password go along to the same server only, and credentials of the
/// environment nowhere: a document must not decide that they are used.
pub fn join_address(address: &str, location: &str) -> Result<String> {
    let wrong = |why: String| Error::new(&cleaned(address), FailureReason::Address(why));
    let (scheme, rest) = address.split_once("://").ok_or_else(|| wrong("it has no scheme such as https://".into()))?;
    let is_http = |text: &str| HttpUrl::parse(text).is_ok();
    if location.contains("://") && !is_http(location) {
        return Err(wrong("it refers to an address that is neither http nor https".into()));
    }
    if !scheme.to_ascii_lowercase().starts_with("http") {
        // Keys of buckets and names in registries have no folders that `..` could leave.
        let folder = &address[..address.rfind('/').map_or(0, |at| at + 1)];
        return Ok(if is_http(location) { location.to_owned() } else { format!("{folder}{location}") });
    }
    let joined = HttpUrl::parse(address).and_then(|base| base.join(location)).map_err(wrong)?;
    let request = joined.request();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user).filter(|_| joined.auth().is_some());
    Ok(match (user, request.split_once("://")) {
        (Some(user), Some((scheme, rest))) => format!("{scheme}://{user}@{rest}"),
        _ => request,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_absolute_or_beside_the_document() {
        let cases = [
            ("https://a.example/x/1.zsync", "1.img", "https://a.example/x/1.img"),
            ("https://a.example/x/1.zsync?signed=1", "y/1.img", "https://a.example/x/y/1.img"),
            ("https://a.example/x/1.zsync", "/1.img", "https://a.example/1.img"),
            ("https://me:secret@a.example/x/1.zsync", "1.img", "https://me:secret@a.example/x/1.img"),
            ("https://me:secret@a.example/x/1.zsync", "https://b.example/1", "https://b.example/1"),
            ("s3://bucket/x/1.zsync", "1.img", "s3://bucket/x/1.img"),
            ("s3://bucket/x/1.zsync", "https://b.example/1", "https://b.example/1"),
        ];
        for (address, location, expected) in cases {
            assert_eq!(join_address(address, location).unwrap(), expected, "{address} {location}");
        }
        for location in ["s3://bucket/1.img", "file:///etc/passwd"] {
            let told = join_address("https://a.example/1.zsync", location).unwrap_err().to_string();
            assert!(told.contains("neither http nor https"), "{told}");
        }
        let told = join_address("https://a.example/1.zsync", "http://a.example/1").unwrap_err().to_string();
        assert!(told.contains("from a secure address to one that is not"), "{told}");
    }
}
