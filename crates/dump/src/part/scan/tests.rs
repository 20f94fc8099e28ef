//! Scans of hand-made parts: whole, cut and damaged.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use packfs_codec::{Choice, Codec};
use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::format::{PartState, Record, RecordKind, SegmentKind};
use crate::part::{
    ManifestEntry, PartFooter, RecordBytes, SegmentEntry, SegmentHead, StretchStorage, find_footer, read_index, seal,
    seal_payload, sealed_len,
};

fn superblock() -> PartSuperblock {
    PartSuperblock {
        part: 0,
        parts: 2,
        parity: 0,
        set: [7; 16],
        size: None,
        footer: None,
        input: 0,
        chunk: 4096,
        segment: 1 << 20,
        codec: Choice::new(Codec::None),
    }
}

fn head(kind: SegmentKind, start: u64, end: u64) -> SegmentHead {
    SegmentHead { kind, stripe: start, shard: 0, data: 1, parity: 0, start, end }
}

/// Makes a data segment with one uncompressed chunk.
fn segment(start: u64, chunk: &[u8]) -> Vec<u8> {
    let record = Record {
        offset: start.into(),
        len: (chunk.len() as u64).into(),
        stored: u32::try_from(chunk.len()).unwrap().into(),
        kind: (RecordKind::Raw as u16).into(),
        flags: 0.into(),
        sum: sum(chunk).into(),
    };
    let piece = RecordBytes { record, front: &chunk[..1], body: &chunk[1..] };
    let mut out = vec![0xAA; sealed_len(1, chunk.len())];
    let head = head(SegmentKind::Data, start, start + chunk.len() as u64);
    seal(&superblock().set, &head, [piece].into_iter(), &mut out);
    out
}

/// Makes a superblock and four segments of one chunk each; returns their offsets too.
fn part() -> (Vec<u8>, Vec<u64>) {
    let mut bytes = superblock().to_raw().unwrap().as_bytes().to_vec();
    let mut places = Vec::new();
    for n in 0..4u8 {
        places.push(bytes.len() as u64);
        bytes.extend(segment(u64::from(n) * 4096, &[n + 1; 4096]));
    }
    (bytes, places)
}

fn positions(bytes: &dyn ReadAt) -> (Vec<u64>, Vec<(u64, u64)>) {
    let mut segments = Vec::new();
    let mut gaps = Vec::new();
    for found in SegmentScan::whole(bytes, &superblock()) {
        match found.unwrap() {
            ScanStep::Segment { position, .. } => segments.push(position),
            ScanStep::Gap(range) => gaps.push((range.start, range.end)),
        }
    }
    (segments, gaps)
}

#[test]
fn all_segments_of_a_whole_part_are_found() {
    let (bytes, places) = part();
    assert_eq!(positions(&bytes), (places, vec![]));
    let mut scratch = Vec::new();
    let first = read_segment(&bytes, &superblock(), 4096, &mut scratch).unwrap().unwrap();
    assert!(
        matches!(&first.stretches[0].what, StretchStorage::Stored { payload, coded: false, .. } if *payload == (0..4096))
    );
    assert!(payload_is_sound(&bytes, 4096, &first, &mut scratch).unwrap());
    assert_eq!(scratch, [1; 4096]);
}

#[test]
fn damage_affects_only_the_segment_it_hits() {
    let (mut bytes, places) = part();
    let at = usize::try_from(places[1]).unwrap();
    bytes[at + 50] ^= 1;
    let (segments, gaps) = positions(&bytes);
    assert_eq!(segments, [places[0], places[2], places[3]]);
    assert_eq!(gaps, [(places[1], places[2])]);
    // Damage of a payload is noticed when the payload is checked.
    let (mut bytes, _) = part();
    bytes[at + 1000] ^= 1;
    let mut scratch = Vec::new();
    let hit = read_segment(&bytes, &superblock(), places[1], &mut scratch).unwrap().unwrap();
    assert!(!payload_is_sound(&bytes, places[1], &hit, &mut scratch).unwrap());
}

#[test]
fn a_part_cut_anywhere_gives_the_segments_before_the_cut() {
    let (bytes, places) = part();
    for len in (4096..bytes.len()).step_by(1000) {
        let cut = bytes[..len].to_vec();
        let whole = places.iter().filter(|at| **at + 8192 <= len as u64).count();
        let (segments, gaps) = positions(&cut);
        assert_eq!(segments, places[..whole], "{len}");
        assert_eq!(gaps.is_empty(), len as u64 == places[whole], "{len}");
    }
}

#[test]
fn a_long_gap_is_skipped_to_the_segment_after_it() {
    let (mut bytes, places) = part();
    let tail = bytes.split_off(usize::try_from(places[2]).unwrap());
    bytes.resize(bytes.len() + 3 * STRIDE_LEN + 4096, 0x55);
    let moved = bytes.len() as u64;
    bytes.extend(tail);
    assert_eq!(positions(&bytes), (vec![places[0], places[1], moved, moved + 8192], vec![(places[2], moved)]));
}

