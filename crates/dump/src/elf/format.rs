//! The structures of a 64-bit little-endian ELF file that a core has. Only layout.
//!
//! Source: the System V ABI; docs/formats/kdump.md says what cores of machines make of it.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What an ELF file of 64 bits in little-endian order begins with.
pub const IDENT: [u8; 7] = [0x7f, b'E', b'L', b'F', 2, 1, 1];
/// `e_type` of a core.
pub const ET_CORE: u16 = 4;
/// `e_phnum` where the number of program headers is in `sh_info` of the first section header.
pub const PN_XNUM: u16 = 0xffff;
/// Flag of `e_flags` that makedumpfile sets when the core lacks what should be in it.
pub const INCOMPLETE: u32 = 1;
/// `p_type` of memory.
pub const PT_LOAD: u32 = 1;
/// `p_type` of notes.
pub const PT_NOTE: u32 = 4;
/// `n_type` of the registers of one processor, in notes called `CORE`.
pub const NT_PRSTATUS: u32 = 1;

/// The ELF header.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`IDENT`], then the system and its ABI's version, which do not matter.
    pub ident: [u8; 16],
    /// [`ET_CORE`].
    pub e_type: U16,
    /// The machine's architecture.
    pub machine: U16,
    /// 1.
    pub version: U32,
    /// 0.
    pub entry: U64,
    /// Byte of the program headers.
    pub phoff: U64,
    /// Byte of the section headers; 0 where there are none.
    pub shoff: U64,
    /// [`INCOMPLETE`] or 0.
    pub flags: U32,
    /// Bytes of this header.
    pub ehsize: U16,
    /// Bytes of a program header.
    pub phentsize: U16,
    /// Number of program headers, or [`PN_XNUM`].
    pub phnum: U16,
    /// Bytes of a section header.
    pub shentsize: U16,
    /// Number of section headers.
    pub shnum: U16,
    /// 0.
    pub shstrndx: U16,
}

/// A program header.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ProgramHeader {
    /// [`PT_LOAD`] or [`PT_NOTE`].
    pub p_type: U32,
    /// Permissions.
    pub flags: U32,
    /// Byte of the file.
    pub offset: U64,
    /// Where the kernel sees this memory; 0 where that is not known.
    pub vaddr: U64,
    /// Physical address; all ones where that is not known.
    pub paddr: U64,
    /// Bytes in the file.
    pub filesz: U64,
    /// Bytes of memory. Those beyond `filesz` were left out.
    pub memsz: U64,
    /// Alignment; 0 means none.
    pub align: U64,
}

/// A section header, of which a core has at most one, for the sake of its `info`.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SectionHeader {
    /// 0.
    pub name: U32,
    /// 0.
    pub sh_type: U32,
    /// 0.
    pub flags: U64,
    /// 0.
    pub addr: U64,
    /// 0.
    pub offset: U64,
    /// 0, or the number of section headers where the ELF header has 0.
    pub size: U64,
    /// 0.
    pub link: U32,
    /// Number of program headers.
    pub info: U32,
    /// 0.
    pub addralign: U64,
    /// 0.
    pub entsize: U64,
}

/// What a note begins with; its name and its descriptor follow, each padded to 4 bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NoteHeader {
    /// Bytes of the name, its NUL included.
    pub namesz: U32,
    /// Bytes of the descriptor.
    pub descsz: U32,
    /// What the descriptor is, by the name.
    pub n_type: U32,
}

const _: () = assert!(size_of::<Header>() == 64);
const _: () = assert!(size_of::<ProgramHeader>() == 56);
const _: () = assert!(size_of::<SectionHeader>() == 64);
const _: () = assert!(size_of::<NoteHeader>() == 12);

/// Architectures of 64 bits in little-endian order: `e_machine` and the name that `uname -m` has for it.
pub const MACHINES: &[(u16, &str)] =
    &[(62, "x86_64"), (183, "aarch64"), (21, "ppc64le"), (243, "riscv64"), (258, "loongarch64"), (50, "ia64")];
