//! The superblock: decoding and checks. Defects that make the kernel refuse an image are refused
//! here, except those of the inodes it points to.

use std::ops::Range;

use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::compression::{self, ErofsCompression};
use super::disk::DeviceBytes;
use crate::erofs::Feature;
use crate::erofs::format::{self, BLOCK_BITS, Compat, Incompat, NID_METABOX, SUPERBLOCK_OFFSET, SUPERBLOCK_SLOT};
use crate::erofs::hash::crc32c;
use crate::image::Nid;
use crate::tree::Time;
use crate::{Error, Result};

const STRUCTURE: &str = "superblock";
/// Length of the superblock without extra slots.
const LEN: u64 = size_of::<format::Superblock>() as u64;
/// Number of bytes of an image that identify it.
const HEAD_LEN: usize = 1024 + size_of::<format::Superblock>();
/// Magic number at the start of SquashFS images.
const SQUASHFS_MAGIC: &[u8] = b"hsqs";
/// Device slots are counted from the start of the image in units of their length.
const DEVICE_LEN: u64 = size_of::<format::DeviceSlot>() as u64;

/// A superblock whose fields agree with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Block size in bytes.
    pub block_size: u32,
    /// Compatible features, which a reader may ignore.
    pub compat: Compat,
    /// Incompatible features, which a reader must know.
    pub incompat: Incompat,
    /// The root directory.
    pub root: Nid,
    /// Number of inodes, as counted by the writer.
    pub inodes: u64,
    /// Number of blocks, as counted by the writer, without those of additional devices.
    pub blocks: u64,
    /// Time of compact inodes, or the base of their times.
    pub epoch: Time,
    /// Time of the build, in seconds since 1970.
    pub build_time: i64,
    /// Offset from which nids count.
    pub metadata_start: u64,
    /// Offset from which ids of shared xattrs count.
    pub xattr_start: u64,
    /// UUID.
    pub uuid: [u8; 16],
    /// Label.
    pub label: Box<[u8]>,
    /// Algorithms of compressed files, with the parameters of their decoders.
    pub compression: Vec<ErofsCompression>,
    /// The packed inode: its data is tails of files, concatenated.
    pub packed: Option<Nid>,
    /// The metabox: its data is inodes.
    pub metabox: Option<Nid>,
    /// Additional devices.
    pub devices: Vec<AdditionalDevice>,
    /// Number of long xattr prefixes.
    pub xattr_prefixes: u8,
    /// Their offset: in the metabox, the packed inode or the image.
    pub xattr_prefix_start: u64,
    /// Number of the long prefix that is the name of the digests of files, if files have them.
    pub digest_prefix: Option<u8>,
    /// True if inodes have name filters for their xattrs, of a known kind.
    pub xattr_filter: bool,
    /// Length including extra slots.
    pub len: u64,
    /// Offset after the records of algorithms, which follow it.
    pub(super) end: u64,
    /// Position of the device table; empty if there is none.
    pub(super) device_table: Range<u64>,
}

/// An additional device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdditionalDevice {
    /// Any name.
    pub tag: Box<[u8]>,
    /// Number of its blocks.
    pub blocks: u64,
    /// Its first block in the address space of all devices.
    pub start: u64,
}

impl Superblock {
    /// Returns the features that the image uses.
    pub fn features(&self) -> Vec<Feature> {
        let algorithms = self.compression.iter().fold(0, |bits, one| bits | 1 << one.number());
        let block_bits = u8::try_from(self.block_size.trailing_zeros()).unwrap_or(u8::MAX);
        let mut features = Feature::used(self.compat, self.incompat, algorithms, block_bits);
        // The bit of fragments may stand for dedupe.
        let elsewhere = self.packed.is_some() || self.metabox.is_some();
        // The packed inode or metabox is where the other form would have them.
        features.retain(|feature| elsewhere || *feature != Feature::PlainXattrPrefixes);
        features
    }

