//! An image on standard output: as it arises if the format is streamed, otherwise copied there once it is complete.

use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;

use packfs_blocks::io::Sequential;
use packfs_blocks::{Output, Progress};
use packfs_image::build::{AnyOptions, Summary};
use packfs_image::source::Store;
use packfs_image::{Error, Plan, Result};

use crate::args::BuildPlan;
use crate::commands::sources::temporary_file;
use crate::output;
use crate::output::failure::Usage;

/// Returns true if the image goes to standard output.
pub(super) fn is_meant(plan: &BuildPlan) -> bool {
    plan.output.as_os_str() == "-"
}

pub(super) fn refuse_terminal() -> std::result::Result<(), Usage> {
    match io::stdout().is_terminal() {
        true => Err(Usage("refusing to write an image to a terminal; use -o FILE or a pipe".into())),
        false => Ok(()),
    }
}

/// Returns device and inode number of standard output, if that is a regular file: it may lie in a source directory.
pub(super) fn own_file() -> Option<(u64, u64)> {
    let found = output::unnamed_stdout().and_then(|file| file.metadata()).ok()?;
    found.is_file().then(|| (found.dev(), found.ino()))
}

/// Builds an image on standard output.
pub(super) fn write(
    target: &AnyOptions,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<Summary> {
    let mut out = output::unnamed_stdout().map_err(failed)?;
    if matches!(target, AnyOptions::Squashfs(options) if options.stream) {
        return target.build_to(Output::over(Sequential::new(out), output::STDOUT), progress, fill);
    }
    let file = temporary_file()?;
    let same = file.try_clone().map_err(failed)?;
    let summary = target.build_to(Output::over(same, "the temporary file of the image"), progress, fill)?;
    Output::over(file, output::STDOUT).copy_to(&mut out).map_err(failed)?;
    Ok(summary)
}

fn failed(error: io::Error) -> Error {
    Error::io("cannot write", output::STDOUT)(error)
}
