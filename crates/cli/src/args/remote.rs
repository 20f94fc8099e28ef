//! Options of commands that read images behind addresses.

use clap::Args;

#[cfg(feature = "remote")]
use super::value;

/// Reading of images behind addresses, such as `https://example.com/root.sqfs`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RemoteArgs {
    /// Size of the disk cache for remote images; 0 for none [default: 1G]
    ///
    /// All remote images share it. It is in packfs/remote in XDG_CACHE_HOME, or else in ~/.cache. PACKFS_REMOTE_CACHE
    /// changes the default size.
    #[cfg(feature = "remote")]
    #[arg(help_heading = "Remote images", long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) remote_cache: Option<u64>,

    /// Read from servers that send neither entity tag nor date
    ///
    /// packfs then cannot tell versions of an image apart. If the image is replaced while packfs reads it, the result
    /// mixes both versions, without an error.
    #[cfg(feature = "remote")]
    #[arg(help_heading = "Remote images", long)]
    pub(crate) remote_unversioned: bool,
}
