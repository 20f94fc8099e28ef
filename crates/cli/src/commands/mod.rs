//! One file per command: takes its arguments, calls the library, prints the result.

mod apply;
mod bench;
mod build;
pub(crate) mod cat;
mod check;
mod cluster;
mod completions;
mod delta;
pub(crate) mod diff;
#[cfg(feature = "serve")]
mod explore;
pub(crate) mod extract;
pub(crate) mod info;
mod join;
pub(crate) mod list;
mod man;
#[cfg(feature = "mount")]
pub(crate) mod mount;
mod oci;
pub(crate) mod open;
mod parts;
pub(crate) mod remote;
pub(crate) mod schemas;
mod seal;
#[cfg(feature = "serve")]
mod serve;
pub(crate) mod sources;
mod split;
pub(crate) mod tar;
mod trace;
mod tune;
mod update;
mod verify;

use std::io::Write;

use anyhow::Result;

use crate::args::PackfsCommand;
use crate::output;
use crate::output::failure::CommandOutcome;

/// Runs a command.
pub(crate) fn run(command: PackfsCommand) -> Result<CommandOutcome> {
    match command {
        PackfsCommand::Build(args) => build::run(*args),
        PackfsCommand::Extract(args) => extract::run(&args),
        PackfsCommand::Tar(args) => tar::run(&args),
        PackfsCommand::List(args) => list::run(&args),
        PackfsCommand::Cat(args) => cat::run(&args),
        PackfsCommand::Info(args) => info::run(&args),
        PackfsCommand::Check(args) => check::run(&args),
        PackfsCommand::Diff(args) => diff::run(&args),
        PackfsCommand::Delta(args) => delta::run(&args),
        PackfsCommand::Apply(args) => apply::run(&args),
        PackfsCommand::Update(args) => update::run(&args),
        PackfsCommand::Seal(args) => seal::run(&args),
        PackfsCommand::Verify(args) => verify::run(&args),
        PackfsCommand::Oci(args) => oci::run(&args),
        PackfsCommand::Split(args) => split::run(&args),
        PackfsCommand::Join(args) => join::run(&args),
        #[cfg(feature = "mount")]
        PackfsCommand::Mount(args) => mount::run(&args),
        #[cfg(feature = "mount")]
        PackfsCommand::Umount(args) => mount::umount(&args),
        #[cfg(feature = "serve")]
        PackfsCommand::Serve(args) => serve::run(&args),
        #[cfg(feature = "serve")]
        PackfsCommand::Explore(args) => explore::run(&args),
        PackfsCommand::Bench(args) => bench::run(&args),
        PackfsCommand::Tune(args) => tune::run(&args),
        PackfsCommand::Trace(args) => trace::run(&args),
        PackfsCommand::As(_) | PackfsCommand::Help(_) => unreachable!("main runs it"),
        PackfsCommand::Plan(args) => cluster::plan(*args),
        PackfsCommand::Shard(args) => cluster::shard(&args),
        PackfsCommand::Assemble(args) => cluster::assemble(&args),
        PackfsCommand::Status(args) => cluster::status(&args),
        PackfsCommand::Completions(args) => completions::run(&args),
        PackfsCommand::Man(args) => man::run(&args),
    }
}

/// Prints a text that is the result of a command.
pub(crate) fn print(text: &str) -> Result<CommandOutcome> {
    output::write_result(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(CommandOutcome::Done)
}
