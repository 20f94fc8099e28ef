//! Sets read back: whole, with parts missing, cut, swapped and damaged. Whatever the damage,
//! reading gives the right bytes or an error.
#![allow(clippy::cast_possible_truncation, reason = "numbers in tests are small")]

use std::collections::BTreeSet;
use std::ops::Range;

use packfs_blocks::{Progress, ReadAt};
use proptest::prelude::*;

use super::testing::{CHUNK, Chunk, Dump, Plan, gappy, mixed, noise, open, text};
use super::*;

/// Reads all of a dump.
fn read(set: &Set) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; set.len() as usize];
    set.read_exact_at(&mut bytes, 0).map(|()| bytes)
}

/// Reads a dump with zeros for lost bytes; returns the lost ranges too.
fn read_partly(set: &Set) -> (Vec<u8>, Vec<LostRange>) {
    let mut bytes = vec![0; set.len() as usize];
    let lost = set.walk(0..set.len(), &mut ReadScratch::default(), &mut |at, piece| {
        let place = &mut bytes[at as usize..][..piece.len() as usize];
        match piece {
            DumpBytes::Data(data) => place.copy_from_slice(data),
            DumpBytes::Fill { pattern, skip, .. } => crate::part::fill(pattern, skip, place),
        }
        Ok(())
    });
    (bytes, lost.unwrap())
}

fn findings(set: &Set) -> (Vec<SetFinding>, CheckedSet) {
    let mut findings = Vec::new();
    let checked = set.check(2, &Progress::default(), &mut |finding| findings.push(finding)).unwrap();
    (findings, checked)
}

fn ranges(lost: &[LostRange]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for lost in lost {
        match ranges.last_mut() {
            Some(last) if last.1 == lost.start => last.1 = lost.end,
            _ => ranges.push((lost.start, lost.end)),
        }
    }
    ranges
}

fn plan(parts: u16, parity: u16, count: u64) -> Plan {
    Plan { parts, parity, segments: mixed(count), ..Plan::default() }
}

/// Returns every choice of `k` of `0..n`.
fn choices(n: usize, k: usize) -> Vec<BTreeSet<usize>> {
    (0u32..1 << n)
        .filter(|bits| bits.count_ones() as usize == k)
        .map(|bits| (0..n).filter(|at| bits >> at & 1 == 1).collect())
        .collect()
}

