//! Options of `join`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use packfs_codec::Choice;
use packfs_dump::kdump;

use super::build::{CodecArg, CodecParser};
use super::{EffortArgs, TalkArgs};
use crate::output::failure::UsageError;

/// Restore a dump from its parts.
///
/// OUTPUT is a file (zeros become holes), a block device or a pipe. Every byte is verified. Damaged and missing
/// segments are restored from parity. If that fails, packfs lists the lost ranges and writes nothing, or, with
/// --partial, everything else.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs join /mnt/a/core /mnt/b/core -o core
  packfs join /mnt/*/disk -o /dev/vdb --force
  packfs join /mnt/*/core -o - | sha256sum
  packfs join /mnt/*/core -o dump.kdump --as kdump --codec zstd:3")]
pub(crate) struct JoinArgs {
    /// Parts of one dump, in any order
    #[arg(value_name = "PART", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) parts: Vec<PathBuf>,

    /// File or block device to write; `-` is standard output
    #[arg(short, long, value_name = "OUTPUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Write the rest if some of the dump is lost
    ///
    /// Lost bytes are written as zeros and listed, and the exit status is 1.
    #[arg(long)]
    pub(crate) partial: bool,

    /// Replace OUTPUT if it exists; needed for a block device
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Form of the output
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = JoinForm::Raw)]
    pub(crate) form: JoinForm,

    /// Codec of the pages of --as kdump [default: lzo]
    ///
    /// Accepted: lzo, snappy, gzip, zstd or none, with level and options as in zstd:3. Without a level a codec uses
    /// its fastest one. Every build of crash and makedumpfile reads the default.
    #[arg(short, long, value_name = "CODEC", value_parser = CodecParser::PAGES, hide_possible_values = true)]
    codec: Option<CodecArg>,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

impl JoinArgs {
    /// Returns the codec of pages; `None` if the bytes that were split are written.
    pub(crate) fn page_codec(&self) -> Result<Option<Choice>, UsageError> {
        if self.form == JoinForm::Raw {
            return match self.codec {
                Some(_) => Err(UsageError("--codec is for --as kdump and --as kdump-flat".into())),
                None => Ok(None),
            };
        }
        if self.partial {
            let why = "lost pages would be zeros, like pages that really are zero";
            return Err(UsageError(format!(
                "--partial cannot be combined with --as kdump: {why}; leave out one of them"
            )));
        }
        let choice = match &self.codec {
            Some(codec) => codec.choice().clone(),
            None => DEFAULT.parse().map_err(|error: packfs_codec::Error| UsageError(error.to_string()))?,
        };
        kdump::accepts(choice.codec())
            .map_err(|why| UsageError(format!("--codec {}: {why}", choice.codec().name())))?;
        Ok(Some(choice))
    }
}

/// The faster of the two codecs that crash and makedumpfile read in any build; the other is gzip.
const DEFAULT: &str = "lzo:algorithm=lzo1x_1";

/// Form in which a dump is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JoinForm {
    /// The bytes that were split
    Raw,
    /// A kdump-compressed file, as makedumpfile writes and crash reads; for ELF cores of Linux
    Kdump,
    /// The same, flattened as by makedumpfile -F; can be written to a pipe
    KdumpFlat,
}
