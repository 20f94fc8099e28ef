//! Sockets to listen on: a path, or an address of this machine. The file of a path is there as long as the server.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::stream::ClientStream;

/// A socket that clients connect to.
#[derive(Debug)]
pub(super) enum SocketListener {
    Unix { listener: UnixListener, path: PathBuf, file: (u64, u64) },
    Tcp(TcpListener),
}

impl SocketListener {
    /// Listens on an address.
    pub(super) fn tcp(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(SocketListener::Tcp)
    }

    /// Listens at a path. The socket of a server that was killed is replaced.
    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Between looking and binding, another server could do the same; each locks the directory meanwhile.
        let dir = File::open(dir)?;
        flock(&dir, FlockOperation::LockExclusive)?;
        clear(path)?;
        let listener = UnixListener::bind(path)?;
        let file = identity(path)?;
        Ok(SocketListener::Unix { listener, path: path.to_owned(), file })
    }

    /// Returns the address, if it is one.
    pub(super) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            SocketListener::Unix { .. } => Ok(None),
            SocketListener::Tcp(listener) => listener.local_addr().map(Some),
        }
    }

    pub(super) fn accept(&self) -> io::Result<ClientStream> {
        match self {
            SocketListener::Unix { listener, .. } => Ok(ClientStream::Unix(listener.accept()?.0)),
            SocketListener::Tcp(listener) => Ok(ClientStream::Tcp(listener.accept()?.0)),
        }
    }

    /// Removes the file of the socket, unless another server has taken the path.
    pub(super) fn remove(&self) {
        if let SocketListener::Unix { path, file, .. } = self
            && identity(path).is_ok_and(|now| now == *file)
        {
            let _ = fs::remove_file(path);
        }
    }
}

impl AsFd for SocketListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            SocketListener::Unix { listener, .. } => listener.as_fd(),
            SocketListener::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// Removes a socket on which nobody listens.
fn clear(path: &Path) -> io::Result<()> {
    // Not through links: what they lead to is not the socket.
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket is there"));
        }
        Ok(_) => {}
    }
    // Only connecting tells whether somebody listens: the file outlives a killed server.
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    // Device and inode: another server's socket at this path is another file.
    Ok((file.dev(), file.ino()))
}
