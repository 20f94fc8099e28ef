//! Whole splits, read back by a reader that is based only on docs/formats/dump.md.

mod faults;
mod reader;
mod resume;

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::testing::{Random, noise};
use packfs_blocks::{Progress, ReadAt};
use proptest::prelude::*;

use self::reader::{restore, stripes};
use super::{SplitOptions, SplitReport, split, split_on};
use crate::{Error, Input, Result, Source};

/// Makes bytes like a machine's memory: pages of zeros, of one word, of text, and of noise.
fn memory(pages: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut out = Vec::with_capacity(pages * 4096);
    while out.len() < pages * 4096 {
        let run = 1 + random.below(40);
        let kind = random.below(5);
        for _ in 0..run {
            match kind {
                0 | 1 => out.extend([0; 4096]),
                2 => out.extend(b"deadbeef".repeat(512)),
                3 => (0..512).for_each(|_| out.extend((random.number() % 1000 + 0xffff_8800_0000).to_le_bytes())),
                _ => (0..512).for_each(|_| out.extend(random.number().to_le_bytes())),
            }
        }
    }
    out.truncate(pages * 4096);
    out
}

fn names(dir: &Path, count: usize) -> Vec<PathBuf> {
    (0..count).map(|n| dir.join(format!("part{n}"))).collect()
}

fn options(codec: &str) -> SplitOptions {
    // So little memory that there are many short segments.
    let memory = 17 << 20;
    SplitOptions { codec: codec.parse().unwrap(), chunk: 1 << 16, threads: 2, memory, ..SplitOptions::default() }
}

fn run(input: &Path, parts: &[PathBuf], options: &SplitOptions) -> Result<SplitReport> {
    split(Input::open(input)?, parts, options, &Progress::default())
}

#[test]
fn dumps_round_trip_with_any_number_of_parts_threads_and_codecs() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = memory(3000, 1);
    bytes.extend(b"a tail that is no page");
    let input = dir.path().join("input");
    std::fs::write(&input, &bytes).unwrap();
    for (codec, parts, threads, parity) in [
        ("lz4", 1, 0, 0),
        ("lz4", 3, 2, 0),
        ("none", 2, 1, 0),
        ("zstd:1", 8, 2, 0),
        ("lzo", 3, 2, 1),
        ("none", 4, 0, 2),
        ("lz4", 5, 2, 4),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let parts = names(dir.path(), parts);
        let report =
            run(&input, &parts, &SplitOptions { threads, parity, memory: 64 << 20, ..options(codec) }).unwrap();
        assert!(report.is_clean(), "{codec}: {report:?}");
        assert_eq!(report.bytes, bytes.len() as u64);
        let chunks = &report.chunks;
        assert_eq!(chunks.raw_bytes + chunks.coded_bytes + chunks.fill_bytes, report.bytes);
        assert!(restore(&parts, report.bytes).unwrap() == bytes, "{codec}");
        for part in &parts {
            let found = std::fs::metadata(part).unwrap();
            assert_eq!(found.permissions().mode() & 0o777, 0o600);
        }
        assert!(stripes(&parts).values().all(|stripe| stripe.is_whole()), "{codec}");
    }
}

#[test]
fn any_parts_within_the_parity_may_be_lost() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(2000, 5);
    let input = dir.path().join("input");
    std::fs::write(&input, &bytes).unwrap();
    let parts = names(dir.path(), 4);
    let report = run(&input, &parts, &SplitOptions { parity: 2, memory: 20 << 20, ..options("lz4") }).unwrap();
    assert!(report.chunks.parity_bytes >= report.chunks.segment_bytes, "two of four");
    for (a, b) in [(0, 1), (0, 3), (1, 2), (2, 3)] {
        let left: Vec<_> =
            parts.iter().enumerate().filter(|(n, _)| *n != a && *n != b).map(|(_, p)| p.clone()).collect();
        assert!(restore(&left, report.bytes).unwrap() == bytes, "without {a} and {b}");
    }
    assert!(restore(&parts[..1], report.bytes).is_err());
}

