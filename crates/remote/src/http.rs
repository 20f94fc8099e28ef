//! The HTTP client: agents by way of connection, one request at a time, and what a failure means.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use packfs_blocks::mutex;
use ureq::http::{HeaderMap, Method, Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body, Proxy, SendBody};

use crate::RemoteOptions;
use crate::error::{FailureReason, status_name};
use crate::progress::ProgressRule;
use crate::proxy;
use crate::url::HttpUrl;

/// Number of connections to a host that are kept for the next requests: as many as a reader has requests at a time.
const KEPT: usize = 16;
/// Time after which an unused connection is not trusted to be open any more.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Time that a server may take to store what it was sent, before it answers: some copy large blobs to another store.
const STORING: Duration = Duration::from_secs(300);

/// The body of a request.
pub(crate) enum RequestBody<'b> {
    None,
    Bytes(&'b [u8]),
    /// `len` bytes of a reader.
    Stream {
        open: &'b dyn Fn() -> io::Result<Box<dyn io::Read>>,
        len: u64,
    },
}

/// Agents that share nothing but the options: one for each proxy, and for secure and other addresses.
pub(crate) struct HttpClient {
    agents: Mutex<HashMap<(bool, Option<String>), Agent>>,
    connect: Duration,
    idle: Duration,
    /// Least rate of the bodies of answers.
    pub(crate) progress: ProgressRule,
    /// Number of GET requests so far.
    requests: AtomicU64,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// A failed attempt.
#[derive(Debug)]
pub(crate) enum AttemptFailure {
    /// It may succeed if repeated, not earlier than after the time the server asks for.
    Passing { why: PassingReason, after: Option<Duration> },
    /// It will not succeed.
    Final(FailureReason),
}

/// The reason of a failure that may pass.
#[derive(Debug)]
pub(crate) enum PassingReason {
    Network(String),
    Status(u16),
}

impl PassingReason {
    /// Returns the reason to report once `tries` attempts have failed.
    pub(crate) fn after(self, tries: u32) -> FailureReason {
        match self {
            PassingReason::Network(last) => FailureReason::Unreachable { tries, last },
            PassingReason::Status(status) => FailureReason::Status { status, tries },
        }
    }
}

impl fmt::Display for PassingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PassingReason::Network(last) => f.write_str(last),
            PassingReason::Status(status) => write!(f, "the server answered {status}{}", status_name(*status)),
        }
    }
}

impl From<FailureReason> for AttemptFailure {
    fn from(why: FailureReason) -> Self {
        AttemptFailure::Final(why)
    }
}

/// A connection that ended before the answer did.
pub(crate) const CUT: &str = "the connection was cut";
/// Longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl AttemptFailure {
    pub(crate) fn network(why: impl fmt::Display) -> Self {
        AttemptFailure::Passing { why: PassingReason::Network(why.to_string()), after: None }
    }

    /// Returns the meaning of a status that is no success.
    pub(crate) fn of_status(status: u16, headers: &HeaderMap) -> Self {
        if !matches!(status, 408 | 429 | 500 | 502 | 503 | 504) {
            return AttemptFailure::Final(FailureReason::Status { status, tries: 1 });
        }
        match retry_after(headers) {
            Some(wait) if wait > LONGEST_WAIT => AttemptFailure::Final(FailureReason::Busy { status, wait }),
            after => AttemptFailure::Passing { why: PassingReason::Status(status), after },
        }
    }
}

/// Returns the time that a server asks to wait: a number of seconds, or until a date by the server's clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = header_text(headers, "retry-after")?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let now = header_text(headers, "date").and_then(|date| httpdate::parse_http_date(date).ok());
    // A date that has passed asks for no wait.
    Some(until.duration_since(now.unwrap_or_else(SystemTime::now)).unwrap_or_default())
}

impl From<ureq::Error> for AttemptFailure {
    fn from(error: ureq::Error) -> Self {
        use ureq::Error::{BadUri, HostNotFound, Http, InvalidProxyUrl, Io, Rustls, Timeout, Tls};
        match error {
            BadUri(why) => AttemptFailure::Final(FailureReason::Address(why)),
            Http(why) => AttemptFailure::Final(FailureReason::Address(why.to_string())),
            InvalidProxyUrl => {
                AttemptFailure::Final(FailureReason::Address("the proxy in the environment is not an address".into()))
            }
            Rustls(why) => AttemptFailure::Final(FailureReason::Tls(why.to_string())),
            Tls(why) => AttemptFailure::Final(FailureReason::Tls(why.into())),
            Io(error) => error.into(),
            HostNotFound => AttemptFailure::network("no such host"),
            Timeout(_) => AttemptFailure::network("no answer in time"),
            other => AttemptFailure::network(other),
        }
    }
}

