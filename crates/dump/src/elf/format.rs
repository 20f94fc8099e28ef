//! On-disk structures of a 64-bit little-endian ELF core. Layout only.
//!
//! Source: the System V ABI; docs/formats/kdump.md describes their use in cores of machines.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a 64-bit little-endian ELF file.
pub const IDENT: [u8; 7] = [0x7f, b'E', b'L', b'F', 2, 1, 1];
/// `e_type` of a core.
pub const ET_CORE: u16 = 4;
/// `e_phnum` if the number of program headers is in `sh_info` of the first section header.
pub const PN_XNUM: u16 = 0xffff;
/// Flag of `e_flags` that makedumpfile sets if the core is incomplete.
pub const INCOMPLETE: u32 = 1;
/// `p_type` of memory.
pub const PT_LOAD: u32 = 1;
/// `p_type` of notes.
pub const PT_NOTE: u32 = 4;
/// `n_type` of one processor's registers, in notes named `CORE`.
pub const NT_PRSTATUS: u32 = 1;

/// The ELF header.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ElfHeader {
    /// [`IDENT`], then the system and its ABI's version, which are ignored.
    pub ident: [u8; 16],
    /// [`ET_CORE`].
    pub e_type: U16,
    /// The machine's architecture.
    pub machine: U16,
    /// 1.
    pub version: U32,
    /// 0.
    pub entry: U64,
    /// Offset of the program headers.
    pub phoff: U64,
    /// Offset of the section headers; 0 if there are none.
    pub shoff: U64,
    /// [`INCOMPLETE`] or 0.
    pub flags: U32,
    /// Length of this header.
    pub ehsize: U16,
    /// Length of a program header.
    pub phentsize: U16,
    /// Number of program headers, or [`PN_XNUM`].
    pub phnum: U16,
    /// Length of a section header.
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
    /// Offset in the file.
    pub offset: U64,
    /// Virtual address in the kernel; 0 if unknown.
    pub vaddr: U64,
    /// Physical address; all ones if unknown.
    pub paddr: U64,
    /// Number of bytes in the file.
    pub filesz: U64,
    /// Number of bytes of memory. Those beyond `filesz` were left out.
    pub memsz: U64,
    /// Alignment; 0 means none.
    pub align: U64,
}

/// A section header. A core has at most one, for its `info` field.
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
    /// 0, or the number of section headers if the ELF header says 0.
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

/// Header of a note; name and descriptor follow, each padded to 4 bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NoteHeader {
    /// Length of the name, including its NUL.
    pub namesz: U32,
    /// Length of the descriptor.
    pub descsz: U32,
    /// Type of the descriptor, in the scope of the name.
    pub n_type: U32,
}

const _: () = assert!(size_of::<ElfHeader>() == 64);
const _: () = assert!(size_of::<ProgramHeader>() == 56);
const _: () = assert!(size_of::<SectionHeader>() == 64);
const _: () = assert!(size_of::<NoteHeader>() == 12);

/// 64-bit little-endian architectures: `e_machine`, and the name printed by `uname -m`.
pub const MACHINES: &[(u16, &str)] =
    &[(62, "x86_64"), (183, "aarch64"), (21, "ppc64le"), (243, "riscv64"), (258, "loongarch64"), (50, "ia64")];
