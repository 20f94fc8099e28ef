//! The `packfs` program: parses arguments, runs one command, prints its output and sets the exit
//! status. This is the only crate of packfs that prints.

mod args;
mod commands;
mod output;
#[cfg(feature = "mount")]
mod personalities;
mod resources;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};

use crate::output::failure::{Manner, Outcome, Usage};

fn main() -> ExitCode {
    #[cfg(feature = "mount")]
    if let Some(status) = personalities::run() {
        return status;
    }
    match args::Cli::try_parse() {
        Ok(cli) => {
            let all_or_nothing = cli.command.writes_an_archive();
            let may_leave_out = cli.command.may_leave_out();
            output::failure::exit(commands::run(cli.command), &Manner { all_or_nothing, may_leave_out })
        }
        // `--codec help` requests a table that clap cannot format.
        Err(error) => match error.get(ContextKind::Custom) {
            Some(ContextValue::String(table)) => output::failure::exit(commands::print(table), &Manner::default()),
            _ => {
                if let Some(told) = args::refused::value(&error) {
                    return output::failure::exit(Err(Usage(told).into()), &Manner::default());
                }
                if error.use_stderr() {
                    let _ = args::refused::without_escapes(error).print();
                    return ExitCode::from(output::failure::WRONG_USE);
                }
                // Help and version are requested data.
                let printed = error.print().and_then(|()| std::io::stdout().flush());
                output::failure::exit(printed.map(|()| Outcome::Done).map_err(Into::into), &Manner::default())
            }
        },
    }
}
