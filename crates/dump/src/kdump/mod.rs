//! makedumpfile's kdump-compressed format, plain and flattened: read as the ELF core that was
//! dumped, and written from one.
//!
//! docs/formats/kdump.md describes the format.

mod bitmap;
mod flat;
// For tests and fuzzing: raw structs, not part of the interface.
#[doc(hidden)]
pub mod format;
mod header;
mod machine;
mod pages;
mod plan;
mod vaddr;
mod view;
mod write;

use std::path::Path;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::io::FileAt;

use crate::elf::ElfCore;
use crate::{Error, Input, Result};

pub use flat::{FlattenedFile, Flattener, WriteAt};
pub use view::{CoreView, KdumpInfo};
pub use write::{KdumpOptions, KdumpReport, accepts, write};

/// Type of a file, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpForm {
    /// An ELF core.
    Elf,
    /// A kdump-compressed file.
    Kdump,
    /// A flattened file from makedumpfile: a kdump-compressed file or an ELF core.
    Flattened,
    /// Anything else.
    Raw,
}

/// Detects the type of a file; `path` is for errors.
pub fn detect(path: &Path, file: &dyn ReadAt) -> Result<DumpForm> {
    let mut start = [0; 64];
    let got = file.read_at(&mut start, 0).map_err(Error::io("cannot read", path))?;
    let start = &start[..got];
    Ok(match start {
        _ if start.starts_with(&format::MAGIC) => DumpForm::Kdump,
        _ if FlattenedFile::is_one(start) => DumpForm::Flattened,
        _ if ElfCore::is_one(start) => DumpForm::Elf,
        _ => DumpForm::Raw,
    })
}

/// Opens the crash dump in a file, to be split as the ELF core that was dumped. `None` if
/// makedumpfile has not compressed or flattened the file, which is then split as it is.
pub fn input(path: &Path) -> Result<Option<Input>> {
    let found = std::fs::metadata(path).map_err(Error::io("cannot open", path))?;
    // A file below /proc that reports length 0 may be consumed by reading it.
    // So it is left to the caller, who reads it once.
    if !found.is_file() || found.len() == 0 {
        return Ok(None);
    }
    let file: Arc<dyn ReadAt> = Arc::new(FileAt::open(path, 0).map_err(Error::io("cannot open", path))?);
    let core = |source| Some(Input::from_source(path, source));
    Ok(match detect(path, &*file)? {
        DumpForm::Kdump => core(Arc::new(CoreView::open(vec![(path.to_owned(), file)])?)),
        DumpForm::Flattened => {
            let flat = FlattenedFile::read(path, file.clone())?;
            // A flattened ELF core is read as what it was before it was flattened.
            match detect(path, &flat)? {
                DumpForm::Kdump => core(Arc::new(CoreView::open(vec![(path.to_owned(), file)])?)),
                _ => core(Arc::new(flat)),
            }
        }
        DumpForm::Elf | DumpForm::Raw => None,
    })
}
