//! Image formats to measure.

use std::str::FromStr;

use packfs_codec::{Choice, Codec};

use crate::{Error, Result};

/// An image format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageFormat {
    /// SquashFS.
    Squashfs,
    /// EROFS.
    Erofs,
}

impl ImageFormat {
    /// Both formats.
    pub const ALL: [ImageFormat; 2] = [ImageFormat::Squashfs, ImageFormat::Erofs];

    /// Returns the name in options, which is also that of the kernel's file system.
    pub fn name(self) -> &'static str {
        match self {
            ImageFormat::Squashfs => "squashfs",
            ImageFormat::Erofs => "erofs",
        }
    }

    /// Returns true if images of this format can have the codec.
    pub fn has(self, choice: &Choice) -> bool {
        let codec = choice.codec();
        let id = match self {
            ImageFormat::Squashfs => codec.squashfs_id().is_some(),
            ImageFormat::Erofs => codec.erofs_id().is_some(),
        };
        // Images without compression exist in both formats, and have no number there.
        id || codec == Codec::None
    }
}

impl FromStr for ImageFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = ImageFormat::ALL.into_iter().find(|format| format.name() == text);
        known.ok_or_else(|| Error::Usage(format!("unknown format `{text}`; accepted: squashfs, erofs")))
    }
}
