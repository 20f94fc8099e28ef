//! Marks of images of a set that are complete: a small file beside the shards that names the plan, and the image as its
//! attributes were. An image that is changed, replaced or removed later is no longer complete.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use packfs_blocks::{Digest, Output};

use super::steps::PRIVATE;
use super::wire::Put;
use crate::build::output_error;
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"packfsIM";
const NAME: &str = "image";

/// Marks the image at `path`, made by the plan `id`, as complete in `dir`.
pub(super) fn tell(dir: &Path, id: Digest, path: &Path) -> Result<()> {
    let mark = mark(id, path).map_err(Error::io("cannot read the attributes", path))?;
    let target = dir.join(NAME);
    let write = || {
        let output = Output::create(&target, PRIVATE, true)?;
        output.write_all_at(&mark, 0)?;
        output.commit()
    };
    write().map_err(output_error("cannot write", &target))
}

/// Returns true if the image at `path` is marked as complete.
pub(super) fn is(dir: &Path, id: Digest, path: &Path) -> bool {
    mark(id, path).is_ok_and(|mark| std::fs::read(dir.join(NAME)).is_ok_and(|found| found == mark))
}

fn mark(id: Digest, path: &Path) -> std::io::Result<Vec<u8>> {
    let image = path.metadata()?;
    let mut mark = MAGIC.to_vec();
    mark.put(id.as_bytes());
    mark.u64(image.len());
    mark.u64(image.mtime().cast_unsigned());
    mark.u64(image.mtime_nsec().cast_unsigned());
    Ok(mark)
}
