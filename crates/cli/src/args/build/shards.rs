//! Options of `packfs build` that cut the data into shards.

use std::num::{NonZeroU32, NonZeroU64};

use clap::Args;
use packfs_image::build::Shards;

use crate::args::value;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Layout of the image")]
#[group(multiple = false)]
pub(super) struct ShardCountArgs {
    /// Cut the data into N shards, as a cluster packs them
    ///
    /// Shards share only whole files, so each adds a little to the size. With 1, the image has the same bytes as
    /// without this option.
    #[arg(long, value_name = "N", value_parser = value::number_in::<u32>(1..=1 << 20))]
    shards: Option<u32>,

    /// Cut the data into shards of about SIZE
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    shard_size: Option<u64>,
}

impl ShardCountArgs {
    /// Returns the number or size of shards, if one was given.
    pub(super) fn resolve(&self) -> Option<Shards> {
        let count = self.shards.and_then(NonZeroU32::new).map(Shards::Count);
        count.or_else(|| self.shard_size.map(|size| Shards::Size(NonZeroU64::new(size).unwrap_or(NonZeroU64::MIN))))
    }
}