#[test]
fn holes_zeros_and_patterns_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input");
    let file = std::fs::File::create(&input).unwrap();
    file.set_len(200 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &memory(20, 9), 100 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0x55; 1 << 20], 150 << 20).unwrap();
    let parts = names(dir.path(), 2);
    let report = run(&input, &parts, &options("none")).unwrap();
    assert!(report.is_clean());
    assert!(report.chunks.segment_bytes < 300_000, "{report:?}");
    let total: u64 = report.parts.iter().map(|part| part.bytes).sum();
    assert!(total < 350_000, "{report:?}");
    assert!(restore(&parts, report.bytes).unwrap() == std::fs::read(&input).unwrap());
}

#[test]
fn streams_of_any_length_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    for len in [0, 1, 7, 4096, 65_536, 65_537, 3 << 20] {
        let mut bytes = memory(800, 3);
        bytes.truncate(len);
        let fifo = dir.path().join(format!("fifo{len}"));
        mkfifo(&fifo);
        let writer = {
            let fifo = fifo.clone();
            let bytes = bytes.clone();
            std::thread::spawn(move || std::fs::write(fifo, bytes).unwrap())
        };
        let parts = names(dir.path(), 2);
        let report = run(&fifo, &parts, &SplitOptions { force: true, ..options("lz4") }).unwrap();
        writer.join().unwrap();
        assert!(report.is_clean() && report.bytes == len as u64, "{report:?}");
        assert!(restore(&parts, report.bytes).unwrap() == bytes, "{len}");
    }
    let parts = names(dir.path(), 1);
    let report = run(Path::new("/proc/cpuinfo"), &parts, &SplitOptions { force: true, ..options("lz4") }).unwrap();
    assert!(report.bytes > 0 && report.is_clean());
}

pub(super) fn mkfifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn equal_chunks_are_stored_once_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let one = memory(256, 21);
    let bytes = [&one[..], &memory(100, 4), &one, &one].concat();
    let input = dir.path().join("input");
    std::fs::write(&input, &bytes).unwrap();
    let parts = names(dir.path(), 2);
    let mut contents = Vec::new();
    for threads in [0, 2] {
        let given = SplitOptions { dedup: true, chunk: 4096, force: true, threads, ..options("none") };
        let report = run(&input, &parts, &given).unwrap();
        assert!(report.chunks.same_bytes > one.len() as u64 / 4, "{report:?}");
        assert!(restore(&parts, report.bytes).unwrap() == bytes);
        contents.push(report.chunks);
    }
    assert_eq!(contents[0], contents[1], "what is stored does not depend on the threads");
}

#[test]
fn a_custom_source_is_split_with_its_holes() {
    #[derive(Debug)]
    struct Sparse(Vec<u8>);
    impl ReadAt for Sparse {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
            assert!(offset >= 1 << 20, "holes are not read");
            self.0.read_at(buf, offset)
        }
        fn len(&self) -> u64 {
            ReadAt::len(&self.0)
        }
    }
    impl Source for Sparse {
        fn data_from(&self, offset: u64) -> std::io::Result<Option<std::ops::Range<u64>>> {
            let start = offset.max((1 << 20) + 5000);
            Ok((start < self.len()).then(|| start..self.len()))
        }
        fn fingerprint(&self) -> std::io::Result<u64> {
            Ok(1)
        }
    }
    let mut bytes = vec![0; (1 << 20) + 5000];
    bytes.extend(memory(50, 2));
    let dir = tempfile::tempdir().unwrap();
    let parts = names(dir.path(), 2);
    let input = Input::from_source("pages", Arc::new(Sparse(bytes.clone())));
    let report = split(input, &parts, &options("lz4"), &Progress::default()).unwrap();
    assert!(restore(&parts, report.bytes).unwrap() == bytes);
}

