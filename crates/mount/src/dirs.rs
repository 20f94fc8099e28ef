//! Listings of directories that are being read. The kernel asks for a piece at a time, by number, and the listing is
//! read from the image once for all of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use packfs_blocks::mutex;
use packfs_image::image::Nid;
use packfs_image::{Image, Result};

/// Number of bytes of listings to keep; the latest is kept whatever its length.
const CAPACITY: usize = 8 << 20;
/// Number of listings to keep.
const COUNT: usize = 32;

/// The entries of a directory, in one piece of memory for all names.
#[derive(Debug)]
pub(crate) struct DirListing {
    names: Vec<u8>,
    /// End of each name, and its inode.
    entries: Vec<(u32, Nid)>,
}

impl DirListing {
    fn read(image: &dyn Image, dir: Nid) -> Result<DirListing> {
        let mut names = Vec::new();
        let mut entries = Vec::new();
        for entry in image.read_dir(dir)? {
            names.extend_from_slice(&entry.name);
            // Names of one directory take less than 4 GiB in both formats.
            entries.push((u32::try_from(names.len()).unwrap_or(u32::MAX), entry.nid));
        }
        Ok(DirListing { names, entries })
    }

    /// Returns the entries from number `first` on.
    pub(crate) fn from(&self, first: usize) -> impl Iterator<Item = (&[u8], Nid)> {
        // Entries have ends only: a name begins where the one before it ends.
        let begin = first.checked_sub(1).and_then(|before| self.entries.get(before)).map_or(0, |(end, _)| *end);
        let rest = self.entries.get(first..).unwrap_or_default();
        rest.iter().scan(begin, |begin, (end, nid)| {
            // Ends that a failed conversion has saturated find no bytes, and give an empty name.
            let name = self.names.get(*begin as usize..*end as usize).unwrap_or_default();
            *begin = *end;
            Some((name, *nid))
        })
    }

    fn weight(&self) -> usize {
        self.names.len() + self.entries.len() * size_of::<(u32, Nid)>()
    }
}

/// The latest listings.
#[derive(Debug, Default)]
pub(crate) struct ListingCache(Mutex<VecDeque<(Nid, Arc<DirListing>)>>);

impl ListingCache {
    /// Returns the listing of a directory.
    pub(crate) fn get(&self, image: &dyn Image, dir: Nid) -> Result<Arc<DirListing>> {
        if let Some(found) = self.find(dir) {
            return Ok(found);
        }
        // Without the lock: a slow directory must not keep the readers of others waiting.
        let listing = Arc::new(DirListing::read(image, dir)?);
        let mut kept = mutex::lock(&self.0);
        // Two threads may have read the same directory; the older copy leaves with the rest.
        kept.push_front((dir, Arc::clone(&listing)));
        let mut weight = 0;
        let mut fits = |listing: &DirListing| {
            weight += listing.weight();
            weight <= CAPACITY
        };
        let fitting = kept.iter().take(COUNT).map(|(_, listing)| listing).take_while(|listing| fits(listing)).count();
        // At least the listing itself, or a large directory would be read again for each piece.
        kept.truncate(fitting.max(1));
        Ok(listing)
    }

    fn find(&self, dir: Nid) -> Option<Arc<DirListing>> {
        let kept = mutex::lock(&self.0);
        kept.iter().find(|(nid, _)| *nid == dir).map(|(_, listing)| Arc::clone(listing))
    }
}
