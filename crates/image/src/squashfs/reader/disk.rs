//! Stored bytes of an image: the only place of the reader that reads from the source.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::ReadAt;

use crate::{Error, Result};

/// Source of an image's bytes.
#[derive(Debug)]
pub(super) struct ImageBytes {
    source: Arc<dyn ReadAt>,
    path: PathBuf,
}

impl ImageBytes {
    pub(super) fn new(source: Arc<dyn ReadAt>, path: PathBuf) -> Self {
        ImageBytes { source, path }
    }

    /// Returns the length of the file, including padding.
    pub(super) fn len(&self) -> u64 {
        self.source.len()
    }

    /// Announces a read of `len` bytes.
    pub(super) fn will_read(&self, offset: u64, len: u64) {
        self.source.will_read(offset..offset.saturating_add(len));
    }

    /// Announces reads of several ranges.
    pub(super) fn will_read_ranges(&self, ranges: &[Range<u64>]) {
        self.source.will_read_ranges(ranges);
    }

    /// Returns true if announcing reads gains something.
    pub(super) fn has_delay(&self) -> bool {
        self.source.has_delay()
    }

    /// Fills `buf` from byte `offset` of the image; `structure` is for messages.
    pub(super) fn read(&self, structure: &'static str, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.source.read_exact_at(buf, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::corrupt(structure, offset, "the image ends inside it"),
            _ => Error::io("cannot read", &self.path)(error),
        })
    }
}
