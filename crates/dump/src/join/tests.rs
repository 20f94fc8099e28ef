//! Joins into files with holes, onto a device and through a pipe, with and without damage.
#![allow(clippy::cast_possible_truncation, reason = "numbers in tests are small")]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::io::faults::{FaultKind, FaultyFiles};

use super::*;
use crate::set::testing::{Chunk, Dump, Plan, gappy, mixed, noise, text};

fn options(threads: usize, partial: bool) -> JoinOptions {
    JoinOptions { threads, memory: 8 << 20, partial, ..JoinOptions::default() }
}

fn to_file(set: &Set, path: &Path, options: &JoinOptions) -> Result<JoinReport> {
    let out = Output::create(path, 0o600, false).unwrap();
    let report = to_output(set, &out, options, &Progress::default())?;
    out.commit().unwrap();
    Ok(report)
}

fn to_bytes(set: &Set, options: &JoinOptions) -> (Vec<u8>, Result<JoinReport>) {
    let mut bytes = Vec::new();
    let report = to_stream(set, &mut bytes, options, &Progress::default());
    (bytes, report)
}

/// A dump that is mostly zeros, in every form.
fn sparse() -> Dump {
    let segment = |n: u64| {
        vec![
            Chunk::Fill([0; 8], 5 << 20),
            Chunk::Raw(noise(4096, n)),
            Chunk::Squeezed([vec![0; 12288], noise(4096, n)].concat(), false),
            Chunk::Fill(*b"abcdefgh", 700_000),
        ]
    };
    Plan { parts: 3, parity: 1, segments: (0..5).map(segment).collect(), ..Plan::default() }.build()
}

#[test]
fn files_and_streams_equal_the_dump_for_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    for (name, dump) in [("mixed", Plan { segments: mixed(13), ..Plan::default() }.build()), ("sparse", sparse())] {
        for threads in [0, 1, 3] {
            let path = dir.path().join(format!("{name}.{threads}"));
            let set = dump.open_all().unwrap();
            let report = to_file(&set, &path, &options(threads, false)).unwrap();
            assert!(std::fs::read(&path).unwrap() == dump.bytes, "{name}, {threads} threads");
            assert_eq!((report.size, report.lost), (dump.bytes.len() as u64, vec![]));
            let (bytes, report) = to_bytes(&set, &options(threads, false));
            report.unwrap();
            assert!(bytes == dump.bytes, "{name}, {threads} threads");
        }
    }
    let empty = Plan::default().build().open_all().unwrap();
    to_file(&empty, &dir.path().join("empty"), &options(2, false)).unwrap();
    assert_eq!(std::fs::metadata(dir.path().join("empty")).unwrap().len(), 0);
}

#[test]
fn zeros_come_back_as_holes() {
    let dir = tempfile::tempdir().unwrap();
    let dump = sparse();
    let path = dir.path().join("sparse");
    let report = to_file(&dump.open_all().unwrap(), &path, &options(2, false)).unwrap();
    // 5 MiB and 12 KiB of zeros per segment.
    assert_eq!(report.hole_bytes, 5 * ((5 << 20) + 12288));
    let on_disk = std::fs::metadata(&path).unwrap().blocks() * 512;
    assert!(on_disk < 6 << 20, "{on_disk} bytes of {} on disk", dump.bytes.len());
}

#[test]
fn lost_ranges_stop_a_join_or_stay_zero() {
    let dir = tempfile::tempdir().unwrap();
    let segments = (0..6).map(|n| vec![Chunk::Raw(noise(5000, n)), Chunk::Coded(text(3000, n))]).collect();
    let dump = Plan { parts: 3, segments, ..Plan::default() }.build();
    let set = dump.open([2, 0]).unwrap();
    let path = dir.path().join("out");
    let error = to_file(&set, &path, &options(2, false)).unwrap_err();
    let lost = "part 2 of 3 is missing";
    let told =
        format!("15.6 KiB of the dump are lost\n  7.81 KiB at byte 8000: {lost}\n  7.81 KiB at byte 32000: {lost}");
    assert_eq!(error.to_string(), told);
    assert!(!path.exists());
    let mut expected = dump.bytes.clone();
    expected[8000..16_000].fill(0);
    expected[32_000..40_000].fill(0);
    let report = to_file(&set, &path, &options(2, true)).unwrap();
    assert!(std::fs::read(&path).unwrap() == expected);
    assert_eq!((report.lost.clone(), report.hole_bytes), (set.lost(), 0));
    let (bytes, report) = to_bytes(&set, &options(2, true));
    assert!(bytes == expected && report.unwrap().lost == set.lost());
    let (bytes, report) = to_bytes(&set, &options(2, false));
    assert!(bytes.is_empty() && report.is_err());
}

