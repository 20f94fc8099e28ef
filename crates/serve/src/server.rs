//! The server of HTTP: its options, and what all of its connections share.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use packfs_blocks::name::display;
use packfs_blocks::threads;
use packfs_blocks::trouble::{LineReceiver, TroubleReporter};

use crate::accept::{serve_connections, stop_serving};
use crate::access::AccessRules;
use crate::connection;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::metrics::ServerMetrics;
use crate::routes::ImageRoutes;
use crate::served::ServedImage;
use crate::slots::{ConnectionSlots, CrowdPolicy};
use crate::{Error, Result};

/// Stack of a connection's thread: reading follows no recursion deeper than a few formats.
const STACK: usize = 1 << 20;

/// Options of a server.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Address to listen on. Port 0 is any that is free.
    pub address: SocketAddr,
    /// Name by which clients on this machine call it, if not only by its address.
    pub name: Option<String>,
    /// Token that requests must have. Without one, only this machine is served.
    pub token: Option<String>,
    /// Number of connections to serve at once, each by a thread; others wait.
    pub connections: usize,
    /// Takes a line about each request that met an unreadable image.
    pub report: Option<LineReceiver>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        HttpOptions { address, name: None, token: None, connections: 64, report: None }
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A server that listens; [`HttpServer::serve`] answers.
pub struct HttpServer {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    shared: Arc<HttpServerState>,
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("address", &self.address).finish_non_exhaustive()
    }
}

/// State that all connections share.
pub(crate) struct HttpServerState {
    pub(crate) routes: ImageRoutes,
    pub(crate) access: AccessRules,
    pub(crate) slots: Arc<ConnectionSlots<TcpStream>>,
    pub(crate) metrics: ServerMetrics,
    trouble: TroubleReporter,
}

impl HttpServerState {
    /// Adds the headers that every response has.
    pub(crate) fn protect(&self, response: HttpResponse) -> HttpResponse {
        // nosniff: a file of an image must not become a page because its bytes look like one.
        let response = response.with("X-Content-Type-Options", "nosniff");
        // No other site may embed files of an image, or learn its address from a link.
        response.with("Cross-Origin-Resource-Policy", "same-origin").with("Referrer-Policy", "no-referrer")
    }

    /// Counts and reports a request that met an unreadable image.
    pub(crate) fn report_failure(&self, name: &str, request: &HttpRequest, error: &Error) {
        self.metrics.failures.fetch_add(1, Relaxed);
        self.trouble.tell(format_args!("{name}: {}: {error}", display(&request.raw_path)));
    }
}

impl HttpServer {
    /// Listens on an address.
    ///
    /// # Errors
    /// [`Error::Listen`], and [`Error::NeedsToken`] for an address that others can reach unless there is a token.
    pub fn bind(images: Vec<ServedImage>, options: HttpOptions) -> Result<HttpServer> {
        let HttpOptions { address, name, token, connections, report } = options;
        // Everything in the images would be readable for anyone.
        if token.is_none() && !address.ip().is_loopback() {
            return Err(Error::NeedsToken { address: address.to_string() });
        }
        let listen = |source| Error::Listen { address: address.to_string(), source };
        let listener = TcpListener::bind(address).map_err(listen)?;
        // With port 0, the system has chosen one.
        let address = listener.local_addr()?;
        let shared = HttpServerState {
            routes: ImageRoutes::new(images),
            access: AccessRules::new(address, name.as_deref(), token),
            slots: Arc::new(ConnectionSlots::new(connections, CrowdPolicy::Wait)),
            metrics: ServerMetrics::default(),
            trouble: TroubleReporter::new(report),
        };
        Ok(HttpServer { listener: Arc::new(listener), address, shared: Arc::new(shared) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a way to end it.
    pub fn stopper(&self) -> HttpStopper {
        HttpStopper { slots: Arc::clone(&self.shared.slots), listener: Arc::clone(&self.listener) }
    }

    /// Serves until it is stopped.
    pub fn serve(&self) {
        let accept = || self.listener.accept().map(|(stream, _)| stream);
        let starter = threads::named("packfs-serve").stack(STACK);
        let shared = Arc::clone(&self.shared);
        serve_connections(&self.shared.slots, accept, &starter, move |slot| connection::serve(&shared, &slot));
    }

    /// Answers requests as a connection would, without one: writes the responses to `requests`, up to the first that is
    /// incomplete or ends the connection.
    pub fn answer(&self, requests: &[u8], out: &mut dyn io::Write) {
        connection::converse(&self.shared, requests, out);
    }
}

/// Ends a [`HttpServer`].
#[derive(Debug, Clone)]
pub struct HttpStopper {
    slots: Arc<ConnectionSlots<TcpStream>>,
    listener: Arc<TcpListener>,
}

impl HttpStopper {
    /// Ends all connections; [`HttpServer::serve`] returns.
    pub fn stop(&self) {
        stop_serving(&self.slots, &*self.listener);
    }
}
