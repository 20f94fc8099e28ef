//! Decoders in pure Rust, for builds without a C compiler. Each is used if its codec's C library is not built;
//! those of deflate and LZ4 also check streams, as they refuse more than the libraries.
//!
//! They are slower than those libraries, but keep the same contract. Tests compare each with its counterpart.

#[cfg(feature = "gzip-rust")]
pub(crate) mod inflate;
#[cfg(any(feature = "lz4", feature = "lz4-rust"))]
pub(crate) mod lz4;
#[cfg(any(all(test, feature = "zstd"), all(feature = "zstd-rust", not(feature = "zstd"))))]
pub(crate) mod zstd;

#[cfg(all(test, feature = "gzip", feature = "lz4", feature = "zstd"))]
mod tests;