#[test]
fn every_kind_of_record_is_read_back_in_every_layout() {
    for (parts, parity) in [(1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (5, 2), (6, 5)] {
        for codec in ["lz4", "zstd:3", "none"] {
            let dump = Plan { codec, ..plan(parts, parity, 9) }.build();
            let set = dump.open_all().unwrap();
            assert_eq!(set.len(), dump.bytes.len() as u64);
            assert!(read(&set).unwrap() == dump.bytes, "{parts} {parity} {codec}");
            assert_eq!(read_partly(&set), (dump.bytes, vec![]));
            let (findings, checked) = findings(&set);
            assert_eq!((findings, checked.lost), (vec![], vec![]), "{parts} {parity} {codec}");
        }
    }
}

#[test]
fn any_parts_within_the_parity_may_be_missing() {
    for (parts, parity) in [(3, 1), (4, 2), (5, 2), (6, 4)] {
        let dump = plan(parts, parity, 11).build();
        for lost in 0..=usize::from(parity) {
            for gone in choices(parts.into(), lost) {
                let set = dump.open((0..parts.into()).rev().filter(|n| !gone.contains(n))).unwrap();
                assert_eq!(set.lost(), [], "{parts} {parity} without {gone:?}");
                assert!(read(&set).unwrap() == dump.bytes, "{parts} {parity} without {gone:?}");
                let (findings, checked) = findings(&set);
                assert_eq!((findings.len(), checked.lost), (lost, vec![]), "{parts} {parity} without {gone:?}");
            }
        }
        for gone in choices(parts.into(), usize::from(parity) + 1) {
            let set = dump.open((0..parts.into()).filter(|n| !gone.contains(n))).unwrap();
            assert!(!set.lost().is_empty(), "{parts} {parity} without {gone:?}");
            let (left, lost) = read_partly(&set);
            right_or_lost(&dump, &left, &lost);
            let in_gone = |lost: &LostRange| {
                let of = |(part, _, start, end): &(usize, usize, u64, u64)| {
                    gone.contains(part) && *start < lost.end && lost.start < *end
                };
                lost.why.starts_with("part") && dump.places.iter().any(of)
            };
            let repeats = |lost: &LostRange| lost.why.contains("missing") || lost.why.contains("stripe");
            assert!(
                lost.iter().all(|lost| in_gone(lost) || repeats(lost)),
                "{parts} {parity} without {gone:?}: {lost:?}"
            );
        }
    }
}

/// Asserts that all bytes outside of lost ranges are right.
fn right_or_lost(dump: &Dump, left: &[u8], lost: &[LostRange]) {
    let mut right = 0;
    for lost in lost {
        assert!(left[right..lost.start as usize] == dump.bytes[right..lost.start as usize], "before {lost}");
        right = lost.end as usize;
    }
    assert!(left[right..] == dump.bytes[right..], "after {right}");
}

#[test]
fn lost_ranges_are_exact_to_the_byte() {
    let segments = (0..6).map(|n| vec![Chunk::Raw(noise(5000, n)), Chunk::Coded(text(3001, n))]).collect();
    let dump = Plan { parts: 3, segments, ..Plan::default() }.build();
    let set = dump.open([0, 2]).unwrap();
    let ranges: Vec<_> = set.lost().iter().map(|lost| (lost.start, lost.end)).collect();
    assert_eq!(ranges, [(8001, 16002), (32004, 40005)]);
    assert_eq!(set.lost()[0].why, "part 2 of 3 is missing");
    assert_eq!(read_partly(&set).1, set.lost());
    let mut some = [0; 10];
    set.read_exact_at(&mut some, 7991).unwrap();
    let error = set.read_exact_at(&mut some, 7992).unwrap_err().to_string();
    assert_eq!(error, "the dump lacks 1 byte at byte 8001: part 2 of 3 is missing");
    // A damaged chunk affects only itself.
    let mut parts = dump.parts.clone();
    let (part, position, start, _) = dump.places[0];
    parts[part][position + 80 + 2 * 32 + 5000 + 10] ^= 1;
    let set = open(parts).unwrap();
    let (left, lost) = read_partly(&set);
    assert_eq!((lost[0].start, lost[0].end, lost.len()), (start + 5000, start + 8001, 1));
    assert!(lost[0].why.starts_with("p0: chunk at byte 9240: "), "{}", lost[0].why);
    assert!(left[8001..] == dump.bytes[8001..] && left[..5000] == dump.bytes[..5000]);
    let (found, checked) = findings(&set);
    assert_eq!((found[0].offset, &found[0].harm), (Some(9240), &FindingHarm::Lost { start: 5000, end: 8001 }));
    assert_eq!((found.len(), checked.lost), (1, lost));
}

#[test]
fn two_copies_are_as_good_as_one() {
    // Two sets with the same id, each with the whole dump cut differently, as after an interrupted run.
    let bytes = noise(48_000, 1);
    let cut = |at: usize| bytes.chunks(at).map(|chunk| vec![Chunk::Raw(chunk.to_vec())]).collect::<Vec<_>>();
    let one = Plan { segments: cut(16_000), ..Plan::default() }.build();
    let two = Plan { segments: cut(10_000), ..Plan::default() }.build();
    let mut parts = vec![one.parts[0].clone(), one.parts[1].clone()];
    for (n, part) in two.parts.iter().enumerate() {
        // Appended to the segments of one, where a scan finds them; its own index and footer are cut off.
        let from = parts[n].len() - 8192;
        parts[n].truncate(from);
        parts[n].extend_from_slice(&part[4096..part.len() - 8192]);
    }
    let set = open(parts.clone()).unwrap();
    assert_eq!(read_partly(&set), (bytes.clone(), vec![]));
    // All chunks of the first copy are damaged; each damaged segment of the second then loses only what both lack.
    for (part, position, ..) in &one.places {
        parts[*part][position + 500] ^= 1;
    }
    let set = open(parts.clone()).unwrap();
    assert_eq!(read_partly(&set), (bytes.clone(), vec![]));
    let (found, _) = findings(&set);
    let repairable = found.iter().filter(|found| matches!(found.harm, FindingHarm::Repairable { .. })).count();
    assert_eq!(repairable, one.places.len());
    let (part, position, ..) = two.places[1];
    let moved = position + one.parts[part].len() - 8192 - 4096;
    parts[part][moved + 500] ^= 1;
    let (left, lost) = read_partly(&open(parts).unwrap());
    let ranges: Vec<_> = lost.iter().map(|lost| (lost.start, lost.end)).collect();
    assert_eq!(ranges, [(10_000, 16_000), (16_000, 20_000)]);
    assert!(left[..10_000] == bytes[..10_000] && left[20_000..] == bytes[20_000..]);
}

#[test]
fn a_flipped_byte_never_gives_wrong_data() {
    for (parts, parity) in [(2, 0), (3, 1)] {
        let segments = vec![
            vec![Chunk::Coded(text(6000, 1)), Chunk::Fill([0; 8], 9000), Chunk::Squeezed(gappy(12_000, 3), false)],
            vec![Chunk::Raw(noise(300, 2)), Chunk::Same(100, 5000)],
        ];
        let dump = Plan { parts, parity, segments, ..Plan::default() }.build();
        for part in 0..dump.parts.len() {
            for at in (0..dump.parts[part].len()).step_by(11) {
                let mut damaged = dump.parts.clone();
                damaged[part][at] ^= 1 << (at % 8);
                let set = open(damaged).unwrap();
                let (left, lost) = read_partly(&set);
                assert_eq!(left.len(), dump.bytes.len(), "byte {at} of part {part}");
                right_or_lost(&dump, &left, &lost);
                assert!(parity == 0 || lost.is_empty(), "byte {at} of part {part}: {lost:?}");
                if at % 3 == 0 {
                    let (found, checked) = findings(&set);
                    assert_eq!(ranges(&checked.lost), ranges(&lost), "byte {at} of part {part}");
                    // Except for the zeros after an index.
                    let noticed = !found.is_empty()
                        || (dump.parts[part].len() - 8192..dump.parts[part].len() - 4096).contains(&at);
                    assert!(noticed, "byte {at} of part {part} is not noticed");
                }
            }
        }
    }
}

#[test]
fn a_truncated_part_still_gives_the_data_before_the_cut() {
    for (parts, parity) in [(2, 0), (3, 1)] {
        let dump = plan(parts, parity, 8).build();
        let len = dump.parts[1].len();
        for cut in (4096..len).step_by(4096).chain([4097, len - 1, len - 4097, 12_345]) {
            let mut cuts = dump.parts.clone();
            cuts[1].truncate(cut);
            let set = open(cuts).unwrap();
            let (left, lost) = read_partly(&set);
            assert_eq!(left.len(), dump.bytes.len());
            right_or_lost(&dump, &left, &lost);
            assert!(parity == 0 || lost.is_empty(), "{cut}: {lost:?}");
            let whole = dump.places.iter().filter(|(part, position, ..)| *part == 1 && position + 4096 * 32 <= cut);
            for (_, _, start, end) in whole {
                assert!(
                    !lost.iter().any(|lost| lost.why.contains("no part") && lost.start < *end && lost.end > *start)
                );
            }
            assert!(!findings(&set).0.is_empty());
        }
        for cut in [0, 1, 4095] {
            let mut cuts = dump.parts.clone();
            cuts[1].truncate(cut);
            assert!(open(cuts).is_err(), "a file of {cut} bytes is no part");
        }
    }
}

#[test]
fn files_that_form_no_set_are_refused_by_name() {
    let one = plan(2, 0, 4).build();
    let two = Plan { set: 8, ..plan(2, 0, 4) }.build();
    let refused = |parts: Vec<Vec<u8>>| open(parts).unwrap_err().to_string();
    assert_eq!(refused(vec![one.parts[0].clone(), two.parts[1].clone()]), "p1: belongs to another dump than p0");
    assert_eq!(
        refused(vec![one.parts[1].clone(), one.parts[1].clone()]),
        "p1: is part 2 of the dump, as p0 is; name each part once"
    );
    assert_eq!(refused(vec![]), "parts 0: at least one is needed");
    assert_eq!(refused(vec![b"hello".to_vec()]), "p0: superblock at byte 0: 5 bytes instead of 4096");
    assert_eq!(refused(vec![one.parts[0].clone(), noise(9000, 1)]), "p1: superblock at byte 0: not a part of a dump");
}

#[test]
fn parts_without_superblock_index_or_footer_are_read() {
    for (sized, told) in [(true, true), (false, false), (true, false)] {
        let dump = Plan { sized, told, ..plan(3, 0, 9) }.build();
        let index = |part: usize| dump.parts[part].len() - 8192;
        let damaged = |at: [Option<usize>; 3]| {
            let mut parts = dump.parts.clone();
            for (part, at) in parts.iter_mut().zip(at) {
                if let Some(at) = at {
                    part[at] ^= 1;
                }
            }
            open(parts).unwrap()
        };
        let footer = |part: usize| index(part) + 4096;
        let cases = [
            [Some(2000), None, None],
            [Some(8), Some(0), None],
            [Some(index(0) + 3), Some(index(1) + 200), None],
            [Some(footer(0)), Some(footer(1) + 500), None],
            [None, Some(footer(1)), Some(index(2) + 90)],
        ];
        for case in cases {
            let set = damaged(case);
            assert!(read(&set).unwrap() == dump.bytes, "{case:?}");
            assert_eq!((set.missing(), set.open_end()), (vec![], None), "{case:?}");
            let (found, checked) = findings(&set);
            assert_eq!((found.len(), checked.lost), (case.iter().flatten().count(), vec![]), "{case:?}: {found:?}");
        }
        let all_torn = damaged([Some(footer(0)), Some(footer(1)), Some(footer(2))]);
        assert_eq!(all_torn.open_end().is_none(), sized);
        assert!(read(&all_torn).unwrap() == dump.bytes);
    }
}

/// Bytes of which a range cannot be read.
#[derive(Debug)]
struct BadSectors(Vec<u8>, Range<u64>);

impl ReadAt for BadSectors {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let end = offset.saturating_add(buf.len() as u64).min(self.len());
        if offset < self.1.end && self.1.start < end {
            return Err(std::io::Error::from_raw_os_error(libc::EIO));
        }
        self.0.read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        ReadAt::len(&self.0)
    }
}

