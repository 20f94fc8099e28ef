//! Wrong indexes: reported, never a panic, and never a long search.

use super::write::Form;
use super::*;

fn facts(layout: Layout, size: u64) -> MappedInode {
    MappedInode { size, layout, start_block: Some(1), chunk_format: 0, payload: 0, block_bits: 12 }
}

/// Walks as far as possible, but not for ever.
fn exhaust(bytes: &Vec<u8>, facts: &MappedInode, offset: u64) -> Result<()> {
    let map = ExtentMap::open(bytes, facts)?;
    let mut walk = map.walk(bytes, offset);
    let mut at = None;
    for _ in 0..100_000 {
        let Some(extent) = walk.next()? else { break };
        let end = extent.logical + extent.len;
        assert!(at < Some(end) && end <= facts.size, "{extent:?}");
        at = Some(end);
    }
    Ok(())
}

fn layouts() -> impl Strategy<Value = Layout> {
    use Layout::{Chunks, CompressedCompact, CompressedFull, Inline, Plain};
    prop::sample::select(vec![Plain, Inline, CompressedFull, CompressedCompact, Chunks])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_an_index_or_an_error(
        layout in layouts(), mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        advise in 0..0x40u8, bits in prop_oneof![0..16u8, any::<u8>()],
        size in prop_oneof![1..100_000u64, 1..1u64 << 63], at in any::<prop::sample::Index>(), format in 0..0x80u16,
    ) {
        if let Some(header) = bytes.get_mut(4..8) {
            header.copy_from_slice(&[advise, 0, 0, bits]);
        }
        let facts = MappedInode { chunk_format: format, ..facts(layout, size) };
        drop(exhaust(&bytes, &facts, 0));
        drop(exhaust(&bytes, &facts, at.index(size.min(usize::MAX as u64) as usize) as u64));
        if let (true, Ok(map)) = (size < 1 << 30, ExtentMap::open(&bytes, &facts)) {
            drop(map.check(&bytes, ALL, &mut drop));
        }
    }

    /// One wrong byte gives an error, a finding, or another index; never anything worse.
    #[test]
    fn one_wrong_byte(
        (shape, list) in shapes().prop_flat_map(|shape| (Just(shape), listed(shape))),
        at in any::<prop::sample::Index>(), flip in 1..=255u8, offset in any::<prop::sample::Index>(),
    ) {
        prop_assume!(!list.is_empty());
        let mut made = write::write(shape, list, 77);
        let at = at.index(made.bytes.len());
        made.bytes[at] ^= flip;
        drop(exhaust(&made.bytes, &made.facts, 0));
        drop(exhaust(&made.bytes, &made.facts, offset.index(made.facts.size as usize) as u64));
    }
}

/// Type, offset, block or distances.
type Entry = (u16, u16, u32);

