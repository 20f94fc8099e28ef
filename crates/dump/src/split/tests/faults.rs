//! Parts and inputs that fail while a dump is split.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use packfs_blocks::io::faults::{FaultKind, FaultyFiles};
use packfs_blocks::io::loop_device::LoopDevice;
use packfs_blocks::testing::noise;
use xxhash_rust::xxh3::Xxh3;

use super::*;
use crate::input::hash_samples;
use crate::part::{PartSuperblock, read_segment};
use crate::{Set, join, set};

/// Reads a FIFO into a file, at most `len` bytes, starting when `begin` returns.
fn drink(fifo: PathBuf, into: PathBuf, len: u64, begin: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut from = File::open(fifo).unwrap().take(len);
        begin();
        std::io::copy(&mut from, &mut File::create(into).unwrap()).unwrap();
    })
}

/// Waits until the files have a total length of `len` bytes.
fn until_written(files: &[PathBuf], len: u64) {
    let written = || files.iter().map(|file| file.metadata().map_or(0, |stat| stat.len())).sum::<u64>();
    let begun = Instant::now();
    while written() < len {
        assert!(begun.elapsed() < Duration::from_secs(60), "held up at {} of {len} bytes", written());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn setup(pages: usize) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(pages, 77);
    let input = dir.path().join("input");
    std::fs::write(&input, &bytes).unwrap();
    (dir, input, bytes)
}

#[test]
fn a_part_on_a_full_disk_is_retired_and_the_others_continue() {
    let (dir, input, bytes) = setup(2000);
    for parity in [0, 1] {
        let mut parts = names(dir.path(), 3);
        parts[1] = "/dev/full".into();
        let given = SplitOptions { parity, force: true, ..options("none") };
        let report = run(&input, &parts, &given).unwrap();
        assert!(!report.is_clean() && report.complete, "{report:?}");
        let failed: Vec<_> = report.parts.iter().map(|part| part.error.is_some()).collect();
        assert_eq!(failed, [false, true, false]);
        assert!(report.parts[1].error.as_ref().unwrap().contains("No space left"));
        parts.remove(1);
        assert!(restore(&parts, report.bytes).unwrap() == bytes);
    }
}

#[test]
fn with_no_part_left_the_error_names_them() {
    let (_dir, input, _) = setup(100);
    let error = run(&input, &["/dev/full".into()], &options("lz4")).unwrap_err();
    assert!(matches!(error, Error::NoPartLeft { .. }));
    assert!(error.to_string().contains("/dev/full: No space left"), "{error}");
}

#[test]
fn a_reader_that_goes_away_loses_nothing_if_the_input_can_be_read_again() {
    let (dir, input, bytes) = setup(3000);
    let [fifo, later, kept, rest] = ["fifo", "later", "kept", "rest"].map(|name| dir.path().join(name));
    mkfifo(&fifo);
    mkfifo(&later);
    let parts = [later.clone(), fifo.clone()];
    let leaves = drink(fifo, kept.clone(), 900_001, || ());
    // The other part takes nothing before; otherwise it could take everything while the reader
    // waits to be scheduled.
    let stays = {
        let rest = rest.clone();
        std::thread::spawn(move || {
            let mut from = File::open(later).unwrap();
            leaves.join().unwrap();
            std::io::copy(&mut from, &mut File::create(rest).unwrap()).unwrap();
        })
    };
    let report = run(&input, &parts, &options("none")).unwrap();
    stays.join().unwrap();
    assert!(report.complete && report.parts[1].error.is_some(), "{report:?}");
    assert!(restore(&[rest, kept], report.bytes).unwrap() == bytes);
}

#[test]
fn a_slow_part_does_not_hold_up_the_others() {
    let (dir, input, bytes) = setup(6000);
    let alone = run(&input, &[dir.path().join("alone")], &options("none")).unwrap();
    let stored = alone.parts[0].bytes;
    for parity in [0, 1] {
        let mut parts = names(dir.path(), 3);
        let fifo = dir.path().join(format!("fifo{parity}"));
        let kept = dir.path().join("kept");
        mkfifo(&fifo);
        // The slow part hangs until the others have most of the dump.
        let others = parts[1..].to_vec();
        let most = stored * 4 / 5;
        let reader = drink(fifo.clone(), kept.clone(), u64::MAX, move || until_written(&others, most));
        parts[0] = fifo;
        let given = SplitOptions { parity, force: true, ..options("none") };
        let report = run(&input, &parts, &given).unwrap();
        reader.join().unwrap();
        assert!(report.is_clean(), "{report:?}");
        parts[0] = kept;
        assert!(restore(&parts, report.bytes).unwrap() == bytes);
        assert!(stripes(&parts).values().all(reader::Stripe::is_whole));
    }
}

#[test]
fn a_shrinking_input_is_reported_and_its_data_kept() {
    /// Claims to be longer than it is, like a file that was truncated after its length was read.
    #[derive(Debug)]
    struct Cut(Vec<u8>, u64);
    impl ReadAt for Cut {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
            self.0.read_at(buf, offset)
        }
        fn len(&self) -> u64 {
            self.1
        }
    }
    impl Source for Cut {
        fn fingerprint(&self) -> std::io::Result<u64> {
            Ok(1)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    for (at, parity) in [(1_000_003, 0), (65_536 * 10, 0), (0, 0), (777_777, 1)] {
        let bytes = memory(400, 3)[..at].to_vec();
        let parts = names(dir.path(), 2);
        let input = Input::from_source("shrinking", Arc::new(Cut(bytes.clone(), 5 << 20)));
        let given = SplitOptions { force: true, parity, ..options("lz4") };
        let report = split(input, &parts, &given, &Progress::default()).unwrap();
        assert!(!report.is_clean() && report.bytes == at as u64, "{report:?}");
        assert!(report.input_error.unwrap().contains("ends earlier"));
        assert!(restore(&parts, at as u64).unwrap() == bytes);
    }
}

#[test]
fn an_unreadable_input_is_reported_with_its_offset() {
    #[derive(Debug)]
    struct Bad(Vec<u8>);
    impl ReadAt for Bad {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
            if offset >= 10 << 16 {
                return Err(std::io::Error::from_raw_os_error(libc::EIO));
            }
            self.0.read_at(buf, offset)
        }
        fn len(&self) -> u64 {
            ReadAt::len(&self.0)
        }
    }
    impl Source for Bad {
        fn fingerprint(&self) -> std::io::Result<u64> {
            let mut hasher = Xxh3::new();
            hash_samples(&mut hasher, self);
            Ok(hasher.digest())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(1000, 3);
    let parts = names(dir.path(), 2);
    let input = Input::from_source("bad", Arc::new(Bad(bytes.clone())));
    let report = split(input, &parts, &options("lz4"), &Progress::default()).unwrap();
    let said = report.input_error.clone().unwrap();
    assert!(said.contains("655360") && said.contains("Input/output error"), "{said}");
    assert!(restore(&parts, 10 << 16).unwrap() == bytes[..10 << 16]);
}

#[test]
fn an_input_written_to_meanwhile_is_reported() {
    let (dir, input, bytes) = setup(100);
    let opened = Input::open(&input).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let longer = OpenOptions::new().append(true).open(&input).unwrap();
    Write::write_all(&mut &longer, b"more").unwrap();
    let parts = names(dir.path(), 1);
    let report = split(opened, &parts, &options("lz4"), &Progress::default()).unwrap();
    assert!(!report.is_clean() && report.input_error.unwrap().contains("bytes and has"));
    assert!(restore(&parts, bytes.len() as u64).unwrap() == bytes);
}

#[test]
fn whichever_write_fails_nothing_is_lost() {
    for (count, parity) in [(1, 0), (2, 0), (3, 1)] {
        let dir = tempfile::tempdir().unwrap();
        let parts = names(dir.path(), count);
        let remove = |part: &PathBuf| drop(std::fs::remove_file(part));
        nothing_is_lost(&parts, &SplitOptions { parity, ..options("none") }, &remove);
    }
}

#[test]
fn whichever_direct_write_fails_nothing_is_lost() {
    const TEST: &str = "whichever_direct_write_fails_nothing_is_lost";
    let (dir, input, _) = setup(400);
    let given = SplitOptions { direct: true, ..options("none") };
    let report = run(&input, &names(dir.path(), 2), &SplitOptions { force: true, ..given.clone() }).unwrap();
    if !is_direct(&report) {
        return skipped(TEST, &report.notes.join(", "));
    }
    for (count, parity) in [(1, 0), (3, 1)] {
        let dir = tempfile::tempdir().unwrap();
        let parts = names(dir.path(), count);
        let remove = |part: &PathBuf| drop(std::fs::remove_file(part));
        nothing_is_lost(&parts, &SplitOptions { parity, ..given.clone() }, &remove);
    }
}

#[test]
fn whichever_write_to_a_device_fails_nothing_is_lost() {
    const TEST: &str = "whichever_write_to_a_device_fails_nothing_is_lost";
    const LEN: u64 = 2 << 20;
    let dir = tempfile::tempdir().unwrap();
    let files = names(dir.path(), 3);
    files.iter().for_each(|file| File::create(file).unwrap().set_len(LEN).unwrap());
    let devices: Option<Vec<_>> = files.iter().map(|file| LoopDevice::attach(file)).collect();
    let Some(devices) = devices else { return skipped(TEST, "no loop device is available") };
    let parts: Vec<_> = devices.iter().map(|device| device.path().to_owned()).collect();
    let clear = |part: &PathBuf| {
        std::fs::OpenOptions::new().write(true).open(part).unwrap().write_all(&vec![0; 1 << 20]).unwrap()
    };
    for (count, parity, direct) in [(1, 0, false), (2, 0, true), (3, 1, false), (3, 1, true)] {
        let given = SplitOptions { parity, direct, force: true, ..options("none") };
        nothing_is_lost(&parts[..count], &given, &clear);
    }
}

/// Reports that a test cannot run, or fails if none may be skipped.
fn skipped(test: &str, why: &str) {
    assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{test}: {why}");
    eprintln!("SKIPPED {test}: {why}");
}

/// Returns true if no part that should bypass the cache went through it.
fn is_direct(report: &SplitReport) -> bool {
    !report.notes.iter().any(|note| note.contains("cannot be written directly"))
}

/// Splits with each operation failing in turn, into parts that `clear` empties.
fn nothing_is_lost(parts: &[PathBuf], given: &SplitOptions, clear: &dyn Fn(&PathBuf)) {
    let (_dir, input, bytes) = setup(400);
    let given = SplitOptions { checkpoint: 1 << 19, ..given.clone() };
    for fault in FaultKind::ALL {
        for number in 0.. {
            parts.iter().for_each(clear);
            let faults = FaultyFiles::failing(number, fault);
            let done = split_on(&faults, Input::open(&input).unwrap(), parts, &given, &Progress::default());
            let what = format!("{fault:?} in operation {number}, {:?}, {} parts", faults.failed(), parts.len());
            if faults.failed().is_none() {
                let report = done.unwrap();
                assert!(report.is_clean() && is_direct(&report) && number >= 8, "{what}: {report:?}");
                break;
            }
            match done {
                // One part failed, and the others have everything.
                Ok(report) => {
                    assert!(!report.is_clean() && report.complete, "{what}: {report:?}");
                    assert!(joined(parts).unwrap() == bytes, "{what}");
                    if given.parity > 0 && report.weak_stripes == 0 {
                        any_part_may_be_lost(parts, &bytes, &what);
                    }
                }
                Err(error) => {
                    assert!(matches!(error, Error::NoPartLeft { .. } | Error::Io { .. }), "{what}: {error}")
                }
            }
            // The result can be resumed, or is complete.
            let resumed = run(&input, parts, &SplitOptions { resume: true, force: false, ..given.clone() });
            let report = match resumed {
                // No part confirms that these are the right devices.
                Err(Error::Exists { device: true, .. }) => run(&input, parts, &given),
                resumed => resumed,
            };
            let report = report.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(report.is_clean(), "{what}: {report:?}");
            assert!(joined(parts).unwrap() == bytes, "{what}");
            if given.parity > 0 {
                any_part_may_be_lost(parts, &bytes, &format!("{what}, resumed"));
            }
        }
    }
}

fn any_part_may_be_lost(parts: &[PathBuf], bytes: &[u8], what: &str) {
    for lost in 0..parts.len() {
        let mut left = parts.to_vec();
        left.remove(lost);
        assert!(joined(&left).is_ok_and(|dump| dump == bytes), "{what}, without part {lost}");
    }
}

/// Joins the dump from those parts that were begun.
fn joined(parts: &[PathBuf]) -> Result<Vec<u8>> {
    let begun = |part: &&PathBuf| {
        let mut first = [0; 4096];
        File::open(part).is_ok_and(|file| file.read_at(&mut first, 0).is_ok()) && first != [0; 4096]
    };
    let begun: Vec<_> = parts.iter().filter(begun).collect();
    let set = Set::open(&begun, &set::SetOptions::default())?;
    let mut bytes = Vec::new();
    let options = join::JoinOptions { threads: 0, memory: 16 << 20, partial: false, ..join::JoinOptions::default() };
    join::to_stream(&set, &mut bytes, &options, &Progress::default())?;
    Ok(bytes)
}

/// Returns the length of the first segment of a part.
fn first_segment_len(part: &Path) -> u64 {
    let bytes = std::fs::read(part).unwrap();
    let superblock = PartSuperblock::parse(&bytes).unwrap();
    read_segment(&bytes, &superblock, 4096, &mut Vec::new()).unwrap().unwrap().len()
}

#[test]
fn equal_chunks_do_not_refer_to_lost_ones() {
    const LEN: usize = 3 << 20;
    let dir = tempfile::tempdir().unwrap();
    let [input, fifo, later, kept, rest] = ["input", "fifo", "later", "kept", "rest"].map(|name| dir.path().join(name));
    [&input, &fifo, &later].into_iter().for_each(|path| mkfifo(path));
    let twice = noise(LEN, 1);
    // More than can be on its way from the input to the parts.
    let between = noise(24 << 20, 2);
    let bytes = [&twice[..], &between, &twice].concat();
    let given = SplitOptions { dedup: true, ..options("none") };
    std::fs::write(&rest, &twice).unwrap();
    let parts = names(dir.path(), 2);
    run(&rest, &parts, &given).unwrap();
    let len = first_segment_len(&parts[0]);
    // The second segment was written when its last byte is lost in the pipe.
    let leaves = drink(fifo.clone(), kept.clone(), 4096 + 2 * len - 1, || ());
    let stays = {
        let later = later.clone();
        let rest = rest.clone();
        std::thread::spawn(move || {
            let mut from = File::open(later).unwrap();
            leaves.join().unwrap();
            std::io::copy(&mut from, &mut File::create(rest).unwrap()).unwrap();
        })
    };
    let writes = {
        let input = input.clone();
        let bytes = bytes.clone();
        std::thread::spawn(move || {
            let mut into = OpenOptions::new().write(true).open(input).unwrap();
            let (before, again) = bytes.split_at(bytes.len() - LEN);
            Write::write_all(&mut into, before).unwrap();
            // The thread of the part whose reader left needs only to be scheduled to notice that.
            std::thread::sleep(Duration::from_millis(200));
            Write::write_all(&mut into, again).unwrap();
        })
    };
    let report = run(&input, &[later, fifo], &given).unwrap();
    writes.join().unwrap();
    stays.join().unwrap();
    assert!(report.parts[1].error.is_some() && report.chunks.same_bytes > 0, "{report:?}");
    let set = Set::open(&[rest, kept], &set::SetOptions::default()).unwrap();
    let options = join::JoinOptions { partial: true, ..join::JoinOptions::default() };
    let mut restored = Vec::new();
    let joined = join::to_stream(&set, &mut restored, &options, &Progress::default()).unwrap();
    let place = |start: u64, end: u64| usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
    let mut expected = bytes;
    report.suspect.iter().for_each(|(start, end)| expected[place(*start, *end)].fill(0));
    assert!(!joined.lost.is_empty());
    for lost in &joined.lost {
        let is_told = expected[place(lost.start, lost.end)].iter().all(|byte| *byte == 0);
        assert!(is_told, "{lost} is lost, but only {:?} may be", report.suspect);
    }
    report.suspect.iter().for_each(|(start, end)| restored[place(*start, *end)].fill(0));
    assert!(restored == expected);
}
