//! The end of a bundle: the signature, and its length.

use packfs_blocks::ReadAt;

use super::SIGNATURE_MAX;
use crate::error::{Error, Result};

/// Length of the number that is the end of a bundle, in bytes.
const LENGTH_LEN: usize = 8;

/// The end of a bundle.
#[derive(Debug)]
pub(crate) struct BundleTrailer {
    /// Length of all that comes before the signature in bytes: image and tree.
    pub(crate) payload_len: u64,
    /// The signature: CMS in DER.
    pub(crate) cms: Vec<u8>,
}

impl BundleTrailer {
    /// Reads the end of a file. The inner error says why it is not that of a bundle.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn read(file: &dyn ReadAt) -> Result<std::result::Result<Self, &'static str>> {
        let Some(cms_end) = file.len().checked_sub(LENGTH_LEN as u64) else {
            return Ok(Err("the file is too short"));
        };
        let mut length = [0; LENGTH_LEN];
        file.read_exact_at(&mut length, cms_end).map_err(Error::io("cannot read the end of the bundle"))?;
        let cms_len = u64::from_be_bytes(length);
        if cms_len == 0 {
            return Ok(Err("they are zeros"));
        }
        if cms_len > SIGNATURE_MAX {
            return Ok(Err("RAUC takes at most 64 KiB, unless its configuration says more"));
        }
        let Some(payload_len) = cms_end.checked_sub(cms_len) else {
            return Ok(Err("the file is not as long"));
        };
        let mut cms = vec![0; usize::try_from(cms_len).unwrap_or_default()];
        file.read_exact_at(&mut cms, payload_len).map_err(Error::io("cannot read the signature of the bundle"))?;
        Ok(Ok(BundleTrailer { payload_len, cms }))
    }

    /// Returns the bytes of a signature at the end of a bundle.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if RAUC would not read it.
    pub(super) fn encode(cms: &[u8]) -> Result<Vec<u8>> {
        let len = cms.len() as u64;
        if len > SIGNATURE_MAX {
            let why = "RAUC takes at most 64 KiB";
            return Err(Error::InvalidOption { what: "signature", value: format!("of {len} bytes"), why });
        }
        Ok([cms, &len.to_be_bytes()].concat())
    }
}
