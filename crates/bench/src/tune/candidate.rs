//! Candidates: the settings to choose from, with the writer's options.

use std::fmt;

use packfs_codec::{Choice, Codec};
use packfs_image::build::AnyOptions;
use packfs_image::erofs::Kernel;
use serde::Serialize;

use crate::units::size;

/// Any Linux that reads what the reference codecs make.
const WITH_ZSTD: Kernel = Kernel { major: 6, minor: 10 };

/// The settings that a user chooses between.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Settings {
    /// `squashfs` or `erofs`.
    pub format: String,
    /// The codec as a user writes it.
    pub codec: String,
    /// Bytes of a block or of the largest cluster.
    pub block: u32,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { format, codec, block } = self;
        write!(f, "{format} {codec} {}", size(*block as usize))
    }
}

/// One way to build.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Settings that tell it from others.
    pub settings: Settings,
    /// Options of the writer.
    pub options: AnyOptions,
}

impl Candidate {
    /// A way to build; its settings are read off its options.
    pub fn new(options: AnyOptions) -> Self {
        let codec = options.common().codec.to_string();
        let settings = Settings { format: options.format().into(), codec, block: options.block_size() };
        Candidate { settings, options }
    }

    /// Codec, level and options.
    pub fn codec(&self) -> &Choice {
        &self.options.common().codec
    }

    /// Compression threads.
    pub fn threads(&self) -> usize {
        self.options.common().threads
    }

    /// The same with a quick codec: equal in all that is not the codec's doing.
    pub(super) fn reference(&self) -> Self {
        let mut options = self.options.clone();
        // Alike in whether there is an entropy coder: that is what sizes differ by most.
        let plain =
            matches!(self.codec().codec(), Codec::None | Codec::Lz4 | Codec::Lz4hc | Codec::Lzo | Codec::Snappy);
        let quick = if plain { Choice::new(Codec::Lz4) } else { "zstd:1".parse().unwrap_or(Choice::new(Codec::Zstd)) };
        options.common_mut().codec = quick;
        if let AnyOptions::Erofs(options) = &mut options {
            // It is not to be mounted.
            options.target_kernel = options.target_kernel.max(WITH_ZSTD);
        }
        Candidate::new(options)
    }

    /// Candidates of the same group share a reference.
    pub(super) fn group(&self) -> (Settings, u32) {
        let features = match &self.options {
            AnyOptions::Squashfs(_) => 0,
            AnyOptions::Erofs(options) => options.features.bits(),
        };
        (self.reference().settings, features)
    }
}
