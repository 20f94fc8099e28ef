//! `packfs info` for EROFS images.

use std::io::Write;

use anyhow::Result;
use packfs_image::erofs::{Compat, LZ4_BLOCKS_MAX};
use packfs_image::erofs::{ErofsCompression, ErofsReader, Feature, Kernel, uuid_text};
use packfs_image::name::encode;
use packfs_image::tree::Time;
use serde::Serialize;

use crate::output::units;

/// Facts about an EROFS image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct ErofsInfo {
    /// `erofs`.
    format: &'static str,
    /// Algorithms of compressed files.
    algorithms: Vec<ErofsAlgorithm>,
    /// Size of a block in bytes.
    block_size: u32,
    /// Number of blocks.
    blocks: u64,
    /// Time of the image in seconds since 1970.
    created: i64,
    /// Number of inodes.
    inodes: u64,
    /// UUID of the image.
    uuid: String,
    /// Label of the volume; may be empty.
    label: String,
    /// Oldest Linux that reads the image; null if none does (LZ4 pclusters of more than 256 blocks).
    needs_linux: Option<String>,
    /// Number of blocks in its largest cluster, if that is more than any Linux mounts.
    #[serde(skip)]
    no_linux: Option<u32>,
    /// Names of features that not every kernel reads.
    features: Vec<&'static str>,
    /// Names of the compatible features that the image uses: `checksum`, `mtime`, `xattr-filter` and so on.
    flags: Vec<&'static str>,
    /// Positions of structures.
    layout: ErofsLayout,
    /// Additional devices, in their order.
    devices: Vec<ErofsDevice>,
    /// Remarks for people, such as limits that no feature tells.
    notes: Vec<&'static str>,
}

/// Note about an image that has long raw extents.
const LONG_RAW_EXTENTS: &str = "uncompressed extents of several blocks, which Linux before 6.15 refuses to read (EUCLEAN); \
                                build the image again for older versions";

/// Compression of files, and the needs of its decoder.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ErofsAlgorithm {
    /// Name of the algorithm.
    name: &'static str,
    /// Largest distance in bytes to which a stream may refer back.
    window: u64,
    /// Size of the largest cluster in bytes; null if the image does not say.
    cluster_size: Option<u64>,
}

/// Positions of structures: offsets in bytes, or inode numbers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ErofsLayout {
    /// Byte position from which inodes are counted.
    inodes: u64,
    /// Byte position from which shared extended attributes are counted.
    shared_xattrs: u64,
    /// Inode of the root directory.
    root_nid: u64,
    /// Packed inode, which holds fragments; null if there is none.
    packed_nid: Option<u64>,
    /// Inode of the metabox; null if there is none.
    metabox_nid: Option<u64>,
}

/// An additional device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ErofsDevice {
    /// Tag of the device.
    tag: String,
    /// Number of its blocks.
    blocks: u64,
    /// Number of its first block.
    start: u64,
}

