//! The list of what is used first, which a writer lays out side by side (`build --hot`).

use std::path::{Path, PathBuf};

use crate::{Result, Tree, Warning, WarningKind};

/// A hot list: paths in the image in order of first use, one a line, with or without a leading slash.
///
/// Nothing is quoted: a line is a path as it is, so a path with a newline cannot be listed. Paths may lead through
/// symbolic links. Empty lines and those that begin with `#` are ignored.
#[derive(Debug, Clone)]
pub struct HotList {
    name: PathBuf,
    text: Vec<u8>,
}

impl HotList {
    /// Makes a list of a text, called `name` in messages.
    pub fn new(name: &Path, text: impl Into<Vec<u8>>) -> Self {
        HotList { name: name.to_owned(), text: text.into() }
    }

    /// Marks the listed inodes in a tree that is complete; lines that name none become warnings.
    pub fn mark(&self, tree: &mut Tree) -> Result<()> {
        for (number, line) in (1u32..).zip(self.text.split(|byte| *byte == b'\n')) {
            if !line.is_empty() && !line.starts_with(b"#") && !tree.mark_hot(line) {
                let detail = format!("line {number}: `{}`", line.escape_ascii());
                tree.warnings.add(Warning::new(WarningKind::HotPathMissing, &self.name).with_detail(detail))?;
            }
        }
        Ok(())
    }
}
