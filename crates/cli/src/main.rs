//! The `packfs` program: arguments in, one command run, output and exit status out. The only crate of
//! packfs that prints.

mod args;
mod commands;
mod output;
mod resources;

use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};

fn main() -> ExitCode {
    match args::Cli::try_parse() {
        Ok(cli) => {
            let all_or_nothing = cli.command.writes_an_archive();
            output::failure::exit(commands::run(cli.command), all_or_nothing)
        }
        // `--codec help` asks for a table that is not clap's to format.
        Err(error) => match error.get(ContextKind::Custom) {
            Some(ContextValue::String(table)) => output::failure::exit(commands::print(table), false),
            _ => {
                let status = if error.use_stderr() { 2 } else { 0 };
                // Help for a reader that hung up needs no word.
                let _ = error.print();
                ExitCode::from(status)
            }
        },
    }
}
