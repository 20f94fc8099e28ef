//! The first blocks of an image: the superblock, codec records, and the table of long xattr prefixes.
//!
//! Room for all of them is reserved, as the options require, before any data is written. Their
//! contents, and whether records and table are used at all, are known at the end.

use std::collections::BTreeMap;

use zerocopy::IntoBytes;

use super::devices::PlacedDevice;
use super::epoch::ImageEpoch;
use super::xattr::XattrPrefixes;
use crate::erofs::format;
use crate::erofs::format::{
    Compat, DeflateRecord, DeviceSlot, Incompat, Lz4Record, LzmaRecord, SUPERBLOCK_OFFSET, Superblock,
    SuperblockExtension, ZstdRecord, algorithm,
};
use crate::erofs::hash::crc32c;
use crate::erofs::kernel::{Feature, Kernel, TARGET_KERNEL};
use crate::erofs::writer::options::{ErofsOptions, Features, longest_cluster};
use crate::source::ClusteredImage;
use crate::{Error, Result};

/// Length of a slot of the device table in bytes, and the unit of its position.
const DEVICE_LEN: u64 = size_of::<DeviceSlot>() as u64;

/// Room in bytes for the records of all algorithms.
const RECORDS_MAX: u64 = 2 * (2 + 14) + 2 * (2 + 6);

/// Largest distance of an LZ4 match: the limit of the format.
const LZ4_DISTANCE: u16 = u16::MAX;

/// Layout of the first blocks, fixed before data is written.
#[derive(Debug)]
pub(crate) struct ImageHead<'a> {
    options: &'a ErofsOptions,
    /// Algorithms that may have a record, and the records, in ascending order.
    records: Vec<(u8, Vec<u8>)>,
    prefixes: XattrPrefixes,
}

/// Facts about the image for the superblock.
#[derive(Debug, Clone)]
pub(crate) struct ImageFacts {
    pub(crate) inodes: u64,
    pub(crate) epoch: ImageEpoch,
    /// Time of the image.
    pub(crate) time: i64,
    /// Total number of blocks.
    pub(crate) blocks: u64,
    /// Block from which nids count.
    pub(crate) zone: u32,
    pub(crate) root_nid: u64,
    pub(crate) packed_nid: Option<u64>,
    pub(crate) metabox_nid: Option<u64>,
    pub(crate) shared_xattrs: Option<u32>,
    pub(crate) has_xattrs: bool,
    pub(crate) uses_prefixes: bool,
    /// Format features that inodes use.
    pub(crate) uses: Incompat,
    /// Algorithms that maps of inodes name, a bit each.
    pub(crate) algorithms: u16,
    /// Additional devices.
    pub(crate) devices: Vec<PlacedDevice>,
}

impl<'a> ImageHead<'a> {
    pub(crate) fn new(options: &'a ErofsOptions) -> Result<ImageHead<'a>> {
        // The field has 16 bytes, and Linux before 6.15 wants a NUL at its end.
        if options.label.len() > 15 {
            let why = format!("it has {} bytes; the limit is 15", options.label.len());
            return Err(Error::option("label", &options.label, why));
        }
        if options.label.contains('\0') {
            return Err(Error::option("label", options.label.escape_default(), "it contains a NUL"));
        }
        Ok(ImageHead { options, records: records(options)?, prefixes: XattrPrefixes::of(options)? })
    }

    /// Returns the first block that data may use.
    pub(crate) fn blocks(&self) -> u64 {
        let end = match self.options.devices() {
            0 => self.prefixes_start() + self.prefixes.table().len() as u64,
            devices => self.devices_start() + u64::from(devices) * DEVICE_LEN,
        };
        end.div_ceil(self.options.block_size.into())
    }

    /// Returns the position of the device table.
    fn devices_start(&self) -> u64 {
        (self.prefixes_start() + self.prefixes.table().len() as u64).next_multiple_of(DEVICE_LEN)
    }

    fn prefixes_start(&self) -> u64 {
        let start = SUPERBLOCK_OFFSET + self.len() as u64;
        if self.options.refer > 0 {
            // Which algorithms the sources use is known only when they are read.
            return start + RECORDS_MAX;
        }
        self.records.iter().fold(start, |at, (_, record)| (at + 2 + record.len() as u64).next_multiple_of(4))
    }

    /// Returns the length of the superblock in bytes.
    fn len(&self) -> usize {
        let extension = if self.has_metabox() { size_of::<SuperblockExtension>() } else { 0 };
        size_of::<Superblock>() + extension
    }

    fn has_checksum(&self) -> bool {
        !self.options.features.contains(Features::NO_CHECKSUM)
    }

    fn has_metabox(&self) -> bool {
        self.options.features.contains(Features::METABOX)
    }

    /// Adds the records of files that stay in other images.
    pub(crate) fn add_decoders<'d>(&mut self, images: impl Iterator<Item = &'d ClusteredImage>) -> Result<()> {
        let mut needs = algorithm_needs(self.options);
        let mut decoders = images.flat_map(|image| &image.decoders).peekable();
        // Without other images the records stay as they are, perhaps none: kernels before 5.13 know no
        // records.
        if decoders.peek().is_none() {
            return Ok(());
        }
        for decoder in decoders {
            let (blocks, window) = needs.entry(decoder.algorithm).or_default();
            *blocks = (*blocks).max(decoder.cluster_len / self.options.block_size).max(1);
            *window = (*window).max(decoder.window);
        }
        self.records = needs.into_iter().map(|(id, needs)| Ok((id, record(id, needs)?))).collect::<Result<_>>()?;
        Ok(())
    }

