//! `packfs bench`: one subcommand for each kind of measurement, and helpers for them.

mod build;
mod codecs;
mod measuring;
mod memory;
mod quick;
mod read;
mod report;
mod split;

use clap::{Args, Subcommand};

pub(crate) use build::Build as BenchBuild;
pub(crate) use codecs::Codecs;
pub(crate) use measuring::Measuring;
pub(crate) use memory::Memory;
pub(crate) use quick::Quick;
pub(crate) use read::Read;
pub(crate) use report::Report;
pub(crate) use split::Split as BenchSplit;

/// Measure codecs, builds, reads and splits on your own data.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  packfs bench --quick
  packfs bench codecs --data /usr/share
  packfs bench read --matrix /usr/share
  packfs bench build /usr/share --peers
  packfs bench split --disks 100 --outputs 1,2,4
  packfs bench report packfs-bench.jsonl -o report.html
  packfs bench memory 256M -o memory.bin")]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,

    #[command(flatten)]
    pub(crate) quick: Quick,
}

/// One variant a subcommand.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Codecs(Codecs),
    Read(Read),
    Build(BenchBuild),
    Split(BenchSplit),
    Report(Report),
    Memory(Memory),
}