/// Opens a set of parts, the first of which has a page that cannot be read.
fn open_with_bad_page(mut parts: Vec<Vec<u8>>, at: usize) -> Result<Set> {
    let first = BadSectors(parts.remove(0), at as u64..at as u64 + 4096);
    let mut sources = vec![(PathBuf::from("p0"), Arc::new(first) as Arc<dyn ReadAt>)];
    for (part, n) in parts.into_iter().zip(1..) {
        sources.push((PathBuf::from(format!("p{n}")), Arc::new(part)));
    }
    Set::from_sources(sources, &SetOptions { cache_bytes: 1 << 20 })
}

#[test]
fn what_a_disk_cannot_read_is_damage_like_any_other() {
    let plain = plan(2, 0, 8).build();
    let protected = plan(3, 1, 8).build();
    let len = |dump: &Dump| dump.parts[0].len();
    // No other segment refers to this one.
    let (part, position, start, end) = plain.places[4];
    assert_eq!(part, 0);
    let mut unfinished = plain.clone();
    let index = len(&plain) - 8192;
    unfinished.parts[0].truncate(index);
    let cases = [
        ("index", &plain, index, vec![]),
        ("footer", &plain, index + 4096, vec![]),
        ("segment", &unfinished, position, vec![(start, end)]),
        ("superblock", &protected, 0, vec![]),
        ("index", &protected, len(&protected) - 8192, vec![]),
    ];
    for (what, dump, at, lost) in cases {
        let set = open_with_bad_page(dump.parts.clone(), at).unwrap();
        let (left, found) = read_partly(&set);
        assert_eq!(ranges(&found), lost, "{what}");
        right_or_lost(dump, &left, &found);
        let (found, checked) = findings(&set);
        assert!(!found.is_empty() && ranges(&checked.lost) == lost, "{what}: {found:?}");
    }
    let alone = open_with_bad_page(vec![protected.parts[0].clone()], 0).unwrap_err();
    assert_eq!(alone.to_string(), "p0: cannot read: Input/output error (os error 5)");
}

