//! SIF, the files of Apptainer and Singularity: a table of objects, one of which is a SquashFS image, and signatures of them.
//!
//! Linux verifies nothing of it when the image is read. `apptainer verify` compares the digest of each object when it is
//! asked to, and so can `apptainer run`, by its list of signers (ECL).
//!
//! Source: pkg/sif and pkg/integrity of github.com/apptainer/sif 2.25.

mod architecture;
mod digest;
mod envelope;
mod error;
mod layout;
mod metadata;
mod reader;

use std::sync::Arc;

use packfs_blocks::{Output, ReadAt};
use packfs_image::{AnyImage, OpenOptions};
use zerocopy::IntoBytes;

pub use architecture::SifArchitecture;
pub(crate) use digest::{ObjectDigests, function_of as digest_function};
pub(crate) use envelope::SignedEnvelope;
pub use error::SifError;
pub(crate) use layout::{ObjectKind, SifDescriptor};
pub(crate) use metadata::SignedMetadata;
pub(crate) use reader::SifFile;

use self::layout::SifHeader;
use crate::error::{Error, Result};
use crate::signature::MessageSignature;
use crate::tree::HashEffort;

/// Byte offset of the image. The table of descriptors, which comes before it, always has the same length here.
pub const IMAGE_START: u64 = 32 << 10;

/// The group of objects in which Apptainer puts all that a container consists of.
const GROUP: u32 = 1;

/// A SIF file with one image that lacks only its signature.
#[derive(Debug)]
pub struct UnsignedSif {
    architecture: SifArchitecture,
    partition: SifDescriptor,
    metadata: SignedMetadata,
}

impl UnsignedSif {
    /// Reads a SquashFS image and describes the file that contains it.
    ///
    /// # Errors
    /// [`Error::Sif`] for an image that Apptainer does not run; [`Error::Io`]; [`Error::Interrupted`].
    pub fn describe(image: &Arc<dyn ReadAt>, architecture: SifArchitecture, effort: &HashEffort) -> Result<Self> {
        match AnyImage::open(Arc::clone(image), OpenOptions::default()) {
            Ok(AnyImage::Squashfs(_)) => {}
            Ok(AnyImage::Erofs(_)) | Err(packfs_image::Error::NoImage { .. }) => {
                return Err(SifError::NotSquashfs.into());
            }
            Err(error) => return Err(Error::io("cannot read the image")(std::io::Error::other(error))),
        }
        let partition = SifDescriptor::partition(image.len(), architecture);
        let header = SifHeader::new(architecture);
        let metadata = SignedMetadata::of_partition(&header, &partition, image, &effort.progress)?;
        Ok(UnsignedSif { architecture, partition, metadata })
    }

    /// Returns the bytes to sign.
    pub fn message(&self) -> Vec<u8> {
        envelope::signed_message(&self.metadata.to_json())
    }

    /// Returns the SHA-256 of the image, in hexadecimal digits.
    pub fn image_digest(&self) -> &str {
        self.metadata.first_object_digest()
    }

    /// Writes everything but the image, which the caller puts at byte [`IMAGE_START`]. `signature` is that of the
    /// [`message`](UnsignedSif::message); without one, the file is not signed.
    ///
    /// The same image and signature give the bytes that the library of Apptainer writes with its options for equal files:
    /// without times and without a UUID.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write(&self, signature: Option<&MessageSignature>, output: &Output) -> Result<()> {
        let write = |bytes: &[u8], at: u64| output.write_all_at(bytes, at).map_err(Error::write("the SIF file"));
        let mut descriptors = vec![self.partition.clone()];
        if let Some(signature) = signature {
            let envelope = SignedEnvelope::new(&self.metadata.to_json(), signature).to_json();
            let start = IMAGE_START + self.partition.len().unwrap_or_default();
            descriptors.push(SifDescriptor::signature(start, envelope.len() as u64));
            write(&envelope, start)?;
        }
        let header = SifHeader::new(self.architecture).with_objects(&descriptors);
        write(header.as_bytes(), 0)?;
        write(&layout::encode_table(&descriptors), layout::TABLE_START)
    }
}
