//! The superblock, from raw to checked: what makes the kernel refuse an image is refused here, except
//! for the tables it points at, which [`table`](super::table) checks.

use packfs_codec::Codec;
use zerocopy::FromBytes;

use super::disk::Disk;
use crate::squashfs::format::{self, BLOCK_SIZES, METADATA_LEN, METADATA_RAW, NO_TABLE, flags};
use crate::{Error, Result, image::Nid};

const STRUCTURE: &str = "superblock";
/// Length of the superblock.
pub(super) const LEN: u64 = size_of::<format::Superblock>() as u64;
/// Where EROFS keeps its superblock, and its magic number.
const EROFS_MAGIC: (usize, u32) = (1024, 0xe0f5_e1e2);
/// Room for a compressor options block of any codec.
const OPTIONS_MAX: usize = 12;

/// A superblock whose fields agree with each other and with the length of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Number of inodes.
    pub inodes: u32,
    /// Seconds since 1970 at which the image was made.
    pub mkfs_time: u32,
    /// Data block size.
    pub block_size: u32,
    /// Number of fragment blocks.
    pub fragments: u32,
    /// The codec of compressed blocks.
    pub codec: Codec,
    /// See [`flags`](format::flags); unknown bits are kept and mean nothing.
    pub flags: u16,
    /// Number of entries in the id table.
    pub ids: u16,
    /// The root directory.
    pub root: Nid,
    /// Length of the image without padding.
    pub bytes_used: u64,
    /// Start of the inode table.
    pub inode_table: u64,
    /// Start of the directory table.
    pub directory_table: u64,
    /// Start of the fragment table's index; meaningless when there are no fragments.
    pub fragment_table: u64,
    /// Start of the export table's index.
    pub export_table: Option<u64>,
    /// Start of the id table's index.
    pub id_table: u64,
    /// Start of the xattr table's header.
    pub xattr_table: Option<u64>,
    /// First byte behind superblock and compressor options, where data may begin.
    pub data_start: u64,
    /// The compressor options block, if there is one.
    pub options: Option<CompressorOptions>,
}

/// The compressor options block: what the writer's codec was told, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressorOptions {
    /// zlib's parameters.
    Gzip {
        /// 1 to 9.
        level: i32,
        /// log2 of the window.
        window: u16,
        /// Strategies that were tried, a bit each.
        strategies: u16,
    },
    /// xz's parameters.
    Xz {
        /// Length of the dictionary.
        dictionary: u32,
        /// BCJ filters that were tried, a bit each.
        filters: u32,
    },
    /// lzo's parameters.
    Lzo {
        /// 0 lzo1x_1, 1 lzo1x_1_11, 2 lzo1x_1_12, 3 lzo1x_1_15, 4 lzo1x_999.
        algorithm: u32,
        /// 1 to 9, for lzo1x_999.
        level: u32,
    },
    /// lz4's parameters.
    Lz4 {
        /// 1: the block format.
        version: u32,
        /// Bit 0: the dense encoder.
        flags: u32,
        /// Level or acceleration, which newer writers add.
        level: Option<i32>,
    },
    /// zstd's parameters.
    Zstd {
        /// The level.
        level: i32,
    },
}

impl Superblock {
    /// Reads and checks the superblock and the compressor options of an image.
    pub(super) fn read(disk: &Disk) -> Result<Superblock> {
        let mut head = [0; EROFS_MAGIC.0 + 4];
        let got = usize::try_from(disk.len()).unwrap_or(usize::MAX).min(head.len());
        disk.read(STRUCTURE, 0, &mut head[..got])?;
        let head = &head[..got];
        let Ok((raw, _)) = format::Superblock::read_from_prefix(head) else {
            return Err(wrong(format!("the file has only {got} bytes, which is too short for any SquashFS image")));
        };
        check_magic(&raw, head)?;
        let mut checked = check_fields(&raw, disk.len())?;
        (checked.options, checked.data_start) = read_options(disk, &checked)?;
        Ok(checked)
    }
}

