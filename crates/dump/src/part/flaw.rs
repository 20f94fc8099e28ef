//! Flaws: inconsistent structures of a part.

use std::io;
use std::path::Path;

use crate::Error;

/// Defect of bytes that should be a structure of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructureFlaw {
    /// Name of the structure, as the format's documentation calls it.
    pub structure: &'static str,
    /// Description of the defect.
    pub why: String,
}

impl StructureFlaw {
    /// Makes a flaw of `structure`.
    pub fn new(structure: &'static str, why: impl Into<String>) -> Self {
        StructureFlaw { structure, why: why.into() }
    }

    /// Makes a flaw of `structure` out of an error of the system: what a disk cannot read is damage, and the rest of the
    /// part may be sound. Other errors are returned, such as that of a part that was overwritten.
    pub(crate) fn unreadable(structure: &'static str, error: io::Error) -> io::Result<Self> {
        match error.raw_os_error() {
            Some(_) => Ok(StructureFlaw::new(structure, error.to_string())),
            None => Err(error),
        }
    }

    /// Converts it to an error about the part at `path`; the structure begins at byte `offset`.
    pub fn at(self, path: &Path, offset: u64) -> Error {
        Error::corrupt(path, self.structure, offset, self.why)
    }
}
