//! Disk images that systemd takes apart by itself (DDI): a partition table, the file system, its hash tree, and the
//! signature of the root hash.
//!
//! systemd finds the partitions by their types, and those that belong together by their UUIDs, which are the two halves of
//! the root hash. Source: Discoverable Partitions Specification and Discoverable Disk Image of the UAPI group;
//! src/shared/dissect-image.c of systemd.

mod gpt;
mod partition_type;
mod signature_json;

use packfs_blocks::Output;

pub(crate) use gpt::{DiskPartition, PartitionTable, TableError};
pub use partition_type::DdiType;
pub use signature_json::DdiSignature;

use self::gpt::{FIRST_PARTITION, READ_ONLY, SECTOR, disk_len};
use crate::error::{Error, Result};
use crate::hashing::HashAlgorithm;
use crate::tree::RootHash;
use crate::verity::{HashArea, Superblock, Uuid, VerityOptions, VeritySeal};

/// Partitions begin at multiples of this, in bytes: pages, and the sectors of most disks. systemd-repart does the same.
const ALIGNMENT: u64 = 4096;
/// Least length of the partition of a signature in bytes, as systemd-repart makes it: room for any usual signature.
const SIGNATURE_LEN: u64 = 16 << 10;

/// Where the parts of a disk image lie. The length of the image decides that, before anything is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DdiPlan {
    /// Purpose and architecture of the image.
    pub kind: DdiType,
    /// Length of the image in bytes.
    pub data_len: u64,
    /// Byte offset of the image.
    pub data_start: u64,
    /// Byte offset of the hash area, which begins with a superblock.
    pub hash_start: u64,
    /// Length of the hash area in bytes.
    hash_len: u64,
}

impl DdiPlan {
    /// Plans a disk image for a file system of `data_len` bytes.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for parameters that [`seal`](crate::verity::seal) refuses, or if there is to be no superblock,
    /// without which systemd does not open a tree.
    pub fn new(kind: DdiType, data_len: u64, options: &VerityOptions) -> Result<Self> {
        options.check()?;
        if !options.has_superblock {
            let why = "systemd reads the parameters of a tree from its superblock";
            return Err(Error::InvalidOption { what: "hash area", value: "without a superblock".into(), why });
        }
        let VerityOptions { algorithm, data_block_size, hash_block_size, .. } = *options;
        // A remainder is refused when the image is sealed; the plan only needs the size of the tree.
        let data_blocks = data_len / u64::from(data_block_size);
        // Salt and UUID do not change the length, and are not known before the image is read.
        let parameters = Superblock {
            algorithm,
            data_block_size,
            hash_block_size,
            data_blocks,
            salt: Vec::new(),
            uuid: Uuid::default(),
        };
        let too_long =
            || Error::InvalidOption { what: "length", value: data_len.to_string(), why: "no disk is as long" };
        let area = HashArea::after_superblock(parameters, 0)?;
        let hash_len = area.end().ok_or_else(too_long)?;
        let data_start = FIRST_PARTITION;
        // The tree counts its blocks from the beginning of the file: `seal` takes only multiples of the hash block
        // size.
        let alignment = ALIGNMENT.max(hash_block_size.into());
        let end = data_start.checked_add(data_len).and_then(|end| end.checked_next_multiple_of(alignment));
        let hash_start = end.ok_or_else(too_long)?;
        Ok(DdiPlan { kind, data_len, data_start, hash_start, hash_len })
    }

    /// Writes the signature and both partition tables, after the image and its tree were written to their places.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write_table(&self, sealed: &VeritySeal, signature: Option<&DdiSignature>, output: &Output) -> Result<()> {
        let name = self.kind.name();
        let halves = RootHashHalves::of(&sealed.root_hash);
        let partition = |kind, uuid, start, len: u64, suffix: &str| DiskPartition {
            kind,
            uuid,
            start,
            len: len.next_multiple_of(SECTOR),
            attributes: READ_ONLY,
            label: format!("{name}{suffix}"),
        };
        let mut partitions = vec![
            partition(self.kind.data(), halves.data, self.data_start, self.data_len, ""),
            partition(self.kind.hash_tree(), halves.hash_tree, self.hash_start, self.hash_len, "-verity"),
        ];
        let mut end = self.hash_start + self.hash_len;
        if let Some(signature) = signature {
            let json = signature.to_json();
            let start = end.next_multiple_of(ALIGNMENT);
            let len = (json.len() as u64).next_multiple_of(ALIGNMENT).max(SIGNATURE_LEN);
            // systemd reads up to the first zero.
            let mut bytes = json.into_bytes();
            bytes.resize(usize::try_from(len).expect("a signature of a few KiB"), 0);
            output.write_all_at(&bytes, start).map_err(Error::write("the signature"))?;
            // systemd finds it by its type, so its UUID may be anything that is the same each time.
            let uuid = derived_uuid(b"packfs signature partition\0", &sealed.root_hash);
            partitions.push(partition(self.kind.signature(), uuid, start, len, "-verity-sig"));
            end = start + len;
        }
        let disk = derived_uuid(b"packfs disk\0", &sealed.root_hash);
        PartitionTable { disk, partitions, has_backup: true }.write(disk_len(end), output)
    }
}

/// UUIDs by which systemd finds the partitions that belong to a root hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RootHashHalves {
    pub(crate) data: Uuid,
    pub(crate) hash_tree: Uuid,
}

impl RootHashHalves {
    /// Takes the first and the last 16 bytes of a root hash.
    pub(crate) fn of(root_hash: &RootHash) -> Self {
        let bytes = root_hash.as_bytes();
        let uuid = |part: &[u8]| Uuid(part.try_into().expect("a digest has 32 or 64 bytes"));
        RootHashHalves { data: uuid(&bytes[..16]), hash_tree: uuid(&bytes[bytes.len() - 16..]) }
    }
}

/// Returns a UUID that follows from a root hash, so that the same image gives the same disk.
fn derived_uuid(purpose: &[u8], root_hash: &RootHash) -> Uuid {
    Uuid::from_digest(&HashAlgorithm::Sha256.digest(&[purpose, root_hash.as_bytes()].concat()))
}
