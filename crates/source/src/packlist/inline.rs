//! Files whose bytes are in the list itself.

use std::path::PathBuf;

use crate::{Contents, FileReader};
use crate::{Error, Result};

/// The bytes of one file.
#[derive(Debug)]
pub(super) struct Inline(pub(super) Vec<u8>);

impl Contents for Inline {
    fn open(&self, _: u64) -> Result<Box<dyn FileReader + '_>> {
        Ok(Box::new(Reader(&self.0)))
    }

    fn path(&self, _: u64) -> PathBuf {
        "a file within a pack list".into()
    }
}

struct Reader<'a>(&'a [u8]);

impl FileReader for Reader<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let range = usize::try_from(offset).ok().and_then(|from| self.0.get(from..from.checked_add(buf.len())?));
        let bytes = range.ok_or_else(|| Error::Misuse("a read beyond the end of a file".into()))?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let end = self.0.len() as u64;
        Ok((offset < end).then_some((offset, end)))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
