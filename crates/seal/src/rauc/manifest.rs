//! The manifest of a bundle: for which systems it is, which images it has, and how the kernel verifies them.
//!
//! Source: "Manifest" and "Bundle Formats" in RAUC's reference, src/manifest.c. Keys that packfs does not know are kept, but
//! not checked: RAUC knows other ones from version to version.

use packfs_blocks::Progress;

use super::contents::{BundleContents, FileFacts};
use super::key_file::KeyFile;
use super::{BLOCK_SIZE, BundleError};
use crate::error::Result;
use crate::hashing::HashAlgorithm;
use crate::hex::{from_hex, to_hex};
use crate::tree::RootHash;
use crate::verity::{HashArea, Superblock, Uuid, VeritySeal};

/// Beginning of the names of sections about images.
const IMAGE_PREFIX: &str = "image.";
/// Length of root hash, salt and digests of images in bytes.
const DIGEST_LEN: usize = 32;

/// A manifest.
#[derive(Debug)]
pub(crate) struct BundleManifest {
    file: KeyFile,
    images: Vec<ManifestImage>,
}

/// A file that a manifest names.
#[derive(Debug)]
struct ManifestImage {
    section: String,
    file: String,
    size: Option<u64>,
    /// SHA-256 in hexadecimal digits of either case.
    sha256: Option<String>,
    /// True if a hook installs the file, which then needs no size.
    has_install_hook: bool,
}

/// The tree that a manifest describes.
#[derive(Debug, Clone)]
pub(crate) struct ManifestTree {
    pub(crate) root_hash: RootHash,
    salt: Vec<u8>,
    /// Length of the tree in bytes.
    pub(crate) len: u64,
}

impl BundleManifest {
    /// Reads a manifest, signed or not.
    pub(crate) fn parse(bytes: &[u8]) -> std::result::Result<Self, BundleError> {
        let file = KeyFile::parse(bytes)?;
        if file.get("update", "compatible").is_none_or(|systems| systems.is_empty()) {
            return Err(BundleError::NoCompatible);
        }
        let mut images = Vec::new();
        for section in file.group_names().filter(|name| name.starts_with(IMAGE_PREFIX)) {
            images.extend(ManifestImage::read(&file, section)?);
        }
        Ok(BundleManifest { file, images })
    }

    /// Adds lengths and digests of the images, which are compared if they are there.
    ///
    /// Fails if they differ, a file is missing, or the manifest asks for another format.
    pub(super) fn complete(&mut self, contents: &BundleContents, progress: &Progress) -> Result<()> {
        if let Some(found) = self.file.get("bundle", "format").filter(|format| format != "verity") {
            return Err(BundleError::ManifestFormat { found }.into());
        }
        for image in &self.images {
            let found = contents.measure(&image.file, progress)?;
            image.compare(found.as_ref())?;
            if let Some(FileFacts { len, sha256 }) = found {
                self.file.set(&image.section, "sha256", sha256);
                self.file.set(&image.section, "size", len.to_string());
            }
        }
        Ok(())
    }

    /// Adds what the kernel needs for the tree, and returns the text to sign.
    pub(super) fn into_signable(mut self, sealed: &VeritySeal, tree_len: u64) -> String {
        let mut set = |key, value| self.file.set("bundle", key, value);
        set("format", "verity".into());
        set("verity-hash", sealed.root_hash.to_string());
        set("verity-salt", to_hex(&sealed.area.superblock.salt));
        set("verity-size", tree_len.to_string());
        self.file.to_string()
    }

    /// Returns the tree that a signed manifest describes.
    pub(crate) fn tree(&self) -> std::result::Result<ManifestTree, BundleError> {
        // RAUC takes a manifest without a format for one of a plain bundle.
        let format = self.file.get("bundle", "format").unwrap_or_else(|| "plain".into());
        if format != "verity" {
            return Err(BundleError::ManifestFormat { found: format });
        }
        let root_hash = RootHash::new(self.tree_digest("verity-hash")?);
        let salt = self.tree_digest("verity-salt")?;
        let bad_size = |why| bad_key("bundle", "verity-size", why);
        let size = self.file.get("bundle", "verity-size").ok_or_else(|| bad_size("is missing"))?;
        let len: u64 = size.parse().map_err(|_| bad_size("is not a number"))?;
        if len == 0 || !len.is_multiple_of(BLOCK_SIZE.into()) {
            return Err(bad_size("is not a positive multiple of 4096"));
        }
        Ok(ManifestTree { root_hash, salt, len })
    }

