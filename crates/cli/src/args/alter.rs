//! Changes to the attributes of entries that are read from an image.

use clap::Args;
use packfs_image::tree::{ExcludeXattrs, ModeChange, Time, TimeChange, TreeTransform};

use super::value;
use crate::output::failure::UsageError;

/// Changes to attributes.
#[derive(Debug, Args)]
pub(crate) struct AlterArgs {
    /// Owner and group of every entry, as USER:GROUP
    ///
    /// Each is a number or a name that this system knows. `USER:` or `:GROUP` changes only one of them.
    #[arg(long, value_name = "OWNER", value_parser = value::owner)]
    pub(crate) owner: Option<(Option<u32>, Option<u32>)>,

    /// Change permissions as chmod does, as in go-w or D0755,F0644
    ///
    /// The mode is octal or symbolic. D or F in front restricts it to directories or to everything else.
    #[arg(long, value_name = "MODE", allow_hyphen_values = true)]
    mode: Option<ModeChange>,

    /// Time of every entry: seconds since 1970, UTC date or `now`
    #[arg(long, value_name = "T", value_parser = value::time, allow_hyphen_values = true)]
    time: Option<Time>,

    /// Leave out extended attributes
    #[arg(long)]
    no_xattrs: bool,

    /// Leave out extended attributes that match GLOB
    ///
    /// For example 'system.posix_acl_*'.
    #[arg(long, value_name = "GLOB")]
    exclude_xattr: Vec<String>,
}

impl AlterArgs {
    /// Returns the changes that all options together make.
    pub(crate) fn resolve(&self) -> Result<TreeTransform, UsageError> {
        let (uid, gid) = self.owner.unwrap_or_default();
        Ok(TreeTransform {
            uid,
            gid,
            mode: self.mode.clone().unwrap_or_default(),
            time: self.time.map_or(TimeChange::Keep, TimeChange::Set),
            drop_xattrs: self.no_xattrs,
            exclude_xattrs: ExcludeXattrs::new(&self.exclude_xattr).map_err(|error| UsageError(error.to_string()))?,
            ..TreeTransform::default()
        })
    }
}
