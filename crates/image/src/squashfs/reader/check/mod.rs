//! Verifies a whole image, more strictly than the kernel and than any other tool: tables first, then every
//! inode in the order of the inode table, then every directory from the root on, then every block of data.

mod data;
mod inodes;
mod tables;
mod tree;

use packfs_blocks::Progress;
use packfs_blocks::progress::Phase;

use super::Reader;
use crate::{Error, Result};

/// Findings after which the rest is not listed: a damaged image may have millions.
const FINDINGS_MAX: usize = 1000;

/// See [`Image::check`](crate::Image::check).
pub(super) fn run(reader: &Reader, threads: usize, progress: &Progress, finding: &mut dyn FnMut(String)) -> Result<()> {
    progress.enter(Phase::Metadata);
    let mut report = Report { finding, count: 0 };
    tables::check(reader, &mut report)?;
    let mut inodes = inodes::scan(reader, progress, &mut report)?;
    tables::check_export(reader, &inodes, &mut report)?;
    tree::check(reader, &mut inodes, &mut report)?;
    progress.enter(Phase::Read);
    data::check(reader, inodes, threads, progress, &mut report)?;
    progress.enter(Phase::Done);
    Ok(())
}

/// Where findings go.
struct Report<'f> {
    finding: &'f mut dyn FnMut(String),
    count: usize,
}

impl Report<'_> {
    /// Reports something wrong with a structure.
    fn add(&mut self, structure: &'static str, offset: u64, why: impl Into<String>) {
        self.count += 1;
        if self.count <= FINDINGS_MAX {
            (self.finding)(Error::corrupt(structure, offset, why).to_string());
        } else if self.count == FINDINGS_MAX + 1 {
            (self.finding)(format!("more than {FINDINGS_MAX} findings; the rest is not listed"));
        }
    }

    /// Reports damage that made a reader stop; other errors are not about the image and go on.
    fn error(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corrupt { structure, offset, why } => {
                self.add(structure, offset, why);
                Ok(())
            }
            other => Err(other),
        }
    }

    /// The value of a step, or `None` when damage stopped it.
    fn take<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.error(error).map(|()| None),
        }
    }
}