    /// Returns their names. Two bits stand for two features each; other fields tell which is meant.
    pub fn feature_names(&self) -> Vec<&'static str> {
        let name = |feature: Feature| match feature {
            Feature::FragmentsOrDedupe if self.packed.is_some() => "fragments",
            Feature::FragmentsOrDedupe => "dedupe",
            Feature::DevicesOrSecondHead if self.devices.is_empty() => "second-algorithm",
            Feature::DevicesOrSecondHead => "devices",
            other => other.name(),
        };
        self.features().into_iter().map(name).collect()
    }

    /// Reads and checks the superblock of an image and the structures that follow it.
    pub(super) fn read(disk: &mut DeviceBytes) -> Result<Superblock> {
        let mut head = [0; HEAD_LEN];
        // Superblock and what identifies other formats are in the first bytes.
        let got = disk.read_up_to(0, &mut head)?;
        let raw = head[..got].get(HEAD_LEN - size_of::<format::Superblock>()..).unwrap_or_default();
        if raw.first_chunk().is_none_or(|magic| u32::from_le_bytes(*magic) != format::MAGIC) {
            return Err(wrong(not_erofs(&head[..got])));
        }
        let Ok(raw) = format::Superblock::read_from_bytes(raw) else { return Err(wrong(too_short(got))) };
        let mut checked = check_fields(&raw)?;
        // From here on, errors tell a truncated image.
        disk.expect(checked.block_start(checked.blocks));
        // Before anything that it points to is read.
        check_sum(disk, &raw)?;
        checked.metabox = metabox(disk, &checked, &raw)?;
        (checked.compression, checked.end) = compression::read(disk, &checked, &raw)?;
        checked.devices = devices(disk, &checked, &raw)?;
        // The table is located in the same unit as in `devices`.
        let first = u64::from(raw.devt_slotoff.get()) * DEVICE_LEN;
        checked.device_table = first..first + checked.devices.len() as u64 * DEVICE_LEN;
        Ok(checked)
    }

    /// Returns the number of blocks in the largest physical cluster, if the image declares LZ4 clusters.
    pub fn lz4_blocks(&self) -> Option<u32> {
        self.compression.iter().find_map(|one| match one {
            ErofsCompression::Lz4 { max_cluster_blocks, .. } => Some((*max_cluster_blocks).into()),
            _ => None,
        })
    }

    /// Returns log2 of the block size.
    pub(super) fn block_bits(&self) -> u8 {
        // A power of two of at most 2^16.
        u8::try_from(self.block_size.trailing_zeros()).unwrap_or(0)
    }

    /// Returns the offset of a block; an address that is too high gives an offset past any image.
    pub(super) fn block_start(&self, block: u64) -> u64 {
        block.saturating_mul(self.block_size.into())
    }
}

fn wrong(why: impl Into<String>) -> Error {
    Error::corrupt(STRUCTURE, SUPERBLOCK_OFFSET, why)
}

fn too_short(got: usize) -> String {
    format!("the file has only {got} bytes, which is too short for any EROFS image")
}

fn not_erofs(head: &[u8]) -> String {
    if head.len() < HEAD_LEN {
        return too_short(head.len());
    }
    if head.starts_with(SQUASHFS_MAGIC) {
        return "this is a SquashFS image, not an EROFS one".into();
    }
    format!("not an EROFS image (no magic number {:#010x} there)", format::MAGIC)
}

fn known_features(raw: &format::Superblock) -> Result<Incompat> {
    let incompat = Incompat::from_bits_retain(raw.feature_incompat.get());
    // Unlike compatible features, which a reader may ignore.
    match incompat.bits() & !Incompat::KNOWN.bits() {
        0 => Ok(incompat),
        unknown => Err(Error::Unsupported(format!("EROFS features {unknown:#x}, which are newer than this program"))),
    }
}

