//! On-disk structures of the 512-byte blocks of a tar archive, and type flags, for reader and writer.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Block size; everything in an archive is padded to it.
pub(crate) const BLOCK: usize = 512;

/// A POSIX.1-1988 (ustar) header; v7 archives have zeros from `magic` on.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) name: [u8; 100],
    pub(crate) mode: [u8; 8],
    pub(crate) uid: [u8; 8],
    pub(crate) gid: [u8; 8],
    pub(crate) size: [u8; 12],
    pub(crate) mtime: [u8; 12],
    pub(crate) checksum: [u8; 8],
    pub(crate) typeflag: u8,
    pub(crate) linkname: [u8; 100],
    pub(crate) magic: [u8; 6],
    pub(crate) version: [u8; 2],
    pub(crate) uname: [u8; 32],
    pub(crate) gname: [u8; 32],
    pub(crate) devmajor: [u8; 8],
    pub(crate) devminor: [u8; 8],
    pub(crate) prefix: [u8; 155],
    pub(crate) padding: [u8; 12],
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

const _: () = assert!(size_of::<Header>() == BLOCK);
const _: () = assert!(size_of::<GnuHeader>() == BLOCK);
const _: () = assert!(size_of::<GnuRegions>() == BLOCK);

/// `magic` and `version` of POSIX archives.
pub(crate) const USTAR: ([u8; 6], [u8; 2]) = (*b"ustar\0", *b"00");

/// Type flags.
pub(crate) mod flag {
    pub(crate) const FILE: u8 = b'0';
    pub(crate) const V7_FILE: u8 = 0;
    pub(crate) const CONTIGUOUS_FILE: u8 = b'7';
    pub(crate) const HARD_LINK: u8 = b'1';
    pub(crate) const SYMLINK: u8 = b'2';
    pub(crate) const CHAR: u8 = b'3';
    pub(crate) const BLOCK: u8 = b'4';
    pub(crate) const DIR: u8 = b'5';
    pub(crate) const FIFO: u8 = b'6';
    pub(crate) const PAX: u8 = b'x';
    pub(crate) const SOLARIS_PAX: u8 = b'X';
    pub(crate) const PAX_GLOBAL: u8 = b'g';
    pub(crate) const GNU_LONG_NAME: u8 = b'L';
    pub(crate) const GNU_LONG_LINK: u8 = b'K';
    pub(crate) const GNU_SPARSE: u8 = b'S';
    pub(crate) const GNU_DUMP_DIR: u8 = b'D';
    pub(crate) const GNU_VOLUME: u8 = b'V';
    pub(crate) const GNU_CONTINUED: u8 = b'M';
}

/// Returns the sum of a header's bytes, with its checksum field taken as blanks.
pub(crate) fn checksum(header: &Header) -> i64 {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    i64::from(sum(header.as_bytes()) - sum(&header.checksum) + 8 * u32::from(b' '))
}

/// As [`checksum`], with signed bytes, as some old writers computed it.
pub(crate) fn signed_checksum(header: &Header) -> i64 {
    let high = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte >> 7)).sum::<i64>();
    checksum(header) - 256 * (high(header.as_bytes()) - high(&header.checksum))
}

/// Returns `len` rounded up to whole blocks; `None` on overflow.
pub(crate) fn padded(len: u64) -> Option<u64> {
    len.checked_next_multiple_of(BLOCK as u64)
}
