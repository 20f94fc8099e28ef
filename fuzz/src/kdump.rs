//! Any bytes as crash dumps: kdump-compressed files, flattened ones, and ELF cores. A core that can be written as a
//! kdump-compressed file reads back with the same memory.

use std::path::Path;
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};
use packfs_dump::elf::{ElfCore, MemorySegment, NoteIter, VmcoreInfo};
use packfs_dump::kdump::format::MAGIC;
use packfs_dump::kdump::{CoreView, DumpForm, FlattenedFile, KdumpOptions, detect, write};

/// Where parts of a split dump may begin.
const ALIGN: usize = 4096;
/// Bytes of each piece of memory that are compared.
const COMPARE: u64 = 32 << 10;

/// Reads them.
pub fn look(bytes: &[u8]) {
    let bytes = crate::zeros::unpack(bytes);
    let path = Path::new("dump");
    let whole: Arc<dyn ReadAt> = Arc::new(bytes.clone());
    match detect(path, &*whole) {
        Ok(DumpForm::Kdump) => {
            open(parts(&bytes));
        }
        Ok(DumpForm::Flattened) => {
            if let Ok(flat) = FlattenedFile::read(path, whole.clone()) {
                look_at(&flat, flat.len());
                if let Ok(DumpForm::Elf) = detect(path, &flat) {
                    core(&flat);
                }
            }
            open(vec![whole]);
        }
        Ok(DumpForm::Elf) => core(&*whole),
        Ok(DumpForm::Raw) | Err(_) => {}
    }
}

/// A part begins wherever there may be one and the magic number is.
fn parts(bytes: &[u8]) -> Vec<Arc<dyn ReadAt>> {
    let begins = |at: &usize| *at == 0 || bytes[*at..].starts_with(&MAGIC);
    let mut begins: Vec<usize> = (0..bytes.len()).step_by(ALIGN).filter(begins).collect();
    begins.push(bytes.len());
    begins.windows(2).map(|at| Arc::new(bytes[at[0]..at[1]].to_vec()) as Arc<dyn ReadAt>).collect()
}

fn open(parts: Vec<Arc<dyn ReadAt>>) {
    let parts = parts.into_iter().enumerate().map(|(n, part)| (format!("part {n}").into(), part)).collect();
    let Ok(view) = CoreView::open(parts) else { return };
    let _ = view.info();
    look_at(&view, view.len());
}

fn look_at(file: &dyn ReadAt, len: u64) {
    let mut piece = [0; 9000];
    for offset in [0, 4095, len / 2, len.saturating_sub(5000), len, u64::MAX] {
        let _ = file.read_at(&mut piece, offset);
    }
}

fn core(file: &dyn ReadAt) {
    let path = Path::new("core");
    let Ok(core) = ElfCore::read(path, file) else { return };
    let _ = (core.machine(), core.segments(), core.is_incomplete());
    if let Some(note) = NoteIter::new(core.notes()).find(|note| note.name == b"VMCOREINFO") {
        let _ = VmcoreInfo::new(note.desc);
    }
    // A file may say that the machine has more memory than anybody wants to go through.
    let end = |segment: &MemorySegment| segment.paddr.saturating_add(segment.memsz);
    if core.segments().iter().any(|segment| end(segment) > 256 << 20) {
        return;
    }
    let codec = "lzo:algorithm=lzo1x_1".parse().expect("a codec");
    let options = KdumpOptions::default().set(|all| (all.codec, all.threads, all.memory) = (codec, 0, 1 << 20));
    let mut packed = Vec::new();
    let Ok(report) = write((path, file), (Path::new("packed"), &mut packed), &options, &Progress::default()) else {
        return;
    };
    let view = CoreView::open(vec![("packed".into(), Arc::new(packed))]).expect("we wrote it");
    assert_eq!(view.info().dumped_pages, report.pages);
    let again = ElfCore::read(Path::new("view"), &view).expect("we made it up");
    for range in core.data().take(8) {
        let len = (range.end - range.start).min(COMPARE);
        let (mut want, mut got) = (vec![0; len as usize], vec![0; len as usize]);
        if core.read_memory(file, &mut want, range.start).is_ok() {
            again.read_memory(&view, &mut got, range.start).expect("we wrote it");
            assert!(want == got, "memory at {:#x}", range.start);
        }
    }
}
