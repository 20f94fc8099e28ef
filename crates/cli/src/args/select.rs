//! Selection of entries: paths and globs in an image, and exclusions.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use packfs_image::name::display;
use packfs_image::source::Exclude;

use crate::output::failure::Usage;

/// Entries of an image.
#[derive(Debug, Args)]
pub(crate) struct Select {
    /// Paths in the image, or globs such as 'usr/lib/*.so' [default: all]
    ///
    /// A path selects everything below it. `**` stands for any number of directories, as in '**/*.conf'.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) exclude: ExcludeArgs,
}

/// Entries to leave out.
#[derive(Debug, Args)]
pub(crate) struct ExcludeArgs {
    /// Leave out entries that match GLOB, with everything below
    ///
    /// A glob with a `/` is matched from the root, one without against names.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,

    /// Leave out entries that match the globs in FILE, one a line
    ///
    /// A line that begins with `#` is a comment.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    exclude_from: Vec<PathBuf>,
}

impl ExcludeArgs {
    /// Returns the patterns of all options together.
    pub(crate) fn resolve(&self) -> Result<Exclude, Usage> {
        let mut globs = self.exclude.clone();
        for path in &self.exclude_from {
            globs.extend(patterns(path)?);
        }
        Exclude::new(globs).map_err(|error| Usage(error.to_string()))
    }
}

/// Reads a file of globs.
fn patterns(path: &Path) -> Result<Vec<String>, Usage> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Usage(format!("--exclude-from {}: cannot read: {error}", display(path))))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}
