//! Reads objects behind HTTP at any offset, from many threads.
//!
//! [`RemoteObject`] is the [`ReadAt`](packfs_blocks::ReadAt) of an object: `object` requests ranges and proves that all
//! are of the version that was opened, `reader` divides the object into units and decides which are fetched together
//! and ahead of time, `cache` keeps units on disk for the next process. There is no async runtime: requests are made by
//! up to 16 threads, which start when they are needed. [`RangeFetcher`] fetches the ranges that its caller names, and no
//! byte more.
//!
//! ```no_run
//! use std::sync::Arc;
//! use packfs_remote::{RemoteObject, RemoteOptions};
//!
//! let bytes = Arc::new(RemoteObject::open("https://example.com/root.sqfs", &RemoteOptions::default())?);
//! let image = packfs_image::AnyImage::open(bytes, packfs_image::OpenOptions::default());
//! # Ok::<(), packfs_remote::Error>(())
//! ```

mod cache;
mod error;
mod http;
mod object;
mod oci;
mod origin;
mod progress;
mod proxy;
mod ranges;
mod reader;
mod retry;
mod s3;
mod scattered;
mod sign;
mod stream;
mod url;
mod version;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use error::{Error, FailureReason, Result};
pub use oci::{Manifest, Repository};
pub use ranges::{RangeFetcher, join_address};
pub use reader::RemoteObject;

/// Options for reading a remote object.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Directory of the cache; `None` for no cache on disk.
    pub cache: Option<PathBuf>,
    /// Largest size of the cache in bytes, of all objects together.
    pub cache_bytes: u64,
    /// Bytes to keep in memory, read-ahead included; at least 16 MiB.
    pub memory: u64,
    /// Attempts in a row, with less than 16 KiB of progress in all of them, before a request fails.
    pub tries: u32,
    /// Pause after the first failed attempt; it doubles with each.
    pub pause: Duration,
    /// Time for a connection to be made.
    pub connect_timeout: Duration,
    /// Time in which a connection must deliver something, and then at least `idle_bytes`.
    pub idle_timeout: Duration,
    /// Bytes that a connection must deliver in each `idle_timeout`; a slower one is given up and made anew. 4 KiB in 30
    /// s let 16 connections share a line of 20 kbit/s.
    pub idle_bytes: u64,
    /// Reads objects of which the server sends neither an entity tag nor a time of modification. If such an object is
    /// replaced while it is read, two versions are mixed unnoticed.
    pub allow_unversioned: bool,
    /// Time without progress after which failed attempts are reported. Short failures are frequent and harmless.
    pub quiet: Duration,
    /// Receiver of warnings.
    pub report: Option<WarningReceiver>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        RemoteOptions {
            cache: None,
            cache_bytes: 1 << 30,
            // Read-ahead takes a third of it, which is the whole window of 24 MiB.
            memory: 72 << 20,
            tries: 6,
            pause: Duration::from_millis(250),
            connect_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(30),
            idle_bytes: 4 << 10,
            allow_unversioned: false,
            quiet: Duration::from_secs(10),
            report: None,
        }
    }
}

packfs_blocks::options!(RemoteOptions);

/// Receiver of warnings, one line each.
#[derive(Clone)]
pub struct WarningReceiver(Arc<dyn Fn(&str) + Send + Sync>);

impl WarningReceiver {
    /// Passes warnings to `to`.
    pub fn new(to: impl Fn(&str) + Send + Sync + 'static) -> Self {
        WarningReceiver(Arc::new(to))
    }

    fn line(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for WarningReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WarningReceiver")
    }
}

/// Returns true if `text` is an address that [`RemoteObject::open`] takes, by its scheme.
pub fn is_address(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| SCHEMES.contains(&scheme.as_str()))
}

const SCHEMES: [&str; 5] = ["http", "https", "s3", "oci", "oci+http"];

/// Returns an address as it may be shown: without user, password and query.
pub fn clean(address: &str) -> String {
    url::cleaned(address)
}
