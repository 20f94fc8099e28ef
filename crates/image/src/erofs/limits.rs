//! Limits of EROFS: of its fields, and of the kernel's reader.

use super::Options;
use super::writer::check;
use crate::limits::{self, Limits};
use crate::{Result, Tree};

/// Checks a tree before its data is packed.
pub(crate) fn check(options: &Options, tree: &mut Tree) -> Result<()> {
    limits::check(tree, &limits())?;
    // Whether the attributes of an inode fit after it depends on how many of them are shared.
    check::xattrs(options, tree)
}

/// Returns the limits of all images.
pub(crate) fn limits() -> Limits {
    Limits {
        format: "EROFS",
        file: u64::MAX,
        times: None,
        owners: None,
        acls: true,
        xattr_value: u16::MAX.into(),
        xattr_values: usize::MAX,
    }
}
