//! Marks of finished work: a small file that names the plan, and the finished file as its attributes were. A file that
//! is changed, replaced or removed later no longer matches its mark, so the change is noticed without reading the file.
//! Damage that leaves the attributes unchanged, such as that of a disk, is not noticed.

use std::path::{Path, PathBuf};

use packfs_blocks::{Digest, Output, system};

use super::steps::PRIVATE;
use crate::build::output_error;
use crate::{Error, Result};
use packfs_tree::encoding::FieldEncoder;

const MAGIC: [u8; 8] = *b"packfsIM";
/// Number of attempts to write a mark whose file a second run of the same task replaces meanwhile. Each run writes
/// after it replaced the file, so the last one finds the last file.
const ATTEMPTS: u32 = 3;

/// State of a file according to its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkEvidence {
    /// There is no mark.
    None,
    /// The file is unchanged since it was finished.
    Unchanged,
    /// The file was replaced or written to.
    Changed,
}

/// Returns the path of the mark of an image, in the directory of its shards.
pub(super) fn of_image(dir: &Path) -> PathBuf {
    dir.join("image")
}

/// Returns the path of the mark of a shard.
pub(super) fn of_shard(dir: &Path, shard: u32) -> PathBuf {
    dir.join(format!("{shard:07}.packed"))
}

/// Marks `file`, made by the plan `id`, as finished.
pub(super) fn write(mark: &Path, id: Digest, file: &Path) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let content = content(id, file).map_err(Error::io("cannot read the attributes", file))?;
        put(mark, &content)?;
        if evidence(mark, id, file) == MarkEvidence::Unchanged {
            break;
        }
    }
    Ok(())
}

/// Notes that the file of a mark is known to be damaged.
pub(super) fn write_doubt(mark: &Path) -> Result<()> {
    // The magic alone matches no file.
    put(mark, &MAGIC)
}

/// Compares `file` with its mark.
pub(super) fn evidence(mark: &Path, id: Digest, file: &Path) -> MarkEvidence {
    match (std::fs::read(mark), content(id, file)) {
        (Err(_), _) => MarkEvidence::None,
        (Ok(found), Ok(expected)) if found == expected => MarkEvidence::Unchanged,
        (Ok(_), _) => MarkEvidence::Changed,
    }
}

fn put(mark: &Path, content: &[u8]) -> Result<()> {
    let write = || {
        let output = Output::create(mark, PRIVATE, true)?;
        output.write_all_at(content, 0)?;
        output.commit()
    };
    write().map_err(output_error("cannot write", mark))
}

fn content(id: Digest, file: &Path) -> std::io::Result<Vec<u8>> {
    let found = file.metadata()?;
    let mut content = MAGIC.to_vec();
    content.put(id.as_bytes());
    content.u64(found.len());
    let (seconds, nanoseconds) = system::modification_time(&found);
    content.u64(seconds.cast_unsigned());
    content.u64(nanoseconds.cast_unsigned());
    Ok(content)
}
