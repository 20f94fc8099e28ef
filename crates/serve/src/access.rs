//! Access control: refuses requests that name another host, and, if there is a token, those without it.
//!
//! A page from elsewhere can make a browser ask a server on the same machine, under a name that its owner lets point
//! there (DNS rebinding). Such a request has the foreign name in its `Host`.

use std::net::{IpAddr, SocketAddr};

use crate::http::request::{HttpRequest, RequestRefusal};
use crate::http::response::HttpResponse;

/// Names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Parameter and cookie with the token. A link can carry the parameter, which is how a browser gets the cookie.
const TOKEN: &str = "token";

/// Rules of a server.
#[derive(Debug)]
pub(crate) struct AccessRules {
    /// The names that requests may be sent to; `None` for any.
    names: Option<Vec<String>>,
    token: Option<String>,
    /// Cookies belong to a host, whatever the port; so the port is in the name.
    cookie: String,
}

impl AccessRules {
    /// Makes the rules of a server that listens on `address`, called `name` on its command line.
    pub(crate) fn new(address: SocketAddr, name: Option<&str>, token: Option<String>) -> Self {
        let own = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let names = LOOPBACK.into_iter().chain(name).map(str::to_ascii_lowercase).chain([own]);
        // An address that others can reach may have any name; there the token decides.
        let names = address.ip().is_loopback().then(|| names.collect());
        AccessRules { names, token, cookie: format!("packfs-{TOKEN}-{}", address.port()) }
    }

    /// Checks a request; returns the answer if it does not get any other.
    pub(crate) fn check(&self, request: &HttpRequest) -> Result<(), HttpResponse> {
        // HTTP/1.0 has no `Host`, and no browser sends it.
        if let (Some(names), Some(host)) = (&self.names, &request.host)
            // Without the port: behind a forwarded port, a browser sends that of the other end.
            && !names.contains(&without_port(host).to_ascii_lowercase())
        {
            return Err(RequestRefusal(421, "this server does not have that name").into());
        }
        let Some(token) = &self.token else { return Ok(()) };
        // First, as it is how a browser gets the cookie.
        if request.parameter(TOKEN).is_some_and(|sent| equal_in_constant_time(&sent, token)) {
            return Err(self.remember(request, token));
        }
        // The header counts more: a browser adds the cookie by itself.
        let sent = request.header("authorization").and_then(bearer_token);
        if sent.or_else(|| self.token_cookie(request)).is_some_and(|sent| equal_in_constant_time(sent, token)) {
            return Ok(());
        }
        let refused: HttpResponse =
            RequestRefusal(401, "the token is missing or wrong; send it as a bearer, or open ?token=...").into();
        Err(refused.with("WWW-Authenticate", "Bearer"))
    }

    /// Makes the browser keep the token, and ask again without it, so that it is in no history and no link.
    fn remember(&self, request: &HttpRequest, token: &str) -> HttpResponse {
        let path = &request.raw_path;
        let query = request.query_without(TOKEN);
        // Two slashes at the beginning would name another host.
        let path = path.trim_start_matches('/');
        let place = if query.is_empty() { format!("/{path}") } else { format!("/{path}?{query}") };
        // HttpOnly keeps it from scripts of served files; Lax sends it with links from elsewhere, but not with their
        // requests.
        let cookie = format!("{}={token}; HttpOnly; SameSite=Lax; Path=/", self.cookie);
        let moved = HttpResponse::new(303, "text/plain; charset=utf-8", "").with("Location", place);
        moved.with("Set-Cookie", cookie).with("Cache-Control", "no-store")
    }

    fn token_cookie<'r>(&self, request: &'r HttpRequest) -> Option<&'r [u8]> {
        let mut cookies = request.header("cookie")?.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        // The equals sign belongs to it: a longer name may begin in the same way.
        cookies.find_map(|one| one.strip_prefix(self.cookie.as_bytes())?.strip_prefix(b"="))
    }
}

/// Returns the token in a header `Authorization`. Names of schemes have no case (RFC 9110, section 11.1).
fn bearer_token(header: &[u8]) -> Option<&[u8]> {
    let header = header.trim_ascii();
    let (scheme, token) = header.split_at(header.iter().position(|byte| *byte == b' ')?);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        // An IPv6 address has colons of its own, within brackets.
        _ => host,
    }
}

/// Compares in a time that does not depend on where the two differ.
fn equal_in_constant_time(sent: &[u8], token: &str) -> bool {
    let differences = sent.iter().zip(token.as_bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    // The lengths may be told: only the bytes of the token are secret. black_box keeps the loop from being cut short.
    sent.len() == token.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(access: &AccessRules, target: &str, headers: &str) -> u16 {
        let head = format!("GET {target} HTTP/1.1\r\n{headers}\r\n\r\n");
        let (request, _) = HttpRequest::parse(head.as_bytes()).unwrap().unwrap();
        access.check(&request).map_or_else(|response| response.status, |()| 200)
    }

    #[test]
    fn only_the_names_of_the_server_are_answered_on_loopback() {
        let access = AccessRules::new("127.0.0.2:80".parse().unwrap(), Some("Box.local"), None);
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8", "[::1]", "127.0.0.2", "box.local:80"] {
            assert_eq!(status(&access, "/", &format!("Host: {host}")), 200, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::2]", "localhost:x"]
        {
            assert_eq!(status(&access, "/", &format!("Host: {host}")), 421, "{host}");
        }
        assert_eq!(status(&access, "http://evil.example/", "Host: localhost"), 421);
        let open = AccessRules::new("0.0.0.0:80".parse().unwrap(), None, None);
        assert_eq!(status(&open, "/", "Host: any.example"), 200);
    }

    #[test]
    fn a_token_is_taken_from_three_places_and_leaves_the_address() {
        let access = AccessRules::new("0.0.0.0:80".parse().unwrap(), None, Some("secret".into()));
        let cases = [
            ("/", "Authorization: Bearer secret", 200),
            ("/", "Authorization: bearer secret", 200),
            ("/", "Authorization: BEARER  secret ", 200),
            ("/", "Authorization: Bearersecret", 401),
            ("/", "Authorization: Bearer", 401),
            ("/", "Cookie: a=b; packfs-token-80=secret", 200),
            ("/?token=secret", "A: b", 303),
            ("/?token=secre%74", "A: b", 303),
            ("/", "A: b", 401),
            ("/", "Authorization: Bearer secrex", 401),
            ("/", "Authorization: Bearer secret2", 401),
            ("/", "Authorization: Basic secret", 401),
            ("/", "Cookie: packfs-token-81=secret", 401),
            ("/?token=", "A: b", 401),
            ("/?token", "A: b", 401),
        ];
        for (target, header, expected) in cases {
            assert_eq!(status(&access, target, &format!("Host: h\r\n{header}")), expected, "{target} {header}");
        }
        let head = b"GET //x/y?a=1&token=secret HTTP/1.1\r\nHost: h\r\n\r\n";
        let (request, _) = HttpRequest::parse(head).unwrap().unwrap();
        assert!(format!("{:?}", access.check(&request).unwrap_err()).contains("\"/x/y?a=1\""));
    }
}
