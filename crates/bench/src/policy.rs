//! Storage policies of file systems: the unit of space, and when a block is stored compressed.
//!
//! A policy determines the size of the encoder's buffer, which lets some codecs give up early, and the space that the
//! result occupies.

use std::fmt;
use std::str::FromStr;

use packfs_blocks::hash::is_zero;

use crate::{Error, Result};

/// The rule by which blocks are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoragePolicy {
    /// Whole sectors; compressed if at least one is saved. The rule of the test that the metrics come from.
    Sector,
    /// SquashFS: bytes; compressed if that is shorter.
    Squashfs,
    /// ZFS: sectors of the pool; compressed if an eighth is saved. A record of zeros takes no space.
    Zfs,
    /// btrfs with forced compression: pages; compressed if at least one is saved.
    Btrfs,
    /// F2FS: clusters of pages after a header of 24 bytes; compressed if at least a page is saved.
    F2fs,
    /// EROFS: clusters of the block size, each filled with as much data as fits.
    Erofs,
    /// The output of the codec for each block, whatever its length.
    Raw,
}

/// Page size of btrfs and F2FS.
const PAGE: usize = 4096;
/// Maximum that btrfs compresses at once.
const BTRFS_MAX_LEN: usize = 128 << 10;
/// Header of an F2FS cluster.
const F2FS_HEADER_LEN: usize = 24;
/// Smallest F2FS cluster.
const F2FS_MIN_LEN: usize = 4 * PAGE;
/// Largest EROFS cluster.
const EROFS_MAX_LEN: usize = 1 << 20;

/// Space that one block takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredSize {
    /// Bytes it occupies.
    pub bytes: usize,
    /// True if it is stored compressed and has to be decoded when read.
    pub compressed: bool,
}

impl StoragePolicy {
    /// All policies.
    pub const ALL: [StoragePolicy; 7] = [
        StoragePolicy::Sector,
        StoragePolicy::Squashfs,
        StoragePolicy::Zfs,
        StoragePolicy::Btrfs,
        StoragePolicy::F2fs,
        StoragePolicy::Erofs,
        StoragePolicy::Raw,
    ];

