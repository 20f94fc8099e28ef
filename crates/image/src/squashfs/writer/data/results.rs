//! Results of the workers, in order: places blocks, and has them written.

use packfs_blocks::pipeline::JobTicket;
use packfs_blocks::stages::Stage;

use super::stored::BlockPlace;
use super::{ALIGNMENT, SquashfsData, WriteItem};
use crate::build::UnitStretch;
use crate::squashfs::format::DATA_RAW;
use crate::squashfs::writer::pack::PackedBlock;
use crate::{Error, Result};

impl SquashfsData<'_, '_> {
    pub(super) fn push(&mut self, ticket: JobTicket<Result<WriteItem>>, held: usize) -> Result<()> {
        self.window.push(ticket, held);
        while self.window.is_full() {
            self.oldest().map_or(Ok(()), |work| self.write(work))?;
        }
        while let Some(work) = self.window.pop_ready() {
            self.write(work)?;
        }
        Ok(())
    }

    pub(super) fn oldest(&mut self) -> Option<Result<WriteItem>> {
        self.tools.progress.stages.time(Stage::Wait, || self.window.pop())
    }

    /// Writes zeros up to the next aligned position.
    fn gap(&mut self) -> Result<()> {
        let len = self.pos.next_multiple_of(ALIGNMENT) - self.pos;
        let mut zeros = self.buffers.take(usize::try_from(len).expect("less than a page"));
        zeros.fill(0);
        let at = self.base + self.pos;
        self.pos += len;
        if len > 0 { self.writes.write(zeros, at) } else { Ok(()) }
    }

    pub(super) fn write(&mut self, work: Result<WriteItem>) -> Result<()> {
        let (bytes, word, noted, older) = match work? {
            WriteItem::Packed(PackedBlock { bytes, word, noted, older }, len) => {
                (bytes, word, noted.map(|noted| (noted, len)), older)
            }
            WriteItem::Gap => return self.gap(),
            WriteItem::Copy(from) => {
                let place = self.places[from as usize];
                let mut bytes = self.buffers.take(usize::try_from(place.len()).expect("at most a block"));
                let target = self.tools.output.target();
                let at = self.base + place.start;
                self.writes.until(at + place.len())?;
                self.tools.output.read_exact_at(&mut bytes, at).map_err(Error::io("cannot read back", target))?;
                self.counts.copied_blocks += 1;
                (bytes, place.word, None, self.ledger.older(place.start))
            }
        };
        self.ledger.wrote(self.pos, bytes.len() as u64, older);
        if let Some((noted, len)) = noted {
            let content = u32::try_from(len).expect("a block");
            let stored = word & !DATA_RAW;
            let stretch = UnitStretch { start: self.pos, stored, content, raw: word & DATA_RAW != 0 };
            self.ledger.note(noted, len as u64, 0, std::iter::once(stretch));
        }
        self.places.push(BlockPlace { start: self.pos, word });
        self.counts.blocks += 1;
        self.counts.raw_blocks += u64::from(word & DATA_RAW != 0);
        let at = self.base + self.pos;
        self.pos += bytes.len() as u64;
        self.writes.write(bytes, at)
    }
}
