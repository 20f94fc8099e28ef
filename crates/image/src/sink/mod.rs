//! Destinations of images: directories, tar archives, pseudo files, listings.
//!
//! Extraction to a directory is for Linux alone. Each sink follows a [`Walk`] over an [`Image`], whatever its format.

mod altered;
mod batch;
pub mod compress;
#[cfg(target_os = "linux")]
pub mod dir;
#[cfg(test)]
pub(crate) mod fake;
mod lookup;
pub(crate) mod names;
pub mod pseudo;
mod select;
pub mod tar;
mod walk;

pub use altered::AlteredImage;
pub use lookup::{lookup, resolve};
pub use select::{EntryDecision, Selection};
pub use walk::{Visit, Walk};

use crate::image::{FileType, Image, Stat};
use crate::{Part, Result};

/// Bytes that each entry counts for besides its data when work is divided, as each takes time of its own. Not measured.
const PER_ENTRY: u64 = 4096;

/// Deals the entries of a walk to the parts that share it: each gets a range of about equal weight.
#[derive(Debug)]
struct PartDealer {
    part: Part,
    /// Weight of all entries.
    total: u128,
    before: u128,
}

impl PartDealer {
    /// Prepares to deal the entries that are selected. Unless one part gets all, this is a walk.
    fn new(image: &dyn Image, select: &Selection, part: Part) -> Result<PartDealer> {
        let mut total = 0;
        if part != Part::WHOLE {
            let mut walk = Walk::over(image, select)?;
            loop {
                match walk.step() {
                    Ok(Some(visit)) => total += weight(&visit.stat),
                    Ok(None) => break,
                    // The walk that counts meets it again.
                    Err(_) => {}
                }
            }
        }
        Ok(PartDealer { part, total, before: 0 })
    }

    /// Returns true if the next entry of the walk belongs to the part.
    fn next(&mut self, stat: &Stat) -> bool {
        let at = self.before;
        self.before += weight(stat);
        self.part.contains(at, self.total)
    }
}

fn weight(stat: &Stat) -> u128 {
    let size = if let FileType::File { size } = stat.kind { size } else { 0 };
    u128::from(size) + u128::from(PER_ENTRY)
}

/// Returns the number of entries that will be visited; 0 if only a walk would tell. Additional
/// names of files are not counted.
fn count(image: &dyn Image, select: &Selection) -> u64 {
    if select.is_everything() { image.inode_count() } else { 0 }
}
