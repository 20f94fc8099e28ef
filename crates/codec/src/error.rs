//! The errors of codecs: a wrong choice, or bytes that are not what they claim.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a codec or of the text that chose it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No codec has this name.
    #[error("unknown codec `{name}`; accepted: {accepted}")]
    UnknownCodec {
        /// The name as it was given.
        name: String,
        /// The names there are.
        accepted: String,
    },
    /// An option of a codec that it does not have, or a value that it does not take.
    #[error("{codec}: {why}")]
    InvalidOption {
        /// Name of the codec.
        codec: &'static str,
        /// The option, its value, and what would be accepted.
        why: String,
    },
    /// A format that cannot hold what this codec writes.
    #[error("{format} has no {codec}; accepted: {accepted}")]
    NotInFormat {
        /// Name of the format.
        format: &'static str,
        /// Name of the codec.
        codec: &'static str,
        /// The codecs that the format has.
        accepted: String,
    },
    /// The compressed bytes are damaged or do not decode to the length expected.
    #[error("{codec}: damaged data: {why}")]
    Corrupt {
        /// Name of the codec.
        codec: &'static str,
        /// What the decoder objected to.
        why: String,
    },
    /// The library behind the codec failed for a reason other than its input (memory, most often).
    #[error("{codec}: {why}")]
    Library {
        /// Name of the codec.
        codec: &'static str,
        /// What the library said.
        why: String,
    },
    /// The codec was left out of this build.
    #[error("{codec} is not part of this build: it needs the cargo feature `{feature}`")]
    NotBuilt {
        /// Name of the codec.
        codec: &'static str,
        /// The cargo feature that adds it.
        feature: &'static str,
    },
    /// This build reads the codec and does not write it.
    #[error("this build only reads {codec}: writing needs the cargo feature `{feature}`")]
    ReadOnly {
        /// Name of the codec.
        codec: &'static str,
        /// The cargo feature that adds its encoder.
        feature: &'static str,
    },
}

impl Error {
    /// [`Error::InvalidOption`] in short.
    pub(crate) fn option(codec: &'static str, why: impl Into<String>) -> Self {
        Error::InvalidOption { codec, why: why.into() }
    }

    /// [`Error::Corrupt`] in short.
    #[allow(dead_code, reason = "unused when every codec feature is off")]
    pub(crate) fn corrupt(codec: &'static str, why: impl Into<String>) -> Self {
        Error::Corrupt { codec, why: why.into() }
    }
}