/// Zeros that cannot be told from other zeros.
#[derive(Debug)]
struct NamelessInput;

impl ReadAt for NamelessInput {
    fn read_at(&self, buf: &mut [u8], _: u64) -> std::io::Result<usize> {
        buf.fill(0);
        Ok(buf.len())
    }
    fn len(&self) -> u64 {
        1 << 20
    }
}

impl Source for NamelessInput {
    fn fingerprint(&self) -> std::io::Result<u64> {
        Err(std::io::Error::from_raw_os_error(libc::EIO))
    }
}

#[test]
fn holes_take_no_segments_of_their_own() {
    const STRIPE: u64 = 1 << 16;
    /// Data and holes in turn.
    #[derive(Debug)]
    struct StripedInput(Vec<u8>);
    impl ReadAt for StripedInput {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
            self.0.read_at(buf, offset)
        }
        fn len(&self) -> u64 {
            ReadAt::len(&self.0)
        }
    }
    impl Source for StripedInput {
        fn data_from(&self, offset: u64) -> std::io::Result<Option<std::ops::Range<u64>>> {
            let stripe = (offset / STRIPE).next_multiple_of(2);
            let data = offset.max(stripe * STRIPE)..(stripe + 1) * STRIPE;
            Ok((data.start < self.len()).then_some(data))
        }
        fn fingerprint(&self) -> std::io::Result<u64> {
            Ok(1)
        }
    }
    let mut bytes = noise(200 << 16, 8);
    bytes.chunks_mut(1 << 16).skip(1).step_by(2).for_each(|hole| hole.fill(0));
    let split_striped = |dedup: bool| {
        let dir = tempfile::tempdir().unwrap();
        let parts = names(dir.path(), 1);
        let input = Input::from_source("striped", Arc::new(StripedInput(bytes.clone())));
        let given = SplitOptions { dedup, ..options("none") };
        let report = split(input, &parts, &given, &Progress::default()).unwrap();
        assert!(restore(&parts, report.bytes).unwrap() == bytes, "dedup {dedup}");
        report.chunks.segment_bytes
    };
    let plain = split_striped(false);
    let deduped = split_striped(true);
    assert!(deduped < plain + (1 << 18), "{deduped} bytes instead of {plain}");
}

