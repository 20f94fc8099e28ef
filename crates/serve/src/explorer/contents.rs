//! Contents of files that a page contains, for use without a server.

use std::collections::BTreeMap;

use packfs_image::stats::{EntryType, Stats};
use packfs_image::{AnyImage, Error};

use crate::Result;

/// Contents of some files of an image, by their positions in its statistics.
#[derive(Debug, Default)]
pub struct EmbeddedFiles(BTreeMap<usize, Vec<u8>>);

impl EmbeddedFiles {
    /// Reads whole files, the smallest first, as long as they have at most `most` bytes together.
    ///
    /// # Errors
    /// Damaged files.
    pub fn read(image: &AnyImage, stats: &Stats, most: u64) -> Result<EmbeddedFiles> {
        let is_file = |n: &usize| stats.entries[*n].kind == EntryType::File && stats.entries[*n].size > 0;
        // Empty files have nothing to show.
        let mut files: Vec<usize> = (0..stats.entries.len()).filter(is_file).collect();
        files.sort_by_key(|n| stats.entries[*n].size);
        let mut left = most;
        let mut contents = EmbeddedFiles::default();
        for n in files {
            let entry = &stats.entries[n];
            // The files are sorted by size, so no later one fits.
            let Some(rest) = left.checked_sub(entry.size) else { break };
            left = rest;
            let len = usize::try_from(entry.size).map_err(|_| Error::option("contents", most, "more than memory"))?;
            let mut bytes = vec![0; len];
            let mut done = 0;
            while done < len {
                let got = image.image().read_at(entry.nid, &mut bytes[done..], done as u64)?;
                if got == 0 {
                    break;
                }
                done += got;
            }
            // A damaged file may be shorter than its size: it is shown as far as it goes.
            bytes.truncate(done);
            contents.0.insert(n, bytes);
        }
        Ok(contents)
    }

    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.0.len()
    }

    /// Returns the contents as text.
    pub(super) fn encoded(&self, encode: impl Fn(&[u8]) -> String) -> BTreeMap<usize, String> {
        self.0.iter().map(|(n, bytes)| (*n, encode(bytes))).collect()
    }
}
