//! `packfs bench` as typed: one subcommand for each thing that is measured or made for it.

mod memory;

use clap::{Args, Subcommand};

pub(crate) use memory::Memory;

/// Make data to measure with.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
#[command(after_help = "\
Example:
  packfs bench memory 256M -o memory.bin")]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// One variant a subcommand.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Memory(Memory),
}
