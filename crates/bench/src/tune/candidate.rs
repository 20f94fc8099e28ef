//! Candidates: the settings a user chooses between, with the options of the writer that builds them.

use std::fmt;

use packfs_codec::{Choice, Codec};
use packfs_image::erofs::Kernel;
use packfs_image::{erofs, squashfs};
use serde::Serialize;

use crate::units::size;

/// Any Linux that reads what the reference codecs make.
const WITH_ZSTD: Kernel = Kernel { major: 6, minor: 10 };
/// What a user chooses between.
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

/// How a writer is to build.
#[derive(Debug, Clone)]
pub enum Options {
    /// SquashFS.
    Squashfs(squashfs::Options),
    /// EROFS.
    Erofs(erofs::Options),
}

/// One way to build.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// What tells it from others.
    pub settings: Settings,
    /// What the writer is asked for.
    pub options: Options,
}

impl Candidate {
    /// A way to build; its settings are read off its options.
    pub fn new(options: Options) -> Self {
        let (format, codec, block) = match &options {
            Options::Squashfs(options) => ("squashfs", &options.codec, options.block_size),
            Options::Erofs(options) => ("erofs", &options.codec, options.cluster_size),
        };
        let settings = Settings { format: format.into(), codec: codec.to_string(), block };
        Candidate { settings, options }
    }

    /// Codec, level and options.
    pub fn codec(&self) -> &Choice {
        match &self.options {
            Options::Squashfs(options) => &options.codec,
            Options::Erofs(options) => &options.codec,
        }
    }

    /// Compression threads.
    pub fn threads(&self) -> usize {
        match &self.options {
            Options::Squashfs(options) => options.threads,
            Options::Erofs(options) => options.threads,
        }
    }

    /// The same with a quick codec: equal in all that is not the codec's doing.
    pub(super) fn reference(&self) -> Self {
        let mut options = self.options.clone();
        // Alike in whether there is an entropy coder: that is what sizes differ by most.
        let plain =
            matches!(self.codec().codec(), Codec::None | Codec::Lz4 | Codec::Lz4hc | Codec::Lzo | Codec::Snappy);
        let quick = if plain { Choice::new(Codec::Lz4) } else { "zstd:1".parse().unwrap_or(Choice::new(Codec::Zstd)) };
        match &mut options {
            Options::Squashfs(options) => options.codec = quick,
            Options::Erofs(options) => {
                options.codec = quick;
                // It is not to be mounted.
                options.target_kernel = options.target_kernel.max(WITH_ZSTD);
            }
        }
        Candidate::new(options)
    }

    /// Candidates of the same group share a reference.
    pub(super) fn group(&self) -> (Settings, u32) {
        let features = match &self.options {
            Options::Squashfs(_) => 0,
            Options::Erofs(options) => options.features.bits(),
        };
        (self.reference().settings, features)
    }
}
