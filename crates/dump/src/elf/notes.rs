//! Notes of a core, and the text of its `VMCOREINFO` note, in which a kernel describes itself for
//! readers of its memory.

use zerocopy::{FromBytes, IntoBytes};

use super::format::NoteHeader;

/// One note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfNote<'a> {
    /// Name, without the NUL.
    pub name: &'a [u8],
    /// Type, in the scope of the name.
    pub kind: u32,
    /// Contents.
    pub desc: &'a [u8],
    /// Offset of the contents.
    pub desc_at: usize,
}

/// Iterates over notes, as far as they are complete.
#[derive(Debug, Clone)]
pub struct NoteIter<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> NoteIter<'a> {
    /// Iterates over the notes in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        NoteIter { bytes, at: 0 }
    }

    /// Returns the first note with this name.
    pub fn named(bytes: &'a [u8], name: &[u8]) -> Option<ElfNote<'a>> {
        NoteIter::new(bytes).find(|note| note.name == name)
    }
}

impl<'a> Iterator for NoteIter<'a> {
    type Item = ElfNote<'a>;

    fn next(&mut self) -> Option<ElfNote<'a>> {
        let (header, rest) = NoteHeader::read_from_prefix(self.bytes.get(self.at..)?).ok()?;
        let namesz = usize::try_from(header.namesz.get()).ok()?;
        let descsz = usize::try_from(header.descsz.get()).ok()?;
        // Padded to 4 bytes also in 64-bit cores, where the standard would have 8.
        let name_end = namesz.checked_next_multiple_of(4)?;
        let name = rest.get(..namesz)?;
        let desc = rest.get(name_end..)?.get(..descsz)?;
        let desc_at = self.at + size_of::<NoteHeader>() + name_end;
        // The padding of the last note may be missing.
        self.at = desc_at + descsz.checked_next_multiple_of(4)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        // Kernels pad the space reserved for notes with zeros.
        if namesz == 0 && descsz == 0 {
            self.at = self.bytes.len();
            return None;
        }
        Some(ElfNote { name, kind: header.n_type.get(), desc, desc_at })
    }
}

/// Encodes a note.
pub(crate) fn note(name: &str, kind: u32, desc: &[u8]) -> Option<Vec<u8>> {
    let header = NoteHeader {
        namesz: u32::try_from(name.len() + 1).ok()?.into(),
        descsz: u32::try_from(desc.len()).ok()?.into(),
        n_type: kind.into(),
    };
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(name.as_bytes());
    bytes.resize(size_of::<NoteHeader>() + (name.len() + 1).next_multiple_of(4), 0);
    bytes.extend_from_slice(desc);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    Some(bytes)
}

/// The text of a `VMCOREINFO` note: lines of `KEY=VALUE`.
#[derive(Debug, Clone, Copy)]
pub struct VmcoreInfo<'a>(&'a [u8]);

impl<'a> VmcoreInfo<'a> {
    /// Wraps the text in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        VmcoreInfo(bytes)
    }

    /// Returns the value of `key` as text.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        let line = self.0.split(|byte| *byte == b'\n').find_map(|line| {
            let rest = line.strip_prefix(key.as_bytes())?;
            rest.strip_prefix(b"=")
        })?;
        std::str::from_utf8(line).ok()
    }

    /// Returns the value of `key`, given in decimal digits, possibly with a sign, as 64 bits.
    pub fn number(&self, key: &str) -> Option<u64> {
        let text = self.text(key)?;
        let hex = text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16).ok());
        // Negative numbers are printed by the kernel with `%ld`, for example `phys_base`, and are meant as 64
        // bits that wrap.
        hex.unwrap_or_else(|| text.parse().ok().or_else(|| text.parse().ok().map(i64::cast_unsigned)))
    }

    /// Returns the value of `SYMBOL(name)`: an address.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.text(&format!("SYMBOL({name})"))?, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_notes_read_back() {
        let mut bytes = note("CORE", 1, &[7; 13]).unwrap();
        bytes.extend(note("VMCOREINFO", 0, b"A=1\n").unwrap());
        bytes.extend([0; 40]);
        let all: Vec<_> = NoteIter::new(&bytes).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].name, all[0].kind, all[0].desc), (&b"CORE"[..], 1, &[7; 13][..]));
        assert_eq!(&bytes[all[1].desc_at..][..4], b"A=1\n");
        assert_eq!(NoteIter::named(&bytes, b"VMCOREINFO"), Some(all[1]));
        assert_eq!(NoteIter::named(&bytes, b"VMCOREINF"), None);
    }

    #[test]
    fn iteration_ends_at_an_incomplete_note() {
        let bytes = note("CORE", 1, &[7; 12]).unwrap();
        for len in 0..bytes.len() {
            assert_eq!(NoteIter::new(&bytes[..len]).count(), 0, "{len}");
        }
        for sizes in [[u32::MAX, 4], [4, u32::MAX], [u32::MAX - 2, u32::MAX - 2]] {
            let mut bytes = bytes.clone();
            bytes[..8].copy_from_slice(sizes.map(u32::to_le_bytes).as_flattened());
            assert_eq!(NoteIter::new(&bytes).count(), 0, "{sizes:?}");
        }
    }

    #[test]
    fn vmcoreinfo_is_found_by_whole_keys() {
        let info = VmcoreInfo::new(b"PAGESIZE=4096\nSYMBOL(a_b)=ffffffff81000000\nNUMBER(x)=-1\nNUMBER(y)=0x10\nbad\n");
        assert_eq!(info.number("PAGESIZE"), Some(4096));
        assert_eq!(info.number("PAGESIZ"), None);
        assert_eq!(info.symbol("a_b"), Some(0xffff_ffff_8100_0000));
        assert_eq!(info.number("NUMBER(x)"), Some(u64::MAX));
        assert_eq!(info.number("NUMBER(y)"), Some(16));
        assert_eq!(info.text("bad"), None);
    }
}
