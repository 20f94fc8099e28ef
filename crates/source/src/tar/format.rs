//! On-disk structures of the 512-byte blocks of a tar archive, and type flags, for reader and writer.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Block size; everything in an archive is padded to it.
pub const BLOCK: usize = 512;

/// A POSIX.1-1988 (ustar) header; v7 archives have zeros from `magic` on.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TarHeader {
    /// Path, or its end if there is a prefix; NUL-terminated if shorter.
    pub name: [u8; 100],
    /// Permission bits, in octal digits like all numbers.
    pub mode: [u8; 8],
    /// Owner.
    pub uid: [u8; 8],
    /// Group.
    pub gid: [u8; 8],
    /// Length of the data that follows.
    pub size: [u8; 12],
    /// Time of last modification in seconds.
    pub mtime: [u8; 12],
    /// Sum of all bytes of the header, this field taken as blanks.
    pub checksum: [u8; 8],
    /// Type of the member, one of [`flag`].
    pub typeflag: u8,
    /// Target of a link.
    pub linkname: [u8; 100],
    /// `ustar`, and what tells POSIX from GNU.
    pub magic: [u8; 6],
    /// `00` in POSIX archives.
    pub version: [u8; 2],
    /// Name of the owner.
    pub uname: [u8; 32],
    /// Name of the group.
    pub gname: [u8; 32],
    /// Major number of a device.
    pub devmajor: [u8; 8],
    /// Minor number of a device.
    pub devminor: [u8; 8],
    /// Beginning of the path, without the slash that follows it.
    pub prefix: [u8; 155],
    /// Zeros.
    pub padding: [u8; 12],
}

/// The same block in GNU tar's form: no prefix, but the start of a sparse map.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct GnuHeader {
    pub(crate) as_in_ustar: [u8; 345],
    pub(crate) atime: [u8; 12],
    pub(crate) ctime: [u8; 12],
    pub(crate) offset: [u8; 12],
    pub(crate) longnames: [u8; 4],
    pub(crate) unused: u8,
    pub(crate) regions: [GnuRegion; 4],
    pub(crate) is_extended: u8,
    pub(crate) real_size: [u8; 12],
    pub(crate) padding: [u8; 17],
}

/// A region of data in a sparse file, in the old GNU format.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct GnuRegion {
    pub(crate) offset: [u8; 12],
    pub(crate) len: [u8; 12],
}

/// More regions, in blocks that follow the header.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct GnuRegions {
    pub(crate) regions: [GnuRegion; 21],
    pub(crate) is_extended: u8,
    pub(crate) padding: [u8; 7],
}

const _: () = assert!(size_of::<TarHeader>() == BLOCK);
const _: () = assert!(size_of::<GnuHeader>() == BLOCK);
const _: () = assert!(size_of::<GnuRegions>() == BLOCK);

/// `magic` and `version` of POSIX archives.
pub const USTAR: ([u8; 6], [u8; 2]) = (*b"ustar\0", *b"00");

/// Type flags.
pub mod flag {
    /// A regular file.
    pub const FILE: u8 = b'0';
    /// A regular file in old archives; a directory if its name ends in a slash.
    pub const V7_FILE: u8 = 0;
    /// A file that some systems stored in one piece.
    pub const CONTIGUOUS_FILE: u8 = b'7';
    /// A further name of an earlier member.
    pub const HARD_LINK: u8 = b'1';
    /// A symbolic link.
    pub const SYMLINK: u8 = b'2';
    /// A character device.
    pub const CHAR: u8 = b'3';
    /// A block device.
    pub const BLOCK: u8 = b'4';
    /// A directory.
    pub const DIR: u8 = b'5';
    /// A named pipe.
    pub const FIFO: u8 = b'6';
    /// Records about the next member.
    pub const PAX: u8 = b'x';
    /// The same, by Solaris's tar.
    pub const SOLARIS_PAX: u8 = b'X';
    /// Records about all members that follow.
    pub const PAX_GLOBAL: u8 = b'g';
    /// The path of the next member.
    pub const GNU_LONG_NAME: u8 = b'L';
    /// The target of the next member.
    pub const GNU_LONG_LINK: u8 = b'K';
    /// A file with holes in the old GNU format.
    pub const GNU_SPARSE: u8 = b'S';
    /// A directory of an incremental archive, followed by the names in it.
    pub const GNU_DUMP_DIR: u8 = b'D';
    /// Name of the archive.
    pub const GNU_VOLUME: u8 = b'V';
    /// The rest of a file that began in an earlier volume.
    pub const GNU_CONTINUED: u8 = b'M';
}

/// Returns the sum of a header's bytes, with its checksum field taken as blanks.
#[must_use]
pub fn checksum(header: &TarHeader) -> i64 {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    i64::from(sum(header.as_bytes()) - sum(&header.checksum) + 8 * u32::from(b' '))
}

/// As [`checksum`], with signed bytes, as some old writers computed it.
pub(crate) fn signed_checksum(header: &TarHeader) -> i64 {
    let high = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte >> 7)).sum::<i64>();
    checksum(header) - 256 * (high(header.as_bytes()) - high(&header.checksum))
}

/// Returns `len` rounded up to whole blocks; `None` on overflow.
pub(crate) fn padded(len: u64) -> Option<u64> {
    len.checked_next_multiple_of(BLOCK as u64)
}
