//! The structures of a kdump-compressed file, of 64-bit little-endian machines. Only layout.
//!
//! Source: docs/formats/kdump.md.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian, little_endian};

use little_endian::{U32, U64};

/// What a kdump-compressed file begins with.
pub const MAGIC: [u8; 8] = *b"KDUMP   ";
/// The version that is written.
pub const VERSION: u32 = 6;
/// What a flattened file begins with.
pub const FLAT_MAGIC: [u8; 16] = *b"makedumpfile\0\0\0\0";
/// Where the first record of a flattened file is.
pub const FLAT_HEADER: usize = 4096;
/// `offset` and `len` of the record that ends a flattened file.
pub const FLAT_END: i64 = -1;

/// Page or file: compressed by zlib.
pub const ZLIB: u32 = 1;
/// Page or file: compressed by LZO.
pub const LZO: u32 = 2;
/// Page or file: compressed by Snappy.
pub const SNAPPY: u32 = 4;
/// Of a file: pages were lost when it was written.
pub const INCOMPLETE: u32 = 8;
/// Page or file: compressed by zstd.
pub const ZSTD: u32 = 0x20;
/// Of `dump_level`: all pages of zeros are the same page, which is the first in the file.
pub const ZERO_SHARED: u32 = 1;

/// Sizes a page may have.
pub const PAGE: std::ops::RangeInclusive<u32> = 4096..=65536;

/// Six texts of `uname`, each ended by a NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Utsname {
    /// "Linux".
    pub sysname: [u8; 65],
    /// Name of the host.
    pub nodename: [u8; 65],
    /// Release of the kernel.
    pub release: [u8; 65],
    /// When and how it was built.
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
    /// Says which fields of the sub header there are.
    pub header_version: U32,
    /// What the machine was.
    pub utsname: Utsname,
    /// 0.
    pub pad: [u8; 6],
    /// When it crashed: seconds since 1970.
    pub seconds: U64,
    /// And microseconds.
    pub microseconds: U64,
    /// How pages are compressed, and [`INCOMPLETE`].
    pub status: U32,
    /// Bytes of a block, which is a page of memory.
    pub block_size: U32,
    /// Blocks of the sub header with the notes.
    pub sub_hdr_size: U32,
    /// Blocks of both bitmaps.
    pub bitmap_blocks: U32,
    /// Pages from physical address 0 to the end of memory; the sub header has it whole from version 6 on.
    pub max_mapnr: U32,
    /// 0.
    pub total_ram_blocks: U32,
    /// 0.
    pub device_blocks: U32,
    /// 0.
    pub written_blocks: U32,
    /// 0.
    pub current_cpu: U32,
    /// Processors.
    pub nr_cpus: U32,
}

/// The sub header, at block 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SubHeader {
    /// What is added to the offset of an address in the kernel's image to get a physical one.
    pub phys_base: U64,
    /// From version 1: what was left out, as given to makedumpfile.
    pub dump_level: U32,
    /// From version 2: 1 where this is one of several files.
    pub split: U32,
    /// From version 2: first page of this file.
    pub start_pfn: U64,
    /// From version 2: the page after the last.
    pub end_pfn: U64,
    /// From version 3: byte of the text of `VMCOREINFO`.
    pub offset_vmcoreinfo: U64,
    /// Its bytes.
    pub size_vmcoreinfo: U64,
    /// From version 4: byte of the notes.
    pub offset_note: U64,
    /// Their bytes.
    pub size_note: U64,
    /// From version 5: byte of what says which data was erased.
    pub offset_eraseinfo: U64,
    /// Its bytes.
    pub size_eraseinfo: U64,
    /// From version 6: as `start_pfn`, which may be cut to 32 bits.
    pub start_pfn_64: U64,
    /// From version 6: as `end_pfn`, which may be cut to 32 bits.
    pub end_pfn_64: U64,
    /// From version 6: as `max_mapnr` of the main header.
    pub max_mapnr_64: U64,
}

/// Says where a page is. There is one for each page of the second bitmap, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PageDesc {
    /// Byte of the file; 0 for a page that was lost.
    pub offset: U64,
    /// Bytes of the file.
    pub size: U32,
    /// How it is compressed; 0 for a page as it is.
    pub flags: U32,
    /// 0.
    pub page_flags: U64,
}

/// What a flattened file begins with; zeros follow up to [`FLAT_HEADER`].
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

/// What each record of a flattened file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FlatRecord {
    /// Where the bytes that follow belong.
    pub offset: big_endian::I64,
    /// How many they are.
    pub len: big_endian::I64,
}

const _: () = assert!(size_of::<Utsname>() == 390);
const _: () = assert!(size_of::<MainHeader>() == 464);
const _: () = assert!(size_of::<SubHeader>() == 104);
const _: () = assert!(size_of::<PageDesc>() == 24);
const _: () = assert!(size_of::<FlatHeader>() == 32);
const _: () = assert!(size_of::<FlatRecord>() == 16);
