//! `packfs bench`.

mod build;
mod codecs;
mod memory;
mod peers;
mod quick;
mod read;
mod report;
pub(super) mod session;
mod split;

use std::path::Path;

use anyhow::{Context, Result};
use packfs_blocks::Output;
use packfs_image::name::display;

use crate::args::{Bench, BenchCommand};
use crate::output::failure::{Outcome, Usage};
use crate::output::target;

pub(super) fn run(args: &Bench) -> Result<Outcome> {
    match (&args.command, &args.quick.dir) {
        (Some(BenchCommand::Codecs(args)), _) => codecs::run(args),
        (Some(BenchCommand::Build(args)), _) => build::run(args),
        (Some(BenchCommand::Read(args)), _) => read::run(args),
        (Some(BenchCommand::Split(args)), _) => split::run(args),
        (Some(BenchCommand::Report(args)), _) => report::run(args),
        (Some(BenchCommand::Memory(args)), _) => memory::run(args),
        (None, Some(dir)) => quick::run(&args.quick, dir),
        // The parser asks for one of them.
        (None, None) => Err(Usage("say what to measure, or give --quick".into()).into()),
    }
}

/// A file to write, which appears when it is whole.
pub(super) fn create(path: &Path, force: bool) -> Result<Output> {
    target::create(path, 0o666, force)
}

/// Writes all of it.
pub(super) fn fill(file: Output, text: &str) -> Result<()> {
    let path = display(file.target()).to_string();
    file.write_all_at(text.as_bytes(), 0).context(path)?;
    target::commit(file)
}
