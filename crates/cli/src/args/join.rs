//! Options of `join`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::{Effort, Talk};

/// Put a dump together again from its parts: into a file with its holes, onto a block device, or as a stream.
///
/// Every byte is verified. What a part lost is brought back from parity, if there is any; where that does not do, the
/// ranges of the dump that are lost are listed and nothing is written, or all but these with --partial.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs join /mnt/a/core /mnt/b/core -o core
  packfs join /mnt/*/disk -o /dev/vdb --force
  packfs join /mnt/*/core -o - | sha256sum")]
pub(crate) struct Join {
    /// Parts of one dump, in any order
    #[arg(value_name = "PART", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) parts: Vec<PathBuf>,

    /// File or block device to write; `-` is standard output
    #[arg(short, long, value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Write what there is although some of the dump is lost: zeros stand for that, it is listed, and the exit
    /// status is 1
    #[arg(long)]
    pub(crate) partial: bool,

    /// Replace OUTPUT if it exists; a block device always does
    #[arg(short, long)]
    pub(crate) force: bool,

    /// What to write
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = As::Raw)]
    pub(crate) form: As,

    #[command(flatten)]
    pub(crate) effort: Effort,

    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: Talk,
}

/// What a dump is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum As {
    /// The bytes that were split
    Raw,
}
