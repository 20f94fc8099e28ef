//! Options of the commands about packfs itself: `completions` and `man`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::Shell;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs completions bash > /etc/bash_completion.d/packfs
  packfs completions zsh > ~/.zfunc/_packfs")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Print the manual page of packfs or of one of its commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs man build | man -l -
  packfs man --dir /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Command to explain [default: packfs itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,

    /// Write all pages into DIR instead
    #[arg(long, value_name = "DIR", conflicts_with = "command", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}
