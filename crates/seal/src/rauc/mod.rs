//! Bundles of RAUC in its format verity: a SquashFS image with a manifest and the images to install, its hash tree without a
//! superblock, and a signature that contains the manifest with the parameters of the tree.
//!
//! Source: "Bundle Formats" in RAUC's reference; src/bundle.c, src/manifest.c and src/signature.c of RAUC 1.15.

mod contents;
mod error;
mod key_file;
mod manifest;
mod padded;
mod trailer;

use std::sync::Arc;

use packfs_blocks::{Output, ReadAt};

pub(crate) use contents::BundleContents;
pub use error::BundleError;
pub(crate) use manifest::{BundleManifest, ManifestTree};
pub(crate) use trailer::BundleTrailer;

use self::padded::PaddedImage;
use crate::error::{Error, Result};
use crate::hashing::HashAlgorithm;
use crate::signature::{EmbeddedSignature, SignatureError};
use crate::tree::HashEffort;
use crate::verity::{self, VerityOptions, VeritySeal};

/// Size of the blocks of data and tree in bytes.
pub(crate) const BLOCK_SIZE: u32 = 4096;
/// Length of the salt in bytes.
const SALT_LEN: usize = 32;
/// Longest signature that RAUC reads unless its configuration says more, in bytes.
const SIGNATURE_MAX: u64 = 64 << 10;

/// Returns the parameters of the only kind of tree that RAUC has.
pub fn usual_options() -> VerityOptions {
    VerityOptions::default().set(|all| all.has_superblock = false)
}

/// A bundle that lacks only its signature.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnsignedBundle {
    /// The tree.
    pub sealed: VeritySeal,
    /// The bytes to sign: the manifest of the image, with lengths and digests of its images and with the parameters of the
    /// tree.
    pub manifest: String,
}

impl UnsignedBundle {
    /// Makes the hash tree of a SquashFS image and the manifest to sign. The tree is written to `output`, at whose beginning
    /// the caller puts the image; without `output`, nothing is written.
    ///
    /// # Errors
    /// [`Error::Bundle`] for an image from which no bundle can be made; [`Error::InvalidOption`] for other parameters than
    /// [`usual_options`] has, but for the salt; [`Error::Io`]; [`Error::Write`]; [`Error::Interrupted`].
    pub fn seal(
        image: &Arc<dyn ReadAt>,
        options: &VerityOptions,
        output: Option<&Output>,
        effort: &HashEffort,
    ) -> Result<Self> {
        check_options(options)?;
        if is_bundle(&**image)? {
            return Err(BundleError::AlreadyBundle.into());
        }
        let contents = BundleContents::open(image)?;
        let mut manifest = BundleManifest::parse(&contents.read_manifest()?)?;
        manifest.complete(&contents, &effort.progress)?;
        let data = PaddedImage::new(image);
        if let Some(output) = output {
            let padding_len = data.len() - image.len();
            output.leave_zeros_at(image.len(), padding_len).map_err(Error::write("the bundle"))?;
        }
        let sealed = verity::seal(&data, options, data.len(), output, effort)?;
        let tree_len = tree_end(&sealed)? - data.len();
        let manifest = manifest.into_signable(&sealed, tree_len);
        Ok(UnsignedBundle { sealed, manifest })
    }

    /// Writes the signature, which contains the manifest, to its place after the tree.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if it is too long for RAUC; [`Error::Write`].
    pub fn write_signature(&self, cms: &[u8], output: &Output) -> Result<()> {
        let trailer = BundleTrailer::encode(cms)?;
        output.write_all_at(&trailer, tree_end(&self.sealed)?).map_err(Error::write("the signature"))
    }
}

fn tree_end(sealed: &VeritySeal) -> Result<u64> {
    sealed.area.end().ok_or(Error::BadSuperblock("its tree would end beyond every file"))
}

/// Returns true if a file ends as a bundle does, of whichever format.
fn is_bundle(file: &dyn ReadAt) -> Result<bool> {
    let trailer = BundleTrailer::read(file)?;
    let signature = trailer.map(|trailer| EmbeddedSignature::parse(&trailer.cms));
    Ok(signature.is_ok_and(|parsed| !matches!(parsed, Err(SignatureError::BadSignature(_)))))
}

/// Fails for parameters of a tree that RAUC does not have.
fn check_options(options: &VerityOptions) -> Result<()> {
    let refuse = |what, value, why| Err(Error::InvalidOption { what, value, why });
    if options.algorithm != HashAlgorithm::Sha256 {
        return refuse("hash algorithm", options.algorithm.to_string(), "RAUC has only sha256");
    }
    for (what, size) in [("data block size", options.data_block_size), ("hash block size", options.hash_block_size)] {
        if size != BLOCK_SIZE {
            return refuse(what, size.to_string(), "RAUC has only blocks of 4096 bytes");
        }
    }
    if let Some(salt) = options.salt.as_ref().filter(|salt| salt.len() != SALT_LEN) {
        return refuse("salt", format!("of {} bytes", salt.len()), "RAUC has only salts of 32 bytes");
    }
    if let Some(uuid) = options.uuid {
        return refuse("UUID", uuid.to_string(), "a bundle has no superblock to hold it");
    }
    if options.has_superblock {
        return refuse("hash area", "with a superblock".into(), "a bundle has the parameters in its manifest");
    }
    Ok(())
}
