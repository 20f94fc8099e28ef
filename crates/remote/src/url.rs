//! Addresses of HTTP: split, cleaned for messages, joined with redirections.

use std::fmt::Write as _;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use packfs_blocks::percent::{self, is_unreserved};

/// An absolute `http` or `https` address. Its user and password have become a header.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HttpUrl {
    https: bool,
    /// Host, and the port unless it is the usual one of the scheme, as in the header `Host`, which signatures cover.
    authority: String,
    /// From the first `/` on, with the query.
    path: String,
    /// Value of the header `Authorization`.
    auth: Option<String>,
}

/// Prefixes of query parameters that prove a permission and change with every signature: those of Amazon S3,
/// CloudFront, Google Cloud Storage and Azure.
const SIGNATURES: [&str; 14] = [
    "x-amz-",
    "awsaccesskeyid=",
    "signature=",
    "expires=",
    "policy=",
    "key-pair-id=",
    "x-goog-",
    "sig=",
    "se=",
    "sp=",
    "sv=",
    "st=",
    "skt=",
    "ske=",
];

impl HttpUrl {
    /// Splits an address; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no scheme such as https://")?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("its scheme is neither http nor https".into()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        // At the last `@`, as a password may contain one.
        let (user, authority) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let authority = authority.to_ascii_lowercase();
        let usual_port = if https { ":443" } else { ":80" };
        let authority = authority.strip_suffix(usual_port).unwrap_or(&authority).to_owned();
        let url = HttpUrl { https, authority, path: encoded(&path), auth: user.map(basic) };
        url.check_authority()?;
        Ok(url)
    }

    fn check_authority(&self) -> Result<(), String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_[]:%".contains(c);
        if self.host().is_empty() || !self.authority.chars().all(allowed) {
            return Err("its host is missing or has characters that no host has".into());
        }
        match self.authority[self.host().len()..].strip_prefix(':') {
            Some(port) if port.parse::<u16>().is_err() => Err("its port is not a number up to 65535".into()),
            _ => Ok(()),
        }
    }

    /// Returns the address for a request; user and password are not in it.
    pub(crate) fn request(&self) -> String {
        format!("{}{}", self.origin(), self.path)
    }

    /// Returns scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", if self.https { "https" } else { "http" }, self.authority)
    }

    /// Returns the address without user, password and query, for messages.
    pub(crate) fn clean(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        format!("{}{path}", self.origin())
    }

    /// Returns the address as a name of the object: without the part of the query that proves a permission.
    pub(crate) fn identity(&self) -> String {
        let mut text = self.clean();
        let parameters = self.path.split_once('?').map_or("", |(_, query)| query).split('&');
        let signs = |one: &str| SIGNATURES.iter().any(|prefix| one.to_ascii_lowercase().starts_with(prefix));
        for one in parameters.filter(|one| !one.is_empty() && !signs(one)) {
            let _ = write!(text, "&{one}");
        }
        text
    }

    pub(crate) fn is_https(&self) -> bool {
        self.https
    }

    /// Returns host and port.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns path and query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the host alone, IPv6 addresses in brackets.
    pub(crate) fn host(&self) -> &str {
        let end = match self.authority.strip_prefix('[').and_then(|rest| rest.find(']')) {
            Some(close) => close + 2,
            None => self.authority.find(':').unwrap_or(self.authority.len()),
        };
        &self.authority[..end]
    }

    /// Returns the value of the header that user and password make.
    pub(crate) fn auth(&self) -> Option<&str> {
        self.auth.as_deref()
    }

    /// Returns the address that a redirection from here leads to. Credentials stay with their host.
    pub(crate) fn join(&self, location: &str) -> Result<Self, String> {
        let location = location.split('#').next().unwrap_or_default();
        let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let is_absolute = location.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme));
        let mut to = if is_absolute {
            HttpUrl::parse(location)?
        } else if let Some(rest) = location.strip_prefix("//") {
            HttpUrl::parse(&format!("{}://{rest}", if self.https { "https" } else { "http" }))?
        } else if location.starts_with('/') {
            HttpUrl { path: encoded(location), ..self.clone() }
        } else {
            let path = self.path.split('?').next().unwrap_or_default();
            let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
            // A query alone replaces only the query (RFC 3986, section 5.2.2).
            let base = if location.starts_with('?') { path } else { folder };
            HttpUrl { path: encoded(&format!("{base}{location}")), ..self.clone() }
        };
        if self.https && !to.https {
            return Err("from a secure address to one that is not".into());
        }
        to.auth = (to.origin() == self.origin()).then(|| self.auth.clone()).flatten();
        Ok(to)
    }
}