fn wrong(why: impl Into<String>) -> Error {
    Error::corrupt(STRUCTURE, 0, why)
}

fn check_magic(raw: &format::Superblock, head: &[u8]) -> Result<()> {
    let unsupported = |why: String| Err(Error::Unsupported(why));
    match raw.s_magic.get() {
        format::MAGIC => {}
        format::MAGIC_SWAPPED => {
            return unsupported("a big-endian SquashFS image (before version 4.0); rebuild it as version 4.0".into());
        }
        format::MAGIC_STREAMED => {
            let advice = "its superblock is at the end; run `mksquashfs -fix` on it first";
            return unsupported(format!("a SquashFS image that `mksquashfs -stream` wrote: {advice}"));
        }
        magic => {
            let erofs = head.get(EROFS_MAGIC.0..).and_then(|at| at.first_chunk());
            return Err(wrong(if erofs.map(|m| u32::from_le_bytes(*m)) == Some(EROFS_MAGIC.1) {
                "this is an EROFS image, not a SquashFS one".into()
            } else {
                format!("not a SquashFS image (it begins with {magic:#010x}, not with `hsqs`)")
            }));
        }
    }
    let version = (raw.s_major.get(), raw.s_minor.get());
    if version != format::VERSION {
        let (major, minor) = version;
        return unsupported(format!("SquashFS version {major}.{minor}; only version 4.0 is read"));
    }
    Ok(())
}

fn check_fields(raw: &format::Superblock, len: u64) -> Result<Superblock> {
    let (block_size, block_log) = (raw.block_size.get(), raw.block_log.get());
    if !BLOCK_SIZES.contains(&block_size) || !block_size.is_power_of_two() {
        let (least, most) = (BLOCK_SIZES.start(), BLOCK_SIZES.end());
        return Err(wrong(format!("block size {block_size} is not a power of two from {least} to {most}")));
    }
    if block_size.trailing_zeros() != u32::from(block_log) {
        return Err(wrong(format!("block size {block_size} does not agree with its logarithm {block_log}")));
    }
    let bytes_used = raw.bytes_used.get();
    if bytes_used > len {
        let missing = bytes_used - len;
        return Err(wrong(format!(
            "the image is truncated: it should have {bytes_used} bytes but has only {len}, {missing} are missing"
        )));
    }
    for (value, name) in [(u64::from(raw.inodes.get()), "inodes"), (u64::from(raw.no_ids.get()), "ids")] {
        if value == 0 {
            return Err(wrong(format!("the number of {name} is 0")));
        }
    }
    if raw.root_inode.get() & 0xffff >= METADATA_LEN as u64 || raw.root_inode.get() >> 48 != 0 {
        return Err(wrong(format!("{:#x} is not an inode reference (root directory)", raw.root_inode.get())));
    }
    let table = |pointer: u64| (pointer != NO_TABLE).then_some(pointer);
    let checked = Superblock {
        inodes: raw.inodes.get(),
        mkfs_time: raw.mkfs_time.get(),
        block_size,
        fragments: raw.fragments.get(),
        codec: codec(raw.compression.get())?,
        flags: raw.flags.get(),
        ids: raw.no_ids.get(),
        root: Nid(raw.root_inode.get()),
        bytes_used,
        inode_table: raw.inode_table_start.get(),
        directory_table: raw.directory_table_start.get(),
        fragment_table: raw.fragment_table_start.get(),
        export_table: table(raw.lookup_table_start.get()),
        id_table: raw.id_table_start.get(),
        xattr_table: table(raw.xattr_id_table_start.get()),
        data_start: LEN,
        options: None,
    };
    check_order(&checked)?;
    Ok(checked)
}

