//! Image formats that are measured.

use std::str::FromStr;

use packfs_codec::{Choice, Codec};

use crate::{Error, Result};

/// An image format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// SquashFS.
    Squashfs,
    /// EROFS.
    Erofs,
}

impl Format {
    /// Both.
    pub const ALL: [Format; 2] = [Format::Squashfs, Format::Erofs];

    /// Its name in options, which is the kernel's too.
    pub fn name(self) -> &'static str {
        match self {
            Format::Squashfs => "squashfs",
            Format::Erofs => "erofs",
        }
    }

    /// True if images of it can have a codec.
    pub fn has(self, choice: &Choice) -> bool {
        let codec = choice.codec();
        let id = match self {
            Format::Squashfs => codec.squashfs_id().is_some(),
            Format::Erofs => codec.erofs_id().is_some(),
        };
        id || codec == Codec::None
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Format::ALL.into_iter().find(|format| format.name() == text);
        known.ok_or_else(|| Error::Usage(format!("there is no format `{text}`; accepted: squashfs, erofs")))
    }
}