impl ErofsInfo {
    pub(super) fn new(image: &ErofsReader) -> Self {
        let superblock = image.superblock();
        let has_long_raw_extents = image.has_long_raw_extents();
        let of_indexes = if has_long_raw_extents { Feature::Bits48.since() } else { Kernel::OLDEST };
        let needed = Kernel::needed(&superblock.features()).max(of_indexes);
        let no_linux = superblock.lz4_blocks().filter(|blocks| *blocks > LZ4_BLOCKS_MAX);
        let device = |device: &packfs_image::erofs::AdditionalDevice| ErofsDevice {
            tag: encode(&device.tag).into_owned(),
            blocks: device.blocks,
            start: device.start,
        };
        ErofsInfo {
            format: "erofs",
            algorithms: superblock
                .compression
                .iter()
                .map(|one| describe_algorithm(*one, superblock.block_size))
                .collect(),
            block_size: superblock.block_size,
            blocks: superblock.blocks,
            created: superblock.build_time,
            inodes: superblock.inodes,
            uuid: uuid_text(superblock.uuid),
            label: encode(&superblock.label).into_owned(),
            needs_linux: no_linux.is_none().then(|| needed.to_string()),
            no_linux,
            features: superblock.feature_names(),
            flags: flag_names(superblock.compat),
            layout: ErofsLayout {
                inodes: superblock.metadata_start,
                shared_xattrs: superblock.xattr_start,
                root_nid: superblock.root.0,
                packed_nid: superblock.packed.map(|nid| nid.0),
                metabox_nid: superblock.metabox.map(|nid| nid.0),
            },
            devices: superblock.devices.iter().map(device).collect(),
            notes: has_long_raw_extents.then_some(LONG_RAW_EXTENTS).into_iter().collect(),
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let created = units::utc(Time { secs: self.created, nanos: 0 });
        let size = self.blocks.saturating_mul(self.block_size.into());
        writeln!(out, "format       {}", self.format)?;
        if let Some(blocks) = self.no_linux {
            writeln!(
                out,
                "needs        no Linux reads it: LZ4 clusters of {blocks} blocks, the limit is {LZ4_BLOCKS_MAX}"
            )?;
        }
        if let Some(linux) = &self.needs_linux {
            writeln!(out, "needs        Linux {linux}")?;
        }
        writeln!(out, "codec        {}", or_none(self.algorithms.iter().map(ErofsAlgorithm::describe)))?;
        writeln!(out, "block size   {}", units::bytes(self.block_size.into()))?;
        writeln!(out, "size         {} ({})", units::bytes(size), units::of(self.blocks, "block"))?;
        writeln!(out, "created      {created} UTC ({})", self.created)?;
        writeln!(out, "inodes       {}", units::count(self.inodes))?;
        writeln!(out, "uuid         {}", self.uuid)?;
        writeln!(out, "label        {}", if self.label.is_empty() { "none" } else { &self.label })?;
        writeln!(out, "features     {}", or_none(self.features.iter().map(ToString::to_string)))?;
        writeln!(out, "flags        {}", or_none(self.flags.iter().map(ToString::to_string)))?;
        let ErofsLayout { inodes, shared_xattrs, root_nid, packed_nid, metabox_nid } = &self.layout;
        writeln!(out, "inode table  at byte {}", units::count(*inodes))?;
        writeln!(out, "xattrs       at byte {}", units::count(*shared_xattrs))?;
        writeln!(out, "root         inode {}", units::count(*root_nid))?;
        for (what, nid) in [("fragments", packed_nid), ("metabox", metabox_nid)] {
            match nid {
                Some(nid) => writeln!(out, "{what:<12} in inode {}", units::count(*nid))?,
                None => writeln!(out, "{what:<12} none")?,
            }
        }
        for ErofsDevice { tag, blocks, start } in &self.devices {
            let blocks = units::of(*blocks, "block");
            let start = units::count(*start);
            writeln!(out, "device       `{tag}`, {blocks} from block {start} on")?;
        }
        for note in &self.notes {
            writeln!(out, "note         {note}")?;
        }
        Ok(())
    }
}

impl ErofsAlgorithm {
    fn describe(&self) -> String {
        let window = units::bytes(self.window);
        match self.cluster_size {
            Some(size) => format!("{} (window {window}, clusters of up to {})", self.name, units::bytes(size)),
            None => format!("{} (window {window})", self.name),
        }
    }
}

fn describe_algorithm(compression: ErofsCompression, block_size: u32) -> ErofsAlgorithm {
    let (window, cluster_size) = match compression {
        ErofsCompression::Lz4 { max_distance, max_cluster_blocks } => {
            (max_distance.into(), Some(u64::from(max_cluster_blocks) * u64::from(block_size)))
        }
        ErofsCompression::Lzma { dict_size } => (dict_size.into(), None),
        ErofsCompression::Deflate { window_bits: bits } | ErofsCompression::Zstd { window_log: bits } => {
            (1u64.checked_shl(bits.into()).unwrap_or(0), None)
        }
        _ => (0, None),
    };
    ErofsAlgorithm { name: compression.name(), window, cluster_size }
}

/// Returns the features that an image uses.
pub(crate) fn flag_names(compat: Compat) -> Vec<&'static str> {
    let names = [
        (Compat::CHECKSUM, "checksum"),
        (Compat::MTIME, "mtime"),
        (Compat::XATTR_FILTER, "xattr-filter"),
        (Compat::SHARED_XATTRS_IN_METABOX, "shared-xattrs-in-metabox"),
        (Compat::PLAIN_XATTR_PREFIXES, "plain-xattr-prefixes"),
        (Compat::SHARED_INODES, "shared-inodes"),
    ];
    names.iter().filter(|(bit, _)| compat.contains(*bit)).map(|(_, name)| *name).collect()
}

fn or_none(parts: impl Iterator<Item = String>) -> String {
    let all: Vec<_> = parts.collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}
