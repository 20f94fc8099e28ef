//! One file per command: takes its arguments, calls the library, prints the result.

mod bench;
mod build;
pub(crate) mod cat;
mod check;
mod cluster;
mod completions;
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
mod verify;

use std::io::Write;

use anyhow::Result;

use crate::args::Command;
use crate::output;
use crate::output::failure::Outcome;

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<Outcome> {
    match command {
        Command::Build(args) => build::run(*args),
        Command::Extract(args) => extract::run(&args),
        Command::Tar(args) => tar::run(&args),
        Command::List(args) => list::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Seal(args) => seal::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Oci(args) => oci::run(&args),
        Command::Split(args) => split::run(&args),
        Command::Join(args) => join::run(&args),
        #[cfg(feature = "mount")]
        Command::Mount(args) => mount::run(&args),
        #[cfg(feature = "mount")]
        Command::Umount(args) => mount::umount(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args),
        #[cfg(feature = "serve")]
        Command::Explore(args) => explore::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::As(_) | Command::Help(_) => unreachable!("main runs it"),
        Command::Plan(args) => cluster::plan(*args),
        Command::Shard(args) => cluster::shard(&args),
        Command::Assemble(args) => cluster::assemble(&args),
        Command::Status(args) => cluster::status(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Prints a text that is the result of a command.
pub(crate) fn print(text: &str) -> Result<Outcome> {
    output::write_result(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(Outcome::Done)
}
