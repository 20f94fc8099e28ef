//! Written dumps read back, whatever the codec, the form and the machine.

use std::path::Path;

use packfs_blocks::{Progress, ReadAt};
use packfs_dump::elf::ElfCore;
use packfs_dump::kdump::{DumpForm, Flattener, WriteAt, detect, input};
use packfs_dump::{Error, Source, SplitOptions, split};
use proptest::prelude::*;

use super::machine::{Load, Machine, PAGE};
use super::{CODECS, flattened, options, view, write_to, written};

#[test]
fn memory_round_trips_with_every_codec_in_both_forms() {
    for machine in [Machine::new(700), Machine::new(700).with_pages_left_out()] {
        let core = machine.core();
        machine.check(&core);
        for codec in CODECS {
            let plain = written(&core, &options(codec, 0));
            machine.check(&view(&[&plain]).unwrap());
            machine.check(&view(&[&flattened(&core, &options(codec, 1))]).unwrap());
            assert_eq!(plain, written(&core, &options(codec, 3)), "{codec}: other bytes with other threads");
        }
    }
}

#[test]
fn the_type_of_a_dump_is_detected_from_its_first_bytes() {
    let core = Machine::new(20).core();
    let (plain, flat) = (written(&core, &options("none", 0)), flattened(&core, &options("none", 0)));
    let cases = [
        (&core[..], DumpForm::Elf),
        (&plain, DumpForm::Kdump),
        (&flat, DumpForm::Flattened),
        (&core[1..], DumpForm::Raw),
        (&core[..20], DumpForm::Raw),
        (b"", DumpForm::Raw),
        (b"KDUMP  ", DumpForm::Raw),
    ];
    for (bytes, want) in cases {
        assert_eq!(detect(Path::new("file"), &bytes.to_vec()).unwrap(), want);
    }
}

#[test]
fn headers_contain_the_kernels_facts() {
    let core = Machine::new(300).with_pages_left_out().core();
    let dump = written(&core, &options("zstd:1", 0));
    let view = view(&[&dump]).unwrap();
    let info = view.info();
    assert_eq!((info.version, info.page_size, info.dump_level), (6, 4096, 1));
    assert_eq!((info.release.as_str(), info.machine.as_str(), info.time), ("6.1.0-test", "x86_64", 1_700_000_000));
    assert!(info.dumped_pages < info.memory_pages && !info.incomplete);
    let names: Vec<&str> =
        dump[12..402].chunks(65).map(|name| std::str::from_utf8(name).unwrap().trim_end_matches('\0')).collect();
    assert_eq!(names, ["Linux", "host", "6.1.0-test", "#1 SMP", "x86_64", "(none)"]);
    // The record of left-out pages in the core is kept when it is written again.
    assert_eq!(dump, written(&view, &options("zstd:1", 0)));
}

#[test]
fn holes_of_the_core_are_the_pages_left_out() {
    let machine = Machine::new(300).with_pages_left_out();
    let view = view(&[&written(&machine.core(), &options("none", 0))]).unwrap();
    let (mut at, mut data) = (0, 0);
    while let Some(range) = view.data_from(at).unwrap() {
        let mut hole = vec![1; (range.start - at) as usize];
        view.read_exact_at(&mut hole, at).unwrap();
        assert!(hole.iter().all(|byte| *byte == 0));
        data += range.end - range.start;
        at = range.end;
    }
    let head = view.data_from(0).unwrap().unwrap().end;
    assert_eq!(data - head, machine.loads.iter().map(|load| load.filesz).sum::<u64>());
    assert_eq!(view.len() - head, machine.loads.iter().map(|load| load.memsz).sum::<u64>());
}

#[test]
fn any_thread_reads_any_range() {
    let machine = Machine::new(500).with_pages_left_out();
    let view = view(&[&written(&machine.core(), &options("lzo", 0))]).unwrap();
    let mut all = vec![0; view.len() as usize];
    view.read_exact_at(&mut all, 0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (view, all) = (&view, &all);
            scope.spawn(move || {
                for n in 0..400u64 {
                    let start = (n * 7919 + thread * 104_729) * 31 % (all.len() as u64 + 100);
                    let mut buf = vec![1; (n * n % 30_000) as usize];
                    let got = view.read_at(&mut buf, start).unwrap();
                    let want = &all[all.len().min(start as usize)..all.len().min(start as usize + buf.len())];
                    assert!(buf[..got] == *want, "{start} {}", buf.len());
                }
            });
        }
    });
}