#[test]
fn a_dead_disk_takes_few_reads() {
    /// A terabyte of which nothing can be read; counts the attempts.
    #[derive(Debug)]
    struct DeadDisk(AtomicU64);
    impl ReadAt for DeadDisk {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            self.0.fetch_add(1, Relaxed);
            Err(io::Error::from_raw_os_error(libc::EIO))
        }
        fn len(&self) -> u64 {
            1 << 40
        }
    }
    let disk = DeadDisk(AtomicU64::new(0));
    assert_eq!(positions(&disk), (vec![], vec![(4096, 1 << 40)]));
    assert!(disk.0.load(Relaxed) < 100, "{disk:?}");
}

#[test]
fn trailer_is_found_by_the_superblock_and_at_the_end() {
    let (mut bytes, places) = part();
    let index = bytes.len() as u64;
    let entries: Vec<_> = places
        .iter()
        .zip(0..)
        .map(|(at, n)| SegmentEntry {
            position: *at,
            len: 8192,
            head: head(SegmentKind::Data, n * 4096, n * 4096 + 4096),
        })
        .collect();
    let raw: Vec<_> = entries.iter().map(SegmentEntry::to_raw).collect();
    let mut out = vec![0; sealed_len(0, raw.as_bytes().len())];
    seal_payload(&superblock().set, &head(SegmentKind::Index, 0, 0), raw.as_bytes(), &mut out);
    bytes.extend(out);
    let manifest = vec![
        ManifestEntry { state: Some(PartState::Complete), segments: 4, len: index },
        ManifestEntry { state: Some(PartState::Retired), segments: 0, len: 4096 },
    ];
    let foot = PartFooter { complete: true, size: 16384, index, indexes: 1, manifest };
    let footer = bytes.len() as u64;
    bytes.extend(foot.to_raw(&superblock()).as_bytes());
    assert_eq!(find_footer(&bytes, &superblock()).unwrap(), Some((footer, foot.clone())));
    assert_eq!(read_index(&bytes, &superblock(), &foot).unwrap(), Ok(entries));
    bytes.extend([0; 8192]);
    assert_eq!(find_footer(&bytes, &superblock()).unwrap(), None);
    let told = PartSuperblock { footer: Some(footer), ..superblock() };
    assert_eq!(find_footer(&bytes, &told).unwrap(), Some((footer, foot.clone())));
    assert_eq!(find_footer(&bytes, &PartSuperblock { part: 1, ..told }).unwrap(), None);
    bytes[usize::try_from(index).unwrap() + 100] ^= 1;
    assert!(read_index(&bytes, &superblock(), &foot).unwrap().is_err());
}

proptest! {
    /// Neither random bytes nor valid segments with wrong numbers make a reader panic or use much memory.
    #[test]
    fn any_numbers_are_read_or_refused(
        kind in 0u16..6, shard in 0u16..4, data in 0u16..4, parity in 0u16..4,
        start in any::<u64>(), end in any::<u64>(), payload in 0usize..9000,
        records in proptest::collection::vec((any::<u64>(), 0u64..9000, 0u32..9000, 0u16..6, 0u16..3), 0..6),
        small in any::<bool>(),
    ) {
        let mut at = if small { start % 9000 } else { start };
        let begin = at;
        let mut bytes = vec![0; sealed_len(records.len(), payload)];
        {
            use crate::format::{SEGMENT_MAGIC, SegmentHeader};
            let mut header = SegmentHeader {
                magic: SEGMENT_MAGIC, kind: kind.into(), shard: shard.into(), set: [7; 16], stripe: 0.into(),
                data: data.into(), parity: parity.into(), records: u32::try_from(records.len()).unwrap().into(),
                start: begin.into(), end: end.into(), payload: u32::try_from(payload).unwrap().into(),
                reserved: 0.into(), payload_sum: 0.into(), sum: 0.into(),
            };
            let raw: Vec<_> = records.iter().map(|(offset, len, stored, kind, flags)| {
                let offset = if small { at } else { *offset };
                at = at.wrapping_add(*len);
                Record { offset: offset.into(), len: (*len).into(), stored: (*stored).into(), kind: (*kind).into(),
                    flags: (*flags).into(), sum: 0.into() }
            }).collect();
            if small { header.end = at.into(); }
            let mut whole = [header.as_bytes(), raw.as_bytes()].concat();
            header.sum = sum(&whole).into();
            whole[..80].copy_from_slice(header.as_bytes());
            bytes[..whole.len()].copy_from_slice(&whole);
        }
        if let Ok(segment) = ParsedSegment::parse(&bytes, &[7; 16], 4096) {
            let mut at = segment.head.start;
            for stretch in &segment.stretches {
                prop_assert_eq!(stretch.range.start, at);
                at = stretch.range.end;
                let _ = stretch.target(&bytes[segment.head_len as usize..]);
            }
            prop_assert!(segment.stretches.is_empty() || at == segment.head.end);
            prop_assert!(segment.len() <= bytes.len() as u64);
        }
    }

    #[test]
    fn random_bytes_are_not_a_part(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
        prop_assert!(PartSuperblock::parse(&bytes).is_err());
        prop_assert!(positions(&bytes).0.is_empty());
        prop_assert!(find_footer(&bytes, &superblock()).unwrap().is_none());
    }
}
