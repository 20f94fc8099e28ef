//! `packfs bench memory` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_bench::memory::PageShares;

use super::super::value;

/// Generate data that looks like the memory of a machine.
///
/// The data is for tests of dumps and codecs. Its pages of 4 KiB are zero, filled with one word, text, pointer tables,
/// machine code or noise, in the given shares. Only the zero page occurs twice. The same seed and shares give the same
/// bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs bench memory 256M -o memory.bin
  packfs bench memory 1G --seed 7 --shares zero=60,text=25,random=15 | zstd | wc -c")]
pub(crate) struct BenchMemoryArgs {
    /// Number of bytes
    #[arg(value_name = "SIZE", value_parser = value::size)]
    pub(crate) size: u64,

    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Seed of the generator
    #[arg(long, value_name = "N", default_value = "1", value_parser = value::count::<u64>)]
    pub(crate) seed: u64,

    /// Shares of the kinds of pages
    #[arg(long, value_name = "KIND=SHARE,...", default_value_t)]
    pub(crate) shares: PageShares,
}
