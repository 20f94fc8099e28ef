//! `--preset`: points of the measured front of size against time (`docs/design/presets.md`), by name.

use clap::ValueEnum;
use packfs_codec::Choice;
use packfs_image::erofs::Feature;

use super::codec::CodecArg;
use super::features::Changes;
use super::{Build, Format, Order};

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
    block_size: u64,
    order: Option<Order>,
    /// EROFS only.
    features: Option<&'static str>,
    /// Size of clusters of inodes, for kernels that read such.
    metabox: Option<u64>,
}

impl Preset {
    fn point(self, format: Format) -> Point {
        let usual = |codec, block_size| Point { codec, block_size, order: None, features: None, metabox: None };
        let similar = |point| Point { order: Some(Order::Similar), ..point };
        match (format, self) {
            (Format::Squashfs, Preset::Fast) => usual("zstd:1", 128 << 10),
            (Format::Squashfs, Preset::Balanced) => usual("zstd:12", 128 << 10),
            (Format::Squashfs, Preset::Small) => usual("zstd:19", 1 << 20),
            (Format::Squashfs, Preset::Smallest) => similar(usual("xz:9:bcj=auto", 1 << 20)),
            (Format::Erofs, Preset::Fast) => usual("lz4", 64 << 10),
            (Format::Erofs, Preset::Balanced) => usual("lz4hc:9", 64 << 10),
            (Format::Erofs, Preset::Small) => usual("lzma:6", 256 << 10),
            (Format::Erofs, Preset::Smallest) => {
                let features = Some("all-fragments,dedupe,compressed-dirs");
                similar(Point { features, metabox: Some(64 << 10), ..usual("lzma:9", 1 << 20) })
            }
        }
    }

    /// Fills in what was not given by an option of its own.
    pub(super) fn fill(self, build: &mut Build, format: Format) {
        let point = self.point(format);
        if build.codec.is_none() && build.fragments.is_none() && build.erofs.features.is_empty() {
            let features = point.features.map(|list| list.parse::<Changes>().expect("features of the table"));
            build.erofs.features.extend(features);
            if build.erofs.target_kernel.is_some_and(|target| target >= Feature::Metabox.since()) {
                let metabox = point.metabox.map(|size| (size, None));
                build.erofs.metabox = build.erofs.metabox.take().or(metabox);
            }
        }
        build.codec.get_or_insert_with(|| CodecArg::from(point.codec.parse::<Choice>().expect("a codec of the table")));
        build.block_size.get_or_insert(point.block_size);
        build.order = build.order.or(point.order);
    }
}
