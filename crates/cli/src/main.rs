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

use crate::output::failure::{CommandOutcome, ExitPolicy, UsageError};

fn main() -> ExitCode {
    // Before anything else: until then, all users of the machine see the passwords in the arguments.
    arguments::hide_secrets();
    // Before the first thread: the C library reads these settings without a lock.
    limits::prepare();
    names::keep_to_files_and_dns();
    if let Some(status) = personalities::run_by_name() {
        return status;
    }
    match args::PackfsCli::try_parse_from(arguments::command_line()) {
        Ok(args::PackfsCli { command: args::PackfsCommand::As(args) }) => personalities::run_as(args),
        Ok(args::PackfsCli { command: args::PackfsCommand::Help(topics) }) => explain(&topics),
        Err(error) if is_help(&error) => {
            run(Err(args::help::requested(&arguments::command_line())), ExitPolicy::default())
        }
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => {
            let told = args::refused::not_text(&arguments::command_line());
            output::failure::report_outcome(Err(UsageError(told).into()), &ExitPolicy::default())
        }
        parsed => run(parsed, ExitPolicy::default()),
    }
}

/// Prints the explanation of a topic.
fn explain(topic: &args::help::HelpArgs) -> ExitCode {
    if let Some(command) = topic.json_schema_command() {
        return output::failure::report_outcome(commands::schemas::print(command), &ExitPolicy::default());
    }
    match args::help::explained(topic) {
        Ok(text) => run(Err(text), ExitPolicy::default()),
        Err(wrong) => output::failure::report_outcome(Err(wrong.into()), &ExitPolicy::default()),
    }
}

/// Returns true if the help of a command was requested, and no table of values.
fn is_help(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::DisplayHelp && error.get(ContextKind::Custom).is_none()
}

/// Runs a command of packfs that another program's command line became, without the program's name. Of an option that is
/// given twice the last one counts, as with those programs: their callers append options of users. `policy` says what of
/// the exit status is different.
fn run_build(line: Vec<OsString>, policy: ExitPolicy) -> ExitCode {
    run(parse(line), policy)
}

/// Parses a command line, without the program's name, that another program's command line became.
fn parse(line: Vec<OsString>) -> Result<args::PackfsCli, clap::Error> {
    let command = line.first().and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let packfs = args::PackfsCli::command().mut_subcommand(command, |command| command.args_override_self(true));
    let matches = packfs.try_get_matches_from(std::iter::once("packfs".into()).chain(line))?;
    args::PackfsCli::from_arg_matches(&matches)
}

fn run(parsed: Result<args::PackfsCli, clap::Error>, policy: ExitPolicy) -> ExitCode {
    match parsed {
        Ok(cli) => {
            let may_leave_out = cli.command.may_leave_out();
            output::failure::report_outcome(commands::run(cli.command), &ExitPolicy { may_leave_out, ..policy })
        }
        // `--codec help` requests a table that clap cannot format.
        Err(error) => match error.get(ContextKind::Custom) {
            Some(ContextValue::String(table)) => output::failure::report_outcome(commands::print(table), &policy),
            _ => {
                if let Some(told) = args::refused::value(&error) {
                    return output::failure::report_outcome(Err(UsageError(told).into()), &policy);
                }
                if error.use_stderr() {
                    let _ = args::refused::advised(error).print();
                    return ExitCode::from(policy.usage.unwrap_or(output::failure::WRONG_USE));
                }
                // Help and version are results.
                output::failure::report_outcome(print_requested(&error), &policy)
            }
        },
    }
}

/// Prints the help or version that clap reports as an error.
fn print_requested(text: &clap::Error) -> anyhow::Result<CommandOutcome> {
    if output::is_terminal() {
        // In colours, unless the environment turns them off.
        text.print().with_context(|| format!("{}: cannot write", output::STDOUT))?;
        return Ok(CommandOutcome::Done);
    }
    commands::print(&text.render().to_string())
}