#[test]
fn damage_found_on_the_way_is_reported_in_full() {
    let dir = tempfile::tempdir().unwrap();
    let segments = (0..6).map(|n| vec![Chunk::Raw(noise(5000, n)), Chunk::Coded(text(3000, n))]).collect();
    let mut dump = Plan { parts: 1, segments, ..Plan::default() }.build();
    for n in [1, 4] {
        dump.parts[0][dump.places[n].1 + 200] ^= 1;
    }
    let set = dump.open_all().unwrap();
    let path = dir.path().join("out");
    let Err(Error::Incomplete { lost, open_end: None }) = to_file(&set, &path, &options(1, false)) else { panic!() };
    let ranges: Vec<_> = lost.iter().map(|lost| (lost.start, lost.end)).collect();
    assert_eq!((ranges, path.exists()), (vec![(8000, 13_000), (32_000, 37_000)], false));
    assert_eq!(to_file(&set, &path, &options(3, true)).unwrap().lost, lost);
    let (bytes, report) = to_bytes(&set, &options(3, false));
    assert!(bytes == dump.bytes[..8000] && report.is_err());
}

#[test]
fn a_dump_without_an_end_is_only_joined_in_part() {
    let plan = Plan { complete: false, segments: mixed(3), ..Plan::default() };
    let set = plan.build().open_all().unwrap();
    let (_, refused) = to_bytes(&set, &options(1, false));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the end of the dump is missing: writing ended before the end of the input"
    );
    let (bytes, report) = to_bytes(&set, &options(1, true));
    assert!(bytes == plan.build().bytes && report.unwrap().lost.is_empty());
}

#[test]
fn ranges_need_only_their_own_bytes() {
    let segments = (0..4).map(|n| vec![Chunk::Squeezed(gappy(16_000, n), false)]).collect();
    let dump = Plan { parts: 2, segments, ..Plan::default() }.build();
    let set = dump.open([0]).unwrap();
    let range = |range: Range<u64>| {
        let mut out = Vec::new();
        range_to_stream(&set, range, &mut out, &options(2, false), &Progress::default()).map(|_| out)
    };
    assert!(range(100..16_000).unwrap() == dump.bytes[100..16_000]);
    assert!(range(32_000..48_000).unwrap() == dump.bytes[32_000..48_000]);
    assert!(range(5..5).unwrap().is_empty());
    let Err(Error::Incomplete { lost, .. }) = range(15_999..16_001) else { panic!() };
    assert_eq!((lost[0].start, lost[0].end, lost.len()), (16_000, 32_000, 1));
}

#[test]
fn whichever_write_fails_the_file_is_whole_or_absent() {
    let dir = tempfile::tempdir().unwrap();
    let dump = sparse();
    let set = dump.open_all().unwrap();
    let path = dir.path().join("dump");
    for (threads, fault) in [0, 3].into_iter().flat_map(|threads| FaultKind::ALL.map(|fault| (threads, fault))) {
        for number in 0.. {
            let faults = FaultyFiles::failing(number, fault);
            let join = || {
                let failed = || Error::io("cannot write", &path);
                let out = Output::create_on(Arc::new(faults.clone()), &path, 0o600, false).map_err(failed())?;
                to_output(&set, &out, &options(threads, false), &Progress::default())?;
                out.commit().map_err(failed())
            };
            let joined: Result<()> = join();
            let what = format!("{fault:?} in operation {number}, {:?}, {threads} threads", faults.failed());
            let failed = faults.failed();
            assert_eq!(matches!(joined, Err(Error::Io { .. })), failed.is_some(), "{what}: {joined:?}");
            // The file already has its name when its directory is flushed.
            let whole = failed.is_none() || failed == Some("flush the directory");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), usize::from(whole), "{what}");
            if whole {
                assert!(std::fs::read(&path).unwrap() == dump.bytes, "{what}");
                std::fs::remove_file(&path).unwrap();
            }
            if failed.is_none() {
                assert!(number > 8, "{what}");
                break;
            }
        }
    }
}
