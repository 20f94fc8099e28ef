//! The options of a build in full: what defaults come to, as words of a command line.

use packfs_image::build::{AnyOptions, Shards};
use packfs_image::erofs::{Features, Metabox};
use packfs_image::squashfs::Fragments;

use super::{BuildPlan, features};
use crate::args::value;

impl BuildPlan {
    /// Options that come to the same build, those included that were not given. Without `--uuid random`, which comes to
    /// another build each time.
    pub(crate) fn in_full(&self) -> Vec<String> {
        let common = self.target.common();
        let mut words: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        add("--format", self.target.format().into());
        add("--codec", common.codec.to_string());
        add("--block-size", value::as_size(self.target.block_size()));
        match &self.target {
            AnyOptions::Squashfs(options) => {
                let fragments = match options.fragments {
                    Fragments::None => "none",
                    Fragments::Small => "small",
                    Fragments::Tails => "tails",
                };
                add("--fragments", fragments.into());
            }
            AnyOptions::Erofs(options) => {
                add("--fs-block", value::as_size(options.block_size));
                add("--target-kernel", options.target_kernel.to_string());
                add("--features", features::in_words(options.features, Features::FRAGMENTS | Features::DEDUPE));
                if options.features.contains(Features::METABOX) {
                    let Metabox { cluster_size, codec, .. } = &options.metabox;
                    let codec = codec.as_ref().map_or(String::new(), |codec| format!(",{codec}"));
                    add("--metabox", value::as_size(*cluster_size) + &codec);
                }
                if options.features.contains(Features::CHUNKS) {
                    add("--chunk-size", value::as_size(options.chunk_size));
                }
                if let Some(size) = options.fragment_cluster {
                    add("--fragment-cluster", value::as_size(size));
                }
                if let Some(size) = options.extent_max {
                    add("--max-extent", value::as_size(size));
                }
                if let Some(size) = options.data_align {
                    add("--data-align", value::as_size(size));
                }
                if let Some(above) = options.xattr_share {
                    add("--xattr-share", above.to_string());
                }
            }
        }
        if let Some(order) = common.order {
            add("--order", order.to_string());
        }
        match common.shards {
            Some(Shards::Count(count)) => add("--shards", count.to_string()),
            Some(Shards::Size(size)) => add("--shard-size", value::as_size(size.get())),
            None => {}
        }
        add("-j", self.threads.to_string());
        add("--memory", value::as_size(common.memory));
        let switches =
            [(!common.dedup, "--no-dedup"), (!common.sparse, "--no-sparse"), (!common.verify, "--no-verify")];
        words.extend(switches.into_iter().filter(|(on, _)| *on).map(|(_, option)| option.to_owned()));
        words
    }
}
