//! Damaged files: each gives an error or the right data; nothing panics, hangs or uses unbounded memory.

use std::path::Path;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_dump::Source;
use packfs_dump::elf::ElfCore;
use packfs_dump::kdump::CoreView;

use super::machine::{Load, Machine, PAGE};
use super::{flattened, options, write_to, written};

/// A machine with a little of everything.
fn small() -> Machine {
    let mut machine = Machine::new(1);
    machine.loads = vec![
        Load { paddr: PAGE, filesz: 5 * PAGE, memsz: 7 * PAGE },
        Load { paddr: 20 * PAGE, filesz: PAGE, memsz: PAGE },
    ];
    machine
}

/// Opens and reads everything. Files this small must not need more memory than the limit.
fn read_all(bytes: Vec<u8>) -> Option<Vec<u8>> {
    let view = CoreView::open(vec![("dump".into(), Arc::new(bytes) as _)]).ok()?;
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(range) = view.data_from(at).unwrap().filter(|_| all.len() < 1 << 22) {
        let mut buf = vec![0; ((range.end - range.start) as usize).min(1 << 20)];
        view.read_exact_at(&mut buf, range.start).ok()?;
        all.append(&mut buf);
        at = range.end;
    }
    Some(all)
}

#[test]
fn a_truncated_file_is_an_error() {
    let core = small().core();
    for dump in [written(&core, &options("zstd:1", 0)), flattened(&core, &options("gzip:1", 0))] {
        assert!(read_all(dump.clone()).is_some());
        for len in (0..dump.len()).step_by(61).chain(dump.len() - 40..dump.len()) {
            assert_eq!(read_all(dump[..len].to_vec()), None, "{len} of {}", dump.len());
        }
    }
}

#[test]
fn a_changed_byte_does_no_harm() {
    let core = small().core();
    for dump in [written(&core, &options("zstd:1", 0)), flattened(&core, &options("lzo", 0))] {
        for at in (0..dump.len()).filter(|at| dump[*at] != 0 || at % 64 == 0) {
            let mut dump = dump.clone();
            dump[at] ^= [0x01, 0x80, 0xff][at % 3];
            read_all(dump);
        }
    }
}

#[test]
fn a_truncated_or_changed_core_does_no_harm() {
    let core = small().core();
    for len in (0..core.len()).step_by(101) {
        assert!(write_to(&core[..len].to_vec(), &mut Vec::<u8>::new(), &options("none", 0)).is_err(), "{len}");
    }
    // Everything before the memory; a file written from such a core may be long, so it is only read.
    for at in 0..2048 {
        for flip in [0x01, 0x80, 0xff] {
            let mut core = core.clone();
            core[at] ^= flip;
            if let Ok(found) = ElfCore::read(Path::new("core"), &core) {
                let mut buf = [0; 5000];
                for segment in found.segments() {
                    found.read_memory(&core, &mut buf, segment.paddr.saturating_sub(100)).unwrap();
                }
                let _ = (found.processors(), found.vmcoreinfo().map(|info| info.number("PAGESIZE")));
            }
        }
    }
}

#[test]
fn headers_that_lie_about_sizes_are_refused() {
    let core = small().core();
    let dump = written(&core, &options("none", 0));
    let with = |at: usize, bytes: &[u8]| {
        let mut dump = dump.clone();
        dump[at..at + bytes.len()].copy_from_slice(bytes);
        CoreView::open(vec![("dump".into(), Arc::new(dump) as _)])
    };
    let cases: [(&str, usize, &[u8]); 11] = [
        ("magic", 0, b"KDUMQ"),
        ("version of the other byte order", 8, &[0, 0, 0, 6]),
        ("machine", 272, b"i686\0\0"),
        ("block size 0", 428, &[0; 4]),
        ("block size of no power of two", 428, &5000u32.to_le_bytes()),
        ("blocks of the sub header", 432, &[0xff; 4]),
        ("blocks of the bitmaps", 436, &[0xff; 4]),
        ("no bitmaps", 436, &[0; 4]),
        ("pages", 4096 + 96, &[0xff; 8]),
        ("no pages", 4096 + 96, &[0; 8]),
        ("bytes of the notes", 4096 + 56, &[0xff; 8]),
    ];
    for (what, at, bytes) in cases {
        assert!(with(at, bytes).is_err(), "{what}");
    }
    assert!(with(0, b"KDUMP").is_ok());
}
