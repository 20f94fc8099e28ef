//! One file a command: takes its resolved arguments, calls the library, prints what came of it.

mod extra;

use std::io::Write;

use anyhow::Result;

use crate::args::Command;
use crate::output;
use crate::output::failure::Outcome;

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<Outcome> {
    match command {
        Command::Completions(args) => extra::completions(&args),
        Command::Man(args) => extra::man(&args),
        other => anyhow::bail!("{other:?}"),
    }
}

/// Prints a text that was asked for.
pub(crate) fn print(text: &str) -> Result<Outcome> {
    let mut out = output::stdout()?;
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Outcome::Done)
}
