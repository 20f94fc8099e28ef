//! Errors of serving.

use std::io;

/// Result of serving.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why something cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("{address}: cannot listen: {source}")]
    Listen {
        /// The address, or the path of a socket.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Anyone on the network could read the images.
    #[error("{address}: an address that others can reach needs a token")]
    NeedsToken {
        /// The address.
        address: String,
    },
    /// Anyone on the network could read what is offered as a disk.
    #[error("{address}: only addresses of this machine are allowed, as NBD clients cannot send a token")]
    NotLocal {
        /// The address.
        address: String,
    },
    /// The served object cannot be read, or the client cannot be reached.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An image cannot be read.
    #[error(transparent)]
    Image(#[from] packfs_image::Error),
    /// An answer cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}
