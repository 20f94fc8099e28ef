//! Options of the commands about packfs itself: `completions` and `man`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::Shell;

use super::known::NamedValueParser;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs completions bash > /etc/bash_completion.d/packfs
  packfs completions zsh > ~/.zfunc/_packfs")]
pub(crate) struct CompletionsArgs {
    /// Shell that the script is for
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Print the manual page of packfs or of one of its commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs man build | man -l -
  packfs man bench read | man -l -
  packfs man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Command of the page, as in `build`, `bench read` or `as mksquashfs`
    ///
    /// The default is the page of packfs itself.
    #[arg(value_name = "COMMAND", value_parser = NamedValueParser::<String>::of(commands), hide_possible_values = true)]
    pub(crate) command: Vec<String>,

    /// Write all pages into DIR instead
    #[arg(long, value_name = "DIR", conflicts_with = "command", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

/// Returns all commands. This is a separate list, as the definition of all commands contains this one.
fn commands() -> Vec<&'static str> {
    let images = ["build", "extract", "tar", "list", "cat", "info", "check", "diff"];
    let delivery = ["delta", "apply", "update", "seal", "verify", "oci"];
    let dumps = ["split", "join"];
    let mounts: &[&str] = if cfg!(feature = "mount") { &["mount", "umount"] } else { &[] };
    let serving: &[&str] = if cfg!(feature = "serve") { &["serve", "explore"] } else { &[] };
    let cluster = ["plan", "shard", "assemble", "status"];
    let others = ["bench", "tune", "trace", "as", "completions", "man", "help"];
    let of_bench = ["codecs", "read", "report", "memory"];
    let of_oci = ["convert", "export", "cache", "merge"];
    [&images[..], &delivery, &dumps, mounts, serving, &cluster, &others, &of_bench, &of_oci].concat()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::PackfsCli;

    #[test]
    fn every_command_is_offered() {
        let packfs = PackfsCli::command();
        let below = packfs.get_subcommands().flat_map(clap::Command::get_subcommands);
        let mut names: Vec<_> = packfs.get_subcommands().chain(below).map(clap::Command::get_name).collect();
        let mut offered = commands();
        names.sort_unstable();
        names.dedup();
        offered.sort_unstable();
        assert_eq!(offered, names);
    }
}
