//! Candidates: settings to choose from, with the options of the writer.

use std::fmt;

use packfs_codec::{Choice, Codec};
use packfs_image::build::AnyOptions;
use packfs_image::erofs::Kernel;
use serde::Serialize;

use crate::units::short_size;

/// A Linux that reads the images of the reference codecs.
const WITH_ZSTD: Kernel = Kernel { major: 6, minor: 10 };

/// Settings that a user chooses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TuneSettings {
    /// `squashfs` or `erofs`.
    pub format: String,
    /// The codec in the user's spelling.
    pub codec: String,
    /// Size of a block, or of the largest cluster, in bytes.
    pub block: u32,
}

impl fmt::Display for TuneSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TuneSettings { format, codec, block } = self;
        write!(f, "{format} {codec} {}", short_size(*block as usize))
    }
}

/// A combination of settings to try.
#[derive(Debug, Clone)]
pub struct TuneCandidate {
    /// Settings that identify it.
    pub settings: TuneSettings,
    /// Options of the writer.
    pub options: AnyOptions,
}

impl TuneCandidate {
    /// Creates a candidate; its settings follow from the options.
    pub fn new(options: AnyOptions) -> Self {
        let codec = options.common().codec.to_string();
        let settings = TuneSettings { format: options.format().into(), codec, block: options.block_size() };
        TuneCandidate { settings, options }
    }

    /// Returns the codec with its level and options.
    pub fn codec(&self) -> &Choice {
        &self.options.common().codec
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.options.common().threads
    }

    /// Returns the reference: the same options with a quick codec.
    pub(super) fn reference(&self) -> Self {
        let mut options = self.options.clone();
        // With an entropy coder if the candidate has one, because that affects sizes most.
        let plain =
            matches!(self.codec().codec(), Codec::None | Codec::Lz4 | Codec::Lz4hc | Codec::Lzo | Codec::Snappy);
        // `zstd:1` always parses.
        let quick = if plain { Choice::new(Codec::Lz4) } else { "zstd:1".parse().unwrap_or(Choice::new(Codec::Zstd)) };
        options.common_mut().codec = quick;
        if let AnyOptions::Erofs(options) = &mut options {
            // The image is never mounted.
            options.target_kernel = options.target_kernel.max(WITH_ZSTD);
        }
        TuneCandidate::new(options)
    }

    /// Returns the group; candidates of the same group share a reference.
    pub(super) fn group(&self) -> (TuneSettings, u32) {
        // Features decide what the reference builds, but are not among the settings.
        let features = match &self.options {
            AnyOptions::Squashfs(_) => 0,
            AnyOptions::Erofs(options) => options.features.bits(),
        };
        (self.reference().settings, features)
    }
}
