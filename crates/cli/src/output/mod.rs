//! Everything packfs says: data on standard output, the rest on standard error.

pub(crate) mod failure;
pub(crate) mod findings;
pub(crate) mod json;
pub(crate) mod meter;
pub(crate) mod units;

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::AsFd;

/// Standard output for data: buffered in large pieces, without the line buffering of [`io::stdout`].
/// Flush it; what stays in the buffer when it is dropped may be lost without an error.
pub(crate) fn stdout() -> io::Result<BufWriter<File>> {
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(BufWriter::with_capacity(1 << 16, File::from(own)))
}