fn check_fields(raw: &format::Superblock) -> Result<Superblock> {
    if !BLOCK_BITS.contains(&raw.blkszbits) {
        let least = 1u32 << BLOCK_BITS.start();
        let most = 1u32 << BLOCK_BITS.end();
        return Err(wrong(format!("block size 2^{} is not from {least} to {most}", raw.blkszbits)));
    }
    let incompat = known_features(raw)?;
    if raw.dirblkbits != 0 {
        return Err(Error::Unsupported(format!("EROFS directory blocks of 2^{} blocks", raw.dirblkbits)));
    }
    let compat = Compat::from_bits_retain(raw.feature_compat.get());
    let wide = incompat.contains(Incompat::BITS_48);
    let root = if wide { raw.rootnid_8b.get() } else { 0 };
    let high = u64::from(raw.rb.get());
    let low = u64::from(raw.blocks_lo.get());
    // A field of 16 bits had the root's nid before; with the wide one it has the high bits of the count of
    // blocks.
    let (root, blocks) = if root != 0 { (root, high << 32 | low) } else { (high, low) };
    let packed = incompat.contains(Incompat::FRAGMENTS_OR_DEDUPE).then_some(raw.packed_nid.get());
    let block = |block: u32| u64::from(block) << raw.blkszbits;
    let nanos = raw.fixed_nsec.get();
    if nanos >= 1_000_000_000 {
        return Err(wrong(format!("{nanos} nanoseconds of its time are a second or more")));
    }
    let build_time = if wide { i64::from(raw.build_time.get()) } else { 0 };
    Ok(Superblock {
        block_size: 1 << raw.blkszbits,
        compat,
        incompat,
        root: Nid(root),
        inodes: raw.inos.get(),
        blocks,
        epoch: Time { secs: raw.epoch.get(), nanos },
        // The time of the build counts from the epoch.
        build_time: raw.epoch.get().saturating_add(build_time),
        metadata_start: block(raw.meta_blkaddr.get()),
        xattr_start: block(raw.xattr_blkaddr.get()),
        uuid: raw.uuid,
        label: until_nul(&raw.volume_name),
        compression: Vec::new(),
        // The feature's bit may stand for dedupe, without a packed inode.
        packed: packed.filter(|nid| *nid != 0).map(Nid),
        metabox: None,
        devices: Vec::new(),
        xattr_prefixes: raw.xattr_prefix_count,
        xattr_prefix_start: u64::from(raw.xattr_prefix_start.get()) * 4,
        digest_prefix: compat.contains(Compat::SHARED_INODES).then_some(raw.ishare_xattr_prefix_id),
        // A reserved field that is not 0 stands for another kind of filter, as in Linux.
        xattr_filter: compat.contains(Compat::XATTR_FILTER) && raw.xattr_filter_reserved == 0,
        len: LEN + u64::from(raw.sb_extslots) * SUPERBLOCK_SLOT,
        end: 0,
        device_table: 0..0,
    })
}

fn until_nul(bytes: &[u8]) -> Box<[u8]> {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default().into()
}

/// Verifies the checksum: it covers the part of the first block after byte 1024, or a whole block if that is empty.
fn check_sum(disk: &DeviceBytes, raw: &format::Superblock) -> Result<()> {
    if raw.feature_compat.get() & Compat::CHECKSUM.bits() == 0 {
        return Ok(());
    }
    let block = 1usize << raw.blkszbits;
    let before = usize::try_from(SUPERBLOCK_OFFSET).unwrap_or(0);
    let mut bytes = vec![0; if block > before { block - before } else { block }];
    disk.read(STRUCTURE, SUPERBLOCK_OFFSET, &mut bytes)?;
    // Of the sum itself, as it is computed before it is stored.
    bytes[4..8].fill(0);
    let sum = crc32c(!0, &bytes);
    let stored = raw.checksum.get();
    if sum != stored {
        return Err(wrong(format!("its checksum is {sum:#010x}, but it should be {stored:#010x}")));
    }
    Ok(())
}

fn metabox(disk: &DeviceBytes, superblock: &Superblock, raw: &format::Superblock) -> Result<Option<Nid>> {
    if !superblock.incompat.contains(Incompat::METABOX) {
        return Ok(None);
    }
    if raw.sb_extslots == 0 {
        return Err(wrong("it has a metabox but no field for its position"));
    }
    let mut extension = format::SuperblockExtension::new_zeroed();
    disk.read(STRUCTURE, SUPERBLOCK_OFFSET + LEN, extension.as_mut_bytes())?;
    let nid = extension.metabox_nid.get();
    // Its inode has to be readable without it.
    if nid & NID_METABOX != 0 {
        return Err(wrong("the metabox cannot contain itself"));
    }
    Ok(Some(Nid(nid)))
}

fn devices(disk: &DeviceBytes, superblock: &Superblock, raw: &format::Superblock) -> Result<Vec<AdditionalDevice>> {
    // The bit alone may stand for files with two algorithms.
    if !superblock.incompat.contains(Incompat::DEVICES_OR_SECOND_HEAD) {
        return Ok(Vec::new());
    }
    let wide = superblock.incompat.contains(Incompat::BITS_48);
    // Before 48-bit addresses the upper halves were reserved.
    let join = |low: u32, high: u16| u64::from(low) | if wide { u64::from(high) << 32 } else { 0 };
    let slots = u64::from(raw.devt_slotoff.get())..;
    slots
        .take(raw.extra_devices.get().into())
        .map(|slot| {
            let mut raw = format::DeviceSlot::new_zeroed();
            disk.read("device table", slot * DEVICE_LEN, raw.as_mut_bytes())?;
            Ok(AdditionalDevice {
                tag: until_nul(&raw.tag),
                blocks: join(raw.blocks_lo.get(), raw.blocks_hi.get()),
                start: join(raw.uniaddr_lo.get(), raw.uniaddr_hi.get()),
            })
        })
        .collect()
}
