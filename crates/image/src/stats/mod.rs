//! Statistics of an image: what is where, and why the image is as big as it is.
//!
//! Every byte of the image counts exactly once. A stored byte belongs to those who use it: files, or a kind of
//! metadata. If several files use one stored block (a fragment block, a cluster of the packed inode, a block found
//! twice), each gets a share in proportion to the plain bytes that it has in there. What nobody uses is
//! [`Stats::unused_bytes`]. So all shares, the metadata and the unused bytes add up to the length of the image.

mod group;
mod growth;
mod share;

use std::collections::HashMap;

use crate::image::{FileType, Nid};
use crate::placement::{OccupiedSpace, StoredRange};
use crate::sink::Walk;
use crate::{AnyImage, Error, Result};

use self::share::{StorageShares, StorageUse};

pub use self::group::{Group, RATIOS, extension};
pub use self::growth::{MeasuredImage, growth};

/// Statistics of an image. Besides names, they take about 100 bytes for each entry, and while they are measured 60
/// bytes for each use of a stored block.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stats {
    /// Length of the image, with its additional devices.
    pub image_bytes: u64,
    /// Entries in the order of their paths, each directory before its entries; the root is the first.
    pub entries: Vec<EntryStats>,
    /// Bytes of each kind of metadata.
    pub metadata: Vec<(&'static str, u64)>,
    /// Bytes that belong to nothing: padding, alignment, data that no file refers to.
    pub unused_bytes: u64,
    /// Stored bytes of fragment blocks, or of the packed inode, that files use; part of the files' stored bytes.
    pub fragment_bytes: u64,
}

/// An entry of an image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EntryStats {
    /// Position of its directory in [`Stats::entries`]; the root names itself.
    pub parent: usize,
    /// Name; empty for the root.
    pub name: Box<[u8]>,
    /// The inode.
    pub nid: Nid,
    /// Type of the entry.
    pub kind: EntryType,
    /// Length of a file, in bytes. 0 for everything else, and for further names of a file.
    pub size: u64,
    /// Bytes of `size` outside holes.
    pub data: u64,
    /// Share of the image's stored bytes.
    pub stored: u64,
    /// Bytes of `data` that are stored only once, and that an earlier file, or earlier part of this one, has as well.
    pub duplicate: u64,
    /// Bytes of `data` in a fragment block or the packed inode.
    pub fragment: u64,
}

/// Types of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryType {
    /// Directory.
    Dir,
    /// Regular file.
    File,
    /// Further name of the file at this position.
    Link(usize),
    /// Symbolic link, device, pipe or socket.
    Other,
}

/// User of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StorageUser {
    /// The file at this position in [`Stats::entries`].
    File(u32),
    /// Metadata of this name.
    Metadata(&'static str),
}

impl Stats {
    /// Measures an image. Reads its metadata, but no file data.
    ///
    /// # Errors
    /// Damaged metadata, and more than 4 billion entries.
    pub fn measure(image: &AnyImage) -> Result<Stats> {
        let occupied = occupied(image);
        let mut shares = StorageShares::default();
        let mut metadata = |what, piece: StoredRange| shares.add(StorageUse::new(StorageUser::Metadata(what), piece));
        occupied.tables(&mut metadata)?;
        let mut entries = list(image)?;
        for (n, entry) in entries.iter_mut().enumerate() {
            let nid = entry.nid;
            let kind = entry.kind;
            // The inode and its data count under the first name.
            if matches!(kind, EntryType::Link(_)) {
                continue;
            }
            occupied.inode(nid, &mut |what, piece| shares.add(StorageUse::new(StorageUser::Metadata(what), piece)))?;
            if kind == EntryType::File {
                let number =
                    u32::try_from(n).map_err(|_| Error::option("number of entries", n, "more than 4 billion"))?;
                occupied.file(nid, &mut |piece| {
                    let plain = piece.plain.end - piece.plain.start;
                    entry.data += plain;
                    entry.fragment += if piece.fragment { plain } else { 0 };
                    shares.add(StorageUse::new(StorageUser::File(number), piece));
                })?;
            }
        }
        let image_bytes = occupied.len();
        let mut stats = Stats { image_bytes, entries, metadata: Vec::new(), unused_bytes: 0, fragment_bytes: 0 };
        stats.divide(shares);
        Ok(stats)
    }

    fn divide(&mut self, shares: StorageShares) {
        let (mut left, mut metadata) = (self.image_bytes, HashMap::<&'static str, u64>::new());
        shares.divide(self.image_bytes, &mut |share| {
            // Never below 0: no byte of the image is given twice.
            left -= share.stored;
            match share.user {
                StorageUser::File(n) => {
                    let entry = &mut self.entries[n as usize];
                    entry.stored += share.stored;
                    entry.duplicate += share.duplicate;
                    self.fragment_bytes += if share.fragment { share.stored } else { 0 };
                }
                StorageUser::Metadata(what) => *metadata.entry(what).or_default() += share.stored,
            }
        });
        self.unused_bytes = left;
        self.metadata = metadata.into_iter().collect();
        // The name decides among equals, as a hash map has no order.
        self.metadata.sort_unstable_by_key(|(what, bytes)| (u64::MAX - bytes, *what));
    }

    /// Returns the path of an entry; empty for the root.
    pub fn path(&self, mut n: usize) -> Vec<u8> {
        let mut names = Vec::new();
        while let Some(entry) = self.entries.get(n).filter(|_| n != 0) {
            names.push(&*entry.name);
            n = entry.parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Returns the bytes of all metadata.
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the stored bytes of all files.
    pub fn file_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.stored).sum()
    }
}

fn occupied(image: &AnyImage) -> &dyn OccupiedSpace {
    match image {
        AnyImage::Squashfs(reader) => &**reader,
        AnyImage::Erofs(reader) => &**reader,
    }
}

/// Lists the entries of an image.
fn list(image: &AnyImage) -> Result<Vec<EntryStats>> {
    let mut entries = Vec::new();
    let mut dirs = Vec::new();
    let mut first = HashMap::new();
    let mut walk = Walk::new(image.image(), &[])?;
    while let Some(visit) = walk.step()? {
        let at = entries.len();
        dirs.truncate(visit.depth);
        let parent = dirs.last().copied().unwrap_or(0);
        let (kind, size) = match visit.stat.kind {
            FileType::Dir => {
                dirs.push(at);
                (EntryType::Dir, 0)
            }
            FileType::File { size } => match first.insert(visit.nid, at) {
                Some(original) => {
                    first.insert(visit.nid, original);
                    (EntryType::Link(original), 0)
                }
                None => (EntryType::File, size),
            },
            // Symbolic links and devices may have several names, too.
            _ if first.contains_key(&visit.nid) => (EntryType::Link(first[&visit.nid]), 0),
            _ => {
                first.insert(visit.nid, at);
                (EntryType::Other, 0)
            }
        };
        let name = visit.name.into();
        let nid = visit.nid;
        entries.push(EntryStats { parent, name, nid, kind, size, data: 0, stored: 0, duplicate: 0, fragment: 0 });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
