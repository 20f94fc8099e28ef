//! The server: listens, gives each connection a thread, ends on demand.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use packfs_blocks::name::display;
use packfs_blocks::threads;
use packfs_blocks::trouble::{LineReceiver, TroubleReporter};
use rustix::net::{Shutdown, shutdown};

use super::exports::{ExportList, NbdExport};
use super::listener::SocketListener;
use super::session;
use super::stream::ClientStream;
use crate::{Error, Result};

/// Time to wait if the system has no room for another connection: short for clients, long enough not to spin.
const PAUSE: Duration = Duration::from_millis(50);
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
    connections: usize,
}

/// State that all connections share.
#[derive(Debug)]
struct NbdServerState {
    listener: SocketListener,
    exports: ExportList,
    trouble: TroubleReporter,
    open: Mutex<StreamTable>,
}

/// The open connections.
#[derive(Debug, Default)]
struct StreamTable {
    next: u64,
    streams: BTreeMap<u64, Arc<ClientStream>>,
    stopped: bool,
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
        let shared = NbdServerState { listener, exports, trouble, open: Mutex::default() };
        Ok(NbdServer { shared: Arc::new(shared), address, threads: threads.max(1), connections: connections.max(1) })
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
        while !self.shared.open().stopped {
            match self.shared.listener.accept() {
                Ok(stream) => self.give_thread(stream),
                Err(error) if is_over(&error) => {}
                // Out of descriptors, or of memory: some will be free soon.
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn give_thread(&self, stream: ClientStream) {
        let Some((number, stream)) = self.shared.enter(stream, self.connections) else { return };
        let shared = Arc::clone(&self.shared);
        let threads = self.threads;
        let thread = threads::named("packfs-nbd").stack(STACK);
        let serve = move |stream: Arc<ClientStream>| {
            // What a client does wrong ends its connection, and is nobody else's business.
            let _ = session::serve(&shared.exports, &stream, threads, &shared.trouble);
            stream.hang_up();
            shared.open().streams.remove(&number);
        };
        // Without a thread the others wait until this connection ends.
        if let Err((stream, _)) = thread.start_with(stream, serve.clone()) {
            serve(stream);
        }
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.shared.listener.remove();
    }
}

/// Returns true if a connection ended before it was taken, or no more are to be taken.
fn is_over(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, InvalidInput};
    matches!(error.kind(), ConnectionAborted | Interrupted | InvalidInput)
}

impl NbdServerState {
    /// Takes a connection, unless there are too many.
    fn enter(&self, stream: ClientStream, most: usize) -> Option<(u64, Arc<ClientStream>)> {
        let mut open = self.open();
        if open.stopped || open.streams.len() >= most {
            return None;
        }
        let number = open.next;
        let stream = Arc::new(stream);
        open.next += 1;
        open.streams.insert(number, Arc::clone(&stream));
        Some((number, stream))
    }

    fn open(&self) -> MutexGuard<'_, StreamTable> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a [`NbdServer`].
#[derive(Debug, Clone)]
pub struct NbdStopper(Arc<NbdServerState>);

impl NbdStopper {
    /// Ends all connections; [`NbdServer::serve`] returns.
    pub fn stop(&self) {
        let mut open = self.0.open();
        open.stopped = true;
        open.streams.values().for_each(|stream| stream.hang_up());
        // Wakes whoever waits for a connection, with an error; closing the socket would not.
        let _ = shutdown(self.0.listener.fd(), Shutdown::Both);
    }
}