#[test]
fn an_input_that_ended_early_has_no_end() {
    let early = Plan { complete: false, ..plan(2, 0, 4) }.build().open_all().unwrap();
    assert!(early.open_end().is_some() && early.lost().is_empty());
    assert!(!early.info().restorable);
    let known = Plan { complete: false, sized: true, ..plan(2, 0, 4) }.build().open_all().unwrap();
    assert!(known.open_end().is_none() && known.info().restorable);
}

#[test]
fn references_are_never_followed_twice() {
    // One that refers to a reference, one that refers to later bytes.
    let chained = vec![vec![Chunk::Raw(noise(100, 1)), Chunk::Same(0, 50), Chunk::Same(100, 40)]];
    let dump = Plan { parts: 1, segments: chained, ..Plan::default() }.build();
    let set = dump.open_all().unwrap();
    let (_, lost) = read_partly(&set);
    assert_eq!(lost.iter().map(|lost| (lost.start, lost.end)).collect::<Vec<_>>(), [(150, 190)]);
    assert_eq!(lost[0].why, "it refers to bytes that are a reference themselves");
    let segments = vec![vec![Chunk::Raw(noise(100, 1)), Chunk::Same(0, 100)]];
    for target in [1, 100, 150, u64::MAX] {
        let mut part = Plan { parts: 1, segments: segments.clone(), ..Plan::default() }.build().parts.remove(0);
        let at = 4096 + 80 + 64 + 100;
        part[at..at + 8].copy_from_slice(&target.to_le_bytes());
        let (_, lost) = read_partly(&open([part]).unwrap());
        assert_eq!(lost.iter().map(|lost| (lost.start, lost.end)).collect::<Vec<_>>(), [(100, 200)], "{target}");
    }
}

