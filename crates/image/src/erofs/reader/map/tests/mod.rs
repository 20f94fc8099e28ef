//! Tests of maps: indexes made from lists of extents, in every form, read back; and wrong ones.
#![allow(clippy::cast_possible_truncation, reason = "numbers of tests are small")]

mod hostile;
mod ours;
pub(in crate::erofs::reader) mod write;

use proptest::prelude::*;

use self::write::{Listed, Made, Shape};
use super::*;
use crate::Error;
use crate::erofs::format::Incompat;

impl IndexBytes for Vec<u8> {
    fn read(&self, structure: &'static str, at: u64, buf: &mut [u8]) -> Result<()> {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = from.checked_add(buf.len()).and_then(|to| self.get(from..to));
        let bytes = bytes.ok_or_else(|| Error::corrupt(structure, at, "after the end"))?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn error(&self, structure: &'static str, at: u64, why: String) -> Error {
        Error::corrupt(structure, at, why)
    }
}

/// All features announced.
const ALL: AnnouncedFeatures = AnnouncedFeatures { incompat: Incompat::all(), algorithms: 0xffff };

fn extents(made: &Made) -> Result<Vec<MappedExtent>> {
    let map = ExtentMap::open(&made.bytes, &made.facts)?;
    let (mut walk, mut out) = (map.walk(&made.bytes, 0), Vec::new());
    while let Some(extent) = walk.next()? {
        out.push(extent);
    }
    Ok(out)
}

fn findings(made: &Made) -> Vec<String> {
    let map = ExtentMap::open(&made.bytes, &made.facts).unwrap();
    let mut out = Vec::new();
    map.check(&made.bytes, ALL, &mut |error| out.push(error.to_string())).unwrap();
    out
}

/// Lists of extents that an index of this shape can hold: at most one begins in a logical cluster,
/// and those of several blocks reach into the next.
fn listed(shape: Shape) -> impl Strategy<Value = Vec<Listed>> {
    let cluster = 1u64 << shape.bits;
    let extent = (1..cluster * 40, 0..4u8, any::<bool>(), 1..5u64);
    prop::collection::vec(extent, 1..20).prop_map(move |wishes| {
        let (mut out, mut at, mut block) = (Vec::new(), 0u64, 7u64);
        for (wish, kind, share, blocks) in wishes {
            let mut len = if shape.even() { cluster } else { wish };
            // The next extent must begin in a later cluster.
            if shape.is_index() && (at + len) >> shape.bits == at >> shape.bits {
                len = (at / cluster + 1) * cluster - at;
            }
            let plain = kind == 0;
            let mut blocks = if shape.even() && plain { cluster >> shape.block_bits } else { blocks };
            let fit = |len: u64, blocks: u64| if plain { len.min(blocks << shape.block_bits) } else { len };
            len = fit(len, blocks);
            // The count is in an entry between the heads.
            if shape.is_index() && (!shape.big || (at + len) / cluster - at / cluster < 2) {
                blocks = 1;
                len = fit(len, blocks);
            }
            // A plain extent that was cut may end where it began.
            if shape.is_index() && (at + len) >> shape.bits == at >> shape.bits {
                continue;
            }
            let second = shape.second && kind == 3;
            let partial = shape.partial && share && !plain;
            out.push(Listed { logical: at, len, block, blocks, plain, second, partial });
            at += len;
            block += blocks;
        }
        out
    })
}

fn shapes() -> impl Strategy<Value = Shape> {
    let form = prop::sample::select(write::FORMS.to_vec());
    (form, 9..=14u8, 0..3u32, any::<bool>(), 0..4u64).prop_map(|(form, block_bits, more, big, slot)| {
        let bits = u32::from(block_bits.min(12)) + if form == write::Form::Full { more } else { 0 };
        Shape::new(form, block_bits.min(12), bits, big, slot * 8)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every form returns the extents that were written, from any byte on, and has no defects.
    #[test]
    fn extents_round_trip((shape, list) in shapes().prop_flat_map(|shape| (Just(shape), listed(shape))), cut in 0..5000u64) {
        prop_assume!(!list.is_empty());
        let made = write::write(shape, list, cut);
        let want: Vec<_> = made.list.iter().map(|listed| listed.mapped(shape)).collect();
        prop_assert_eq!(&extents(&made).unwrap(), &want);
        // The data is not really compressed here.
        let wasteful = |finding: &String| finding.contains("bytes are stored for");
        prop_assert_eq!(findings(&made).into_iter().filter(|one| !wasteful(one)).collect::<Vec<_>>(), Vec::<String>::new());
        let map = ExtentMap::open(&made.bytes, &made.facts).unwrap();
        for extent in &want {
            for at in [extent.logical, extent.logical + extent.len / 2, extent.logical + extent.len - 1] {
                prop_assert_eq!(map.walk(&made.bytes, at).next().unwrap(), Some(*extent));
            }
        }
        prop_assert_eq!(map.walk(&made.bytes, made.facts.size).next().unwrap(), None);
    }
}
