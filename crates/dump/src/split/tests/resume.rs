//! Runs that are interrupted at any point and resumed.

use packfs_blocks::io::faults::{FaultKind, FaultyFiles};

use super::*;
use crate::ChunkBytes;
use crate::format::SegmentKind;
use crate::part::{PartSuperblock, ScanStep, SegmentScan};

fn resumed(codec: &str) -> SplitOptions {
    SplitOptions { resume: true, checkpoint: 1 << 20, ..options(codec) }
}

/// Cuts parts as a kill would: by any number of bytes, down to nothing.
fn cut(parts: &[PathBuf], lens: &[u64]) {
    for (part, len) in parts.iter().zip(lens) {
        std::fs::OpenOptions::new().write(true).open(part).unwrap().set_len(*len).unwrap();
    }
}

#[test]
fn a_run_interrupted_anywhere_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(2500, 31);
    let input = dir.path().join("input");
    std::fs::write(&input, &bytes).unwrap();
    for (parity, dedup) in [(0, false), (0, true), (1, false)] {
        let parts = names(dir.path(), 3);
        let given = SplitOptions { parity, dedup, checkpoint: 1 << 20, force: true, ..options("none") };
        for shares in [[9, 9, 9], [5, 3, 8], [0, 0, 0], [0, 7, 10], [10, 10, 4], [1, 1, 1]] {
            let whole = run(&input, &parts, &given).unwrap();
            // Whichever part was free took a segment: the lengths differ each time.
            let lens = parts.iter().map(|part| std::fs::metadata(part).unwrap().len());
            let left: Vec<_> = lens.zip(shares).map(|(len, tenths)| len * tenths / 10 + tenths % 3 * 777).collect();
            cut(&parts, &left);
            let report = run(&input, &parts, &SplitOptions { resume: true, force: false, ..given.clone() }).unwrap();
            assert!(report.is_clean(), "{report:?}");
            // Figures are of the whole, not of this run. Of equal chunks it knows only those it has seen.
            let figures = |report: &SplitReport| ChunkBytes { segment_bytes: 0, parity_bytes: 0, ..report.chunks };
            assert!(dedup || figures(&report) == figures(&whole), "{shares:?}: {report:?} for {whole:?}");
            assert!(report.parts.iter().all(|part| part.resumed_bytes <= part.bytes), "{report:?}");
            let any = report.parts.iter().any(|part| part.resumed_bytes > 0);
            assert!(any || report.resumed_bytes == 0, "{report:?}");
            // A stripe counts only if all of it is available: with parity that is some of each
            // part, without it one segment.
            let some_of_each = shares.iter().all(|tenths| *tenths >= 3);
            // Here one takes half a megabyte.
            let some_segments = left.iter().any(|len| *len > 600_000);
            let expected = if parity > 0 { some_of_each } else { some_segments };
            assert!(report.resumed_bytes > 0 || !expected, "{shares:?}: {left:?}: {report:?}");
            assert!(restore(&parts, report.bytes).unwrap() == bytes, "{shares:?}");
            if parity > 0 {
                assert!(restore(&parts[1..], report.bytes).unwrap() == bytes, "{shares:?} and a part lost");
            }
        }
    }
}

#[test]
fn a_complete_set_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input");
    std::fs::write(&input, memory(300, 4)).unwrap();
    let mut parts = names(dir.path(), 2);
    // Resuming nothing is a fresh start.
    let first = run(&input, &parts, &resumed("lz4")).unwrap();
    assert!(first.is_clean() && first.resumed_bytes == 0);
    let before: Vec<_> = parts.iter().map(|part| std::fs::read(part).unwrap()).collect();
    let again = run(&input, &parts, &resumed("lz4")).unwrap();
    assert_eq!((again.resumed_bytes, again.is_clean(), &again.set), (first.bytes, true, &first.set));
    assert!(first.chunks.squeezed_bytes > 0 && again.chunks == first.chunks, "{again:?} for {first:?}");
    let after: Vec<_> = parts.iter().map(|part| std::fs::read(part).unwrap()).collect();
    assert!(before == after);
    // It counts as complete only on the disk.
    let files = FaultyFiles::failing(1, FaultKind::Io);
    let failed = split_on(&files, Input::open(&input).unwrap(), &parts, &resumed("lz4"), &Progress::default());
    assert!(matches!(failed, Err(Error::Io { what: "cannot flush", .. })), "{failed:?}");
    // Parts are identified by their contents, not by the order of the arguments.
    parts.reverse();
    std::fs::remove_file(&parts[0]).unwrap();
    let mended = run(&input, &parts, &resumed("lz4")).unwrap();
    assert!(mended.is_clean() && mended.set == first.set, "{mended:?}");
    assert!(restore(&parts, first.bytes).unwrap() == std::fs::read(&input).unwrap());
}

