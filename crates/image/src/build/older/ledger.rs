//! Records of the conductor about written units: for the index of the new image, and about units from an older one.

use serde::Serialize;

use super::index::{ImageStart, NewUnits, UnitStretch};
use super::update::{self, UpdateCounter};
use super::{NotedUnit, ReusableUnits, UnitOrigin};
use crate::{Result, Warning, WarningKind, Warnings};

/// Amount of data reused from an older image, and the size of an update from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "ReusedData"))]
#[non_exhaustive]
pub struct ReusedData {
    /// Bytes that were not compressed again: of file data, fragment blocks and the packed inode.
    pub content_bytes: u64,
    /// Bytes of the image that contain them.
    pub image_bytes: u64,
    /// Number of reused blocks (SquashFS) or pieces (EROFS).
    pub taken: u64,
    /// Number of blocks or pieces that are damaged in the older image, and were compressed again.
    pub damaged: u64,
    /// Bytes of the image that are not in any aligned block of `update_block` bytes copied from the older image as a
    /// whole.
    pub update_bytes: u64,
    /// Size of such a block in bytes.
    pub update_block: u64,
}

/// Records about one build.
#[derive(Debug, Default)]
pub(crate) struct ReuseLedger {
    /// Offset of the image in its file.
    base: u64,
    noting: Option<NewUnits>,
    compared: Option<OlderComparison>,
}

/// Comparison with an older image.
#[derive(Debug, Default)]
struct OlderComparison {
    reused: ReusedData,
    update: UpdateCounter,
    /// Positions of reused bytes in the new and in the older image, for copies of them.
    places: Vec<(u64, u64)>,
}

impl ReuseLedger {
    /// Creates the records of an image at offset `base` of its file.
    pub(crate) fn new(units: &ReusableUnits, base: u64) -> Self {
        let noting = units.is_noting().then(NewUnits::default);
        let compared = units.has_older().then(OlderComparison::default);
        ReuseLedger { base, noting, compared }
    }

    /// Records that `len` bytes were written at `start` of the image, reused from position `older` if given. Positions
    /// never decrease.
    pub(crate) fn wrote(&mut self, start: u64, len: u64, older: Option<u64>) {
        let (Some(compared), Some(older)) = (&mut self.compared, older) else { return };
        compared.update.same(self.base + start, len, older);
        compared.places.push((start, older));
        compared.reused.image_bytes += len;
    }

    /// Returns the position in the older image of the bytes at `start`, if they were reused.
    pub(crate) fn older(&self, start: u64) -> Option<u64> {
        let places = &self.compared.as_ref()?.places;
        // In order, as positions never decrease.
        let found = places.binary_search_by_key(&start, |(start, _)| *start).ok()?;
        Some(places[found].1)
    }

    /// Records a written unit of `len` bytes.
    pub(crate) fn note(
        &mut self,
        noted: NotedUnit,
        len: u64,
        rest: u8,
        stretches: impl ExactSizeIterator<Item = UnitStretch>,
    ) {
        let NotedUnit { key, check, fate } = noted;
        if let Some(OlderComparison { reused, .. }) = &mut self.compared {
            match fate {
                UnitOrigin::Fresh => {}
                UnitOrigin::Taken => {
                    reused.taken += 1;
                    reused.content_bytes += len;
                }
                UnitOrigin::Damaged => reused.damaged += 1,
            }
        }
        if let Some(noting) = &mut self.noting {
            noting.add(key, check, rest, stretches);
        }
    }

    /// Returns the comparison with the older image, if there is one. `len` is the length of the new image.
    pub(crate) fn reused(&mut self, len: u64) -> Option<ReusedData> {
        let OlderComparison { reused, update, .. } = self.compared.take()?;
        let update_bytes = update.finish(self.base, self.base + len);
        let update_block = update::BLOCK;
        Some(ReusedData { update_bytes, update_block, ..reused })
    }

    /// Returns the index of the image.
    pub(super) fn index(self, head: &ImageStart, encoder: &str) -> Vec<u8> {
        self.noting.unwrap_or_default().emit(head, encoder)
    }
}

impl ReusedData {
    /// Warns about damaged blocks of the older image.
    pub(crate) fn warn(&self, image: &std::path::Path, warnings: &mut Warnings) -> Result<()> {
        if self.damaged == 0 {
            return Ok(());
        }
        let detail = match self.damaged {
            1 => "1 block or piece".to_owned(),
            damaged => format!("{damaged} blocks or pieces"),
        };
        warnings.add(Warning::new(WarningKind::ReuseDamaged, image).with_detail(detail))
    }
}
