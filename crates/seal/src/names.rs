//! Names under which consumers look for the parts of a seal.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Files beside an image by which systemd sets up dm-verity, and by which `veritysetup` can.
///
/// Source: `verity_settings_load` in src/shared/dissect-image.c of systemd. Each name is that of the image with another
/// suffix, instead of `.raw` if the image ends in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemdFiles {
    /// The hash area.
    pub hash_tree: PathBuf,
    /// The root hash in hexadecimal digits.
    pub root_hash: PathBuf,
    /// The root hash of a tree for /usr, in hexadecimal digits.
    pub usr_hash: PathBuf,
    /// The signature of the root hash, in DER.
    pub signature: PathBuf,
}

impl SystemdFiles {
    /// Returns the names for an image.
    pub fn of(image: &Path) -> Self {
        // systemd cuts off `.raw` and no other suffix; NAME.erofs gets NAME.erofs.roothash.
        let stem = without_raw(image).unwrap_or_else(|| image.as_os_str().to_owned());
        SystemdFiles {
            hash_tree: with_suffix(&stem, ".verity"),
            root_hash: with_suffix(&stem, ".roothash"),
            usr_hash: with_suffix(&stem, ".usrhash"),
            signature: with_suffix(&stem, ".roothash.p7s"),
        }
    }

    /// Returns true if systemd takes a file of this name for an image: in most places it looks only for `.raw`.
    pub fn is_found(image: &Path) -> bool {
        without_raw(image).is_some()
    }
}

/// Files beside a layer by which the EROFS snapshotter of containerd sets up dm-verity. The tree is appended to the layer.
///
/// Source: internal/dmverity/dmverity.go of containerd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerdFiles {
    /// JSON with the root hash, and the byte offset of the superblock.
    pub metadata: PathBuf,
    /// The signature of the root hash, in DER.
    pub signature: PathBuf,
}

impl ContainerdFiles {
    /// Returns the names for a layer.
    pub fn of(layer: &Path) -> Self {
        let name = layer.as_os_str();
        ContainerdFiles { metadata: with_suffix(name, ".dmverity"), signature: with_suffix(name, ".sig") }
    }
}

/// Returns the name with a suffix added.
pub(crate) fn with_suffix(name: &std::ffi::OsStr, suffix: &str) -> PathBuf {
    let mut name = name.to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the path without its last four bytes, if they are `.raw`.
fn without_raw(image: &Path) -> Option<OsString> {
    // `extension` is `None` for a file named just `.raw`, whose stem would be empty.
    let is_raw = image.extension().is_some_and(|suffix| suffix == "raw");
    is_raw.then(|| image.with_extension("").into_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_replaces_raw_and_appends_to_other_names() {
        for (image, stem) in [("a/b.raw", "a/b"), ("a.raw/b.erofs", "a.raw/b.erofs"), ("b", "b"), (".raw", ".raw")] {
            let files = SystemdFiles::of(Path::new(image));
            assert_eq!(files.hash_tree, PathBuf::from(format!("{stem}.verity")), "{image}");
            assert_eq!(files.root_hash, PathBuf::from(format!("{stem}.roothash")), "{image}");
            assert_eq!(files.signature, PathBuf::from(format!("{stem}.roothash.p7s")), "{image}");
        }
        assert!(SystemdFiles::is_found(Path::new("a.raw")) && !SystemdFiles::is_found(Path::new("a.erofs")));
        assert_eq!(ContainerdFiles::of(Path::new("layer.erofs")).metadata, Path::new("layer.erofs.dmverity"));
    }
}
