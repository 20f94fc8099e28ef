//! Indexes, manifests and configurations. Fields that packfs does not know are kept.

use std::collections::BTreeMap;
use std::fmt;

use packfs_blocks::system::container_architecture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::BlobDigest;

/// Media type of EROFS layers, as containerd has it.
pub(crate) const EROFS_LAYER: &str = "application/vnd.erofs.layer.v1";
/// Media type of SquashFS layers, as Sylabs' tools have it.
pub(crate) const SQUASHFS_LAYER: &str = "application/vnd.sylabs.image.layer.v1.squashfs";
/// Media type of tar layers, without the ending that names their compression.
pub(crate) const TAR_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Lists of manifests, in either dialect.
pub(crate) const INDEXES: [&str; 2] = [INDEX, "application/vnd.docker.distribution.manifest.list.v2+json"];
/// Annotation with the name of an image in a layout.
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// The feature of an operating system that an image with EROFS layers needs, as containerd names it.
const EROFS_FEATURE: &str = "erofs";

/// Reference to a blob.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Descriptor {
    #[serde(rename = "mediaType", default)]
    pub(crate) media_type: String,
    pub(crate) digest: BlobDigest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
    // Fields that packfs does not know are written again as they were.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

impl Descriptor {
    pub(crate) fn new(media_type: &str, digest: BlobDigest, size: u64) -> Self {
        Descriptor {
            media_type: media_type.into(),
            digest,
            size,
            annotations: BTreeMap::new(),
            platform: None,
            others: Map::new(),
        }
    }

    /// Returns what is still true when the blob becomes another one.
    pub(crate) fn kept_fields(&self) -> KeptFields {
        let mut others = self.others.clone();
        // Where else the old blob is found, and its bytes.
        others.remove("urls");
        others.remove("data");
        KeptFields { annotations: self.annotations.clone(), others }
    }

    /// Adds fields of the descriptor in whose place this one comes.
    pub(crate) fn add_fields(&mut self, kept: KeptFields) {
        self.annotations.extend(kept.annotations);
        self.others.extend(kept.others);
    }
}

/// Fields of a document or a descriptor that a conversion does not replace, such as the type of an artifact.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptFields {
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) others: Map<String, Value>,
}

/// Operating system and architecture of an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Platform {
    /// Architecture as Go names it, such as `amd64`.
    pub architecture: String,
    /// Operating system, such as `linux`.
    pub os: String,
    /// Variant of the architecture, such as `v7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Version of the operating system.
    #[serde(rename = "os.version", default, skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// What the operating system needs.
    #[serde(rename = "os.features", default, skip_serializing_if = "Vec::is_empty")]
    pub os_features: Vec<String>,
}

