//! Serves SquashFS and EROFS images over HTTP and as network block devices ([`nbd`]), and draws the page that explores
//! them in a browser.
//!
//! The path of a request: `server` listens, `accept` takes a connection and `slots` bounds their number; `connection`
//! reads requests with deadlines; `access` refuses foreign names and missing tokens; `routes` finds the answer; `http`
//! has what belongs to the protocol alone. A response is a value, which the connection sends.
//!
//! ```no_run
//! use std::sync::Arc;
//! use packfs_blocks::{ReadAt, io::FileAt};
//! use packfs_image::{AnyImage, OpenOptions};
//! use packfs_serve::{HttpOptions, HttpServer, ServedImage};
//!
//! let bytes: Arc<dyn ReadAt> = Arc::new(FileAt::open("root.sqfs".as_ref(), 0)?);
//! let image = Arc::new(AnyImage::open(Arc::clone(&bytes), OpenOptions::default())?);
//! let served = ServedImage {
//!     name: "root.sqfs".into(),
//!     image,
//!     bytes,
//!     version: "1".into(),
//!     remote: false,
//!     older: None,
//! };
//! let server = HttpServer::bind(vec![served], HttpOptions::default())?;
//! println!("http://{}/files/etc/motd", server.address());
//! server.serve();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accept;
mod access;
mod api;
mod connection;
mod error;
pub mod explorer;
mod http;
mod list;
mod metrics;
pub mod nbd;
mod routes;
mod served;
mod server;
mod slots;
mod types;

pub use error::{Error, Result};
pub use served::ServedImage;
pub use server::{HttpOptions, HttpServer, HttpStopper};

packfs_blocks::options!(HttpOptions);
