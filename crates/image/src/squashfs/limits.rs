//! Limits of SquashFS: of its fields, and of the kernel's reader.

use super::SquashfsOptions;
use super::format::IDS_MAX;
use crate::limits::{self, FormatLimits};
use crate::{Result, Tree};

/// Maximum number of blocks in a file; the kernel counts them in a signed number.
const BLOCKS_MAX: u64 = i32::MAX.unsigned_abs() as u64;

/// Checks a tree before its data is packed; POSIX ACLs become warnings.
pub(crate) fn check(options: &SquashfsOptions, tree: &mut Tree) -> Result<()> {
    limits::check(tree, &limits(options))
}

/// Returns the limits of images with these options.
pub(crate) fn limits(options: &SquashfsOptions) -> FormatLimits {
    FormatLimits {
        format: "SquashFS",
        file: BLOCKS_MAX * u64::from(options.block_size),
        times: Some((0..=u32::MAX.into(), "1970 to 2106")),
        owners: Some(IDS_MAX),
        acls: false,
        xattr_value: 65_536,
        // The limit of this library's reader.
        xattr_values: 64 << 20,
    }
}
