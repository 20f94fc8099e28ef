//! The superblock: decoding and checks. Defects that make the kernel refuse an image are refused
//! here, except for the tables it points to, which [`table`](super::table) checks.

use packfs_codec::Codec;
use zerocopy::FromBytes;

use packfs_blocks::units::Size;

use super::compression::{self, CompressorOptions};
use super::disk::ImageBytes;
use crate::squashfs::format::{self, BLOCK_SIZES, METADATA_LEN, NO_TABLE, SuperblockFlags};
use crate::{Error, Result, image::Nid};

const STRUCTURE: &str = "superblock";
/// Length of the superblock.
pub(super) const LEN: u64 = size_of::<format::Superblock>() as u64;
/// Offset of an EROFS superblock, and its magic number.
const EROFS_MAGIC: (usize, u32) = (1024, 0xe0f5_e1e2);

/// A superblock whose fields agree with each other and with the length of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Number of inodes.
    pub inodes: u32,
    /// Time at which the image was made, in seconds since 1970.
    pub mkfs_time: u32,
    /// Data block size.
    pub block_size: u32,
    /// Number of fragment blocks.
    pub fragments: u32,
    /// The codec of compressed blocks.
    pub codec: Codec,
    /// Flags; unknown bits are kept and ignored.
    pub flags: SuperblockFlags,
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
    /// Start of the fragment table's index; meaningless without fragments.
    pub fragment_table: u64,
    /// Start of the export table's index.
    pub export_table: Option<u64>,
    /// Start of the id table's index.
    pub id_table: u64,
    /// Start of the xattr table's header.
    pub xattr_table: Option<u64>,
    /// Offset after superblock and compressor options, where data may begin.
    pub data_start: u64,
    /// The compressor options block, if there is one.
    pub options: Option<CompressorOptions>,
}

impl Superblock {
    /// Returns the names of its flags.
    pub fn flag_names(&self) -> Vec<&'static str> {
        let names = [
            (SuperblockFlags::RAW_INODES, "raw-inodes"),
            (SuperblockFlags::RAW_DATA, "raw-data"),
            (SuperblockFlags::RAW_FRAGMENTS, "raw-fragments"),
            (SuperblockFlags::NO_FRAGMENTS, "no-fragments"),
            (SuperblockFlags::ALWAYS_FRAGMENTS, "always-fragments"),
            (SuperblockFlags::DUPLICATES, "duplicates-shared"),
            (SuperblockFlags::EXPORTABLE, "exportable"),
            (SuperblockFlags::RAW_XATTRS, "raw-xattrs"),
            (SuperblockFlags::NO_XATTRS, "no-xattrs"),
            (SuperblockFlags::COMPRESSOR_OPTIONS, "compressor-options"),
            (SuperblockFlags::RAW_IDS, "raw-ids"),
        ];
        names.iter().filter(|(flag, _)| self.flags.contains(*flag)).map(|(_, name)| *name).collect()
    }

    /// Returns the oldest Linux that reads the image, as text, or `None` if none does. Versions are those of the commits
    /// that added a decompressor, or attributes, to the kernel's `fs/squashfs`.
    pub fn oldest_linux(&self) -> Option<&'static str> {
        match self.codec {
            Codec::Zstd => Some("4.14"),
            Codec::Lz4 | Codec::Lz4hc => Some("3.19"),
            Codec::Xz => Some("2.6.38"),
            Codec::Lzo => Some("2.6.36"),
            Codec::Gzip if self.xattr_table.is_some() => Some("2.6.35"),
            Codec::Gzip => Some("2.6.29"),
            // Legacy .lzma streams were never in a kernel of kernel.org.
            _ => None,
        }
    }

    /// Returns codec and level of data, as far as the image says, in the form in which options are parsed.
    pub fn data_codec(&self) -> String {
        let raw = SuperblockFlags::RAW_DATA | SuperblockFlags::RAW_FRAGMENTS;
        match self.flags.contains(raw) {
            true => Codec::None.name().into(),
            false => self.full_codec(),
        }
    }

    /// As [`data_codec`](Superblock::data_codec), also if no data is compressed with it.
    pub fn full_codec(&self) -> String {
        let name = self.codec.name();
        match self.options {
            Some(CompressorOptions::Gzip { level, .. } | CompressorOptions::Zstd { level }) => {
                format!("{name}:{level}")
            }
            // Other algorithms have no level, and 0 in its place.
            Some(CompressorOptions::Lzo { level: level @ 1.., .. }) => format!("{name}:{level}"),
            Some(CompressorOptions::Lz4 { flags, level: Some(level), .. }) if flags & 1 != 0 => {
                format!("{name}hc:{level}")
            }
            // The only level that other writers have.
            Some(CompressorOptions::Lz4 { flags, .. }) if flags & 1 != 0 => format!("{name}hc:12"),
            _ => name.to_owned(),
        }
    }

    /// Reads and checks the superblock and the compressor options of an image.
    pub(super) fn read(disk: &ImageBytes) -> Result<Superblock> {
        // As much as tells an EROFS image, for the message.
        let mut head = [0; EROFS_MAGIC.0 + 4];
        let got = usize::try_from(disk.len()).unwrap_or(usize::MAX).min(head.len());
        disk.read(STRUCTURE, 0, &mut head[..got])?;
        let head = &head[..got];
        let Ok((raw, _)) = format::Superblock::read_from_prefix(head) else {
            // The superblock lies within the bytes that were read: it is shorter.
            return Err(wrong(format!("the file has only {got} bytes, which is too short for any SquashFS image")));
        };
        // A stream cannot go back to its beginning, so the superblock with all counts comes last.
        let raw = if raw.s_magic.get() == format::MAGIC_STREAMED { at_the_end(disk)? } else { raw };
        check_magic(&raw, head)?;
        // The options are read when the fields that locate them are checked.
        let mut checked = check_fields(&raw, disk.len())?;
        (checked.options, checked.data_start) = compression::read(disk, &checked)?;
        Ok(checked)
    }
}

