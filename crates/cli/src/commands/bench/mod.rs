//! `packfs bench`.

pub(super) mod build;
pub(super) mod codecs;
mod estimate;
mod memory;
mod peers;
mod quick;
pub(super) mod read;
mod report;
pub(super) mod session;
pub(super) mod split;

use anyhow::Result;

use crate::args::{BenchArgs, BenchCommand};
use crate::output::failure::{CommandOutcome, UsageError};

pub(super) fn run(args: &BenchArgs) -> Result<CommandOutcome> {
    match (&args.command, &args.quick.dir) {
        (Some(BenchCommand::Codecs(args)), _) => codecs::run(args),
        (Some(BenchCommand::Build(args)), _) => build::run(args),
        (Some(BenchCommand::Read(args)), _) => read::run(args),
        (Some(BenchCommand::Split(args)), _) => split::run(args),
        (Some(BenchCommand::Report(args)), _) => report::run(args),
        (Some(BenchCommand::Memory(args)), _) => memory::run(args),
        (None, Some(dir)) => quick::run(&args.quick, dir),
        // The parser requires one of them.
        (None, None) => Err(UsageError("name a subcommand, or use --quick".into()).into()),
    }
}