impl From<io::Error> for AttemptFailure {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) {
            return AttemptFailure::network(CUT);
        }
        let why = error.to_string();
        // A bad certificate and a timeout arrive here as errors of input.
        match error.into_inner().map(|inner| inner.downcast::<ureq::Error>()) {
            Some(Ok(inner)) => (*inner).into(),
            Some(Err(inner)) => match inner.downcast::<rustls::Error>() {
                Ok(inner) => AttemptFailure::Final(FailureReason::Tls(inner.to_string())),
                Err(_) => AttemptFailure::network(why),
            },
            None => AttemptFailure::network(why),
        }
    }
}

impl HttpClient {
    pub(crate) fn new(options: &RemoteOptions) -> Self {
        HttpClient {
            agents: Mutex::default(),
            connect: options.connect_timeout,
            idle: options.idle_timeout,
            progress: ProgressRule { window: options.idle_timeout, least: options.idle_bytes },
            requests: AtomicU64::new(0),
        }
    }

    /// Returns the number of GET requests so far, repeated ones included.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Sends a GET request; redirections and other statuses come back as they are.
    pub(crate) fn get(&self, url: &HttpUrl, headers: &[(&str, String)]) -> Result<Response<Body>, AttemptFailure> {
        self.requests.fetch_add(1, Relaxed);
        let mut request = self.agent(url)?.get(url.request());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        Ok(request.call()?)
    }

    /// Sends a request of any kind; redirections and other statuses come back as they are.
    pub(crate) fn send(
        &self,
        method: &Method,
        url: &HttpUrl,
        headers: &[(&str, String)],
        body: &RequestBody<'_>,
    ) -> Result<Response<Body>, AttemptFailure> {
        let agent = self.agent(url)?;
        let mut request = Request::builder().method(method).uri(url.request());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let RequestBody::Stream { len, .. } = body {
            request = request.header("Content-Length", *len);
        }
        let wrong = |error: ureq::http::Error| AttemptFailure::Final(FailureReason::Address(error.to_string()));
        match body {
            RequestBody::None => Ok(agent.run(request.body(()).map_err(wrong)?)?),
            RequestBody::Bytes(bytes) => Ok(agent.run(request.body(*bytes).map_err(wrong)?)?),
            RequestBody::Stream { open, .. } => {
                let request = request.body(SendBody::from_owned_reader(open()?)).map_err(wrong)?;
                let request = agent.configure_request(request).timeout_recv_response(Some(self.idle.max(STORING)));
                Ok(agent.run(request.build())?)
            }
        }
    }

    fn agent(&self, url: &HttpUrl) -> Result<Agent, AttemptFailure> {
        let proxy = proxy::find_proxy(url, |name| std::env::var(name).ok());
        let key = (url.is_https(), proxy);
        let mut agents = mutex::lock(&self.agents);
        if let Some(agent) = agents.get(&key) {
            return Ok(agent.clone());
        }
        let proxy = key.1.as_deref().map(Proxy::new).transpose()?;
        let mut config = Agent::config_builder()
            // Callers know what a status or a redirection means for a range, ureq does not.
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .user_agent(concat!("packfs/", env!("CARGO_PKG_VERSION")))
            // A range of a compressed form is a part of other bytes.
            .accept_encoding("identity")
            .max_idle_connections(2 * KEPT)
            .max_idle_connections_per_host(KEPT)
            .max_idle_age(KEPT_FOR)
            .timeout_connect(Some(self.connect))
            .timeout_recv_response(Some(self.idle))
            .timeout_per_read(Some(self.idle))
            .timeout_per_write(Some(self.idle));
        if url.is_https() {
            config = config.tls_config(tls()?);
        }
        let agent = config.build().new_agent();
        agents.insert(key, agent.clone());
        Ok(agent)
    }
}

/// Returns the settings of secure connections: the certificates that the system trusts.
fn tls() -> Result<TlsConfig, AttemptFailure> {
    let loaded = rustls_native_certs::load_native_certs();
    if loaded.certs.is_empty() {
        let why = loaded.errors.first().map_or("the system has no certificates".to_owned(), ToString::to_string);
        return Err(AttemptFailure::Final(FailureReason::Tls(why)));
    }
    let roots: RootCerts = loaded.certs.iter().map(|cert| Certificate::from_der(cert).to_owned()).into();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(roots)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

/// Returns a header as text.
pub(crate) fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_asks_to_wait_for_seconds_or_until_a_date() {
        let date = "Mon, 23 Nov 2026 10:00:00 GMT";
        let cases = [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Mon, 23 Nov 2026 10:30:00 GMT", Some(1800)),
            ("Mon, 23 Nov 2026 09:00:00 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
        ];
        for (value, expected) in cases {
            let headers = [("retry-after", value), ("date", date)];
            let headers = headers.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            assert_eq!(retry_after(&headers.collect()), expected.map(Duration::from_secs), "{value}");
        }
    }
}