pub(super) fn wrong(why: impl Into<String>) -> Error {
    Error::corrupt(STRUCTURE, 0, why)
}

/// Reads the superblock of a streamed image.
fn at_the_end(disk: &ImageBytes) -> Result<format::Superblock> {
    let mut bytes = [0; size_of::<format::Superblock>()];
    let at = disk.len().saturating_sub(bytes.len() as u64);
    disk.read(STRUCTURE, at, &mut bytes)?;
    match format::Superblock::read_from_bytes(&bytes) {
        Ok(raw) if raw.s_magic.get() == format::MAGIC => Ok(raw),
        _ => {
            let why = "a streamed image without a superblock at its end: it is cut short, or bytes follow it";
            Err(Error::corrupt(STRUCTURE, at, why))
        }
    }
}

fn check_magic(raw: &format::Superblock, head: &[u8]) -> Result<()> {
    let unsupported = |why: String| Err(Error::Unsupported(why));
    match raw.s_magic.get() {
        format::MAGIC => {}
        format::MAGIC_SWAPPED => {
            return unsupported("a big-endian SquashFS image (before version 4.0); rebuild it as version 4.0".into());
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
        return unsupported(format!("SquashFS version {major}.{minor}; only version 4.0 is supported"));
    }
    Ok(())
}

fn check_fields(raw: &format::Superblock, len: u64) -> Result<Superblock> {
    let block_size = raw.block_size.get();
    let block_log = raw.block_log.get();
    // As Linux checks them in `squashfs_fill_super`.
    if !BLOCK_SIZES.contains(&block_size) || !block_size.is_power_of_two() {
        let least = BLOCK_SIZES.start();
        let most = BLOCK_SIZES.end();
        return Err(wrong(format!("block size {block_size} is not a power of two from {least} to {most}")));
    }
    if block_size.trailing_zeros() != u32::from(block_log) {
        return Err(wrong(format!("block size {block_size} does not match its logarithm {block_log}")));
    }
    let bytes_used = raw.bytes_used.get();
    // Before any table is looked for.
    if bytes_used > len {
        let missing = bytes_used - len;
        return Err(wrong(format!("the image is truncated: {} of {} are missing", Size(missing), Size(bytes_used))));
    }
    for (value, name) in [(u64::from(raw.inodes.get()), "inodes"), (u64::from(raw.no_ids.get()), "ids")] {
        if value == 0 {
            return Err(wrong(format!("the number of {name} is 0")));
        }
    }
    // The offset of an inode in its block, and a block that 48 bits can address.
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
        // Newer writers may set bits that concern nobody else.
        flags: SuperblockFlags::from_bits_retain(raw.flags.get()),
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

/// Checks the order of tables: superblock, inodes, directories, fragments, export, ids, xattrs, end.
fn check_order(superblock: &Superblock) -> Result<()> {
    // Without fragments the pointer may be anything.
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
    let mut before = "superblock";
    let mut least = LEN;
    for (name, start) in order {
        let Some(start) = start else { continue };
        if start < least {
            return Err(wrong(format!("the {name} at byte {start} is not after the {before}")));
        }
        // Each table has at least a byte, so the next one begins later.
        (before, least) = (name, start.saturating_add(1));
    }
    Ok(())
}

fn codec(id: u16) -> Result<Codec> {
    Codec::from_squashfs_id(id).ok_or_else(|| Error::Unsupported(format!("compressor number {id} (known: 1 to 6)")))
}
