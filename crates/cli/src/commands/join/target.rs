//! The target of a join: standard output, a stream, or a file.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use packfs_blocks::progress::Phase;
use packfs_blocks::{Output, Progress, system};
use packfs_image::name::display;

use crate::args::JoinArgs;
use crate::output::failure::UsageError;
use crate::output::{self, target};

/// A dump may contain memory contents: only its owner may read it.
const MODE: u32 = 0o600;

/// The target.
pub(super) enum JoinTarget {
    Stdout,
    /// A FIFO or a character device.
    Stream(PathBuf),
    File(Output),
}

impl JoinTarget {
    /// Examines the output before anything is read. A new file is begun here, so that obstacles are
    /// reported first; it stays invisible until it is committed.
    pub(super) fn new(args: &JoinArgs) -> Result<JoinTarget> {
        if args.output == Path::new("-") {
            if args.json {
                return Err(UsageError("--json and the dump cannot both go to standard output".into()).into());
            }
            output::require_pipe_or_file("a dump")?;
            return Ok(JoinTarget::Stdout);
        }
        let output = display(&args.output);
        if let Ok(found) = std::fs::metadata(&args.output) {
            let is_same =
                |part: &&PathBuf| std::fs::metadata(part).is_ok_and(|part| system::is_same_file(&part, &found));
            if let Some(part) = args.parts.iter().find(is_same) {
                return Err(UsageError(format!(
                    "{output} is one of the parts ({}); name another file with -o",
                    display(part)
                ))
                .into());
            }
            if found.file_type().is_fifo() || found.file_type().is_char_device() {
                return Ok(JoinTarget::Stream(args.output.clone()));
            }
        }
        Ok(JoinTarget::File(target::create(&args.output, MODE, args.force)?))
    }
}

/// Gives a dump its name.
pub(super) fn commit_dump(file: Output, progress: &Progress) -> Result<()> {
    progress.enter(Phase::Flush);
    target::commit(file)
}
