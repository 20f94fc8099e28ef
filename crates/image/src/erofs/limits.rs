//! Limits of EROFS: of its fields, and of the kernel's reader.

use super::writer::check;
use super::writer::options::ErofsOptions;
use super::writer::place::reach::longest_file;
use crate::limits::{self, FormatLimits};
use crate::{Result, Tree};

/// Checks a tree before its data is packed.
pub(crate) fn check(options: &ErofsOptions, tree: &mut Tree) -> Result<()> {
    limits::check(tree, &limits(options))?;
    // Whether the attributes of an inode fit after it depends on how many of them are shared.
    check::xattrs(options, tree)
}

/// Returns the limits of an image.
pub(crate) fn limits(options: &ErofsOptions) -> FormatLimits {
    FormatLimits {
        format: "EROFS",
        file: longest_file(options),
        times: None,
        owners: None,
        acls: true,
        xattr_value: u16::MAX.into(),
        xattr_values: usize::MAX,
    }
}
