//! Errors of codecs: an invalid choice, or damaged input.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a codec or of the text that chose it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No codec has this name.
    #[error("unknown codec `{name}`; accepted: {accepted}")]
    UnknownCodec {
        /// Name as given by the user.
        name: String,
        /// Known names.
        accepted: String,
    },
    /// A codec does not know an option, or the option does not take the value.
    #[error("{codec}: {why}")]
    InvalidOption {
        /// Name of the codec.
        codec: &'static str,
        /// The option, its value, and the accepted values.
        why: String,
    },
    /// A format does not support this codec.
    #[error("{format} has no {codec}; accepted: {accepted}")]
    NotInFormat {
        /// Name of the format.
        format: &'static str,
        /// Name of the codec.
        codec: &'static str,
        /// Codecs that the format supports.
        accepted: String,
    },
    /// The compressed bytes are damaged or do not decode to the expected length.
    #[error("{codec}: damaged data: {why}")]
    Corrupt {
        /// Name of the codec.
        codec: &'static str,
        /// Reason given by the decoder.
        why: String,
    },
    /// Memory for an encoder or decoder cannot be allocated.
    #[error("{codec}: not enough memory")]
    NoMemory {
        /// Name of the codec.
        codec: &'static str,
    },
    /// The library behind the codec failed for a reason other than its input.
    #[error("{codec}: {why}")]
    Library {
        /// Name of the codec.
        codec: &'static str,
        /// Reason given by the library.
        why: String,
    },
    /// The codec was left out of this build.
    #[error("{codec} is not part of this build: it needs the cargo feature `{feature}`")]
    NotBuilt {
        /// Name of the codec.
        codec: &'static str,
        /// Name of the cargo feature that adds it.
        feature: &'static str,
    },
    /// This build can read the codec but not write it.
    #[error("this build only reads {codec}: writing needs the cargo feature `{feature}`")]
    ReadOnly {
        /// Name of the codec.
        codec: &'static str,
        /// Name of the cargo feature that adds its encoder.
        feature: &'static str,
    },
}

impl Error {
    /// Shorthand for [`Error::InvalidOption`].
    pub(crate) fn option(codec: &'static str, why: impl Into<String>) -> Self {
        Error::InvalidOption { codec, why: why.into() }
    }

    /// Shorthand for [`Error::Corrupt`].
    #[allow(dead_code, reason = "unused when every codec feature is off")]
    pub(crate) fn corrupt(codec: &'static str, why: impl Into<String>) -> Self {
        Error::Corrupt { codec, why: why.into() }
    }
}