impl Platform {
    /// Parses `OS/ARCHITECTURE` or `OS/ARCHITECTURE/VARIANT`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/').map(|part| (!part.is_empty()).then(|| part.to_owned()));
        let os = parts.next()??;
        let architecture = parts.next()??;
        let variant = match parts.next() {
            Some(variant) => Some(variant?),
            None => None,
        };
        // Anything after the variant makes it no platform at all, instead of another one than was meant.
        let platform = Platform { architecture, os, variant, os_version: None, os_features: Vec::new() };
        parts.next().is_none().then_some(platform)
    }

    /// The platform of this machine.
    pub(crate) fn of_this_machine() -> Self {
        Platform {
            architecture: container_architecture().into(),
            // Layers run in containers of Linux, whatever the system that makes them.
            os: "linux".into(),
            variant: None,
            os_version: None,
            os_features: Vec::new(),
        }
    }

    /// Returns true if an image for `self` is meant by `wanted`, which may leave the variant open.
    pub(crate) fn is_meant_by(&self, wanted: &Platform) -> bool {
        let is_variant = wanted.variant.is_none() || wanted.variant == self.variant;
        self.os == wanted.os && self.architecture == wanted.architecture && is_variant
    }

    /// Returns the platform as an index lists it, by which clients choose, with what only the configuration says.
    pub(crate) fn completed_by(&self, config: Option<Platform>) -> Self {
        let mut platform = self.clone();
        if let Some(config) = config {
            platform.variant = platform.variant.or(config.variant);
            platform.os_version = platform.os_version.or(config.os_version);
            if platform.os_features.is_empty() {
                platform.os_features = config.os_features;
            }
        }
        platform
    }

    pub(crate) fn require_erofs(&mut self) {
        if !self.os_features.iter().any(|feature| feature == EROFS_FEATURE) {
            self.os_features.push(EROFS_FEATURE.into());
            // Sorted, as platforms are compared as texts.
            self.os_features.sort();
        }
    }

    /// Undoes [`Platform::require_erofs`].
    pub(crate) fn forget_erofs(&mut self) {
        self.os_features.retain(|feature| feature != EROFS_FEATURE);
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

/// Manifest of one image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    #[serde(rename = "schemaVersion")]
    pub(crate) schema_version: u32,
    #[serde(rename = "mediaType", default)]
    pub(crate) media_type: String,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

/// List of manifests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Index {
    #[serde(rename = "schemaVersion")]
    pub(crate) schema_version: u32,
    #[serde(rename = "mediaType", default)]
    pub(crate) media_type: String,
    pub(crate) manifests: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

impl Index {
    pub(crate) fn new(manifests: Vec<Descriptor>, kept: KeptFields) -> Self {
        let KeptFields { annotations, others } = kept;
        Index { schema_version: 2, media_type: INDEX.into(), manifests, annotations, others }
    }
}

/// Configuration of an image: a JSON object of which packfs reads and changes a few fields.
#[derive(Debug, Clone)]
pub(crate) struct ImageConfig(Map<String, Value>);

impl ImageConfig {
    /// Parses a configuration. The error says what is wrong with it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let fields: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Ok(ImageConfig(fields))
    }

    /// Makes the configuration of an image of layers that have none.
    pub(crate) fn of_layers(platform: &Platform, diff_ids: &[BlobDigest]) -> Self {
        let mut config = ImageConfig(Map::new());
        let mut set = |name: &str, text: &str| config.0.insert(name.into(), text.into());
        set("architecture", &platform.architecture);
        set("os", &platform.os);
        if let Some(variant) = &platform.variant {
            set("variant", variant);
        }
        config.set_diff_ids(diff_ids);
        config
    }

    pub(crate) fn platform(&self) -> Option<Platform> {
        // Some tools write empty texts.
        let text = |name: &str| self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(Platform {
            architecture: text("architecture")?.into(),
            os: text("os")?.into(),
            variant: text("variant").map(Into::into),
            os_version: text("os.version").map(Into::into),
            os_features: self.os_features(),
        })
    }

    fn os_features(&self) -> Vec<String> {
        let features = self.0.get("os.features").and_then(Value::as_array);
        features.into_iter().flatten().filter_map(|feature| feature.as_str().map(Into::into)).collect()
    }

    /// Returns the digests of the uncompressed layers. The error says what is wrong with them.
    pub(crate) fn diff_ids(&self) -> Result<Vec<BlobDigest>, String> {
        let listed = self.0.get("rootfs").and_then(|root| root.get("diff_ids")?.as_array());
        let listed = listed.ok_or("it has no rootfs.diff_ids: it is no image for containers")?;
        // A missing text fails as an empty digest.
        listed.iter().map(|text| BlobDigest::try_from(text.as_str().unwrap_or_default().to_owned())).collect()
    }

    pub(crate) fn set_diff_ids(&mut self, diff_ids: &[BlobDigest]) {
        let listed: Vec<Value> = diff_ids.iter().map(|digest| digest.to_string().into()).collect();
        self.0.insert("rootfs".into(), serde_json::json!({ "type": "layers", "diff_ids": listed }));
    }

    /// Replaces the history by that of one layer: tools count its entries.
    pub(crate) fn flatten_history(&mut self) {
        if self.0.contains_key("history") {
            self.0.insert("history".into(), serde_json::json!([{ "created_by": "packfs oci convert --flatten" }]));
        }
    }

    pub(crate) fn require_erofs(&mut self) {
        let mut features = self.os_features();
        if !features.iter().any(|feature| feature == EROFS_FEATURE) {
            features.push(EROFS_FEATURE.into());
            // Sorted, as in [`Platform::require_erofs`].
            features.sort();
        }
        self.0.insert("os.features".into(), features.into());
    }

    /// Undoes [`ImageConfig::require_erofs`].
    pub(crate) fn forget_erofs(&mut self) {
        let mut features = self.os_features();
        features.retain(|feature| feature != EROFS_FEATURE);
        // An empty list would be another configuration, with another digest.
        if features.is_empty() {
            self.0.remove("os.features");
        } else {
            self.0.insert("os.features".into(), features.into());
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).expect("a JSON value can be written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_index_lists_counts_more_than_the_configuration() {
        let listed = Platform::parse("linux/arm/v7").unwrap();
        let features = vec!["erofs".to_owned()];
        for (config, expected) in [("linux/arm", "linux/arm/v7"), ("linux/arm/v6", "linux/arm/v7")] {
            let config = Platform { os_features: features.clone(), ..Platform::parse(config).unwrap() };
            let platform = listed.completed_by(Some(config));
            assert_eq!((platform.to_string().as_str(), &platform.os_features), (expected, &features));
        }
        assert_eq!(Platform::parse("linux/arm").unwrap().completed_by(Some(listed.clone())), listed);
        assert_eq!(listed.completed_by(None), listed);
    }

    #[test]
    fn platforms_are_parsed_and_meant() {
        let arm = Platform::parse("linux/arm/v7").unwrap();
        assert_eq!(arm.to_string(), "linux/arm/v7");
        assert!(arm.is_meant_by(&Platform::parse("linux/arm").unwrap()));
        assert!(!arm.is_meant_by(&Platform::parse("linux/arm/v6").unwrap()));
        for wrong in ["", "linux", "linux/", "/arm", "linux/arm/", "linux/arm/v7/x"] {
            assert!(Platform::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_configuration_keeps_unknown_fields() {
        let id = BlobDigest::of(b"");
        let mut config = ImageConfig::parse(br#"{"x":{"y":1},"os":"linux","architecture":"arm"}"#).unwrap();
        assert!(config.diff_ids().unwrap_err().contains("diff_ids"));
        config.set_diff_ids(std::slice::from_ref(&id));
        config.require_erofs();
        config.require_erofs();
        let again = ImageConfig::parse(&config.to_bytes()).unwrap();
        assert_eq!(again.diff_ids().unwrap(), [id]);
        assert_eq!(again.platform().unwrap().os_features, ["erofs"]);
        assert_eq!(again.0["x"]["y"], 1);
    }
}
