//! The `packfs` program: arguments in, one command run, output and exit status out. The only crate of
//! packfs that prints.

mod args;
mod commands;
mod output;
mod resources;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};

use crate::output::failure::Outcome;

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
                if error.use_stderr() {
                    let _ = error.print();
                    return ExitCode::from(output::failure::WRONG_USE);
                }
                // Help and version are data that was asked for.
                let printed = error.print().and_then(|()| std::io::stdout().flush());
                output::failure::exit(printed.map(|()| Outcome::Done).map_err(Into::into), false)
            }
        },
    }
}
