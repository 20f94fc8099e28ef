//! Warnings on standard error: one line per kind, with its count and an example.

use packfs_image::{WarningKind, Warnings};

use super::{advice, say, units};

/// Prints the warnings of a library.
pub(crate) fn print(warnings: &Warnings) {
    for (kind, counted) in warnings.kinds() {
        let hint = match kind {
            WarningKind::OutputInSource => advice::for_user(" (with --exclude)").unwrap_or_default(),
            _ => String::new(),
        };
        let example = counted.first.first().map(packfs_image::Warning::place).unwrap_or_default();
        match counted.count {
            1 => say(format_args!("packfs: warning: {example}: {kind}{hint}")),
            count => {
                let more = units::count(count - 1);
                say(format_args!("packfs: warning: {example} and {more} more: {kind}{hint}"));
            }
        }
    }
}