/// Never shows user, password or query.
impl std::fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.clean())
    }
}

/// Returns a text that names a remote object, without user, password and query.
pub(crate) fn cleaned(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", authority.rsplit_once('@').map_or(authority, |(_, host)| host))
}

/// Encodes all but unreserved characters (RFC 3986, section 2.3) and `/`, as signatures require it of a key.
pub(crate) fn component(text: &str) -> String {
    percent::encode(text.as_bytes(), |byte| is_unreserved(byte) || byte == b'/')
}

/// Returns a path with the bytes encoded that no request line may have.
fn encoded(path: &str) -> String {
    let is_allowed =
        |byte| matches!(byte, b'!' | b'#'..=b';' | b'=' | b'?'..=b'Z' | b'[' | b']' | b'_' | b'a'..=b'z' | b'~');
    percent::encode(path.as_bytes(), is_allowed)
}

/// Returns the header `Authorization` of user and password as in an address.
pub(crate) fn basic(user: &str) -> String {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let both = [&percent::decode(user.as_bytes())[..], b":", &percent::decode(password.as_bytes())].concat();
    format!("Basic {}", BASE64_STANDARD.encode(both))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split_and_cleaned() {
        let url = HttpUrl::parse("HTTPS://me:s%3acret@Host.example:8443/a b/ü?X-Amz-Signature=1&v=2#x").unwrap();
        assert_eq!(url.request(), "https://host.example:8443/a%20b/%C3%BC?X-Amz-Signature=1&v=2");
        assert_eq!(url.clean(), "https://host.example:8443/a%20b/%C3%BC");
        assert_eq!(url.identity(), "https://host.example:8443/a%20b/%C3%BC&v=2");
        assert_eq!(url.auth(), Some("Basic bWU6czpjcmV0"));
        assert_eq!(format!("{url:?}"), url.clean());
        assert_eq!(cleaned("s3://me:x@bucket/key?versionId=1"), "s3://bucket/key");
        assert_eq!(HttpUrl::parse("http://[::1]:80/x").unwrap().host(), "[::1]");
        for (address, authority) in [
            ("http://host:80/", "host"),
            ("https://host:443", "host"),
            ("http://host:443/", "host:443"),
            ("https://host:80/", "host:80"),
            ("https://[::1]:443/", "[::1]"),
            ("https://host:8443/", "host:8443"),
        ] {
            assert_eq!(HttpUrl::parse(address).unwrap().authority(), authority, "{address}");
        }
        for wrong in ["nothing", "ftp://host/x", "http:///x", "http://a b/x", "http://host:port/", "http://[::1/x"] {
            assert!(HttpUrl::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_object_is_the_same_whenever_its_address_was_signed() {
        for [one, other] in [
            ["X-Amz-Date=1&X-Amz-Signature=2", "X-Amz-Date=3&X-Amz-Signature=4"],
            ["X-Goog-Expires=1&X-Goog-Signature=2", "X-Goog-Expires=3&X-Goog-Signature=4"],
            ["Policy=a&Signature=b&Key-Pair-Id=c", "Policy=d&Signature=e&Key-Pair-Id=c"],
            ["sp=r&st=1&se=2&skt=1&ske=2&sv=3&sig=4", "sp=r&st=5&se=6&skt=5&ske=6&sv=3&sig=7"],
        ] {
            let identity = |query: &str| HttpUrl::parse(&format!("https://host/x?v=1&{query}")).unwrap().identity();
            assert_eq!(identity(one), identity(other));
            assert_eq!(identity(one), "https://host/x&v=1");
        }
    }

    #[test]
    fn credentials_stay_with_their_host() {
        let from = HttpUrl::parse("https://me:x@host/a/b?q").unwrap();
        for (location, to, keeps) in [
            ("/c", "https://host/c", true),
            ("c?d", "https://host/a/c?d", true),
            ("?d", "https://host/a/b?d", true),
            ("c?from=https://x/y", "https://host/a/c?from=https://x/y", true),
            ("https://host:443/c", "https://host/c", true),
            ("https://host/c", "https://host/c", true),
            ("//other/c", "https://other/c", false),
            ("https://host:444/c", "https://host:444/c", false),
            ("https://user:pass@other/", "https://other/", false),
        ] {
            let joined = from.join(location).unwrap();
            assert_eq!((joined.request().as_str(), joined.auth().is_some()), (to, keeps), "{location}");
        }
        assert!(from.join("http://host/c").unwrap_err().contains("secure"));
    }
}
