//! Options of `packfs build` for images of composefs.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_seal::HashAlgorithm;

use super::BuildArgs;
use crate::output::failure::UsageError;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "composefs")]
pub(crate) struct ComposefsArgs {
    /// Write an image of composefs: metadata, and digests of files
    ///
    /// The digests are those of fs-verity. The image is the one of composefs-rs, version 1, byte for byte. HASH is sha256,
    /// the default, or sha512, which bootc uses. The summary has the digest of the image. Files of at most 64 bytes are in
    /// the image; overlayfs finds the others in a directory of objects.
    #[arg(
        long,
        value_name = "HASH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "sha256",
        conflicts_with_all = ["dry_run", "percentage"]
    )]
    pub(crate) composefs: Option<HashAlgorithm>,

    /// Store the contents of files in DIR under their digests
    ///
    /// Objects that are there already stay. On a file system with fs-verity, Linux verifies them from then on.
    #[arg(long, value_name = "DIR", requires = "composefs", value_hint = ValueHint::DirPath)]
    pub(crate) objects: Option<PathBuf>,
}

impl BuildArgs {
    /// Fails if an option decides what is prescribed in an image of composefs.
    pub(super) fn refuse_what_composefs_decides(&self) -> Result<(), UsageError> {
        if self.composefs.composefs.is_none() {
            return Ok(());
        }
        if self.output.as_os_str() == "-" {
            return Err(UsageError("--composefs cannot write to standard output: name a file".into()));
        }
        let of_tables = [
            self.compression.first_given(),
            self.layout.first_given(),
            self.squashfs.first_given(),
            self.erofs.first_given(),
        ];
        let others = [
            (self.preset.is_some(), "preset"),
            (self.format.is_some_and(|format| format != super::FormatChoice::Erofs), "format squashfs"),
            (self.shards.resolve().is_some(), "shards"),
            (self.sort.is_some(), "sort"),
            (self.hot.is_some(), "hot"),
            (self.offset > 0, "offset"),
            (self.around.prefix.is_some(), "prefix"),
            (self.reuse.is_given(), "reuse and --index"),
            (self.image_time.is_some(), "image-time"),
        ];
        let others = others.into_iter().filter_map(|(given, option)| given.then_some(option));
        match of_tables.into_iter().flatten().chain(others).next() {
            Some(option) => {
                let why = "all that is not in the sources is prescribed in an image of composefs";
                Err(UsageError(format!("--{option} cannot be used with --composefs: {why}")))
            }
            None => Ok(()),
        }
    }
}
