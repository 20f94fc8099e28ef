//! Decoders in Rust alone, for builds without a C compiler: used where the C library of their codec is not built.
//!
//! Slower than those libraries, but with the same contract. Tests hold each beside its counterpart.

#[cfg(feature = "gzip-rust")]
pub(crate) mod inflate;
#[cfg(any(test, all(feature = "lz4-rust", not(feature = "lz4"))))]
pub(crate) mod lz4;
#[cfg(any(all(test, feature = "zstd"), all(feature = "zstd-rust", not(feature = "zstd"))))]
pub(crate) mod zstd;

#[cfg(all(test, feature = "gzip", feature = "lz4", feature = "zstd"))]
mod tests;
