//! The files in the image of a bundle.

use std::io::{self, Read};
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};
use packfs_image::{AnyImage, Fs, OpenOptions};
use sha2::{Digest, Sha256};

use super::{BundleError, SIGNATURE_MAX};
use crate::error::{Error, Result};
use crate::hex::to_hex;

/// File with the manifest, in the root directory.
const MANIFEST: &str = "manifest.raucm";
/// Bytes of a file that are read and hashed at a time: enough that a call costs nothing beside them.
const PIECE_LEN: usize = 1 << 20;

/// A SquashFS image with a manifest and the files that it names.
#[derive(Debug)]
pub(crate) struct BundleContents(Fs);

/// Length and digest of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileFacts {
    pub(super) len: u64,
    /// In lower-case hexadecimal digits.
    pub(super) sha256: String,
}

impl BundleContents {
    /// Opens the image at the beginning of `image`.
    ///
    /// # Errors
    /// [`BundleError::NotSquashfs`], [`Error::Io`].
    pub(crate) fn open(image: &Arc<dyn ReadAt>) -> Result<Self> {
        match AnyImage::open(Arc::clone(image), OpenOptions::default()) {
            // The manifest must fit into the signature.
            Ok(squashfs @ AnyImage::Squashfs(_)) => {
                Ok(BundleContents(Fs::from(squashfs.into_image()).with_read_limit(SIGNATURE_MAX)))
            }
            Ok(AnyImage::Erofs(_)) | Err(packfs_image::Error::NoImage { .. }) => Err(BundleError::NotSquashfs.into()),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// Reads the manifest.
    pub(super) fn read_manifest(&self) -> Result<Vec<u8>> {
        self.0.read(MANIFEST).map_err(|error| match error {
            packfs_image::Error::NotFound { .. } => BundleError::NoManifest.into(),
            other => unreadable(other),
        })
    }

    /// Reads a file in the root directory; `None` if there is no regular file of this name.
    pub(super) fn measure(&self, name: &str, progress: &Progress) -> Result<Option<FileFacts>> {
        let mut file = match self.0.open_file(name) {
            Ok(file) => file,
            Err(packfs_image::Error::NotFound { .. } | packfs_image::Error::WrongType { .. }) => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let mut hasher = Sha256::new();
        let mut piece = vec![0; PIECE_LEN];
        let mut len = 0;
        loop {
            if progress.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let got = file.read(&mut piece).map_err(Error::io(CANNOT_READ))?;
            if got == 0 {
                break;
            }
            hasher.update(&piece[..got]);
            len += got as u64;
        }
        Ok(Some(FileFacts { len, sha256: to_hex(&hasher.finalize()) }))
    }
}

const CANNOT_READ: &str = "cannot read a file in the image";

fn unreadable(error: packfs_image::Error) -> Error {
    Error::io(CANNOT_READ)(io::Error::other(error))
}
