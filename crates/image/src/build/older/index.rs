//! The index of an image: its units, their positions, and the encoder. It is a file beside the image, written once and
//! read as a whole: 40 bytes per unit, sorted by key, and 16 for each stretch of a unit.
//!
//! A digest at the end detects damage. Whether a unit has the right bytes is verified when it is reused, not here.

use std::ops::Range;

use packfs_blocks::Digest;
use packfs_blocks::hash::HalfDigest;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::UnitKey;

const MAGIC: [u8; 8] = *b"PFSINDEX";
const VERSION: u32 = 1;
/// Number of first bytes by which an image is recognised; they include the superblock.
const HEAD_LEN: u64 = 4096;
/// Bit of a length: the stretch is uncompressed.
const RAW: u32 = 1 << 31;
const DIGEST_LEN: usize = 32;

/// Header of the file; the name of the encoder, the units and their stretches follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct IndexHeader {
    magic: [u8; 8],
    version: U32,
    encoder_len: U32,
    image_len: U64,
    base: U64,
    head: [u8; DIGEST_LEN],
    units: U64,
    stretches: U64,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawUnit {
    digest: [u8; 16],
    check: [u8; 16],
    first: U32,
    count: U16,
    form: u8,
    rest: u8,
}

const _: () = assert!(size_of::<RawUnit>() == 40);

impl RawUnit {
    fn key(&self) -> UnitKey {
        UnitKey { digest: self.digest, form: self.form }
    }
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawStretch {
    start: U64,
    stored: U32,
    content: U32,
}

const _: () = assert!(size_of::<RawStretch>() == 16);

/// Position, length and first bytes of an image, by which its index recognises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ImageStart {
    /// Offset of the image in its file.
    pub(super) base: u64,
    /// Length of the image.
    pub(super) len: u64,
    /// Digest of the first [`ImageStart::len()`] bytes.
    pub(super) digest: Digest,
}

impl ImageStart {
    /// Number of bytes by which an image of `len` bytes is recognised.
    pub(super) fn len(len: u64) -> usize {
        usize::try_from(len.min(HEAD_LEN)).expect("a page at most")
    }
}

/// A contiguous part of a unit, such as a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitStretch {
    /// Offset in the image.
    pub(crate) start: u64,
    /// Length in the image.
    pub(crate) stored: u32,
    /// Length of its content.
    pub(crate) content: u32,
    /// True if it is not compressed.
    pub(crate) raw: bool,
}

/// A unit of the older image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OlderUnit<'i> {
    unit: &'i RawUnit,
    stretches: &'i [RawStretch],
}

impl<'i> OlderUnit<'i> {
    /// Returns its stretches in order.
    pub(crate) fn stretches(self) -> impl ExactSizeIterator<Item = UnitStretch> + 'i {
        self.stretches.iter().map(|raw| UnitStretch {
            start: raw.start.get(),
            stored: raw.stored.get(),
            content: raw.content.get() & !RAW,
            raw: raw.content.get() & RAW != 0,
        })
    }

    /// Returns the number that describes the content after the stretches.
    pub(crate) fn rest(self) -> u8 {
        self.unit.rest
    }

    /// Returns true if the unit has these bytes in the image.
    pub(crate) fn has(self, bytes: &[u8]) -> bool {
        *Digest::of(bytes).half().as_bytes() == self.unit.check
    }

    /// Returns the digest of its bytes in the image.
    pub(crate) fn check(self) -> HalfDigest {
        HalfDigest::from(self.unit.check)
    }
}

/// Units of the image being built.
#[derive(Debug, Default)]
pub(super) struct NewUnits {
    units: Vec<RawUnit>,
    stretches: Vec<RawStretch>,
}

impl NewUnits {
    /// Adds a unit. A unit that exceeds the limits of an index is left out, and will be compressed again.
    pub(super) fn add(
        &mut self,
        key: UnitKey,
        check: HalfDigest,
        rest: u8,
        stretches: impl ExactSizeIterator<Item = UnitStretch>,
    ) {
        // Fields of the file; wider ones would make every unit's record longer for the sake of a few.
        let (Ok(first), Ok(count)) = (u32::try_from(self.stretches.len()), u16::try_from(stretches.len())) else {
            return;
        };
        let UnitKey { digest, form } = key;
        let check = *check.as_bytes();
        self.units.push(RawUnit { digest, check, first: first.into(), count: count.into(), form, rest });
        self.stretches.extend(stretches.map(|stretch| RawStretch {
            start: stretch.start.into(),
            stored: stretch.stored.into(),
            content: (stretch.content | if stretch.raw { RAW } else { 0 }).into(),
        }));
    }

    /// Returns the bytes of the file. Of equal units, the first is kept.
    pub(super) fn emit(mut self, head: &ImageStart, encoder: &str) -> Vec<u8> {
        // A stable sort, so that of equal units the first written stays: the index does not depend on chance.
        self.units.sort_by_key(RawUnit::key);
        self.units.dedup_by_key(|unit| unit.key());
        let header = IndexHeader {
            magic: MAGIC,
            version: VERSION.into(),
            encoder_len: u32::try_from(encoder.len()).expect("a line of text").into(),
            image_len: head.len.into(),
            base: head.base.into(),
            head: *head.digest.as_bytes(),
            units: (self.units.len() as u64).into(),
            stretches: (self.stretches.len() as u64).into(),
        };
        let parts = [header.as_bytes(), encoder.as_bytes(), self.units.as_bytes(), self.stretches.as_bytes()];
        let mut bytes = parts.concat();
        let digest = Digest::of(&bytes);
        bytes.extend_from_slice(digest.as_bytes());
        bytes
    }
}

