//! An image on standard output. A streamed image goes there as it is made. Any other is completed in a temporary file
//! first, because its first bytes are written last.

use std::io;

use packfs_blocks::io::SequentialStorage;
use packfs_blocks::{Output, Progress};
use packfs_image::build::{AnyOptions, BuildSummary};
use packfs_image::source::Store;
use packfs_image::{Error, Plan, Result};
use rustix::fs::FileType;

use crate::commands::sources::temporary_file;
use crate::output;

/// Returns device and inode number of standard output, if that is a regular file: it may lie in a source directory.
pub(super) fn own_file() -> Option<(u64, u64)> {
    let found = rustix::fs::fstat(rustix::stdio::stdout()).ok()?;
    FileType::from_raw_mode(found.st_mode).is_file().then_some((found.st_dev, found.st_ino))
}

/// Builds an image on standard output.
pub(super) fn write_image(
    target: &AnyOptions,
    progress: &Progress,
    fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
) -> Result<BuildSummary> {
    output::write_raw_result(write_error, |stdout| {
        if matches!(target, AnyOptions::Squashfs(options) if options.stream) {
            let stream = SequentialStorage::new(stdout.try_clone().map_err(write_error)?);
            return target.build_to(Output::over(stream, output::STDOUT), progress, fill);
        }
        let file = temporary_file()?;
        let same = file.try_clone().map_err(write_error)?;
        let summary = target.build_to(Output::over(same, "the temporary file of the image"), progress, fill)?;
        Output::over(file, output::STDOUT).copy_to(stdout).map_err(write_error)?;
        Ok(summary)
    })
}

fn write_error(error: io::Error) -> Error {
    Error::io("cannot write", output::STDOUT)(error)
}