#[test]
fn another_input_or_other_settings_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input");
    std::fs::write(&input, memory(300, 4)).unwrap();
    let parts = names(dir.path(), 3);
    run(&input, &parts, &options("lz4")).unwrap();
    let refused =
        |input: &Path, parts: &[PathBuf], options: SplitOptions| run(input, parts, &options).unwrap_err().to_string();
    assert!(refused(&input, &parts, SplitOptions { memory: 64 << 20, ..resumed("zstd") }).contains("codec lz4"));
    assert!(refused(&input, &parts, SplitOptions { chunk: 4096, ..resumed("lz4") }).contains("chunks of 65536"));
    assert!(refused(&input, &parts, SplitOptions { parity: 1, ..resumed("lz4") }).contains("parity"));
    assert!(refused(&input, &parts[..2], resumed("lz4")).contains("number of parts"));
    let copy = dir.path().join("copy");
    std::fs::copy(&parts[0], &copy).unwrap();
    assert!(refused(&input, &[parts[0].clone(), parts[1].clone(), copy], resumed("lz4")).contains("copy of part 0"));
    let text = dir.path().join("text");
    std::fs::write(&text, "no part ".repeat(1000)).unwrap();
    let with_text = [parts[0].clone(), parts[1].clone(), text.clone()];
    assert!(refused(&input, &with_text, resumed("lz4")).contains("not a part"));
    std::fs::write(&text, "short").unwrap();
    assert!(refused(&input, &with_text, resumed("lz4")).contains("superblock"));
    assert_eq!(std::fs::read(&text).unwrap(), b"short");
    std::fs::write(&input, memory(300, 5)).unwrap();
    assert!(refused(&input, &parts, resumed("lz4")).contains("changed since"));
    let stream = Path::new("/proc/cpuinfo");
    let streamed = [dir.path().join("s")];
    run(stream, &streamed, &options("lz4")).unwrap();
    assert!(refused(stream, &streamed, resumed("lz4")).contains("stream"));
}

#[test]
fn damage_after_the_last_checkpoint_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(2500, 31);
    let input = dir.path().join("input");
    std::fs::write(&input, &bytes).unwrap();
    let parts = names(dir.path(), 1);
    run(&input, &parts, &options("none")).unwrap();
    let mut part = std::fs::read(&parts[0]).unwrap();
    part.truncate(part.len() * 3 / 4);
    let at = part.len() / 2;
    part[at] ^= 1;
    std::fs::write(&parts[0], part).unwrap();
    let report = run(&input, &parts, &resumed("none")).unwrap();
    assert!(report.is_clean() && report.resumed_bytes > 0);
    assert!(restore(&parts, report.bytes).unwrap() == bytes);
}

/// Flips a bit in the payload of each data segment in the middle half of a part.
fn damage(part: &Path) {
    let mut bytes = std::fs::read(part).unwrap();
    let superblock = PartSuperblock::parse(&bytes).unwrap();
    let mut payloads = Vec::new();
    for step in SegmentScan::whole(&bytes, &superblock) {
        let ScanStep::Segment { position, segment } = step.unwrap() else { continue };
        if segment.head.kind == SegmentKind::Data && segment.payload > 0 {
            payloads.push(usize::try_from(position).unwrap() + segment.head_len as usize);
        }
    }
    let quarter = payloads.len() / 4;
    assert!(quarter > 1, "{payloads:?}");
    payloads[quarter..3 * quarter].iter().for_each(|at| bytes[*at] ^= 1);
    std::fs::write(part, bytes).unwrap();
}

#[test]
fn no_later_checkpoint_vouches_for_damage() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = memory(6000, 31);
    let input = dir.path().join("input");
    std::fs::write(&input, &bytes).unwrap();
    let parts = names(dir.path(), 2);
    run(&input, &parts, &options("none")).unwrap();
    let len = |n: usize| parts[n].metadata().unwrap().len();
    let longer = usize::from(len(1) > len(0));
    damage(&parts[longer]);
    std::fs::remove_file(&parts[1 - longer]).unwrap();
    // What was damaged is written again to either part, and so much more that both get checkpoints.
    let report = run(&input, &parts, &resumed("none")).unwrap();
    assert!(report.is_clean() && report.resumed_bytes > 0, "{report:?}");
    for lost in 0..2 {
        let copied = tempfile::tempdir().unwrap();
        let copies = names(copied.path(), 2);
        for (part, copy) in parts.iter().zip(&copies) {
            std::fs::copy(part, copy).unwrap();
        }
        std::fs::remove_file(&copies[lost]).unwrap();
        let report = run(&input, &copies, &resumed("none")).unwrap();
        assert!(report.is_clean(), "without part {lost}: {report:?}");
        assert!(restore(&copies, report.bytes).unwrap() == bytes, "without part {lost}");
    }
}