    /// Refuses prefixes of names together with a packed inode for kernels that would look for them in it.
    pub(crate) fn check(&self, uses_prefixes: bool, has_packed: bool) -> Result<()> {
        let target = self.options.target_kernel;
        let since = Feature::PlainXattrPrefixes.since();
        if uses_prefixes && has_packed && target < since {
            let why = format!(
                "prefixes of xattr names beside fragments or compressed-dirs need Linux {since}: leave out one of them"
            );
            return Err(Error::option(TARGET_KERNEL, target, why));
        }
        Ok(())
    }

    /// Encodes the first blocks. `uuid` derives the UUID from them, unless the options specify one.
    pub(crate) fn encode(&self, facts: &ImageFacts, uuid: impl FnOnce(&[u8]) -> [u8; 16]) -> (Vec<u8>, [u8; 16]) {
        let mut superblock = self.superblock(facts);
        let mut bytes = vec![0; usize::try_from(self.blocks()).expect("a few") * self.options.block_size as usize];
        let at = usize::try_from(SUPERBLOCK_OFFSET).expect("a small number");
        let rest = at + size_of::<Superblock>();
        let mut next = at + self.len();
        if let Some(metabox_nid) = facts.metabox_nid {
            let extension = SuperblockExtension { metabox_nid: metabox_nid.into(), reserved3: [0; 8] };
            bytes[rest..next].copy_from_slice(extension.as_bytes());
        }
        for (_, record) in self.used_records(facts) {
            let len = u16::try_from(record.len()).expect("14 bytes at most");
            bytes[next..next + 2].copy_from_slice(&len.to_le_bytes());
            bytes[next + 2..next + 2 + record.len()].copy_from_slice(record);
            next = (next + 2 + record.len()).next_multiple_of(4);
        }
        if facts.uses_prefixes {
            let table = self.prefixes.table();
            let start = usize::try_from(self.prefixes_start()).expect("a few blocks");
            bytes[start..start + table.len()].copy_from_slice(&table);
        }
        let table: Vec<u8> = facts.devices.iter().flat_map(|slot| slot.encode().as_bytes().to_vec()).collect();
        if !table.is_empty() {
            let start = usize::try_from(self.devices_start()).expect("a few blocks");
            bytes[start..start + table.len()].copy_from_slice(&table);
        }
        // Three times, as each value depends on those before: the UUID on all fields but itself and the
        // checksum, the checksum on the UUID, too.
        bytes[at..rest].copy_from_slice(superblock.as_bytes());
        superblock.uuid = self.options.uuid.unwrap_or_else(|| uuid(&bytes));
        bytes[at..rest].copy_from_slice(superblock.as_bytes());
        // As `erofs_superblock_csum_verify` in Linux: from the superblock to the end of its block, or a whole
        // block where that is no longer than the offset of the superblock.
        let covered = match self.options.block_size as usize {
            block if block > at => block - at,
            block => block,
        };
        if self.has_checksum() {
            superblock.checksum = crc32c(!0, &bytes[at..(at + covered).min(bytes.len())]).into();
        }
        bytes[at..rest].copy_from_slice(superblock.as_bytes());
        (bytes, superblock.uuid)
    }

