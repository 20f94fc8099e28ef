//! Serves images and other bytes as read-only disks, by the Network Block Device protocol.
//!
//! The path of a client: `server` listens, and takes it as that of HTTP does; `handshake` agrees on an export and
//! on what the client understands; `transmission` takes requests, which a few threads answer in any order by `answer`.
//! `wire` has the numbers of the protocol and takes messages apart; `stream` hides the kind of socket and has the
//! deadlines; `listener` makes and removes sockets. The protocol is that of
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>: fixed newstyle, structured replies, and the
//! metadata context `base:allocation`. There is no TLS.
//!
//! ```no_run
//! use std::sync::Arc;
//! use packfs_blocks::{ReadAt, io::FileAt};
//! use packfs_serve::nbd::{NbdAddress, NbdExport, NbdOptions, NbdServer};
//!
//! let bytes: Arc<dyn ReadAt> = Arc::new(FileAt::open("root.sqfs".as_ref(), 0)?);
//! let export = NbdExport { name: "root.sqfs".into(), description: "SquashFS image".into(), bytes, holes: None };
//! let server = NbdServer::bind(vec![export], &NbdAddress::Unix("nbd.sock".into()), NbdOptions::default())?;
//! server.serve();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod exports;
mod handshake;
mod listener;
mod server;
mod session;
mod stream;
mod transmission;
mod wire;

pub use exports::{HoleMap, NbdExport};
pub use server::{NbdAddress, NbdOptions, NbdServer, NbdStopper};
#[doc(hidden)]
pub use session::converse;

packfs_blocks::options!(NbdOptions);
