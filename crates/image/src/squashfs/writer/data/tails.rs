//! Tails of files, and whole small files: shares equal ones, and fills fragment blocks with the others.

use packfs_blocks::{Buffer, Digest};

use super::stored::TailPlace;
use super::{SquashfsData, too_many_blocks};
use crate::Result;
use crate::tree::DataHandling;

/// The fragment block being filled.
#[derive(Debug)]
pub(super) struct FillingFragment {
    bytes: Buffer,
    len: usize,
}

impl SquashfsData<'_, '_> {
    /// Receives the tail of the open file, or all of a small one.
    pub(super) fn add_tail(&mut self, bytes: &[u8], digest: Digest, handling: DataHandling) -> Result<()> {
        let alone = handling.contains(DataHandling::NO_DEDUP);
        let place = match self.tails.find(&digest).filter(|_| self.rules.dedup && !alone) {
            Some(place) => {
                self.counts.duplicate_bytes += bytes.len() as u64;
                self.report_saved(bytes.len() as u64);
                place
            }
            None => {
                let place = self.append_tail(bytes)?;
                if !alone {
                    self.tails.insert(digest, place);
                }
                place
            }
        };
        self.open.stored.tail = Some(place);
        Ok(())
    }

    /// Appends bytes to the fragment block being filled, or to a new one if they do not fit.
    fn append_tail(&mut self, bytes: &[u8]) -> Result<TailPlace> {
        if self.fragment.as_ref().is_some_and(|filling| filling.len + bytes.len() > self.rules.block_len) {
            self.send_fragment()?;
        }
        let block_len = self.rules.block_len;
        let filling =
            self.fragment.get_or_insert_with(|| FillingFragment { bytes: self.buffers.take(block_len), len: 0 });
        let start = filling.len;
        filling.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        filling.len += bytes.len();
        let fragment = u32::try_from(self.fragments.len()).map_err(|_| too_many_blocks())?;
        let place = u32::try_from(start).ok().and_then(|offset| TailPlace::new(fragment, offset));
        Ok(place.expect("within a block"))
    }

    /// Has the fragment block being filled written.
    pub(super) fn send_fragment(&mut self) -> Result<()> {
        let Some(FillingFragment { mut bytes, len }) = self.fragment.take() else { return Ok(()) };
        bytes.truncate(len);
        self.fragments.push(self.runs.push_other());
        if self.rules.plain_fragments { self.store_raw(bytes) } else { self.compress(bytes, None) }
    }
}
