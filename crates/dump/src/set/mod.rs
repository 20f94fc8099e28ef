//! Reads the parts of a dump as the stream they contain: locates every byte, and verifies it when it is read.
//!
//! The path of data: `open` reads superblocks, indexes and footers, and scans the parts that lack
//! them. From these `map` knows which segment contains which bytes. `read` decodes them, and
//! `stripe` restores others from parity. [`check`](Set::check) and [`info`](Set::info) examine
//! everything.

mod check;
mod extents;
mod info;
mod map;
mod open;
mod read;
mod repair;
mod stripe;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use packfs_blocks::ReadAt;
use packfs_blocks::cache::BlockCache;
use packfs_blocks::io::{FileAt, ObservedReads};
use packfs_blocks::stock::ToolStock;
use packfs_blocks::units::Size;

use self::map::{SegmentMap, SegmentNumber};
use crate::format::MAGIC;
use crate::part::{PartFooter, PartSuperblock};
use crate::{Error, Result};

pub use self::check::{CheckedSet, FindingHarm, SetFinding};
pub use self::extents::{DumpExtent, DumpExtents, ExtentContent};
pub use self::info::{PartInfo, PartStatus, SetInfo};
pub(crate) use self::read::{DumpBytes, ReadScratch};
pub use self::repair::RestoredSegments;
pub use crate::lost::LostRange;

/// Options for reading a set.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SetOptions {
    /// Maximum number of bytes of decoded data to cache. Default: 32 MiB.
    pub cache_bytes: u64,
}

impl Default for SetOptions {
    fn default() -> Self {
        SetOptions { cache_bytes: 32 << 20 }
    }
}

/// The available parts of one dump. A [`ReadAt`] over the dump's bytes.
///
/// ```no_run
/// use packfs_blocks::ReadAt;
/// use packfs_dump::set::{Set, SetOptions};
///
/// let set = Set::open(&["a.part", "b.part"], &SetOptions::default())?;
/// let mut page = [0; 4096];
/// set.read_exact_at(&mut page, 1 << 30)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Set {
    /// Common part of all superblocks.
    superblock: PartSuperblock,
    /// Available parts, by number.
    parts: Vec<AvailablePart>,
    /// Length of the dump in bytes, as far as known.
    size: u64,
    /// Reason why it may be longer.
    open_end: Option<&'static str>,
    map: SegmentMap,
    /// Decoded chunks, by segment and record.
    chunks: BlockCache<(SegmentNumber, u32)>,
    /// Segments restored from their stripes.
    restored: BlockCache<SegmentNumber>,
    /// Idle readers of small reads.
    scratch: ToolStock<ReadScratch>,
}

/// An available part.
#[derive(Debug)]
struct AvailablePart {
    path: PathBuf,
    source: ObservedReads,
    /// Number of bytes read from it, which shows the speed of its disk.
    read_bytes: Arc<AtomicU64>,
    /// Number, counted from 0; `None` if the superblock is damaged and the footer is missing.
    number: Option<u16>,
    /// Its superblock; if that is damaged, another part's, adapted to what is known of this one.
    superblock: PartSuperblock,
    /// Defect of its superblock.
    flaw: Option<String>,
    foot: Option<PartFooter>,
    /// Reason why it was scanned, if it was.
    scanned: Option<String>,
}

/// Returns true if the file begins as a part does.
pub fn is_part(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    // Files that can be read only once are not touched.
    let again = path.metadata().is_ok_and(|file| file.is_file() || file.file_type().is_block_device());
    again && FileAt::open(path, 0).is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok()) && magic == MAGIC
}

impl Set {
    /// Opens the parts of a dump, in any order; some of them may be missing.
    pub fn open<P: AsRef<Path>>(paths: &[P], options: &SetOptions) -> Result<Set> {
        let mut sources = Vec::new();
        for path in paths.iter().map(AsRef::as_ref) {
            let file = FileAt::open(path, 0).map_err(Error::io("cannot open", path))?;
            sources.push((path.to_owned(), Arc::new(file) as Arc<dyn ReadAt>));
        }
        Set::from_sources(sources, options)
    }