/// Tables must follow each other: superblock, inodes, directories, fragments, export, ids, xattrs, end.
fn check_order(superblock: &Superblock) -> Result<()> {
    let fragments = (superblock.fragments > 0).then_some(superblock.fragment_table);
    let order = [
        ("inode table", Some(superblock.inode_table)),
        ("directory table", Some(superblock.directory_table)),
        ("fragment table", fragments),
        ("export table", superblock.export_table),
        ("id table", Some(superblock.id_table)),
        ("xattr table", superblock.xattr_table),
        ("end of the image", Some(superblock.bytes_used)),
    ];
    let (mut before, mut least) = ("superblock", LEN);
    for (name, start) in order {
        let Some(start) = start else { continue };
        if start < least {
            return Err(wrong(format!("the {name} at byte {start} does not lie behind the {before}")));
        }
        (before, least) = (name, start.saturating_add(1));
    }
    Ok(())
}

fn codec(id: u16) -> Result<Codec> {
    Codec::from_squashfs_id(id).ok_or_else(|| Error::Unsupported(format!("compressor number {id} (known: 1 to 6)")))
}

/// The kernel reads these for lz4, which cannot do without, and for xz; for others they are a note only.
fn read_options(disk: &Disk, superblock: &Superblock) -> Result<(Option<CompressorOptions>, u64)> {
    const STRUCTURE: &str = "compressor options";
    let codec = superblock.codec;
    if superblock.flags & flags::COMPRESSOR_OPTIONS == 0 {
        if codec == Codec::Lz4 {
            return Err(wrong("an lz4 image without compressor options, which no reader accepts"));
        }
        return Ok((None, LEN));
    }
    let bad = |why: String| Err(Error::corrupt(STRUCTURE, LEN, why));
    let mut header = [0; 2];
    disk.read(STRUCTURE, LEN, &mut header)?;
    let header = u16::from_le_bytes(header);
    let len = usize::from(header & !METADATA_RAW);
    if header & METADATA_RAW == 0 || len > METADATA_LEN || LEN + 2 + len as u64 > superblock.inode_table {
        return bad(format!("header {header:#06x} does not announce a short block stored as it is"));
    }
    let data_start = LEN + 2 + len as u64;
    let mut bytes = [0; OPTIONS_MAX];
    let len = len.min(OPTIONS_MAX);
    disk.read(STRUCTURE, LEN + 2, &mut bytes[..len])?;
    let options = parse_options(codec, &bytes[..len]);
    match (codec, options) {
        (Codec::Lz4 | Codec::Xz, None) => bad(format!("{len} bytes are too short for this codec")),
        (_, Some(CompressorOptions::Lz4 { version, .. })) if version != 1 => {
            bad(format!("lz4 format {version} is not known (only 1 is)"))
        }
        (_, Some(CompressorOptions::Xz { dictionary, .. })) if !xz_dictionary_is_valid(dictionary) => {
            bad(format!("xz dictionary length {dictionary} is neither 2^n nor 2^n + 2^(n+1)"))
        }
        (_, options) => Ok((options, data_start)),
    }
}

fn parse_options(codec: Codec, bytes: &[u8]) -> Option<CompressorOptions> {
    let word = |n: usize| Some(u32::from_le_bytes(*bytes.get(n..)?.first_chunk()?));
    let half = |n: usize| Some(u16::from_le_bytes(*bytes.get(n..)?.first_chunk()?));
    Some(match codec {
        Codec::Gzip => {
            CompressorOptions::Gzip { level: word(0)?.cast_signed(), window: half(4)?, strategies: half(6)? }
        }
        Codec::Xz => CompressorOptions::Xz { dictionary: word(0)?, filters: word(4)? },
        Codec::Lzo => CompressorOptions::Lzo { algorithm: word(0)?, level: word(4)? },
        Codec::Lz4 => {
            CompressorOptions::Lz4 { version: word(0)?, flags: word(4)?, level: word(8).map(u32::cast_signed) }
        }
        Codec::Zstd => CompressorOptions::Zstd { level: word(0)?.cast_signed() },
        _ => return None,
    })
}

fn xz_dictionary_is_valid(len: u32) -> bool {
    let lowest = len & len.wrapping_neg();
    len != 0 && (len == lowest || u64::from(len) == u64::from(lowest) * 3)
}
