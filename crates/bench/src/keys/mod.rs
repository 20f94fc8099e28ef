//! Keys of measured cells. They are stored in result files, so their text stays the same in later versions. Displayed, a
//! key describes its cell.

pub mod build;
pub mod codec;
pub mod read;
pub mod split;

use std::fmt;

use serde::{Deserialize, Serialize};

/// A cell of any kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "lowercase")]
#[non_exhaustive]
pub enum AnyKey {
    /// A codec on some blocks.
    Codec(codec::Key),
    /// An image to be built.
    Build(build::Key),
    /// An image to be read.
    Read(read::Key),
    /// A dump to be split or joined.
    Split(split::Key),
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