    fn superblock(&self, facts: &ImageFacts) -> Superblock {
        let options = self.options;
        let wide = options.features.contains(Features::BITS_48);
        let incompat = self.incompat(facts);
        let compat = self.compat(facts);
        let compressed = incompat.contains(Incompat::ZERO_PADDING);
        // The field has two meanings: algorithms if there are records, otherwise the largest distance of LZ4.
        let algorithms = match self.recorded(facts) {
            0 if compressed => LZ4_DISTANCE,
            recorded => recorded,
        };
        let build_time = facts.time.saturating_sub(facts.epoch.time.secs);
        let mut volume_name = [0; 16];
        volume_name[..options.label.len()].copy_from_slice(options.label.as_bytes());
        let prefixes = facts.uses_prefixes;
        // One of them: the short one is part of the number of blocks if there is a long one.
        let (root_nid, long_root_nid) = match u16::try_from(facts.root_nid) {
            Ok(short) => (short, 0),
            Err(_) => (u16::try_from(facts.blocks >> 32).unwrap_or(u16::MAX), facts.root_nid),
        };
        Superblock {
            magic: format::MAGIC.into(),
            checksum: 0.into(),
            feature_compat: compat.bits().into(),
            blkszbits: block_bits(options),
            sb_extslots: u8::from(self.has_metabox()),
            rb: root_nid.into(),
            inos: facts.inodes.into(),
            epoch: facts.epoch.time.secs.into(),
            fixed_nsec: facts.epoch.time.nanos.into(),
            blocks_lo: u32::try_from(facts.blocks & u64::from(u32::MAX)).expect("32 bits").into(),
            meta_blkaddr: facts.zone.into(),
            xattr_blkaddr: facts.shared_xattrs.unwrap_or(0).into(),
            uuid: [0; 16],
            volume_name,
            feature_incompat: incompat.bits().into(),
            u1: algorithms.into(),
            extra_devices: u16::try_from(facts.devices.len()).expect("at most as many as were allowed").into(),
            devt_slotoff: if facts.devices.is_empty() { 0 } else { self.devices_word() }.into(),
            dirblkbits: 0,
            xattr_prefix_count: if prefixes { self.prefixes.count() } else { 0 },
            xattr_prefix_start: if prefixes { self.prefixes_word() } else { 0 }.into(),
            packed_nid: facts.packed_nid.unwrap_or(0).into(),
            xattr_filter_reserved: 0,
            ishare_xattr_prefix_id: self.prefixes.digest().unwrap_or(0),
            reserved: [0; 2],
            build_time: if wide { u32::try_from(build_time).unwrap_or(0) } else { 0 }.into(),
            rootnid_8b: long_root_nid.into(),
            reserved2: [0; 8],
        }
    }

    fn devices_word(&self) -> u16 {
        u16::try_from(self.devices_start() / DEVICE_LEN).expect("in the first blocks")
    }

    fn prefixes_word(&self) -> u32 {
        u32::try_from(self.prefixes_start() / 4).expect("in the first blocks")
    }

    /// Returns the records of the algorithms that the image uses.
    fn used_records(&self, facts: &ImageFacts) -> impl Iterator<Item = &(u8, Vec<u8>)> {
        self.records.iter().filter(|(id, _)| facts.algorithms & 1 << id != 0)
    }

    /// Returns the algorithms with a record, a bit each.
    fn recorded(&self, facts: &ImageFacts) -> u16 {
        self.used_records(facts).fold(0, |all, (id, _)| all | 1 << id)
    }

    fn compat(&self, facts: &ImageFacts) -> Compat {
        let mut compat = Compat::MTIME;
        compat.set(Compat::CHECKSUM, self.has_checksum());
        compat.set(Compat::XATTR_FILTER, facts.has_xattrs);
        // Linux looks for the prefixes in the metabox or the packed inode if there is one, unless this bit is
        // set.
        let elsewhere = facts.packed_nid.is_some() || facts.metabox_nid.is_some();
        compat.set(Compat::PLAIN_XATTR_PREFIXES, facts.uses_prefixes && elsewhere);
        compat.set(Compat::SHARED_INODES, self.prefixes.digest().is_some());
        compat.set(Compat::SHARED_XATTRS_IN_METABOX, facts.metabox_nid.is_some() && facts.shared_xattrs.is_some());
        compat
    }

    /// Returns the oldest Linux that reads the image.
    pub(crate) fn kernel(&self, facts: &ImageFacts) -> Kernel {
        let incompat = self.incompat(facts);
        let block_bits = block_bits(self.options);
        Kernel::needed(&Feature::used(self.compat(facts), incompat, facts.algorithms, block_bits))
    }

    /// Returns the incompatible features of the image.
    fn incompat(&self, facts: &ImageFacts) -> Incompat {
        let mut incompat = facts.uses;
        // One bit says that there are records and that clusters may have several blocks.
        incompat.set(Incompat::BIG_CLUSTERS, self.recorded(facts) != 0);
        incompat.set(Incompat::XATTR_PREFIXES, facts.uses_prefixes);
        incompat.set(Incompat::BITS_48, self.options.features.contains(Features::BITS_48));
        incompat.set(Incompat::METABOX, self.has_metabox());
        // The same bit allows a second algorithm in a file, which only files of devices have.
        incompat.set(Incompat::DEVICES_OR_SECOND_HEAD, !facts.devices.is_empty());
        incompat
    }
}

fn block_bits(options: &ErofsOptions) -> u8 {
    u8::try_from(options.block_size.ilog2()).expect("at most 31")
}