    fn tree_digest(&self, key: &'static str) -> std::result::Result<Vec<u8>, BundleError> {
        let digits = self.file.get("bundle", key).ok_or_else(|| bad_key("bundle", key, "is missing"))?;
        digest_of(&digits).ok_or_else(|| bad_key("bundle", key, NO_DIGEST))
    }

    /// Compares the images of a signed manifest with the files; returns what is wrong.
    pub(crate) fn compare(&self, contents: &BundleContents, progress: &Progress) -> Result<Vec<BundleError>> {
        let mut faults = Vec::new();
        for image in &self.images {
            faults.extend(image.check_complete().err());
            let found = contents.measure(&image.file, progress)?;
            faults.extend(image.compare(found.as_ref()).err());
        }
        Ok(faults)
    }
}

impl ManifestTree {
    /// Returns the place of the tree after `data_len` bytes of data.
    pub(crate) fn area(&self, data_len: u64) -> HashArea {
        let superblock = Superblock {
            algorithm: HashAlgorithm::Sha256,
            data_block_size: BLOCK_SIZE,
            hash_block_size: BLOCK_SIZE,
            data_blocks: data_len / u64::from(BLOCK_SIZE),
            salt: self.salt.clone(),
            uuid: Uuid::default(),
        };
        HashArea { superblock, tree_offset: data_len }
    }
}

impl ManifestImage {
    /// Reads a section; `None` if it has no file, and needs none.
    fn read(manifest: &KeyFile, section: &str) -> std::result::Result<Option<Self>, BundleError> {
        let bad = |key, why| bad_key(section, key, why);
        let hooks = manifest.get(section, "hooks").unwrap_or_default();
        let has_install_hook = hooks.split(';').any(|hook| hook == "install");
        let Some(file) = manifest.get(section, "filename") else {
            let is_empty = manifest.get(section, "type").is_some_and(|kind| kind == "emptyfs");
            return if has_install_hook || is_empty { Ok(None) } else { Err(bad("filename", "is missing")) };
        };
        if file.is_empty() || file.contains('/') {
            return Err(bad("filename", "is not the name of a file in the root directory of the image"));
        }
        let size = manifest.get(section, "size").map(|size| size.parse::<u64>()).transpose();
        let size = size.map_err(|_| bad("size", "is not a number"))?;
        let sha256 = manifest.get(section, "sha256");
        if sha256.as_ref().is_some_and(|digits| digest_of(digits).is_none()) {
            return Err(bad("sha256", NO_DIGEST));
        }
        Ok(Some(ManifestImage { section: section.to_owned(), file, size, sha256, has_install_hook }))
    }

    /// Fails if a key is missing that RAUC demands in a signed manifest.
    fn check_complete(&self) -> std::result::Result<(), BundleError> {
        if self.sha256.is_none() {
            return Err(bad_key(&self.section, "sha256", "is missing"));
        }
        if self.size.is_none() && !self.has_install_hook {
            return Err(bad_key(&self.section, "size", "is missing"));
        }
        Ok(())
    }

    /// Compares length and digest with those of the file, as far as they are known.
    fn compare(&self, found: Option<&FileFacts>) -> std::result::Result<(), BundleError> {
        let file = self.file.clone();
        let Some(FileFacts { len, sha256 }) = found else {
            return Err(BundleError::MissingImage { section: self.section.clone(), file });
        };
        if let Some(size) = self.size.filter(|size| size != len) {
            return Err(BundleError::ImageSize { file, len: *len, size });
        }
        if self.sha256.as_ref().is_some_and(|digits| !digits.eq_ignore_ascii_case(sha256)) {
            return Err(BundleError::ImageChecksum { file });
        }
        Ok(())
    }
}

const NO_DIGEST: &str = "is not 64 hexadecimal digits";

fn bad_key(section: &str, key: &'static str, why: &'static str) -> BundleError {
    BundleError::ManifestKey { section: section.to_owned(), key, why }
}

fn digest_of(digits: &str) -> Option<Vec<u8>> {
    from_hex(digits).filter(|bytes| bytes.len() == DIGEST_LEN)
}
