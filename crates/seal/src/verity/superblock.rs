//! The superblock: `struct verity_sb` of cryptsetup, little endian.

use super::Uuid;
use super::options::check_block_size;
use crate::error::{Error, Result};
use crate::hashing::HashAlgorithm;

/// Length of a superblock in bytes.
pub const SUPERBLOCK_LEN: usize = 512;
/// Longest salt, in bytes: the length of its field in the superblock.
pub(crate) const SALT_MAX: usize = 256;

const MAGIC: &[u8; 8] = b"verity\0\0";
const VERSION: u32 = 1;
/// The salt comes before the block. Type 0 is that of old Chrome OS.
const HASH_TYPE: u32 = 1;

const VERSION_AT: usize = 8;
const HASH_TYPE_AT: usize = 12;
const UUID_AT: usize = 16;
const ALGORITHM_AT: usize = 32;
const ALGORITHM_LEN: usize = 32;
const DATA_BLOCK_SIZE_AT: usize = 64;
const HASH_BLOCK_SIZE_AT: usize = 68;
const DATA_BLOCKS_AT: usize = 72;
const SALT_LEN_AT: usize = 80;
const SALT_AT: usize = 88;

/// Parameters that whoever opens a tree reads from the hash area.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Superblock {
    /// Hash function.
    pub algorithm: HashAlgorithm,
    /// Size of a block of data in bytes.
    pub data_block_size: u32,
    /// Size of a block of digests in bytes.
    pub hash_block_size: u32,
    /// Number of blocks of data.
    pub data_blocks: u64,
    /// Bytes that come before each block.
    pub salt: Vec<u8>,
    /// UUID, which nothing depends on.
    pub uuid: Uuid,
}

impl Superblock {
    /// Returns the number of bytes of data that the tree covers; `None` if there cannot be as many.
    pub fn data_len(&self) -> Option<u64> {
        self.data_blocks.checked_mul(self.data_block_size.into())
    }

    /// Writes the superblock.
    pub fn encode(&self) -> [u8; SUPERBLOCK_LEN] {
        let mut bytes = [0; SUPERBLOCK_LEN];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(VERSION_AT, &VERSION.to_le_bytes());
        put(HASH_TYPE_AT, &HASH_TYPE.to_le_bytes());
        put(UUID_AT, &self.uuid.0);
        put(ALGORITHM_AT, self.algorithm.name().as_bytes());
        put(DATA_BLOCK_SIZE_AT, &self.data_block_size.to_le_bytes());
        put(HASH_BLOCK_SIZE_AT, &self.hash_block_size.to_le_bytes());
        put(DATA_BLOCKS_AT, &self.data_blocks.to_le_bytes());
        // The length was checked with the options, or while reading.
        put(SALT_LEN_AT, &u16::try_from(self.salt.len()).unwrap_or_default().to_le_bytes());
        put(SALT_AT, &self.salt[..self.salt.len().min(SALT_MAX)]);
        bytes
    }

    /// Returns true if bytes begin as a superblock does.
    pub fn is_superblock(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads a superblock.
    ///
    /// # Errors
    /// [`Error::BadSuperblock`] with the field that is wrong.
    pub fn decode(bytes: &[u8; SUPERBLOCK_LEN]) -> Result<Self> {
        let bad = |why| Err(Error::BadSuperblock(why));
        if !Superblock::is_superblock(bytes) {
            return bad("it does not begin with \"verity\"");
        }
        if u32_at(bytes, VERSION_AT) != VERSION {
            return bad("its version is not 1");
        }
        if u32_at(bytes, HASH_TYPE_AT) != HASH_TYPE {
            return bad("its hash type is not 1");
        }
        let Some(algorithm) = algorithm_of(&bytes[ALGORITHM_AT..ALGORITHM_AT + ALGORITHM_LEN]) else {
            return bad("its algorithm is neither sha256 nor sha512");
        };
        let sizes = [u32_at(bytes, DATA_BLOCK_SIZE_AT), u32_at(bytes, HASH_BLOCK_SIZE_AT)];
        // Checked here: a block size of zero would divide by zero, a huge one would take all memory.
        if sizes.into_iter().any(|size| check_block_size("", size).is_err()) {
            return bad("a block size is not a power of two from 512 to 512K");
        }
        let salt_len = usize::from(u16::from_le_bytes([bytes[SALT_LEN_AT], bytes[SALT_LEN_AT + 1]]));
        if salt_len > SALT_MAX {
            return bad("its salt is longer than 256 bytes");
        }
        let mut uuid = Uuid::default();
        uuid.0.copy_from_slice(&bytes[UUID_AT..ALGORITHM_AT]);
        let mut data_blocks = [0; 8];
        data_blocks.copy_from_slice(&bytes[DATA_BLOCKS_AT..SALT_LEN_AT]);
        let [data_block_size, hash_block_size] = sizes;
        let salt = bytes[SALT_AT..SALT_AT + salt_len].to_vec();
        let data_blocks = u64::from_le_bytes(data_blocks);
        let superblock = Superblock { algorithm, data_block_size, hash_block_size, data_blocks, salt, uuid };
        // With no data there would be no root, and a product that overflows would make all later offsets wrong.
        if data_blocks == 0 || superblock.data_len().is_none() {
            return bad("its number of data blocks is impossible");
        }
        Ok(superblock)
    }
}

fn u32_at(bytes: &[u8; SUPERBLOCK_LEN], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

/// Returns the algorithm of a name that ends with a zero.
fn algorithm_of(name: &[u8]) -> Option<HashAlgorithm> {
    let end = name.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&name[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            algorithm: HashAlgorithm::Sha512,
            data_block_size: 1024,
            hash_block_size: 4096,
            data_blocks: 77,
            salt: vec![1, 2, 3],
            uuid: Uuid([9; 16]),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Superblock::decode(&sample().encode()).unwrap(), sample());
    }

    #[test]
    fn each_wrong_field_is_named() {
        for (at, byte, why) in [
            (0, b'V', "begin"),
            (VERSION_AT, 2, "version"),
            (HASH_TYPE_AT, 0, "hash type"),
            (ALGORITHM_AT, b'x', "algorithm"),
            (DATA_BLOCK_SIZE_AT, 1, "block size"),
            (HASH_BLOCK_SIZE_AT + 3, 1, "block size"),
            (SALT_LEN_AT + 1, 2, "salt"),
            (DATA_BLOCKS_AT, 0, "number of data blocks"),
            (DATA_BLOCKS_AT + 7, 0xff, "number of data blocks"),
        ] {
            let mut bytes = sample().encode();
            bytes[at] = byte;
            let error = Superblock::decode(&bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{at}: {error}");
        }
    }
}
