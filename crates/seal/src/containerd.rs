//! The JSON beside a sealed layer of containerd.

use serde::{Deserialize, Serialize};

use crate::verity::{VerityOptions, VeritySeal};

/// Contents of the file [`metadata`](crate::ContainerdFiles::metadata).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerMetadata {
    /// Root hash in hexadecimal digits.
    #[serde(rename = "roothash")]
    pub root_hash: String,
    /// Byte offset of the superblock, not of the tree that follows it.
    #[serde(rename = "hashoffset")]
    pub hash_offset: u64,
    /// Name of the file of the hash area beside the layer, if it is not the layer itself.
    #[serde(rename = "hashdevice", default, skip_serializing_if = "String::is_empty")]
    pub hash_device: String,
}

impl LayerMetadata {
    /// Describes a tree that was appended to its layer.
    pub fn of(seal: &VeritySeal) -> Self {
        let root_hash = seal.root_hash.to_string();
        LayerMetadata { root_hash, hash_offset: seal.hash_offset, hash_device: String::new() }
    }

    /// Reads the JSON; `None` if it is none, or has no root hash.
    pub fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok().filter(|metadata: &LayerMetadata| !metadata.root_hash.is_empty())
    }

    /// Writes the bytes that containerd itself would write.
    pub fn to_json(&self) -> String {
        // A struct of strings and numbers always serialises.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns the parameters that containerd has for its own layers: a salt of 32 zeros.
    pub fn usual_options() -> VerityOptions {
        VerityOptions::default().set(|all| all.salt = Some(vec![0; 32]))
    }
}
