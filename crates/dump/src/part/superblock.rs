//! The superblock of a part: identifies the set and its settings.

use packfs_codec::Choice;
use zerocopy::{FromBytes, IntoBytes};

use super::flaw::StructureFlaw;
use crate::format::{ALIGN, CHUNK, MAGIC, PARTS_MAX, SEGMENT_MAX, Superblock, UNKNOWN, VERSION, sum};

/// Name of the structure in errors.
const STRUCTURE: &str = "superblock";

/// A consistent superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSuperblock {
    /// Number of this part, from 0; less than `parts`.
    pub part: u16,
    /// Number of parts of the set when it was begun.
    pub parts: u16,
    /// Number of parts that may be lost; less than `parts`.
    pub parity: u16,
    /// Id of the set.
    pub set: [u8; 16],
    /// Length of the input in bytes, if it was known in advance.
    pub size: Option<u64>,
    /// Offset of the footer, if it is stored: a multiple of [`ALIGN`].
    pub footer: Option<u64>,
    /// Fingerprint of the input; 0 for a stream.
    pub input: u64,
    /// Maximum decoded length of a chunk: a power of two in [`CHUNK`].
    pub chunk: u32,
    /// Maximum length of a segment.
    pub segment: u32,
    /// Codec of all compressed chunks.
    pub codec: Choice,
}

impl PartSuperblock {
    /// Reads and checks the first [`ALIGN`] bytes of a part.
    pub fn parse(bytes: &[u8]) -> Result<Self, StructureFlaw> {
        let flaw = |why: String| StructureFlaw::new(STRUCTURE, why);
        let Ok((raw, _)) = Superblock::ref_from_prefix(bytes) else {
            return Err(flaw(format!("{} bytes instead of {ALIGN}", bytes.len())));
        };
        if raw.magic != MAGIC {
            return Err(flaw("not a part of a dump".to_owned()));
        }
        // Before the checksum, which another version may have elsewhere.
        if raw.version.get() != VERSION {
            return Err(flaw(format!("version {}; this program reads version {VERSION}", raw.version)));
        }
        if sum(&raw.as_bytes()[..ALIGN - 8]) != raw.sum.get() {
            return Err(flaw("its checksum does not match".to_owned()));
        }
        let part = raw.part.get();
        let parts = raw.parts.get();
        let parity = raw.parity.get();
        if usize::from(parts) > PARTS_MAX || part >= parts || parity >= parts {
            return Err(flaw(format!("part {part} of {parts} with parity {parity}")));
        }
        let chunk = raw.chunk.get();
        let segment = raw.segment.get();
        if !CHUNK.contains(&chunk) || !chunk.is_power_of_two() || segment > SEGMENT_MAX {
            return Err(flaw(format!("chunks of {chunk} and segments of {segment} bytes")));
        }
        let footer = raw.footer.get();
        if !footer.is_multiple_of(ALIGN as u64) {
            return Err(flaw(format!("a footer at byte {footer}")));
        }
        let codec = &raw.codec[..raw.codec.iter().position(|byte| *byte == 0).unwrap_or(raw.codec.len())];
        let text = std::str::from_utf8(codec).map_err(|_| flaw("its codec is not text".to_owned()))?;
        let codec = text.parse().map_err(|error| flaw(format!("codec `{}`: {error}", text.escape_debug())))?;
        Ok(PartSuperblock {
            part,
            parts,
            parity,
            set: raw.set,
            size: (raw.size.get() != UNKNOWN).then_some(raw.size.get()),
            footer: (footer != 0).then_some(footer),
            input: raw.input.get(),
            chunk,
            segment,
            codec,
        })
    }

    /// Encodes it; `None` if the settings of the codec are too long.
    pub fn to_raw(&self) -> Option<Superblock> {
        let text = self.codec.to_string();
        let mut codec = [0; 64];
        codec.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        let mut raw = Superblock {
            magic: MAGIC,
            version: VERSION.into(),
            part: self.part.into(),
            parts: self.parts.into(),
            parity: self.parity.into(),
            set: self.set,
            size: self.size.unwrap_or(UNKNOWN).into(),
            footer: self.footer.unwrap_or(0).into(),
            input: self.input.into(),
            chunk: self.chunk.into(),
            segment: self.segment.into(),
            codec,
            reserved: [0; 3960],
            sum: 0.into(),
        };
        raw.sum = sum(&raw.as_bytes()[..ALIGN - 8]).into();
        Some(raw)
    }

    /// Returns true if `other` belongs to the same set: everything is equal except number and footer.
    pub fn is_of_the_set_of(&self, other: &PartSuperblock) -> bool {
        let neutral = |one: &PartSuperblock| PartSuperblock { part: 0, footer: None, ..one.clone() };
        neutral(self) == neutral(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packfs_codec::Codec;

    fn sample() -> PartSuperblock {
        PartSuperblock {
            part: 1,
            parts: 3,
            parity: 1,
            set: *b"0123456789abcdef",
            size: Some(12345),
            footer: Some(40960),
            input: 99,
            chunk: 1 << 18,
            segment: 1 << 20,
            codec: Choice::new(Codec::Lz4),
        }
    }

    #[test]
    fn superblocks_read_back() {
        for one in [sample(), PartSuperblock { size: None, footer: None, ..sample() }] {
            assert_eq!(PartSuperblock::parse(one.to_raw().unwrap().as_bytes()), Ok(one));
        }
    }

    #[test]
    fn any_flipped_bit_is_seen() {
        let bytes = sample().to_raw().unwrap();
        for at in (0..ALIGN).step_by(7).chain([0, 8, 9, ALIGN - 1]) {
            let mut bytes = bytes.as_bytes().to_vec();
            bytes[at] ^= 4;
            assert!(PartSuperblock::parse(&bytes).is_err(), "{at}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let wrong: [fn(&mut PartSuperblock); 6] = [
            |one| one.part = 3,
            |one| one.parity = 3,
            |one| one.parts = 129,
            |one| one.chunk = 5000,
            |one| one.segment = SEGMENT_MAX + 1,
            |one| one.footer = Some(5),
        ];
        for change in wrong {
            let mut one = sample();
            change(&mut one);
            assert!(PartSuperblock::parse(one.to_raw().unwrap().as_bytes()).is_err(), "{one:?}");
        }
        assert!(PartSuperblock::parse(b"").is_err());
    }
}
