//! `packfs bench`.

mod codecs;
mod memory;
mod report;
mod session;
mod split;

use std::io;
use std::path::Path;

use anyhow::Result;
use packfs_blocks::Output;

use crate::args::{Bench, BenchCommand};
use crate::output::failure::Outcome;

pub(super) fn run(args: &Bench) -> Result<Outcome> {
    match &args.command {
        BenchCommand::Codecs(args) => codecs::run(args),
        BenchCommand::Split(args) => split::run(args),
        BenchCommand::Report(args) => report::run(args),
        BenchCommand::Memory(args) => memory::run(args),
    }
}

/// A file to write, which appears when it is whole.
fn create(path: &Path, force: bool) -> Result<Output> {
    Output::create(path, 0o666, force).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => anyhow::anyhow!("{} exists; --force replaces it", path.display()),
        _ => anyhow::Error::new(error).context(format!("{}: cannot create", path.display())),
    })
}
