//! `packfs completions`.

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Cli, Completions};
use crate::output::failure::Outcome;

pub(super) fn run(args: &Completions) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "packfs", &mut script);
    super::print(std::str::from_utf8(&script)?)
}