/// Needs of an algorithm: blocks of the longest cluster, and the window in bytes.
type DecoderNeeds = (u32, u32);

/// Returns the needs of all algorithms that files may have, by number.
fn algorithm_needs(options: &ErofsOptions) -> BTreeMap<u8, DecoderNeeds> {
    let mut needs = BTreeMap::<u8, DecoderNeeds>::new();
    for (choice, cluster_size) in options.ways() {
        let Some(id) = choice.codec().erofs_id() else { continue };
        let (blocks, window) = needs.entry(id).or_default();
        *blocks = (*blocks).max(longest_cluster(options, cluster_size) / options.block_size);
        *window = (*window).max(choice.cluster_window(cluster_size));
    }
    needs
}

/// Makes the records of all algorithms that files may have, with the numbers of these. LZ4 alone has none in images for
/// kernels without records, where all clusters are single blocks.
fn records(options: &ErofsOptions) -> Result<Vec<(u8, Vec<u8>)>> {
    let needs = algorithm_needs(options);
    let only_blocks = needs.iter().all(|(id, (blocks, _))| *id == algorithm::LZ4 && *blocks <= 1);
    if only_blocks {
        return Ok(Vec::new());
    }
    needs.into_iter().map(|(id, needs)| Ok((id, record(id, needs)?))).collect()
}

/// Makes the record of an algorithm.
fn record(id: u8, (blocks, window): DecoderNeeds) -> Result<Vec<u8>> {
    Ok(match id {
        algorithm::LZ4 => {
            let blocks = u16::try_from(blocks).map_err(|_| {
                Error::option("cluster size", blocks, format!("LZ4 in EROFS supports up to {} blocks", u16::MAX))
            })?;
            let record =
                Lz4Record { max_distance: LZ4_DISTANCE.into(), max_pclusterblks: blocks.into(), reserved: [0; 10] };
            record.as_bytes().to_vec()
        }
        algorithm::LZMA => {
            LzmaRecord { dict_size: window.into(), format: 0.into(), reserved: [0; 8] }.as_bytes().to_vec()
        }
        algorithm::DEFLATE => {
            let windowbits = u8::try_from(window.ilog2()).expect("at most 32");
            DeflateRecord { windowbits, reserved: [0; 5] }.as_bytes().to_vec()
        }
        algorithm::ZSTD => {
            let windowlog = u8::try_from(window.ilog2().saturating_sub(10)).expect("at most 32");
            ZstdRecord { format: 0, windowlog, reserved: [0; 4] }.as_bytes().to_vec()
        }
        _ => return Err(Error::Unsupported(format!("algorithm {id} in EROFS images"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_contain_the_needs_of_decoders() {
        /// Algorithm, and beginning of its record.
        type Record = (u8, &'static [u8]);
        let cases: [(&str, u32, u32, Option<Record>); 6] = [
            ("none", 4096, 4096, None),
            ("lz4hc:9", 65536, 4096, Some((0, &[0xff, 0xff, 16, 0]))),
            ("lz4", 4096, 512, Some((0, &[0xff, 0xff, 8, 0]))),
            ("lzma:6", 4096, 4096, Some((1, &[0, 0x80, 0, 0]))),
            ("deflate:9", 4096, 4096, Some((2, &[15]))),
            ("zstd:3", 1 << 17, 4096, Some((3, &[0, 10]))),
        ];
        for (codec, cluster_size, block_size, want) in cases {
            let options = ErofsOptions { cluster_size, block_size, ..ErofsOptions::default() }
                .with(|build| build.codec = codec.parse().unwrap());
            let found = records(&options).unwrap();
            assert!(found.len() <= 1);
            let found = found.first().map(|(id, record)| (*id, &record[..want.map_or(0, |(_, bytes)| bytes.len())]));
            assert_eq!(found, want, "{codec}");
        }
        let old = ErofsOptions { cluster_size: 4096, target_kernel: Kernel::OLDEST, ..ErofsOptions::default() }
            .with(|build| build.codec = "lz4".parse().unwrap());
        assert!(records(&old).unwrap().is_empty());
        let mut several = ErofsOptions { cluster_size: 4096, ..ErofsOptions::default() };
        for (codec, cluster) in [("lzma:6", 1 << 20), ("zstd:3", 8192), ("lz4", 4096)] {
            several.build.recipes.codec(codec.parse().unwrap()).unwrap();
            several.build.recipes.cluster(cluster).unwrap();
        }
        let found = records(&several).unwrap();
        let beginnings: Vec<(u8, &[u8])> = found.iter().map(|(id, record)| (*id, &record[..4])).collect();
        // All codecs may have the largest cluster.
        assert_eq!(beginnings, [(0, &[0xff, 0xff, 0, 1][..]), (1, &[0, 0, 0x40, 0]), (3, &[0, 10, 0, 0])]);
    }
}
