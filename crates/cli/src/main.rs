//! The `packfs` program: parses arguments, runs one command, prints its output and sets the exit
//! status. This is the only crate of packfs that prints.

// It panics if standard output is closed or full: `output::write_result` returns an error.
#![deny(clippy::print_stdout)]

mod args;
mod arguments;
mod commands;
mod input;
mod limits;
mod names;
mod output;
mod personalities;
mod resources;
mod startup;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::output::failure::{Manner, Outcome, Usage};

fn main() -> ExitCode {
    arguments::take();
    limits::prepare();
    names::keep_to_files_and_dns();
    if let Some(status) = personalities::run() {
        return status;
    }
    match args::Cli::try_parse_from(arguments::all()) {
        Ok(args::Cli { command: args::Command::As(asked) }) => personalities::run_as(asked),
        Ok(args::Cli { command: args::Command::Help(topic) }) => explain(&topic),
        Err(error) if is_help(&error) => run(Err(args::help::requested(&arguments::all())), Manner::default()),
        parsed => run(parsed, Manner::default()),
    }
}

/// Prints the explanation of a topic.
fn explain(topic: &args::help::Help) -> ExitCode {
    if let Some(command) = topic.json_schema_command() {
        return output::failure::exit(commands::schemas::print(command), &Manner::default());
    }
    match args::help::explained(topic) {
        Ok(text) => run(Err(text), Manner::default()),
        Err(wrong) => output::failure::exit(Err(wrong.into()), &Manner::default()),
    }
}

/// Returns true if the help of a command was requested, and no table of values.
fn is_help(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::DisplayHelp && error.get(ContextKind::Custom).is_none()
}

/// Runs a command of packfs that another program's command line became, without the program's name. Of an option that is
/// given twice the last one counts, as with those programs: their callers append options of users. `manner` says what of
/// the exit status is different.
fn run_build(line: Vec<OsString>, manner: Manner) -> ExitCode {
    run(parse(line), manner)
}

/// Parses a command line, without the program's name, that another program's command line became.
fn parse(line: Vec<OsString>) -> Result<args::Cli, clap::Error> {
    let command = line.first().and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let packfs = args::Cli::command().mut_subcommand(command, |command| command.args_override_self(true));
    let matches = packfs.try_get_matches_from(std::iter::once("packfs".into()).chain(line))?;
    args::Cli::from_arg_matches(&matches)
}

fn run(parsed: Result<args::Cli, clap::Error>, manner: Manner) -> ExitCode {
    match parsed {
        Ok(cli) => {
            let may_leave_out = cli.command.may_leave_out();
            output::failure::exit(commands::run(cli.command), &Manner { may_leave_out, ..manner })
        }
        // `--codec help` requests a table that clap cannot format.
        Err(error) => match error.get(ContextKind::Custom) {
            Some(ContextValue::String(table)) => output::failure::exit(commands::print(table), &manner),
            _ => {
                if let Some(told) = args::refused::value(&error) {
                    return output::failure::exit(Err(Usage(told).into()), &manner);
                }
                if error.use_stderr() {
                    let _ = args::refused::advised(error).print();
                    return ExitCode::from(manner.usage.unwrap_or(output::failure::WRONG_USE));
                }
                // Help and version are results.
                output::failure::exit(print_requested(&error), &manner)
            }
        },
    }
}

/// Prints the help or version that clap reports as an error.
fn print_requested(text: &clap::Error) -> anyhow::Result<Outcome> {
    if output::is_terminal() {
        // In colours, unless the environment turns them off.
        text.print().with_context(|| format!("{}: cannot write", output::STDOUT))?;
        return Ok(Outcome::Done);
    }
    commands::print(&text.render().to_string())
}
