//! On-disk structures of a kdump-compressed file, of 64-bit little-endian machines. Layout only.
//!
//! Source: docs/formats/kdump.md.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian, little_endian};

use little_endian::{U32, U64};

/// Magic number of a kdump-compressed file.
pub const MAGIC: [u8; 8] = *b"KDUMP   ";
/// The version that is written.
pub const VERSION: u32 = 6;
/// Magic number of a flattened file.
pub const FLAT_MAGIC: [u8; 16] = *b"makedumpfile\0\0\0\0";
/// Offset of the first record in a flattened file.
pub const FLAT_HEADER: usize = 4096;
/// `offset` and `len` of the record that ends a flattened file.
pub const FLAT_END: i64 = -1;

/// Page or file: compressed by zlib.
pub const ZLIB: u32 = 1;
/// Page or file: compressed by LZO.
pub const LZO: u32 = 2;
/// Page or file: compressed by Snappy.
pub const SNAPPY: u32 = 4;
/// Flag of a file: pages were lost when it was written.
pub const INCOMPLETE: u32 = 8;
/// Page or file: compressed by zstd.
pub const ZSTD: u32 = 0x20;
/// Flag of `dump_level`: all pages of zeros share one page, which is the first in the file.
pub const ZERO_SHARED: u32 = 1;

/// Valid page sizes in bytes.
pub const PAGE: std::ops::RangeInclusive<u32> = 4096..=65536;

/// Six texts of `uname`, each terminated by a NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Utsname {
    /// "Linux".
    pub sysname: [u8; 65],
    /// Name of the host.
    pub nodename: [u8; 65],
    /// Release of the kernel.
    pub release: [u8; 65],
    /// Version and time of the build.
    pub version: [u8; 65],
    /// Architecture.
    pub machine: [u8; 65],
    /// NIS domain.
    pub domainname: [u8; 65],
}

/// The main header, at byte 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MainHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// Version, which determines the fields of the sub header.
    pub header_version: U32,
    /// Names of the machine.
    pub utsname: Utsname,
    /// 0.
    pub pad: [u8; 6],
    /// Time of the crash, in seconds since 1970.
    pub seconds: U64,
    /// Microseconds of the time.
    pub microseconds: U64,
    /// Compression of pages, and [`INCOMPLETE`].
    pub status: U32,
    /// Block size in bytes, which is the size of a page of memory.
    pub block_size: U32,
    /// Number of blocks of the sub header, including the notes.
    pub sub_hdr_size: U32,
    /// Number of blocks of both bitmaps.
    pub bitmap_blocks: U32,
    /// Number of pages from physical address 0 to the end of memory; from version 6 on, the sub
    /// header has it in 64 bits.
    pub max_mapnr: U32,
    /// 0.
    pub total_ram_blocks: U32,
    /// 0.
    pub device_blocks: U32,
    /// 0.
    pub written_blocks: U32,
    /// 0.
    pub current_cpu: U32,
    /// Number of processors.
    pub nr_cpus: U32,
}

/// The sub header, at block 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SubHeader {
    /// Value to add to the offset of an address in the kernel's image to get a physical address.
    pub phys_base: U64,
    /// From version 1: the pages left out, as given to makedumpfile.
    pub dump_level: U32,
    /// From version 2: 1 if this is one of several files.
    pub split: U32,
    /// From version 2: first page of this file.
    pub start_pfn: U64,
    /// From version 2: end of the range of pages of this file.
    pub end_pfn: U64,
    /// From version 3: offset of the text of `VMCOREINFO`.
    pub offset_vmcoreinfo: U64,
    /// Length of that text.
    pub size_vmcoreinfo: U64,
    /// From version 4: offset of the notes.
    pub offset_note: U64,
    /// Length of the notes.
    pub size_note: U64,
    /// From version 5: offset of the description of erased data.
    pub offset_eraseinfo: U64,
    /// Length of that description.
    pub size_eraseinfo: U64,
    /// From version 6: `start_pfn` in 64 bits; the older field may be cut to 32 bits.
    pub start_pfn_64: U64,
    /// From version 6: `end_pfn` in 64 bits; the older field may be cut to 32 bits.
    pub end_pfn_64: U64,
    /// From version 6: `max_mapnr` in 64 bits.
    pub max_mapnr_64: U64,
}

/// Position of a page. There is one for each page of the second bitmap, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PageDesc {
    /// Offset in the file; 0 for a page that was lost.
    pub offset: U64,
    /// Length in the file.
    pub size: U32,
    /// Compression; 0 for an uncompressed page.
    pub flags: U32,
    /// 0.
    pub page_flags: U64,
}

/// Header of a flattened file; zeros follow up to [`FLAT_HEADER`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FlatHeader {
    /// [`FLAT_MAGIC`].
    pub magic: [u8; 16],
    /// 1.
    pub kind: big_endian::I64,
    /// 1.
    pub version: big_endian::I64,
}

/// Header of a record of a flattened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FlatRecord {
    /// Offset of the following bytes in the original file.
    pub offset: big_endian::I64,
    /// Number of the following bytes.
    pub len: big_endian::I64,
}

const _: () = assert!(size_of::<Utsname>() == 390);
const _: () = assert!(size_of::<MainHeader>() == 464);
const _: () = assert!(size_of::<SubHeader>() == 104);
const _: () = assert!(size_of::<PageDesc>() == 24);
const _: () = assert!(size_of::<FlatHeader>() == 32);
const _: () = assert!(size_of::<FlatRecord>() == 16);
