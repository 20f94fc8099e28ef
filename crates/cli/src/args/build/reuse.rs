//! Options of `packfs build` that concern an older image.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use packfs_image::build::ReusedImage;
use packfs_image::name::display;

use crate::output::failure::UsageError;

/// Ending of the name of an index.
const ENDING: &str = ".index";

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Rebuilding")]
pub(super) struct ReuseArgs {
    /// Take blocks of unchanged content from OLD_IMAGE
    ///
    /// OLD_IMAGE must have been built with --index. The new image has the same bytes as without this option. If
    /// OLD_IMAGE was built by another version, with another codec or other options, or if the index belongs to another
    /// image, nothing is reused and a warning says so.
    #[arg(long, value_name = "OLD_IMAGE", value_hint = ValueHint::FilePath)]
    reuse: Option<PathBuf>,

    /// Index of OLD_IMAGE [default: OLD_IMAGE.index]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "reuse")]
    reuse_index: Option<PathBuf>,

    /// Write an index of the image for --reuse [default FILE: IMAGE.index]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 0..=1, require_equals = true,
          default_missing_value = "")]
    index: Option<OsString>,
}

impl ReuseArgs {
    /// Returns true if an older image is used, or an index written.
    pub(super) fn is_given(&self) -> bool {
        self.reuse.is_some() || self.index.is_some()
    }

    /// The older image and the index to write beside `image`.
    pub(super) fn resolve(&self, image: &Path) -> Result<(Option<ReusedImage>, Option<PathBuf>), UsageError> {
        let ReuseArgs { reuse, reuse_index, index } = self;
        let reuse = reuse.clone().map(|image| {
            let index = reuse_index.clone().unwrap_or_else(|| beside(&image));
            ReusedImage { image, index }
        });
        if index.as_deref().is_some_and(OsStr::is_empty) && is_device(image) {
            return Err(UsageError(format!("{} is a device: name its index with --index=FILE", display(image))));
        }
        let index = index.as_ref().map(|index| if index.is_empty() { beside(image) } else { index.into() });
        if index.as_deref() == Some(image) {
            return Err(UsageError(format!("{} cannot be both the image and its index", display(image))));
        }
        Ok((reuse, index))
    }
}

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_block_device())
}

/// The name of an image's index.
fn beside(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(ENDING);
    name.into()
}
