//! The compiled part of the Python package packfs: images opened, read and built, and dumps split and joined, without
//! Python's global lock.
//!
//! The classes and functions here take bytes and numbers only. What Python programs see, with paths, files and types of
//! Python, is in `python/packfs`, which is also where exceptions are defined.

mod build;
mod dlpack;
mod dump;
mod errors;
mod reader;
mod sources;
mod work;

use pyo3::prelude::*;

/// The module `packfs._packfs`.
#[pymodule]
mod _packfs {
    #[pymodule_export]
    use super::build::build;
    #[pymodule_export]
    use super::dlpack::dlpack_capsule;
    #[pymodule_export]
    use super::dump::{join, split};
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::work::{forget_threads, prepare_exit};
    #[pymodule_export]
    use super::{clean_address, is_address, version};
}

/// Returns the version of the library.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns true if a source is an address of the kinds that are read over the network: http, https, s3 and oci.
#[pyfunction]
fn is_address(source: &str) -> bool {
    packfs_remote::is_address(source)
}

/// Returns an address without its user, password and query.
#[pyfunction]
fn clean_address(address: &str) -> String {
    packfs_remote::clean(address)
}
