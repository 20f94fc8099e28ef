//! The parts of a dump as the one stream they hold: which byte is where, and every byte verified when it is read.
//!
//! The path of data: `open` reads superblocks, indexes and footers, and scans the parts that lack them; `map` knows
//! from it which segment has which bytes; `read` decodes them, and takes from `stripe` what parity brings back.
//! [`check`](Set::check) and [`info`](Set::info) look at all of it.

mod check;
mod counted;
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
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use packfs_blocks::ReadAt;
use packfs_blocks::cache::BlockCache;
use packfs_blocks::io::FileAt;

use self::counted::Counted;
use self::map::{Map, Number};
use crate::format::MAGIC;
use crate::part::{Foot, Super};
use crate::{Error, Result};

pub use self::check::{Checked, Finding, Harm};
pub use self::extents::{Content, Extent, Extents};
pub use self::info::{Info, PartInfo, PartStatus};
pub(crate) use self::read::{Bytes, Scratch};
pub use self::repair::Repair;
pub use crate::lost::Lost;

/// How to read a set.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Most bytes of decoded data to keep. Default: 32 MiB.
    pub cache_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { cache_bytes: 32 << 20 }
    }
}

/// The parts at hand of one dump. A [`ReadAt`] over the dump's bytes.
///
/// ```no_run
/// use packfs_blocks::ReadAt;
/// use packfs_dump::set::{Options, Set};
///
/// let set = Set::open(&["a.part", "b.part"], &Options::default())?;
/// let mut page = [0; 4096];
/// set.read_exact_at(&mut page, 1 << 30)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Set {
    /// What the superblocks of all parts have alike.
    superblock: Super,
    /// Those at hand, by number.
    parts: Vec<Part>,
    /// Bytes of the dump, as far as is known.
    size: u64,
    /// Why there may be more.
    open_end: Option<&'static str>,
    map: Map,
    /// Decoded chunks, by segment and record.
    chunks: BlockCache<(Number, u32)>,
    /// Segments that a stripe brought back.
    restored: BlockCache<Number>,
    /// Idle ones of small reads.
    scratch: Mutex<Vec<Scratch>>,
}

/// A part at hand.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    source: Counted,
    /// Counted from 0; not known where the superblock is damaged and the footer gone.
    number: Option<u16>,
    /// Its superblock; where that is damaged, another part's with what is known of this one.
    superblock: Super,
    /// What is wrong with its superblock.
    flaw: Option<String>,
    foot: Option<Foot>,
    /// Why it was scanned, where it was.
    scanned: Option<String>,
}

/// Whether the file begins as a part does.
pub fn is_part(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    // What can be read only once is left alone.
    let again = path.metadata().is_ok_and(|file| file.is_file() || file.file_type().is_block_device());
    again && FileAt::open(path, 0).is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok()) && magic == MAGIC
}

impl Set {
    /// Opens the parts of a dump, in any order; some of them may be missing.
    pub fn open<P: AsRef<Path>>(paths: &[P], options: &Options) -> Result<Set> {
        let mut sources = Vec::new();
        for path in paths.iter().map(AsRef::as_ref) {
            let file = FileAt::open(path, 0).map_err(Error::io("cannot open", path))?;
            sources.push((path.to_owned(), Arc::new(file) as Arc<dyn ReadAt>));
        }
        Set::from_sources(sources, options)
    }

    /// Opens parts that are not files. The paths are what to call them in messages.
    pub fn from_sources(sources: Vec<(PathBuf, Arc<dyn ReadAt>)>, options: &Options) -> Result<Set> {
        let superblock = open::common(&sources)?;
        let parts = open::parts(sources, &superblock)?;
        let (parts, map) = open::map(parts)?;
        let (size, open_end) = open::size(&superblock, &parts, &map);
        let cache = options.cache_bytes / 2;
        let mut set = Set {
            chunks: BlockCache::new(cache, superblock.chunk.into()),
            restored: BlockCache::new(cache, superblock.segment.into()),
            scratch: Mutex::default(),
            superblock,
            parts,
            size,
            open_end,
            map,
        };
        set.add_missing()?;
        Ok(set)
    }

    /// Bytes of the dump that no part at hand has and no stripe brings back; nothing is read to find them. Damage shows
    /// when the bytes are read.
    pub fn lost(&self) -> Vec<Lost> {
        let why = self.why_missing();
        self.map
            .gaps(self.size)
            .into_iter()
            .map(|gap| Lost { start: gap.start, end: gap.end, why: why.clone() })
            .collect()
    }

    /// Counts from now on the bytes read from each part, in the order of their numbers.
    pub(crate) fn count_reads(&self) -> Vec<Arc<AtomicU64>> {
        self.parts.iter().map(|part| part.source.restart()).collect()
    }

    /// Why there may be more of the dump than [`len`](ReadAt::len) says, and what there is lacks its end.
    pub fn open_end(&self) -> Option<&'static str> {
        self.open_end
    }

    /// The files of the parts at hand.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// The numbers of the parts that are not at hand, from 0.
    pub fn missing(&self) -> Vec<u16> {
        (0..self.superblock.parts).filter(|n| !self.parts.iter().any(|part| part.number == Some(*n))).collect()
    }

    /// Where the segment ends that byte `at` is likely had from, or what no segment has.
    pub(crate) fn segment_end(&self, at: u64) -> u64 {
        let end = self.map.at(at).next().map(|number| self.map.get(number).end);
        end.or_else(|| self.map.next_start(at)).unwrap_or(self.size)
    }

    /// Most bytes a chunk decodes to.
    pub(crate) fn chunk_len(&self) -> usize {
        self.superblock.chunk as usize
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