    /// Opens parts that are not files. The paths are their names in messages.
    pub fn from_sources(sources: Vec<(PathBuf, Arc<dyn ReadAt>)>, options: &SetOptions) -> Result<Set> {
        let superblock = open::common(&sources)?;
        let parts = open::parts(sources, &superblock)?;
        let (parts, map) = open::map(parts)?;
        let (size, open_end) = open::size(&superblock, &parts, &map);
        let cache = options.cache_bytes / 2;
        let mut set = Set {
            chunks: BlockCache::new(cache, superblock.chunk.into()),
            restored: BlockCache::new(cache, superblock.segment.into()),
            scratch: ToolStock::default(),
            superblock,
            parts,
            size,
            open_end,
            map,
        };
        set.add_missing()?;
        Ok(set)
    }

    /// Returns the ranges of the dump that no available part contains and no stripe can restore,
    /// without reading data. Damage is noticed when the bytes are read.
    pub fn lost(&self) -> Vec<LostRange> {
        let why = self.why_missing();
        self.map
            .gaps(self.size)
            .into_iter()
            .map(|gap| LostRange { start: gap.start, end: gap.end, why: why.clone() })
            .collect()
    }

    /// Starts counting the bytes read from each part; the counters are in the order of the part numbers.
    pub(crate) fn count_reads(&self) -> Vec<Arc<AtomicU64>> {
        let restart = |part: &AvailablePart| {
            part.read_bytes.store(0, Relaxed);
            Arc::clone(&part.read_bytes)
        };
        self.parts.iter().map(restart).collect()
    }

    /// Returns the reason why the dump may be longer than [`len`](ReadAt::len), with its end missing.
    pub fn open_end(&self) -> Option<&'static str> {
        self.open_end
    }

    /// Returns the paths of the available parts.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// Returns the numbers of the missing parts, from 0.
    pub fn missing(&self) -> Vec<u16> {
        (0..self.superblock.parts).filter(|n| !self.parts.iter().any(|part| part.number == Some(*n))).collect()
    }

    /// Returns the end of the segment from which byte `at` is probably read, or of the gap it is in.
    pub(crate) fn segment_end(&self, at: u64) -> u64 {
        let end = self.map.at(at).next().map(|number| self.map.get(number).end);
        end.or_else(|| self.map.next_start(at)).unwrap_or(self.size)
    }

    /// Returns the maximum decoded length of a chunk.
    pub(crate) fn chunk_len(&self) -> usize {
        self.superblock.chunk as usize
    }

    /// Returns a warning for readers of the dump: the missing parts and the bytes that are lost with them, or the end
    /// that may be missing. `None` if every byte is there or can be restored from all parts.
    pub fn warning(&self) -> Option<String> {
        let lost: u64 = self.lost().iter().map(|lost| lost.end - lost.start).sum();
        if lost > 0 {
            let share = Size(lost);
            return Some(format!("{}; {share} of the dump cannot be read", self.why_missing()));
        }
        if let Some(why) = self.open_end {
            return Some(format!("the end of the dump may be missing: {why}"));
        }
        let restored = "; its bytes are restored from the others";
        (!self.missing().is_empty()).then(|| format!("{}{restored}", self.why_missing()))
    }

    fn why_missing(&self) -> String {
        let of = self.superblock.parts;
        let missing: Vec<String> = self.missing().iter().map(|n| (n + 1).to_string()).collect();
        match missing.as_slice() {
            [] => "no part has them".to_owned(),
            [one] => format!("part {one} of {of} is missing"),
            [firsts @ .., last] => format!("parts {} and {last} of {of} are missing", firsts.join(", ")),
        }
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set").field("superblock", &self.superblock).field("size", &self.size).finish_non_exhaustive()
    }
}
