//! Seals as other programs make and verify them: veritysetup, fsverity and openssl.

mod common;
mod consumers;
mod fsverity;
mod fuzz;
mod minisign;
mod rauc;
mod sif;
mod signatures;
mod verity;

/// How fuzz targets read their inputs.
#[path = "../../../../fuzz/src/take.rs"]
#[allow(dead_code, reason = "the target here needs some of it")]
mod take;
