//! Flaws: structures of a part that do not hold together.

use std::path::Path;

use crate::Error;

/// What is wrong with bytes that should be a structure of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Name of the structure, as the format's documentation calls it.
    pub structure: &'static str,
    /// What is wrong.
    pub why: String,
}

impl Flaw {
    /// A flaw of `structure`.
    pub fn new(structure: &'static str, why: impl Into<String>) -> Self {
        Flaw { structure, why: why.into() }
    }

    /// As an error about the part at `path`, where the structure begins at byte `offset`.
    pub fn at(self, path: &Path, offset: u64) -> Error {
        Error::corrupt(path, self.structure, offset, self.why)
    }
}