    /// Returns the name in options.
    pub fn name(self) -> &'static str {
        match self {
            StoragePolicy::Sector => "sector",
            StoragePolicy::Squashfs => "squashfs",
            StoragePolicy::Zfs => "zfs",
            StoragePolicy::Btrfs => "btrfs",
            StoragePolicy::F2fs => "f2fs",
            StoragePolicy::Erofs => "erofs",
            StoragePolicy::Raw => "raw",
        }
    }

    /// Fails unless the policy has blocks of this length on sectors of this size.
    pub fn check(self, block: usize, sector: usize) -> Result<()> {
        let refuse = |why: String| Err(Error::Usage(format!("policy {}: {why}", self.name())));
        match self {
            _ if block == 0 || sector == 0 => refuse("blocks and sectors have at least a byte".into()),
            StoragePolicy::Btrfs if block > BTRFS_MAX_LEN || !block.is_multiple_of(PAGE) => {
                refuse(format!("blocks of {block} bytes; btrfs has multiples of 4K up to 128K"))
            }
            StoragePolicy::F2fs if block < F2FS_MIN_LEN || !block.is_power_of_two() => {
                refuse(format!("blocks of {block} bytes; F2FS has powers of two from 16K"))
            }
            StoragePolicy::Erofs if !block.is_multiple_of(sector) || block > EROFS_MAX_LEN => {
                refuse(format!("clusters of {block} bytes; EROFS has multiples of a sector up to 1M"))
            }
            StoragePolicy::Zfs if !block.is_power_of_two() || !sector.is_power_of_two() => {
                refuse("ZFS has powers of two for records and sectors".into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the size of the encoder's buffer, or `None` if the block is not compressed at all. `block` is the length
    /// of full blocks; the last one of a file may be shorter.
    pub fn encoder_room(self, raw: &[u8], block: usize, sector: usize) -> Option<usize> {
        let len = raw.len();
        match self {
            // The longest result that saves a sector; beyond it, encoders may give up.
            StoragePolicy::Sector if len > sector => Some((len - sector).next_multiple_of(sector)),
            StoragePolicy::Sector => Some(sector),
            StoragePolicy::Squashfs => Some(len.saturating_sub(1)),
            StoragePolicy::Zfs if is_zero(raw) => None,
            // An eighth has to be saved, and space counts in whole sectors of the pool.
            StoragePolicy::Zfs => Some((len - len / 8) / sector * sector).filter(|room| *room > 0),
            StoragePolicy::Btrfs => len.next_multiple_of(PAGE).checked_sub(PAGE).filter(|room| *room > 0),
            // Only whole clusters are compressed.
            StoragePolicy::F2fs => (len == block).then(|| block - PAGE - F2FS_HEADER_LEN),
            // No codec here grows data by more.
            StoragePolicy::Raw => Some(len + len / 4 + 1024),
            // Several clusters: each compressed one is shorter than its contents.
            StoragePolicy::Erofs => Some(len + block),
        }
    }

    /// Returns the space that a block takes. `packed` is its compressed length, if the buffer had room for it.
    pub fn stored_size(self, raw: &[u8], packed: Option<usize>, sector: usize) -> StoredSize {
        let len = raw.len();
        let unit = match self {
            StoragePolicy::Sector | StoragePolicy::Zfs | StoragePolicy::Erofs => sector,
            StoragePolicy::Btrfs | StoragePolicy::F2fs => PAGE,
            StoragePolicy::Squashfs | StoragePolicy::Raw => 1,
        };
        let plain = StoredSize { bytes: len.next_multiple_of(unit), compressed: false };
        if self == StoragePolicy::Zfs && is_zero(raw) {
            return StoredSize { bytes: 0, compressed: false };
        }
        let header = if self == StoragePolicy::F2fs { F2FS_HEADER_LEN } else { 0 };
        match packed.map(|packed| (packed + header).next_multiple_of(unit)) {
            // Raw output counts even if it is longer than the block: it is the codec that is measured.
            Some(bytes) if bytes < len || self == StoragePolicy::Raw => StoredSize { bytes, compressed: true },
            _ => plain,
        }
    }
}

impl FromStr for StoragePolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        StoragePolicy::ALL.into_iter().find(|policy| policy.name() == text).ok_or_else(|| {
            let names = StoragePolicy::ALL.map(StoragePolicy::name).join(", ");
            Error::Usage(format!("unknown policy `{text}`; accepted: {names}"))
        })
    }
}

impl fmt::Display for StoragePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: usize = 1024;

    /// Block length, compressed length, sector; buffer size, space taken and whether it is compressed.
    #[test]
    fn rules_are_those_of_worked_examples() {
        use StoragePolicy::{Btrfs, F2fs, Raw, Sector, Squashfs, Zfs};
        let cases = [
            // If the block equals the sector, nothing can be saved.
            (Sector, 4 * K, Some(1), 4 * K, 4 * K, (4 * K, false)),
            // 8K on sectors of 4K has to shrink to half.
            (Sector, 8 * K, Some(4096), 4 * K, 4 * K, (4 * K, true)),
            (Sector, 8 * K, None, 4 * K, 4 * K, (8 * K, false)),
            // 128K has to shrink to 31 of 32 sectors.
            (Sector, 128 * K, Some(124 * K), 4 * K, 124 * K, (124 * K, true)),
            (Sector, 128 * K, Some(50_000), 4 * K, 124 * K, (13 * 4 * K, true)),
            // A tail of 10000 bytes takes three sectors; compressed to 5000 bytes it takes two.
            (Sector, 10_000, Some(5000), 4 * K, 8 * K, (8 * K, true)),
            (Sector, 10_000, None, 4 * K, 8 * K, (12 * K, false)),
            (Sector, 100, Some(50), 4 * K, 4 * K, (4 * K, false)),
            (Squashfs, 128 * K, Some(131_071), 4 * K, 131_071, (131_071, true)),
            (Squashfs, 128 * K, None, 4 * K, 131_071, (131_072, false)),
            (Squashfs, 1000, Some(10), 4 * K, 999, (10, true)),
            // An eighth of 128K is 16K; 112K is a multiple of 4K.
            (Zfs, 128 * K, Some(112 * K), 4 * K, 112 * K, (112 * K, true)),
            (Zfs, 128 * K, None, 4 * K, 112 * K, (128 * K, false)),
            (Zfs, 128 * K, Some(513), 512, 112 * K, (1024, true)),
            // 8K minus an eighth is 7K, which leaves one sector of 4K.
            (Zfs, 8 * K, Some(4096), 4 * K, 4 * K, (4 * K, true)),
            (Btrfs, 128 * K, Some(124 * K), 4 * K, 124 * K, (124 * K, true)),
            (Btrfs, 128 * K, None, 4 * K, 124 * K, (128 * K, false)),
            (Btrfs, 10_000, Some(4097), 4 * K, 8 * K, (8 * K, true)),
            // 16K: header and data take at most three pages.
            (F2fs, 16 * K, Some(3 * 4096 - 24), 4 * K, 3 * 4096 - 24, (12 * K, true)),
            (F2fs, 16 * K, Some(4096 - 23), 4 * K, 3 * 4096 - 24, (8 * K, true)),
            (F2fs, 16 * K, None, 4 * K, 3 * 4096 - 24, (16 * K, false)),
            (Raw, 4 * K, Some(5000), 4 * K, 6144, (5000, true)),
        ];
        for (policy, len, packed, sector, room, (bytes, compressed)) in cases {
            let raw = vec![1; len];
            assert_eq!(policy.encoder_room(&raw, len, sector), Some(room), "{policy}: {len}");
            let stored = policy.stored_size(&raw, packed, sector);
            assert_eq!(stored, StoredSize { bytes, compressed }, "{policy}: {len} to {packed:?}");
        }
    }

    #[test]
    fn some_blocks_are_not_even_tried() {
        assert_eq!(StoragePolicy::Zfs.encoder_room(&[0; 8192], 8192, 512), None);
        assert_eq!(StoragePolicy::Zfs.stored_size(&[0; 8192], None, 512), StoredSize { bytes: 0, compressed: false });
        assert_eq!(StoragePolicy::Btrfs.encoder_room(&[1; 4096], 8192, 4096), None);
        assert_eq!(StoragePolicy::F2fs.encoder_room(&[1; 8192], 16_384, 4096), None);
        assert_eq!(
            StoragePolicy::F2fs.stored_size(&[1; 8000], None, 4096),
            StoredSize { bytes: 8192, compressed: false }
        );
    }

    #[test]
    fn what_a_rule_does_not_have_is_refused() {
        for (policy, block) in [
            (StoragePolicy::Btrfs, 256 * K),
            (StoragePolicy::F2fs, 8 * K),
            (StoragePolicy::Zfs, 3000),
            (StoragePolicy::Raw, 0),
        ] {
            assert!(policy.check(block, 4096).is_err(), "{policy}");
        }
        for policy in StoragePolicy::ALL {
            policy.check(16 * K, 4096).unwrap();
            assert_eq!(policy.name().parse::<StoragePolicy>().unwrap(), policy);
        }
        assert!("ext4".parse::<StoragePolicy>().unwrap_err().to_string().contains("accepted: sector, squashfs"));
    }
}