#[test]
fn a_part_takes_the_place_of_a_file_that_others_may_have_open() {
    let dir = tempfile::tempdir().unwrap();
    let [input, part, link] = ["input", "part", "link"].map(|name| dir.path().join(name));
    let bytes = memory(10, 1);
    std::fs::write(&input, &bytes).unwrap();
    std::os::unix::fs::symlink("part", &link).unwrap();
    for (mode, name) in [(0o600, &part), (0o644, &part), (0o644, &link)] {
        let what = format!("{name:?} with mode {mode:o}");
        std::fs::write(&part, "old").unwrap();
        std::fs::set_permissions(&part, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut old = std::fs::File::open(&part).unwrap();
        run(&input, std::slice::from_ref(name), &SplitOptions { force: true, ..options("lz4") }).unwrap();
        let mut seen = Vec::new();
        old.read_to_end(&mut seen).unwrap();
        assert_eq!(seen, b"old", "{what}");
        let new = std::fs::metadata(&part).unwrap();
        assert_eq!(new.permissions().mode() & 0o777, 0o600, "{what}");
        assert_ne!(new.ino(), old.metadata().unwrap().ino(), "{what}");
        assert!(link.is_symlink() && restore(std::slice::from_ref(&part), bytes.len() as u64).unwrap() == bytes);
    }
}

#[test]
fn nothing_is_overwritten_or_used_twice() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input");
    let part = dir.path().join("part");
    std::fs::write(&input, memory(10, 1)).unwrap();
    let fails = |parts: &[PathBuf], options: &SplitOptions| run(&input, parts, options).unwrap_err();
    let given = options("lz4");
    let twice = [part.clone(), dir.path().join("./part")];
    assert!(matches!(fails(&twice, &given), Error::Unsuitable { why, .. } if why.contains("already named")));
    assert!(!part.exists());
    std::fs::write(&part, "old").unwrap();
    assert!(matches!(fails(std::slice::from_ref(&part), &given), Error::Exists { device: false, .. }));
    let link = dir.path().join("link");
    std::fs::hard_link(&part, &link).unwrap();
    let forced = SplitOptions { force: true, ..given.clone() };
    assert!(
        matches!(fails(&[part.clone(), link], &forced), Error::Unsuitable { why, .. } if why.contains("same file"))
    );
    assert!(
        matches!(fails(&[input.clone(), part.clone()], &forced), Error::Unsuitable { why, .. } if why.contains("input"))
    );
    assert_eq!(std::fs::read(&part).unwrap(), b"old");
    assert!(matches!(fails(&[], &given), Error::InvalidOption { .. }));
    let protected = SplitOptions { parity: 1, ..forced.clone() };
    assert!(matches!(fails(std::slice::from_ref(&part), &protected), Error::InvalidOption { .. }));
    // Neither settings that a part has no room for nor an input without a fingerprint cost the old part.
    let codec = "xz:9:extreme:dict=64K:bcj=x86+powerpc+ia64+arm+armthumb+sparc+arm64+riscv".parse().unwrap();
    let long = SplitOptions { codec, memory: 4 << 30, ..forced.clone() };
    let refused = fails(std::slice::from_ref(&part), &long);
    assert!(matches!(&refused, Error::InvalidOption { why, .. } if why.contains("too long")), "{refused}");
    let nameless = Input::from_source("nameless", Arc::new(NamelessInput));
    let refused = split(nameless, std::slice::from_ref(&part), &forced, &Progress::default()).unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
    assert_eq!(std::fs::read(&part).unwrap(), b"old");
    // A directory that does not exist: parts created before are deleted again.
    let nowhere = dir.path().join("no/part");
    let other = dir.path().join("other");
    assert!(matches!(fails(&[other.clone(), nowhere], &given), Error::Io { .. }));
    assert!(!other.exists());
    run(&input, &[part], &forced).unwrap();
}

#[test]
fn direct_writing_gives_the_same_parts_or_reports_that_it_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input");
    let bytes = memory(500, 8);
    std::fs::write(&input, &bytes).unwrap();
    let parts = names(dir.path(), 2);
    let given = SplitOptions { direct: true, checkpoint: 1 << 20, ..options("none") };
    let report = run(&input, &parts, &given).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert!(restore(&parts, report.bytes).unwrap() == bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_bytes_round_trip(
        seed in any::<u64>(), pages in 0usize..120, cut in 0usize..5000, chunk in 12u32..18,
        parts in 1usize..5, parity in 0u16..3, threads in 0usize..3, dedup in any::<bool>(), stream in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = memory(pages, seed);
        bytes.truncate(bytes.len().saturating_sub(cut));
        let input = dir.path().join("input");
        std::fs::write(&input, &bytes).unwrap();
        let parity = parity.min(u16::try_from(parts).unwrap() - 1);
        let given = SplitOptions { chunk: 1 << chunk, parity, threads, dedup, memory: 64 << 20, ..options("lz4") };
        let paths = names(dir.path(), parts);
        let input = if stream { mkfifo(&dir.path().join("fifo")); dir.path().join("fifo") } else { input };
        let writer = stream.then(|| {
            let fifo = input.clone();
            let bytes = bytes.clone();
            std::thread::spawn(move || std::fs::write(fifo, bytes).unwrap())
        });
        let report = run(&input, &paths, &given).unwrap();
        if let Some(writer) = writer { writer.join().unwrap(); }
        prop_assert!(report.is_clean(), "{report:?}");
        prop_assert_eq!(report.bytes, bytes.len() as u64);
        prop_assert!(restore(&paths[..parts - usize::from(parity)], report.bytes).unwrap() == bytes);
    }
}
