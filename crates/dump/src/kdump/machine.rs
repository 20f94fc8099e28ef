//! Facts about the machine from the kernel's `VMCOREINFO` and its memory: position of the kernel's
//! image, name and release.

use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::format::Utsname;
use super::header::text;
use crate::elf::VmcoreInfo;

/// `e_machine` of x86-64.
pub(crate) const X86_64: u16 = 62;
/// `e_machine` of arm64.
const AARCH64: u16 = 183;
/// Virtual address of the kernel's image on x86-64.
pub(crate) const X86_64_IMAGE: u64 = 0xffff_ffff_8000_0000;

/// Facts about a machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineFacts<'a> {
    /// `e_machine`.
    pub(crate) number: u16,
    /// The kernel's description of itself.
    pub(crate) info: VmcoreInfo<'a>,
}

impl MachineFacts<'_> {
    /// Returns `phys_base` for the sub header of a kdump-compressed file: on x86-64 the value to
    /// add to an address within the image, on arm64 the start of memory.
    pub(crate) fn phys_base(&self) -> Option<u64> {
        match self.number {
            X86_64 => self.info.number("NUMBER(phys_base)"),
            AARCH64 => self.info.number("NUMBER(PHYS_OFFSET)"),
            _ => None,
        }
    }

    /// Returns the physical address of an address in the kernel's image.
    pub(crate) fn image(&self, vaddr: u64) -> Option<u64> {
        match self.number {
            X86_64 => Some(vaddr.checked_sub(X86_64_IMAGE)?.wrapping_add(self.phys_base()?)),
            AARCH64 => Some(vaddr.wrapping_sub(self.info.number("NUMBER(kimage_voffset)")?)),
            _ => None,
        }
    }

    /// Returns the kernel's `utsname` from memory that `read` provides, or a substitute if that fails.
    pub(crate) fn utsname(&self, name: &str, read: impl FnOnce(&mut [u8], u64) -> bool) -> Utsname {
        let release = self.info.text("OSRELEASE").unwrap_or_default();
        let found = || {
            let symbol = self.info.symbol("init_uts_ns")?;
            let paddr = self.image(symbol)?.checked_add(self.info.number("OFFSET(uts_namespace.name)")?)?;
            let mut bytes = [0; size_of::<Utsname>()];
            let utsname = read(&mut bytes, paddr).then(|| Utsname::read_from_bytes(&bytes).ok())??;
            // Memory may be overwritten after a crash. It is believed only if it agrees with what the note
            // says.
            (text(&utsname.release) == release && text(&utsname.machine) == name).then_some(utsname)
        };
        found().unwrap_or_else(|| {
            let mut utsname = Utsname::new_zeroed();
            put(&mut utsname.sysname, "Linux");
            put(&mut utsname.release, release);
            put(&mut utsname.machine, name);
            utsname
        })
    }
}

/// Writes a text into a field that ends with a NUL.
fn put(field: &mut [u8; 65], text: &str) {
    // One byte less, as the text ends with a NUL.
    let len = text.len().min(field.as_bytes().len() - 1);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
}
