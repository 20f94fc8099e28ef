//! Files that commands write: one wording for all that stands in their way.

use std::io;
use std::path::Path;

use anyhow::Context;
use packfs_blocks::Output;
use packfs_image::name::display;

/// The mode of files that all may read, before the umask.
pub(crate) const READABLE: u32 = 0o666;

/// Begins an output at `path`, which appears when it is whole.
pub(crate) fn create(path: &Path, mode: u32, force: bool) -> anyhow::Result<Output> {
    Output::create(path, mode, force).map_err(|error| failed(path, "cannot create", error))
}

/// Writes all of a text and puts it under its name.
pub(crate) fn fill(output: Output, text: &str) -> anyhow::Result<()> {
    let path = display(output.target()).to_string();
    output.write_all_at(text.as_bytes(), 0).context(path)?;
    commit(output)
}

/// Puts an output under its name.
pub(crate) fn commit(output: Output) -> anyhow::Result<()> {
    let path = output.target().to_owned();
    output.commit().map_err(|error| failed(&path, "cannot finish", error))
}

/// A target may exist from the start, or appear while it is written.
fn failed(path: &Path, what: &'static str, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => packfs_image::Error::Exists { path: path.to_owned() }.into(),
        _ => anyhow::Error::new(error).context(format!("{}: {what}", display(path))),
    }
}
