//! The server: its options, and what all of its connections share.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::name::display;
use packfs_blocks::threads;
use packfs_blocks::trouble::{LineReceiver, TroubleReporter};

use super::exports::{ExportList, NbdExport};
use super::listener::SocketListener;
use super::session;
use super::stream::ClientStream;
use crate::accept::{serve_connections, stop_serving};
use crate::slots::{ConnectionSlot, ConnectionSlots, CrowdPolicy};
use crate::{Error, Result};

/// Stack of a connection's thread, which takes requests.
const STACK: usize = 256 << 10;

/// Place to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NbdAddress {
    /// Path of a socket, whose directory says who may connect.
    Unix(PathBuf),
    /// Address of this machine. Port 0 is any that is free.
    Tcp(SocketAddr),
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NbdAddress::Unix(path) => display(path).fmt(f),
            NbdAddress::Tcp(address) => address.fmt(f),
        }
    }
}

/// Options of a server.
#[derive(Clone)]
#[non_exhaustive]
pub struct NbdOptions {
    /// Number of connections to serve at once. Further ones are closed: a disk that waits helps nobody.
    pub connections: usize,
    /// Number of threads that answer the requests of a connection.
    pub threads: usize,
    /// Takes a line about each request that met unreadable bytes.
    pub report: Option<LineReceiver>,
}

impl Default for NbdOptions {
    fn default() -> Self {
        NbdOptions { connections: 64, threads: 8, report: None }
    }
}

impl fmt::Debug for NbdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NbdOptions").field("connections", &self.connections).finish_non_exhaustive()
    }
}

/// A server that listens; [`NbdServer::serve`] answers. The file of a socket is removed with it.
#[derive(Debug)]
pub struct NbdServer {
    shared: Arc<NbdServerState>,
    address: NbdAddress,
    threads: usize,
}

/// State that all connections share.
#[derive(Debug)]
struct NbdServerState {
    listener: SocketListener,
    exports: ExportList,
    trouble: TroubleReporter,
    slots: Arc<ConnectionSlots<ClientStream>>,
}

impl NbdServer {
    /// Listens on an address.
    ///
    /// # Errors
    /// [`Error::Listen`], also if another server listens there, and [`Error::NotLocal`] for an address that others can
    /// reach.
    pub fn bind(exports: Vec<NbdExport>, address: &NbdAddress, options: NbdOptions) -> Result<NbdServer> {
        let NbdOptions { connections, threads, report } = options;
        let listen = |source| Error::Listen { address: address.to_string(), source };
        let listener = match address {
            NbdAddress::Unix(path) => SocketListener::unix(path).map_err(listen)?,
            // NBD has no token here, and no TLS: everyone who can connect can read.
            NbdAddress::Tcp(tcp) if !tcp.ip().is_loopback() => {
                return Err(Error::NotLocal { address: tcp.to_string() });
            }
            NbdAddress::Tcp(tcp) => SocketListener::tcp(*tcp).map_err(listen)?,
        };
        let address = listener.address()?.map_or(address.clone(), NbdAddress::Tcp);
        let exports = ExportList::new(exports);
        let trouble = TroubleReporter::new(report);
        let slots = Arc::new(ConnectionSlots::new(connections, CrowdPolicy::Refuse));
        let shared = NbdServerState { listener, exports, trouble, slots };
        Ok(NbdServer { shared: Arc::new(shared), address, threads: threads.max(1) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> &NbdAddress {
        &self.address
    }

    /// Returns the names of the exports.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shared.exports.iter().map(|export| export.name.as_str())
    }

    /// Returns a way to end it.
    pub fn stopper(&self) -> NbdStopper {
        NbdStopper(Arc::clone(&self.shared))
    }

    /// Serves until it is stopped.
    pub fn serve(&self) {
        let shared = Arc::clone(&self.shared);
        let threads = self.threads;
        let serve = move |slot: ConnectionSlot<ClientStream>| {
            // What a client does wrong ends its connection, and is nobody else's business.
            let _ = session::serve(&shared.exports, &slot.stream, threads, &shared.trouble);
            slot.stream.hang_up();
        };
        let starter = threads::named("packfs-nbd").stack(STACK);
        serve_connections(&self.shared.slots, || self.shared.listener.accept(), &starter, serve);
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.shared.listener.remove();
    }
}

/// Ends a [`NbdServer`].
#[derive(Debug, Clone)]
pub struct NbdStopper(Arc<NbdServerState>);

impl NbdStopper {
    /// Ends all connections; [`NbdServer::serve`] returns.
    pub fn stop(&self) {
        stop_serving(&self.0.slots, &self.0.listener);
    }
}