/// An index that was read and is intact.
#[derive(Debug)]
pub(super) struct UnitIndex {
    bytes: Vec<u8>,
    header: IndexHeader,
    encoder: Range<usize>,
    units: Range<usize>,
    stretches: Range<usize>,
}

impl UnitIndex {
    /// Parses the bytes of a file, or returns the reason why they are no index.
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let (header, _) = IndexHeader::read_from_prefix(&bytes).map_err(|_| "not an index of an image")?;
        if header.magic != MAGIC {
            return Err("not an index of an image");
        }
        if header.version.get() != VERSION {
            return Err("an index of another version of packfs");
        }
        // Exactly: the slices below rest on it, and on no other check of the header.
        let sections = sections(&header).filter(|[.., end]| *end + DIGEST_LEN == bytes.len());
        let Some([encoder, units, stretches, end]) = sections else { return Err("the index is damaged or cut off") };
        if Digest::of(&bytes[..end]).as_bytes()[..] != bytes[end..] {
            return Err("the index is damaged");
        }
        let encoder = encoder..units;
        let units = units..stretches;
        let stretches = stretches..end;
        Ok(UnitIndex { header, encoder, units, stretches, bytes })
    }

    pub(super) fn head(&self) -> ImageStart {
        let IndexHeader { image_len, base, head, .. } = self.header;
        ImageStart { base: base.get(), len: image_len.get(), digest: Digest::from(head) }
    }

    /// Returns the encoder of the units.
    pub(super) fn encoder(&self) -> String {
        String::from_utf8_lossy(&self.bytes[self.encoder.clone()]).into_owned()
    }

    /// Returns the unit with this key.
    pub(super) fn find(&self, key: &UnitKey) -> Option<OlderUnit<'_>> {
        let units = <[RawUnit]>::ref_from_bytes(&self.bytes[self.units.clone()]).ok()?;
        let stretches = <[RawStretch]>::ref_from_bytes(&self.bytes[self.stretches.clone()]).ok()?;
        let unit = &units[units.binary_search_by_key(key, RawUnit::key).ok()?];
        let first = usize::try_from(unit.first.get()).ok()?;
        // The digest detects damage but not an index made to mislead: its numbers may lead anywhere.
        let stretches = stretches.get(first..)?.get(..usize::from(unit.count.get()))?;
        Some(OlderUnit { unit, stretches })
    }
}

/// Returns the offsets of the units, stretches and digest after the name of the encoder, unless they overflow.
fn sections(header: &IndexHeader) -> Option<[usize; 4]> {
    let of = |count: U64, size: usize| usize::try_from(count.get()).ok()?.checked_mul(size);
    let encoder = size_of::<IndexHeader>();
    let units = encoder.checked_add(usize::try_from(header.encoder_len.get()).ok()?)?;
    let stretches = units.checked_add(of(header.units, size_of::<RawUnit>())?)?;
    let end = stretches.checked_add(of(header.stretches, size_of::<RawStretch>())?)?;
    end.checked_add(DIGEST_LEN)?;
    Some([encoder, units, stretches, end])
}

#[cfg(test)]
mod testing {
    //! Modified indexes for the tests of reuse.

    use std::collections::BTreeMap;

    use packfs_blocks::testing::Random;

    use super::*;

    impl UnitIndex {
        /// Returns its units, to build a modified index.
        pub(in super::super) fn units(&self) -> NewUnits {
            let units = <[RawUnit]>::ref_from_bytes(&self.bytes[self.units.clone()]).unwrap();
            let stretches = <[RawStretch]>::ref_from_bytes(&self.bytes[self.stretches.clone()]).unwrap();
            NewUnits { units: units.to_vec(), stretches: stretches.to_vec() }
        }

        /// Returns the first byte of each unit that has stretches.
        pub(in super::super) fn starts(&self) -> BTreeMap<UnitKey, u64> {
            let NewUnits { units, stretches } = self.units();
            let first = |unit: &RawUnit| stretches.get(unit.first.get() as usize).filter(|_| unit.count.get() > 0);
            units.iter().filter_map(|unit| Some((unit.key(), first(unit)?.start.get()))).collect()
        }
    }

    impl NewUnits {
        /// Changes random numbers.
        pub(in super::super) fn distort(&mut self, seed: u64) {
            let mut random = Random::new(seed);
            let mut draw = |limit: u64| random.number() % limit;
            let number = |n: u64| u32::try_from(n).unwrap();
            for unit in &mut self.units {
                match draw(8) {
                    0 => unit.first = number(draw(1 << 31)).into(),
                    1 => unit.first = (unit.first.get() + 1).into(),
                    2 => unit.count = (unit.count.get().wrapping_sub(1)).into(),
                    3 => unit.count = u16::MAX.into(),
                    4 => unit.rest = u8::try_from(draw(5)).unwrap(),
                    _ => {}
                }
            }
            for stretch in &mut self.stretches {
                match draw(12) {
                    0 => stretch.start = (u64::MAX - draw(9)).into(),
                    1 => stretch.start = (stretch.start.get() ^ 1).into(),
                    2 => stretch.stored = number(draw(1 << 32)).into(),
                    3 => stretch.content = number(draw(1 << 32)).into(),
                    4 => stretch.content = (stretch.content.get() ^ RAW).into(),
                    5 => stretch.stored = stretch.content,
                    _ => {}
                }
            }
        }
    }
}