/// Makes a full index of these entries.
fn full(advise: u16, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes[4..6].copy_from_slice(&advise.to_le_bytes());
    for (kind, offset, value) in entries {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

#[test]
fn every_defect_is_reported() {
    const BIG: u16 = 6;
    let chain: Vec<_> = std::iter::once((1, 0, 1)).chain(std::iter::repeat_n((2, 0, 1), 20_000)).collect();
    let inner = |value: u32| vec![(1, 0, 1), (2, 0, value), (2, 0, value)];
    let cases: [(&str, u16, Vec<Entry>, u64); 10] = [
        ("a distance of 0", 0, inner(0), 12288),
        ("before the file begins", 0, inner(9), 12288),
        ("clusters of this file have one", 0, inner(0x802), 12288),
        ("no count of blocks", BIG, inner(1), 8192),
        ("is outside of it", 0, vec![(1, 4096, 1)], 100),
        ("before the file begins", 0, vec![(1, 10, 1)], 100),
        ("leads nowhere", 0, chain, 80_000_000),
        ("stored uncompressed", BIG, vec![(0, 0, 1), (2, 0, 0x801)], 8192),
        ("the most is 1048576", BIG, vec![(1, 0, 1), (2, 0, 0x800 | 257)], 8192),
        ("after the end", 0, vec![(1, 0, 1)], 8192),
    ];
    for (why, advise, entries, size) in cases {
        let bytes = full(advise, &entries);
        let facts = facts(Layout::CompressedFull, size);
        let both = exhaust(&bytes, &facts, size - 1).and(exhaust(&bytes, &facts, 0));
        let said = both.expect_err(why).to_string();
        assert!(said.contains(why), "{why}: {said}");
        assert!(said.contains("at byte"), "{said}");
    }
}

#[test]
fn extents_longer_than_the_limit_are_refused() {
    let mut entries = vec![(1, 0, 1)];
    entries.extend((1..4000).map(|n: u32| (2, 0, n.min(2047))));
    let bytes = full(0, &entries);
    let said = exhaust(&bytes, &facts(Layout::CompressedFull, 4000 * 4096), 0).unwrap_err().to_string();
    assert!(said.contains("the most is 12582912"), "{said}");
}

#[test]
fn fragments_and_holes_may_be_longer_than_the_limit() {
    for (advise, kind) in [(0x20, 1), (0, 1 | 1 << 14)] {
        let mut entries = vec![(kind, 0, 1)];
        entries.extend((1..4000).map(|n: u32| (2, 0, n.min(2047))));
        let made = full(advise, &entries);
        let facts = facts(Layout::CompressedFull, 4000 * 4096);
        let map = ExtentMap::open(&made, &facts).unwrap();
        let extent = map.walk(&made, facts.size - 1).next().unwrap().unwrap();
        assert_eq!((extent.logical, extent.len), (0, facts.size));
        let want = if advise == 0 { PieceStorage::Hole } else { PieceStorage::Fragment(1 << 32) };
        assert_eq!(extent.data, want);
    }
}

#[test]
fn records_out_of_order_are_refused() {
    let list = |starts: [u64; 3]| {
        starts.map(|logical| Listed {
            logical,
            len: 100,
            block: 9,
            blocks: 1,
            plain: false,
            second: false,
            partial: false,
        })
    };
    let shape = Shape::new(Form::Records(16), 12, 12, true, 0);
    for (starts, good) in
        [([0, 5000, 9000], true), ([0, 9000, 5000], false), ([0, 5000, 5000], false), ([7000, 5000, 9000], false)]
    {
        let made = write::write(shape, list(starts).to_vec(), 0);
        assert_eq!(exhaust(&made.bytes, &made.facts, 0).is_ok(), good, "{starts:?}");
    }
}

/// A check visits entries that reading does not need.
#[test]
fn a_check_finds_defects_that_reading_ignores() {
    const BIG: u16 = 6;
    let inner = |back: u32, forward: u32| (2, 0, back | forward << 16);
    let good = [(1, 0, 1), inner(1, 2), inner(2, 1), (1, 9, 2), inner(1, 1), (0, 100, 0)];
    let size = 5 * 4096 + 100;
    let with = |n: usize, entry: Entry| {
        let mut entries = good.to_vec();
        entries[n] = entry;
        entries
    };
    let all = ALL;
    let none = AnnouncedFeatures { incompat: Incompat::ZERO_PADDING, algorithms: 0 };
    let cases: [(&str, u16, Vec<Entry>, AnnouncedFeatures); 9] = [
        ("", 0, good.to_vec(), all),
        ("its head is 2 clusters back, not 1", 0, with(2, inner(1, 1)), all),
        ("the next head is at cluster 3, not 4", 0, with(1, inner(1, 3)), all),
        ("the next head is at cluster 3, not 2", 0, with(1, inner(1, 1)), all),
        ("no entry ends the last extent", 0, with(5, inner(2, 1)), all),
        ("an extent begins after the end, at offset 101", 0, with(5, (0, 101, 0)), all),
        ("unknown advice bits 0x100", 0x100, good.to_vec(), all),
        ("no count of blocks after a head", BIG, with(1, inner(1, 2)), all),
        ("the superblock does not announce algorithm 0", 0, good.to_vec(), none),
    ];
    for (want, advise, entries, announced) in cases {
        let bytes = full(advise, &entries);
        let map = ExtentMap::open(&bytes, &facts(Layout::CompressedFull, size)).unwrap();
        let mut found = Vec::new();
        let ended = map.check(&bytes, announced, &mut |error| found.push(error.to_string()));
        found.extend(ended.err().map(|error| error.to_string()));
        assert_eq!(found.is_empty(), want.is_empty(), "{want}: {found:?}");
        assert!(want.is_empty() || found.iter().any(|found| found.contains(want)), "{want}: {found:?}");
    }
}
