//! `packfs completions`.

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{CompletionsArgs, PackfsCli};
use crate::output::failure::CommandOutcome;

pub(super) fn run(args: &CompletionsArgs) -> Result<CommandOutcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut PackfsCli::command(), "packfs", &mut script);
    super::print(std::str::from_utf8(&script)?)
}
