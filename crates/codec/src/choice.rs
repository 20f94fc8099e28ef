//! What a user writes to choose a codec.

use std::str::FromStr;

use crate::{Codec, Encoder, Error, Result};

/// A codec with its level and options, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    settings: Settings,
}

/// What a choice comes down to, codec by codec: an image writer stores these in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settings {
    /// No compression.
    None,
}

impl Choice {
    /// Which codec.
    pub fn codec(&self) -> Codec {
        match self.settings {
            Settings::None => Codec::None,
        }
    }

    /// Level and options, resolved.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// An encoder for blocks of up to `block_len` bytes.
    pub fn encoder(&self, _block_len: usize) -> Result<Box<dyn Encoder>> {
        match self.settings {
            Settings::None => Ok(Box::new(crate::store::Store)),
        }
    }
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Choice { settings: Settings::None }),
            _ => Err(Error::Usage(format!("unknown codec `{text}`"))),
        }
    }
}
