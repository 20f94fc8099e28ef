//! Features of images other than compression, in the spelling of options and keys.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Features of an image other than compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImageFeatures {
    /// Pack small files and tails together.
    pub fragments: bool,
    /// Store equal data once.
    pub dedupe: bool,
    /// Do not decompress and compare compressed blocks.
    pub unverified: bool,
}

impl ImageFeatures {
    /// The default features of packfs.
    pub const ALL: ImageFeatures = ImageFeatures { fragments: true, dedupe: true, unverified: false };
}

impl fmt::Display for ImageFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [(self.fragments, "fragments"), (self.dedupe, "dedupe"), (self.unverified, "unverified")];
        let words: Vec<&str> = all.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for ImageFeatures {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut features = ImageFeatures::default();
        for word in text.split('+').filter(|_| text != "plain") {
            match word {
                "fragments" => features.fragments = true,
                "dedupe" => features.dedupe = true,
                "unverified" => features.unverified = true,
                _ => {
                    let accepted = "plain, or fragments, dedupe and unverified joined by +";
                    return Err(Error::Usage(format!("unknown feature `{word}`; accepted: {accepted}")));
                }
            }
        }
        Ok(features)
    }
}
