//! Values of options: formats and ways to pack whiteouts.

use clap::ValueEnum;
use packfs_image::tree::WhiteoutPolicy;

/// An image format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatChoice {
    /// SquashFS 4.0
    Squashfs,
    /// EROFS
    Erofs,
}

impl FormatChoice {
    /// Returns its name in options and documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FormatChoice::Squashfs => "squashfs",
            FormatChoice::Erofs => "erofs",
        }
    }
}

/// Ways to pack the whiteouts of OCI layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum WhiteoutChoice {
    /// Pack whiteouts as files
    Keep,
    /// Convert them to whiteouts of overlayfs
    Overlay,
    /// Leave them out
    Strip,
    /// Keep all; mark directories that have whiteouts of overlayfs
    MarkOverlay,
    /// Leave out whiteouts and attributes of overlayfs
    StripOverlay,
}

impl From<WhiteoutChoice> for WhiteoutPolicy {
    fn from(marks: WhiteoutChoice) -> Self {
        match marks {
            WhiteoutChoice::Keep => WhiteoutPolicy::Keep,
            WhiteoutChoice::Overlay => WhiteoutPolicy::Overlay,
            WhiteoutChoice::Strip => WhiteoutPolicy::Strip,
            WhiteoutChoice::MarkOverlay => WhiteoutPolicy::MarkOverlay,
            WhiteoutChoice::StripOverlay => WhiteoutPolicy::StripOverlay,
        }
    }
}