#[test]
fn extents_and_info_describe_the_set() {
    let segments = vec![
        vec![Chunk::Raw(noise(1000, 1)), Chunk::Fill([0; 8], 5000)],
        vec![Chunk::Fill([0; 8], 3000), Chunk::Fill(*b"abcdefgh", 1003)],
        vec![Chunk::Fill(*b"defghabc", 500), Chunk::Coded(text(2000, 1)), Chunk::Raw(noise(10, 2))],
    ];
    let dump = Plan { parts: 3, segments, ..Plan::default() }.build();
    let extents =
        |set: &Set| set.extents().map(|extent| (extent.start, extent.end, extent.content)).collect::<Vec<_>>();
    let data = ExtentContent::Data;
    let zeros = ExtentContent::Fill([0; 8]);
    let fill = ExtentContent::Fill(*b"abcdefgh");
    let all = [(0, 1000, data), (1000, 9000, zeros), (9000, 10_503, fill), (10_503, 12_513, data)];
    let set = dump.open_all().unwrap();
    assert_eq!(extents(&set), all);
    let info = set.info();
    assert_eq!((info.size, info.fill_bytes, info.zero_bytes, info.restorable), (12_513, 9503, 8000, true));
    assert_eq!((info.codec.as_str(), info.set.as_str()), ("lz4", "07".repeat(16).as_str()));
    let less = dump.open([2, 0]).unwrap();
    let some = [(0, 1000, data), (1000, 6000, zeros), (6000, 10_003, ExtentContent::Lost)];
    assert_eq!(extents(&less)[..3], some);
    let info = less.info();
    assert_eq!((info.restorable, info.lost.len(), info.parts.len()), (false, 1, 3));
    let one = &info.parts[1];
    assert_eq!((one.number, one.status, one.segments, &one.path), (Some(2), PartStatus::Missing, Some(1), &None));
    assert_eq!(info.parts[2].status, PartStatus::Whole);
}

