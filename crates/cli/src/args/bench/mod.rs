//! `packfs bench` as typed: one subcommand for each thing that is measured or made for it.

mod codecs;
mod measuring;
mod memory;
mod report;
mod split;

use clap::{Args, Subcommand};

pub(crate) use codecs::Codecs;
pub(crate) use measuring::Measuring;
pub(crate) use memory::Memory;
pub(crate) use report::Report;
pub(crate) use split::Split as BenchSplit;

/// Measure codecs on your own data, and show what came of it.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  packfs bench codecs --data /usr/share
  packfs bench split --disks 100 --outputs 1,2,4
  packfs bench report packfs-bench.jsonl -o report.html
  packfs bench memory 256M -o memory.bin")]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// One variant a subcommand.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Codecs(Codecs),
    Split(BenchSplit),
    Report(Report),
    Memory(Memory),
}
