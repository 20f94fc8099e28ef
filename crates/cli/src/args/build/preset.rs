//! `--preset`: points of the measured front of size against time (`docs/design/presets.md`), by name.

use clap::ValueEnum;
use packfs_image::erofs::{Feature, Kernel};

use super::{BuildArgs, FormatChoice};

/// A point of the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuildPreset {
    /// A quick build of a larger image
    Fast,
    /// A smaller image in moderate time
    Balanced,
    /// A small image from a slow build
    Small,
    /// The smallest image that Linux mounts, from the slowest build
    Smallest,
}

/// Settings that a preset stands for in one format.
struct PresetSettings {
    codec: &'static str,
    block_size: &'static str,
    order: Option<&'static str>,
    /// EROFS only.
    features: Option<&'static str>,
    /// Size of clusters of inodes, for kernels that read such.
    metabox: Option<&'static str>,
}

impl BuildPreset {
    fn settings(self, format: FormatChoice) -> PresetSettings {
        let usual =
            |codec, block_size| PresetSettings { codec, block_size, order: None, features: None, metabox: None };
        let similar = |point| PresetSettings { order: Some("similar"), ..point };
        match (format, self) {
            (FormatChoice::Squashfs, BuildPreset::Fast) => usual("zstd:1", "128K"),
            (FormatChoice::Squashfs, BuildPreset::Balanced) => usual("zstd:12", "128K"),
            (FormatChoice::Squashfs, BuildPreset::Small) => usual("zstd:19", "1M"),
            (FormatChoice::Squashfs, BuildPreset::Smallest) => similar(usual("xz:9:bcj=auto", "1M")),
            (FormatChoice::Erofs, BuildPreset::Fast) => usual("lz4", "64K"),
            (FormatChoice::Erofs, BuildPreset::Balanced) => usual("lz4hc:9", "64K"),
            (FormatChoice::Erofs, BuildPreset::Small) => usual("lzma:6", "256K"),
            (FormatChoice::Erofs, BuildPreset::Smallest) => {
                let features = Some("all-fragments,dedupe,compressed-dirs");
                similar(PresetSettings { features, metabox: Some("64K"), ..usual("lzma:9", "1M") })
            }
        }
    }

    /// Fills in what was not given by an option of its own.
    pub(super) fn fill(self, build: &mut BuildArgs, format: FormatChoice) {
        let point = self.settings(format);
        let has_own_choice = build.compression.is_given("codec")
            || build.layout.is_given("fragments")
            || build.erofs.is_given("features");
        if let Some(features) = point.features.filter(|_| !has_own_choice) {
            build.erofs.add_unless_given("features", features);
            let target = build.erofs.values("target-kernel").next_back();
            let target: Option<Kernel> = target.and_then(|text| text.to_str()?.parse().ok());
            let reads_metabox = target.is_some_and(|target| target >= Feature::Metabox.since());
            if let Some(cluster) = point.metabox.filter(|_| reads_metabox) {
                build.erofs.add_unless_given("metabox", cluster);
            }
        }
        build.compression.add_unless_given("codec", point.codec);
        build.compression.add_unless_given("block-size", point.block_size);
        if let Some(order) = point.order {
            build.layout.add_unless_given("order", order);
        }
    }
}
