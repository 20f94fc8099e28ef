//! Seals as other programs make and verify them: veritysetup, fsverity and openssl.

mod common;
mod consumers;
mod fsverity;
mod rauc;
mod signatures;
mod verity;
