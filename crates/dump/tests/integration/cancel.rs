//! Dump operations that are cancelled at every read: each ends with a distinct error or has already
//! finished. A split can be resumed; a join leaves the target unchanged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use packfs_blocks::{Output, Progress, ReadAt};
use packfs_dump::{Error, Input, Result, Set, Source, SplitOptions, join, set, split};

/// Bytes that cancel the operation that reads them, at a given read.
#[derive(Debug)]
struct Alarm {
    bytes: Vec<u8>,
    left: AtomicUsize,
    progress: Progress,
}

impl Alarm {
    /// Makes an alarm that does not go off by itself.
    fn new(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Alarm { bytes: bytes.to_vec(), left: AtomicUsize::new(usize::MAX), progress: Progress::default() })
    }

    fn after(&self, reads: usize) {
        self.left.store(reads, Ordering::Relaxed);
    }
}

impl ReadAt for Alarm {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.progress.cancel();
        }
        self.bytes.read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl Source for Alarm {
    fn fingerprint(&self) -> io::Result<u64> {
        Ok(7)
    }
}

/// Makes bytes of which some are compressible and some are not.
fn memory() -> Vec<u8> {
    (0..1_200_000u32).flat_map(|n| (n.wrapping_mul(n >> (n >> 15 & 7)) >> 9).to_le_bytes()).collect()
}

fn options(threads: usize) -> SplitOptions {
    SplitOptions::default().set(|all| {
        all.chunk = 1 << 16;
        all.threads = threads;
        all.memory = 17 << 20;
        all.checkpoint = 1 << 20;
    })
}

fn names(dir: &Path, count: usize) -> Vec<PathBuf> {
    (0..count).map(|n| dir.join(format!("part{n}"))).collect()
}

fn joined(parts: &[PathBuf]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let set = Set::open(parts, &set::SetOptions::default())?;
    join::to_stream(&set, &mut bytes, &join::JoinOptions::default(), &Progress::default())?;
    Ok(bytes)
}

#[test]
fn a_cancelled_split_can_be_resumed() {
    let bytes = memory();
    let mut stopped = 0;
    for (threads, parity, dedup) in [(0, 0, false), (2, 0, true), (2, 1, false)] {
        let given = options(threads).set(|all| (all.parity, all.dedup) = (parity, dedup));
        for reads in (0..80).step_by(7) {
            let dir = tempfile::tempdir().unwrap();
            let (parts, alarm) = (names(dir.path(), 3), Alarm::new(&bytes));
            alarm.after(reads);
            match split(Input::from_source("input", alarm.clone()), &parts, &given, &alarm.progress) {
                Err(Error::Cancelled) => stopped += 1,
                // The last chunk was already read.
                Ok(report) => assert!(report.complete, "{reads}: {report:?}"),
                Err(error) => panic!("{reads}: {error}"),
            }
            let rest = given.clone().set(|all| all.resume = true);
            let report =
                split(Input::from_source("input", Alarm::new(&bytes)), &parts, &rest, &Progress::default()).unwrap();
            assert!(report.is_clean(), "{reads}: {report:?}");
            // With workers, possibly none was finished yet.
            assert!(reads < 40 || threads > 0 || report.resumed_bytes > 0, "{reads}: {report:?}");
            assert!(joined(&parts).unwrap() == bytes, "{reads}");
        }
    }
    assert!(stopped > 20, "{stopped} were stopped");
}

#[test]
fn a_split_cancelled_before_it_begins_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let alarm = Alarm::new(b"some bytes");
    alarm.progress.cancel();
    let parts = names(dir.path(), 2);
    let done = split(Input::from_source("input", alarm.clone()), &parts, &options(1), &alarm.progress);
    assert!(matches!(done, Err(Error::Cancelled)), "{done:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Calls `work` with a set whose parts cancel it, at later and later reads until the first that
/// comes too late; returns how often it was stopped.
fn at_every_read(mut work: impl FnMut(&Set, &Progress) -> Result<()>) {
    let dir = tempfile::tempdir().unwrap();
    let parts = names(dir.path(), 1);
    split(Input::from_source("input", Alarm::new(&memory())), &parts, &options(1), &Progress::default()).unwrap();
    let part = std::fs::read(&parts[0]).unwrap();
    let mut stopped = 0;
    for reads in 0.. {
        let alarm = Alarm::new(&part);
        let set = Set::from_sources(vec![("part".into(), alarm.clone())], &set::SetOptions::default()).unwrap();
        alarm.after(reads);
        match work(&set, &alarm.progress) {
            Err(Error::Cancelled) => stopped += 1,
            Ok(()) if !alarm.progress.is_cancelled() => break,
            // The last piece was already being processed.
            Ok(()) => {}
            Err(error) => panic!("read {reads}: {error}"),
        }
    }
    assert!(stopped > 5, "{stopped} were stopped");
}

#[test]
fn a_cancelled_join_leaves_the_target_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dump");
    for threads in [0, 2] {
        let options = join::JoinOptions::default().set(|all| all.threads = threads);
        at_every_read(|set, progress| {
            let out = Output::create(&path, 0o600, false).unwrap();
            let done = join::to_output(set, &out, &options, progress).map(drop);
            drop(out);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
            done
        });
        at_every_read(|set, progress| {
            let mut bytes = Vec::new();
            let done = join::to_stream(set, &mut bytes, &options, progress).map(drop);
            assert!(memory().starts_with(&bytes) && (done.is_err() || bytes.len() == memory().len()));
            done
        });
    }
}

#[test]
fn a_check_ends() {
    for threads in [0, 2] {
        at_every_read(|set, progress| set.check(threads, progress, &mut |_| {}).map(drop));
    }
}