#[test]
fn small_reads_at_the_end_and_beyond() {
    let dump = plan(2, 0, 4).build();
    let set = dump.open_all().unwrap();
    let mut buf = [9; 100];
    assert_eq!(set.read_at(&mut buf, set.len() - 10).unwrap(), 10);
    assert_eq!(buf[..10], dump.bytes[dump.bytes.len() - 10..]);
    assert_eq!(set.read_at(&mut buf, set.len()).unwrap(), 0);
    assert_eq!(set.read_at(&mut buf, u64::MAX).unwrap(), 0);
    let empty = Plan::default().build().open_all().unwrap();
    assert_eq!((empty.len(), empty.read_at(&mut buf, 0).unwrap(), empty.info().restorable), (0, 0, true));
}

/// Any records, in any number of segments.
fn any_segments() -> impl Strategy<Value = Vec<Vec<Chunk>>> {
    let len = 1usize..CHUNK as usize;
    let chunk = prop_oneof![
        (len.clone(), any::<u64>()).prop_map(|(len, seed)| Chunk::Raw(noise(len, seed))),
        (100..CHUNK as usize, any::<u64>()).prop_map(|(len, seed)| Chunk::Coded(text(len, seed))),
        (len, any::<u64>()).prop_map(|(len, seed)| Chunk::Squeezed(gappy(len, seed), false)),
        (8192..CHUNK as usize, any::<u64>())
            .prop_map(|(len, seed)| Chunk::Squeezed([vec![0; 4096], text(len - 4096, seed)].concat(), true)),
        (any::<[u8; 8]>(), 1u64..40_000).prop_map(|(pattern, len)| Chunk::Fill(pattern, len)),
        (1u64..60_000).prop_map(|len| Chunk::Fill([0; 8], len)),
    ];
    proptest::collection::vec(proptest::collection::vec(chunk, 0..5), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Any mix of records in any number of parts, with any parts missing that parity can replace, at any offset.
    #[test]
    fn any_records_are_read_back(
        segments in any_segments(), parts in 1u16..6, parity in 0u16..5, gone in any::<u32>(),
        reads in proptest::collection::vec((any::<u64>(), 0usize..50_000), 1..10),
    ) {
        let parity = parity.min(parts - 1);
        let dump = Plan { parts, parity, segments, ..Plan::default() }.build();
        let mut kept: Vec<usize> = (0..usize::from(parts)).collect();
        for n in 0..usize::from(parity) {
            kept.remove(gone as usize % (n + 1) % kept.len());
        }
        let set = dump.open(kept).unwrap();
        prop_assert_eq!(set.len(), dump.bytes.len() as u64);
        prop_assert!(read(&set).unwrap() == dump.bytes);
        prop_assert!(read_partly(&set) == (dump.bytes.clone(), vec![]));
        for (at, len) in reads {
            let at = at % (set.len() + 1);
            let mut buf = vec![0; len];
            let got = set.read_at(&mut buf, at).unwrap();
            let want = &dump.bytes[at as usize..(at as usize + len).min(dump.bytes.len())];
            prop_assert!(&buf[..got] == want);
        }
    }

    /// Several parts damaged at random places: right bytes or an error.
    #[test]
    fn damage_is_never_read(
        damage in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..12), parity in 0u16..3,
    ) {
        let dump = plan(4, parity, 10).build();
        let mut parts = dump.parts.clone();
        for (at, bits) in damage {
            let part = &mut parts[at as usize % 4];
            let at = at as usize / 4 % part.len();
            part[at] ^= bits;
        }
        if let Ok(set) = open(parts) {
            let (left, lost) = read_partly(&set);
            if set.len() == dump.bytes.len() as u64 {
                right_or_lost(&dump, &left, &lost);
            } else {
                prop_assert!(set.open_end().is_some());
            }
            prop_assert_eq!(ranges(&findings(&set).1.lost), ranges(&lost));
        }
    }
}