#[test]
fn partly_stored_pages_are_padded_with_zeros() {
    let mut machine = Machine::new(10);
    machine.loads[1] = Load { paddr: (1 << 20) + 100, filesz: 3 * PAGE, memsz: 5 * PAGE };
    let dump = written(&machine.core(), &options("none", 0));
    let mut page = vec![1; PAGE as usize];
    let view = view(&[&dump]).unwrap();
    let core = ElfCore::read(Path::new("core"), &view).unwrap();
    assert!(core.read_memory(&view, &mut page, 1 << 20).unwrap());
    assert_eq!((&page[..100], &page[100..]), (&[0; 100][..], &machine.memory((1 << 20) + 100..(1 << 20) + PAGE)[..]));
    assert!(core.read_memory(&view, &mut page, (1 << 20) + 3 * PAGE).unwrap());
    assert_eq!((&page[..100], &page[100..]), (&machine.memory(0..1 << 21)[0x10_3000..][..100], &[0; 3996][..]));
}

#[test]
fn a_core_that_cannot_be_written_is_refused() {
    let refused = |machine: &Machine, codec: &str| {
        write_to(&machine.core(), &mut Vec::<u8>::new(), &options(codec, 0)).unwrap_err()
    };
    let good = Machine::new(5);
    assert!(matches!(refused(&good, "xz"), Error::InvalidOption { .. }));
    let machine = Machine { number: 2, ..good.clone() };
    assert!(matches!(refused(&machine, "none"), Error::Unsupported(_)));
    for info in ["", "PAGESIZE=0\n", "PAGESIZE=5000\n", "PAGESIZE=1073741824\n"] {
        let machine = Machine { vmcoreinfo: info.to_owned(), ..good.clone() };
        assert!(matches!(refused(&machine, "none"), Error::Unsupported(_)), "{info}");
    }
    let mut machine = good.clone();
    machine.loads = vec![Load { paddr: 1 << 60, filesz: PAGE, memsz: PAGE }];
    assert!(matches!(refused(&machine, "none"), Error::Unsupported(_)));
    machine.loads = Vec::new();
    assert!(matches!(refused(&machine, "none"), Error::Unsupported(_)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_memory_round_trips(
        steps in prop::collection::vec((0u64..40, 0u64..20, 0u64..20), 1..12), codec in 0usize..5, flat: bool
    ) {
        let mut machine = Machine::new(1);
        machine.loads.truncate(1);
        let mut at = 1 << 20;
        for (gap, data, more) in steps {
            let load = Load { paddr: at + gap * PAGE, filesz: data * PAGE, memsz: (data + more) * PAGE };
            at = load.paddr + load.memsz;
            machine.loads.extend((load.memsz > 0).then_some(load));
        }
        let (core, options) = (machine.core(), options(CODECS[codec], 0));
        let dump = if flat { flattened(&core, &options) } else { written(&core, &options) };
        machine.check(&view(&[&dump]).unwrap());
    }
}

#[test]
fn memory_is_where_the_kernel_saw_it() {
    let machine = Machine::new(300);
    let vaddrs = |machine: &Machine| {
        let view = view(&[&written(&machine.core(), &options("none", 0))]).unwrap();
        let core = ElfCore::read(Path::new("core"), &view).unwrap();
        core.segments().iter().map(|segment| (segment.paddr, segment.vaddr)).collect::<Vec<_>>()
    };
    let base = 0xffff_8880_0000_0000;
    let want: Vec<_> = machine.loads.iter().map(|load| (load.paddr, base + load.paddr)).collect();
    assert_eq!(vaddrs(&machine), want);
    // Tables that lead nowhere, and a kernel that publishes nothing.
    for (from, to) in [("ffff888000100000", "ffff988000100000"), ("mem_section", "mem_sections")] {
        let machine = Machine { vmcoreinfo: machine.vmcoreinfo.replace(from, to), ..machine.clone() };
        assert!(vaddrs(&machine).iter().all(|(_, vaddr)| *vaddr == 0), "{to}");
    }
}

#[test]
fn a_dump_that_was_not_written_whole_lacks_only_what_was_lost() {
    let mut machine = Machine::new(60);
    let mut dump = written(&machine.core(), &options("none", 0));
    // The file has two pages of headers, two of bitmaps, then the descriptors. The last 7 of these were lost.
    let pages: u64 = machine.loads.iter().map(|load| load.filesz / PAGE).sum();
    let (descs, lost) = (4 * PAGE as usize, 7);
    let end = descs + 24 * pages as usize;
    dump[end - 24 * lost..end].fill(0);
    assert!(view(&[&dump]).unwrap().read_exact_at(&mut vec![0; pages as usize * 4096], PAGE).is_err());
    dump[424] |= 8;
    let found = view(&[&dump]).unwrap();
    assert!(found.info().incomplete && found.info().dumped_pages == pages - lost as u64);
    machine.loads[2].filesz = 0;
    machine.check(&found);
    // A dump written from it still says so, and a truncated file lacks the data that would have followed.
    let again = written(&found, &options("zstd:1", 0));
    assert!(view(&[&again]).unwrap().info().incomplete);
    let cut = view(&[&dump[..dump.len() - 10 * PAGE as usize]]).unwrap();
    assert!(cut.info().dumped_pages < pages - lost as u64);
    assert!(cut.read_exact_at(&mut vec![0; cut.len() as usize], 0).is_ok());
}

#[test]
fn a_dump_is_split_as_its_original_core() {
    let (dir, core) = (tempfile::tempdir().unwrap(), Machine::new(40).core());
    let (dump, flat) = (written(&core, &options("lzo", 0)), flattened(&core, &options("lzo", 0)));
    let mut flat_core = Flattener::new(Vec::new()).unwrap();
    flat_core.write_all_at(&core, 0).unwrap();
    let flat_core = flat_core.finish().unwrap();
    let whole = view(&[&dump]).unwrap().len();
    let cases = [
        (&dump, Some(whole)),
        (&flat, Some(whole)),
        (&flat_core, Some(core.len() as u64)),
        (&core, None),
        (&vec![1; 5000], None),
        (&Vec::new(), None),
    ];
    for (bytes, want) in cases {
        let path = dir.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(input(&path).unwrap().map(|input| input.size().unwrap()), want);
    }
    assert!(input(dir.path()).unwrap().is_none());
    std::fs::write(dir.path().join("cut"), &dump[..5000]).unwrap();
    assert!(input(&dir.path().join("cut")).is_err());
}

/// Writes the flattened form of any file.
fn flat(bytes: &[u8]) -> Vec<u8> {
    let mut flattener = Flattener::new(Vec::new()).unwrap();
    flattener.write_all_at(bytes, 0).unwrap();
    flattener.finish().unwrap()
}

#[test]
fn a_split_is_not_resumed_with_another_dump_of_the_same_machine() {
    let core = Machine::new(40).core();
    let mut later = core.clone();
    let at = later.len() - 100;
    later[at] ^= 1;
    let given = options("lzo", 0);
    let cases = [
        ("kdump", written(&core, &given), written(&later, &given)),
        ("flattened kdump", flattened(&core, &given), flattened(&later, &given)),
        ("flattened core", flat(&core), flat(&later)),
    ];
    for (what, first, second) in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dump");
        let split_into_part = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let options = SplitOptions::default().set(|all| all.resume = true);
            split(input(&path).unwrap().unwrap(), &[dir.path().join("part")], &options, &Progress::default())
        };
        assert!(split_into_part(&first).unwrap().is_clean(), "{what}");
        assert!(split_into_part(&first).unwrap().resumed_bytes > 0, "{what}");
        let refused = split_into_part(&second).unwrap_err();
        assert!(matches!(&refused, Error::NotResumable(why) if why.contains("the input")), "{what}: {refused}");
    }
}
