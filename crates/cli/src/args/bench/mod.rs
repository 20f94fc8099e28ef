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

pub(crate) use build::BenchBuildArgs;
pub(crate) use codecs::BenchCodecsArgs;
pub(crate) use measuring::MeasuringArgs;
pub(crate) use memory::BenchMemoryArgs;
pub(crate) use quick::BenchQuickArgs;
pub(crate) use read::BenchReadArgs;
pub(crate) use report::BenchReportArgs;
pub(crate) use split::BenchSplitArgs;

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
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,

    #[command(flatten)]
    pub(crate) quick: BenchQuickArgs,
}

/// One variant a subcommand.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Codecs(BenchCodecsArgs),
    Read(BenchReadArgs),
    Build(BenchBuildArgs),
    Split(BenchSplitArgs),
    Report(BenchReportArgs),
    Memory(BenchMemoryArgs),
}
