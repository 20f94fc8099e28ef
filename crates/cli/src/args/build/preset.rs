//! `--preset`: points of the measured front of size against time (`docs/design/presets.md`), by name.

use clap::ValueEnum;
use packfs_image::erofs::{Feature, Kernel};

use super::{Build, Format};

/// A point of the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
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
struct Point {
    codec: &'static str,
    block_size: &'static str,
    order: Option<&'static str>,
    /// EROFS only.
    features: Option<&'static str>,
    /// Size of clusters of inodes, for kernels that read such.
    metabox: Option<&'static str>,
}

impl Preset {
    fn point(self, format: Format) -> Point {
        let usual = |codec, block_size| Point { codec, block_size, order: None, features: None, metabox: None };
        let similar = |point| Point { order: Some("similar"), ..point };
        match (format, self) {
            (Format::Squashfs, Preset::Fast) => usual("zstd:1", "128K"),
            (Format::Squashfs, Preset::Balanced) => usual("zstd:12", "128K"),
            (Format::Squashfs, Preset::Small) => usual("zstd:19", "1M"),
            (Format::Squashfs, Preset::Smallest) => similar(usual("xz:9:bcj=auto", "1M")),
            (Format::Erofs, Preset::Fast) => usual("lz4", "64K"),
            (Format::Erofs, Preset::Balanced) => usual("lz4hc:9", "64K"),
            (Format::Erofs, Preset::Small) => usual("lzma:6", "256K"),
            (Format::Erofs, Preset::Smallest) => {
                let features = Some("all-fragments,dedupe,compressed-dirs");
                similar(Point { features, metabox: Some("64K"), ..usual("lzma:9", "1M") })
            }
        }
    }

    /// Fills in what was not given by an option of its own.
    pub(super) fn fill(self, build: &mut Build, format: Format) {
        let point = self.point(format);
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
