//! Notes of the conductor on the units it puts down: for the index of the image being built, and on those from an older
//! one.

use serde::Serialize;

use super::index::{Head, Stretch, Units as Noting};
use super::update::{self, Update};
use super::{Fate, Noted, Units};
use crate::{Result, Warning, WarningKind, Warnings};

/// Data from an older image, and the size of an update from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reused {
    /// Bytes of file data, or of fragments, that were not compressed again.
    pub content_bytes: u64,
    /// Bytes of the image that hold them.
    pub image_bytes: u64,
    /// Blocks or pieces that were taken.
    pub taken: u64,
    /// Blocks or pieces that are damaged in the older image.
    pub damaged: u64,
    /// Bytes of the image that lie in no whole, aligned block of `update_block` bytes that was taken from the older
    /// image as it is.
    pub update_bytes: u64,
    /// Bytes of such a block.
    pub update_block: u64,
}

/// Notes on one build.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Byte of the file at which the image begins.
    base: u64,
    noting: Option<Noting>,
    compared: Option<Compared>,
}

/// Comparison with an older image.
#[derive(Debug, Default)]
struct Compared {
    reused: Reused,
    update: Update,
    /// Positions of the bytes that were taken, in the new image and in the older, for what is copied from them.
    places: Vec<(u64, u64)>,
}

impl Ledger {
    /// Notes for an image that begins at byte `base` of its file.
    pub(crate) fn new(units: &Units, base: u64) -> Self {
        let noting = units.is_noting().then(Noting::default);
        let compared = units.has_older().then(Compared::default);
        Ledger { base, noting, compared }
    }

    /// Notes that `len` bytes were written at `start` of the image, those at `older` of the older image if it has them.
    /// Positions never go back.
    pub(crate) fn wrote(&mut self, start: u64, len: u64, older: Option<u64>) {
        let (Some(compared), Some(older)) = (&mut self.compared, older) else { return };
        compared.update.same(self.base + start, len, older);
        compared.places.push((start, older));
        compared.reused.image_bytes += len;
    }

    /// Returns the position in the older image of what was written at `start`, if it was taken from there.
    pub(crate) fn older(&self, start: u64) -> Option<u64> {
        let places = &self.compared.as_ref()?.places;
        let found = places.binary_search_by_key(&start, |(start, _)| *start).ok()?;
        Some(places[found].1)
    }

    /// Notes a unit of `len` bytes that is down.
    pub(crate) fn note(&mut self, noted: Noted, len: u64, rest: u8, stretches: impl ExactSizeIterator<Item = Stretch>) {
        let Noted { key, check, fate } = noted;
        if let Some(Compared { reused, .. }) = &mut self.compared {
            match fate {
                Fate::Fresh => {}
                Fate::Taken => {
                    reused.taken += 1;
                    reused.content_bytes += len;
                }
                Fate::Damaged => reused.damaged += 1,
            }
        }
        if let Some(noting) = &mut self.noting {
            noting.add(key, check, rest, stretches);
        }
    }

    /// Returns the figures of the comparison with an older image, if there is one; the new image has `len` bytes.
    pub(crate) fn reused(&mut self, len: u64) -> Option<Reused> {
        let Compared { reused, update, .. } = self.compared.take()?;
        let (update_bytes, update_block) = (update.finish(self.base, self.base + len), update::BLOCK);
        Some(Reused { update_bytes, update_block, ..reused })
    }

    /// Makes the index of the image.
    pub(super) fn index(self, head: &Head, encoder: &str) -> Vec<u8> {
        self.noting.unwrap_or_default().emit(head, encoder)
    }
}

impl Reused {
    /// Warns of blocks that are damaged in the older image.
    pub(crate) fn warn(&self, image: &std::path::Path, warnings: &mut Warnings) -> Result<()> {
        if self.damaged == 0 {
            return Ok(());
        }
        let detail = format!("{} blocks or pieces", self.damaged);
        warnings.add(Warning::new(WarningKind::ReuseDamaged, image).with_detail(detail))
    }
}
