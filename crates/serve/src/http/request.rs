//! The head of a request.

use super::url;

/// Longest head in bytes: room for a long path and cookies, and a bound on what a connection holds.
pub(crate) const HEAD_MAX: usize = 16 << 10;
/// Number of headers at most.
const HEADERS_MAX: usize = 64;

/// A request without a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    /// How its response is to be sent.
    pub(crate) mode: SendMode,
    /// The path as it was sent.
    pub(crate) raw_path: String,
    /// Components of the path, decoded.
    pub(crate) path: Vec<Vec<u8>>,
    /// The query, as it was sent.
    query: String,
    /// The host that it was sent to.
    pub(crate) host: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
}

/// Properties of a request that decide how its response is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendMode {
    /// Only the head of the response is wanted.
    pub(crate) head_only: bool,
    /// The client takes more than one response, and chunked ones.
    pub(crate) is_1_1: bool,
    /// The client wants to use the connection again.
    pub(crate) keep: bool,
}

/// Status and reason for a request that is not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestRefusal(pub(crate) u16, pub(crate) &'static str);

impl HttpRequest {
    /// Parses the head at the beginning of `bytes` and returns it with its length; `None` if its end is missing.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(HttpRequest, usize)>, RequestRefusal> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut headers);
        let len = match head.parse(bytes) {
            Ok(httparse::Status::Complete(len)) if len <= HEAD_MAX => len,
            // An incomplete head may still grow, but not beyond the limit.
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
            Ok(_) => return Err(RequestRefusal(431, "the head of the request is too long")),
            Err(httparse::Error::TooManyHeaders) => return Err(RequestRefusal(431, "too many headers")),
            Err(httparse::Error::Version) => {
                return Err(RequestRefusal(505, "only HTTP/1.1 and HTTP/1.0 are spoken here"));
            }
            Err(_) => return Err(RequestRefusal(400, "not a request")),
        };
        let headers = head.headers.iter().map(|header| (header.name.to_ascii_lowercase(), header.value.to_vec()));
        let method = head.method.unwrap_or_default();
        let target = head.path.unwrap_or_default();
        let request = HttpRequest::new(method, target, head.version == Some(1), headers.collect())?;
        Ok(Some((request, len)))
    }

    fn new(
        method: &str,
        target: &str,
        is_1_1: bool,
        headers: Vec<(String, Vec<u8>)>,
    ) -> Result<HttpRequest, RequestRefusal> {
        let head_only = match method {
            "GET" => false,
            "HEAD" => true,
            _ => return Err(RequestRefusal(405, "only GET and HEAD are answered")),
        };
        // A target with a scheme, as proxies get it, names the host itself.
        let (authority, target) = match target.strip_prefix("http://") {
            Some(rest) => rest.find(['/', '?']).map_or((Some(rest), "/"), |at| (Some(&rest[..at]), &rest[at..])),
            None => (None, target),
        };
        let (raw_path, query) = target.split_once('?').unwrap_or((target, ""));
        // A target with a host and no path means `/`.
        let starts = raw_path.starts_with('/') || (authority.is_some() && raw_path.is_empty());
        // A fragment never leaves a browser; a client that sends one means something else.
        let path = url::components(raw_path.as_bytes()).filter(|_| starts && !target.contains('#'));
        let mut request = HttpRequest {
            mode: SendMode { head_only, is_1_1, keep: is_1_1 },
            raw_path: raw_path.into(),
            path: path.ok_or(RequestRefusal(400, "not a path"))?,
            query: query.into(),
            host: authority.map(str::to_owned),
            headers,
        };
        request.take_headers()?;
        Ok(request)
    }

    /// Looks at the headers that concern the connection.
    fn take_headers(&mut self) -> Result<(), RequestRefusal> {
        // A body would be read as the next request (request smuggling), so the connection ends here. Every header counts:
        // of two lengths, a proxy may have believed the other one.
        let mut lengths = self.headers.iter().filter(|(name, _)| name == "content-length");
        if self.header("transfer-encoding").is_some() || lengths.any(|(_, length)| length != b"0") {
            return Err(RequestRefusal(413, "requests have no body here"));
        }
        let mut hosts = self.headers.iter().filter(|(name, _)| name == "host");
        let host = match (hosts.next(), hosts.next()) {
            (Some((_, host)), None) => match String::from_utf8(host.clone()) {
                Ok(host) => Some(host),
                // Without a name, the request would count as one of HTTP/1.0, which is not checked.
                Err(_) => return Err(RequestRefusal(400, "the Host is not a name")),
            },
            (None, None) if !self.mode.is_1_1 => None,
            // Two hosts, of which a proxy may have checked the other one, are refused (RFC 9112, section 3.2).
            _ => return Err(RequestRefusal(400, "exactly one Host is needed")),
        };
        self.host = self.host.take().or(host);
        let options = self.header("connection").map(String::from_utf8_lossy).unwrap_or_default();
        // `keep-alive` of HTTP/1.0 is not honoured: such clients get one response.
        self.mode.keep &= !options.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"));
        Ok(())
    }

    /// Returns the first header of a name, which is given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    /// Returns the decoded value of a parameter, empty if it has none; `None` if it is not there or badly encoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<Vec<u8>> {
        let (_, value) = self.parameters().find(|(found, _)| *found == name)?;
        url::decode(value.as_bytes())
    }

    /// Returns the query without a parameter.
    pub(crate) fn query_without(&self, name: &str) -> String {
        let rest = self.query.split('&').filter(|one| one.split('=').next() != Some(name));
        rest.filter(|one| !one.is_empty()).collect::<Vec<_>>().join("&")
    }

    fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.query.split('&').map(|one| one.split_once('=').unwrap_or((one, "")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Result<Option<(HttpRequest, usize)>, RequestRefusal> {
        HttpRequest::parse(head.replace('\n', "\r\n").as_bytes())
    }

    #[test]
    fn heads_are_taken_apart() {
        let (request, len) =
            parse("GET /a%20b/?x=1&token=a%2Bb&y HTTP/1.1\nHOST: h:1\nRange: r\n\nGET").unwrap().unwrap();
        assert_eq!((request.mode.head_only, request.mode.keep, len), (false, true, 63));
        assert_eq!((request.path.as_slice(), request.host.as_deref()), (&[b"a b".to_vec()][..], Some("h:1")));
        assert_eq!(request.header("range"), Some(&b"r"[..]));
        assert_eq!(request.parameter("token").as_deref(), Some(&b"a+b"[..]));
        assert_eq!((request.parameter("y"), request.parameter("z")), (Some(Vec::new()), None));
        assert_eq!(request.query_without("token"), "x=1&y");
        let (request, _) = parse("HEAD http://other:9 HTTP/1.1\nHost: h\nConnection: x, Close\n\n").unwrap().unwrap();
        assert_eq!(
            (request.mode.head_only, request.mode.keep, request.host.as_deref()),
            (true, false, Some("other:9"))
        );
        let (request, _) = parse("GET / HTTP/1.0\n\n").unwrap().unwrap();
        assert_eq!((request.mode.is_1_1, request.mode.keep, request.host), (false, false, None));
        assert_eq!(parse("GET / HTTP/1.1\nHost: h\n"), Ok(None));
        assert_eq!(parse(""), Ok(None));
    }

    #[test]
    fn what_is_not_answered_is_refused_with_its_status() {
        let long = format!("GET / HTTP/1.1\nHost: h\nA: {}\n\n", "x".repeat(HEAD_MAX));
        let endless = "GET / HTTP/1.1\nA: ".to_owned() + &"x".repeat(HEAD_MAX);
        let many = format!("GET / HTTP/1.1\nHost: h\n{}\n", "A: b\n".repeat(64));
        let cases = [
            (&*long, 431),
            (&*endless, 431),
            (&*many, 431),
            ("DELETE / HTTP/1.1\nHost: h\n\n", 405),
            ("get / HTTP/1.1\nHost: h\n\n", 405),
            ("GET / HTTP/2.0\nHost: h\n\n", 505),
            ("GET / HTTP/1.1\n\n", 400),
            ("GET / HTTP/1.1\nHost: a\nHost: a\n\n", 400),
            ("GET /../x HTTP/1.1\nHost: h\n\n", 400),
            ("GET x HTTP/1.1\nHost: h\n\n", 400),
            ("GET /x#y HTTP/1.1\nHost: h\n\n", 400),
            ("GET * HTTP/1.1\nHost: h\n\n", 400),
            ("GET / HTTP/1.1\nHost : h\n\n", 400),
            ("GET / HTTP/1.1\nHost: h\nContent-Length: 3\n\n", 413),
            ("GET / HTTP/1.1\nHost: h\nContent-Length: 0\nContent-Length: 3\n\nabc", 413),
            ("GET / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n", 413),
            ("\u{16}\u{3}\u{1}\n\n", 400),
        ];
        for (head, status) in cases {
            let refused = parse(head).map(|found| found.is_some());
            assert_eq!(refused.map_err(|RequestRefusal(status, _)| status), Err(status), "{head}");
        }
        let refused = HttpRequest::parse(b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n").map(|_| ());
        assert_eq!(refused.map_err(|RequestRefusal(status, _)| status), Err(400));
    }
}
