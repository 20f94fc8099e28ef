//! `packfs bench memory` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_bench::memory::Shares;

use super::super::value;

/// Make data that looks like a machine's memory, for trying dumps and codecs on.
///
/// Its pages of 4 KiB are empty, filled with one word, text, tables of pointers, machine code and noise, in
/// given shares. None but the empty ones occurs twice. The same seed and shares give the same bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs bench memory 256M -o memory.bin
  packfs bench memory 1G --seed 7 --shares zero=60,text=25,random=15 | zstd | wc -c")]
pub(crate) struct Memory {
    /// How many bytes
    #[arg(value_name = "SIZE", value_parser = value::size)]
    pub(crate) size: u64,

    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Other bytes of the same kind
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,

    /// How many pages of each kind, relative to one another
    #[arg(long, value_name = "KIND=SHARE,...", default_value_t)]
    pub(crate) shares: Shares,
}
