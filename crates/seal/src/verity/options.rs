//! Parameters of a tree.

use super::{SALT_MAX, Uuid};
use crate::error::{Error, Result};
use crate::hashing::HashAlgorithm;

/// Smallest and largest block size of `veritysetup`, in bytes. The kernel stops at its page size, which is not that of
/// this machine.
const BLOCK_SIZES: std::ops::RangeInclusive<u32> = 512..=512 << 10;

/// Parameters of a dm-verity tree.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VerityOptions {
    /// Hash function.
    pub algorithm: HashAlgorithm,
    /// Size of a block of data in bytes: a power of two from 512 to 512 KiB. The kernel takes at most its page size.
    pub data_block_size: u32,
    /// Size of a block of digests in bytes: as that of the data.
    pub hash_block_size: u32,
    /// Bytes that come before each block, at most 256; `None` takes them from the beginning of the data.
    pub salt: Option<Vec<u8>>,
    /// UUID in the superblock; `None` takes it from the root hash.
    pub uuid: Option<Uuid>,
    /// True if the hash area begins with a superblock. Without one, whoever opens it has to know all parameters.
    pub has_superblock: bool,
}

impl Default for VerityOptions {
    fn default() -> Self {
        VerityOptions {
            algorithm: HashAlgorithm::Sha256,
            data_block_size: 4096,
            hash_block_size: 4096,
            salt: None,
            uuid: None,
            has_superblock: true,
        }
    }
}

packfs_blocks::options!(VerityOptions);

impl VerityOptions {
    /// Fails for sizes that the format does not have.
    pub fn check(&self) -> Result<()> {
        for (what, size) in [("data block size", self.data_block_size), ("hash block size", self.hash_block_size)] {
            check_block_size(what, size)?;
        }
        match &self.salt {
            Some(salt) if salt.len() > SALT_MAX => Err(Error::InvalidOption {
                what: "salt",
                value: format!("of {} bytes", salt.len()),
                why: "dm-verity takes at most 256",
            }),
            _ => Ok(()),
        }
    }
}

/// Fails for a block size that the format does not have.
pub(super) fn check_block_size(what: &'static str, size: u32) -> Result<()> {
    if size.is_power_of_two() && BLOCK_SIZES.contains(&size) {
        return Ok(());
    }
    let why = "dm-verity has powers of two from 512 to 512K";
    Err(Error::InvalidOption { what, value: size.to_string(), why })
}
