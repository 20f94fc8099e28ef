//! Files that commands write, with one wording for all obstacles.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use packfs_blocks::{Output, system};
use packfs_image::name::display;

use super::failure::UsageError;
use crate::arguments;

/// Advice where a directory is named as an output.
pub(crate) const NAME_A_FILE: &str = "name a file in it";

/// Advice where a FIFO, a socket or a character device is named as an output.
pub(crate) const NAME_ANOTHER: &str = "name another file";

/// Mode of files that everyone may read, before the umask.
pub(crate) const READABLE: u32 = 0o666;

/// Begins an output at `path`, which appears once it is complete.
pub(crate) fn create(path: &Path, mode: u32, force: bool) -> anyhow::Result<Output> {
    Output::create(path, mode, force).map_err(|error| failed(path, "cannot create", error))
}

/// As [`create`], for commands that can also write to standard output.
pub(crate) fn create_or_redirect(path: &Path, mode: u32, force: bool) -> anyhow::Result<Output> {
    refuse_stream(path)?;
    create(path, mode, force)
}

/// Returns true if an output is the block device that an input is on: it would be overwritten while it is read. A file is
/// replaced when the new one is complete.
pub(crate) fn is_device_of(output: &Path, input: &Path) -> bool {
    let (Ok(input), Ok(output)) = (fs::metadata(input), fs::metadata(output)) else { return false };
    output.file_type().is_block_device() && system::is_same_file(&input, &output)
}

/// Fails if the device of OLD, which is read `how_long`, is also that of NEW.
pub(crate) fn refuse_old_device(old: &Path, new: &Path, how_long: &str) -> Result<(), UsageError> {
    if is_device_of(new, old) {
        let name = display(new);
        let why = format!("{name} is OLD, which is read {how_long}: write NEW to another device or file");
        return Err(UsageError(why));
    }
    Ok(())
}

/// Fails for a FIFO, a socket or a character device, with the advice to write to standard output.
pub(crate) fn refuse_stream(path: &Path) -> anyhow::Result<()> {
    match Output::check_target(path) {
        Err(error) if error.kind() == io::ErrorKind::NotSeekable => {
            // Of other programs, none has this option.
            let redirect = arguments::emulated_program().is_none();
            let advice = if redirect { "use -o - and redirect standard output" } else { NAME_ANOTHER };
            anyhow::bail!("{}: cannot create: {error}; {advice}", display(path))
        }
        // `create` reports all other errors.
        _ => Ok(()),
    }
}

/// Writes a whole text and commits the output.
pub(crate) fn fill(output: Output, text: &str) -> anyhow::Result<()> {
    fill_bytes(output, text.as_bytes())
}

/// As [`fill`], for what need not be UTF-8.
pub(crate) fn fill_bytes(output: Output, bytes: &[u8]) -> anyhow::Result<()> {
    let path = output.target().to_owned();
    output.write_all_at(bytes, 0).map_err(|error| failed(&path, "cannot write", error))?;
    commit(output)
}

/// Commits an output.
pub(crate) fn commit(output: Output) -> anyhow::Result<()> {
    let path = output.target().to_owned();
    output.commit().map_err(|error| failed(&path, "cannot finish", error))
}

/// Converts an error. A target may exist from the start, or appear while it is written.
fn failed(path: &Path, what: &'static str, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => packfs_image::Error::Exists { path: path.to_owned() }.into(),
        io::ErrorKind::IsADirectory => anyhow::anyhow!("{}: is a directory; {NAME_A_FILE}", display(path)),
        io::ErrorKind::NotSeekable => anyhow::anyhow!("{}: {what}: {error}; {NAME_ANOTHER}", display(path)),
        _ => anyhow::Error::new(error).context(format!("{}: {what}", display(path))),
    }
}
