//! Keys of measured cells. Results files contain them, so their text stays the same in later versions. `Display`
//! describes the cell.

pub mod build;
pub mod codec;
pub mod read;
pub mod split;

use std::fmt;

use serde::{Deserialize, Serialize};

/// A cell of any kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "of", rename_all = "lowercase")]
#[non_exhaustive]
pub enum AnyKey {
    /// A codec, measured on blocks.
    Codec(codec::CodecKey),
    /// The build of an image.
    Build(build::BuildKey),
    /// A read of an image.
    Read(read::ReadKey),
    /// A split or join of a dump.
    Split(split::SplitKey),
}

impl fmt::Display for AnyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyKey::Codec(key) => key.fmt(f),
            AnyKey::Build(key) => key.fmt(f),
            AnyKey::Read(key) => key.fmt(f),
            AnyKey::Split(key) => key.fmt(f),
        }
    }
}
