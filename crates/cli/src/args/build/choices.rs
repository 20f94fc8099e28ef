//! Values of options: formats and ways to pack whiteouts.

use clap::ValueEnum;
use packfs_image::tree::Whiteouts;

/// An image format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// SquashFS 4.0
    Squashfs,
    /// EROFS
    Erofs,
}

impl Format {
    /// Returns its name in options and documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Squashfs => "squashfs",
            Format::Erofs => "erofs",
        }
    }
}

/// Ways to pack the whiteouts of OCI layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Marks {
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

impl From<Marks> for Whiteouts {
    fn from(marks: Marks) -> Self {
        match marks {
            Marks::Keep => Whiteouts::Keep,
            Marks::Overlay => Whiteouts::Overlay,
            Marks::Strip => Whiteouts::Strip,
            Marks::MarkOverlay => Whiteouts::MarkOverlay,
            Marks::StripOverlay => Whiteouts::StripOverlay,
        }
    }
}
