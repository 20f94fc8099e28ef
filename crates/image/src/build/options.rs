//! Options shared by builds of every format.

use std::path::PathBuf;

use packfs_codec::Choice;

use super::{Order, RecipeTable, ReusedImage, Shards};
use crate::OnError;

/// Options of a build, whatever the format.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SharedOptions {
    /// Codec, level and options.
    pub codec: Choice,
    /// Codecs and cluster sizes that single files have instead; EROFS only.
    pub recipes: RecipeTable,
    /// Order of file data; without, one that suits the codec and what files share. Data that comes through a
    /// [`Store`](crate::source::Store) has its place when it comes; a [`Spool`](crate::source::Spool) keeps it for later.
    pub order: Option<Order>,
    /// True to share equal files and equal parts of files.
    pub dedup: bool,
    /// Cut the data into shards, which share only files that are equal as a whole. The bytes of the image depend on the
    /// number of shards; one shard gives the bytes of a build without.
    pub shards: Option<Shards>,
    /// True to turn blocks of zeros into holes.
    pub sparse: bool,
    /// True to decode and compare each block right after it is encoded, and to read the metadata back and check that it
    /// leads to them.
    pub verify: bool,
    /// Bytes left free before the image, for a file whose start has another use.
    pub offset: u64,
    /// A file whose first bytes come before the image, as many as `offset` says.
    pub prefix: Option<PathBuf>,
    /// Time of the image itself, in seconds since 1970; by default the newest time in the tree.
    /// SquashFS stores an unsigned 32-bit number, EROFS any time.
    pub time: Option<i64>,
    /// True to replace an existing target.
    pub force: bool,
    /// Take compressed blocks of unchanged content from an older image. The bytes of the new one do not change by it.
    pub reuse: Option<ReusedImage>,
    /// Write an index of the image here, with which a later build can [`reuse`](SharedOptions::reuse) it.
    pub index: Option<PathBuf>,
    /// Action for a file that cannot be read or changes meanwhile.
    pub on_error: OnError,
    /// Number of compression threads; with 0, everything runs on the calling thread.
    pub threads: usize,
    /// Memory budget for data in flight, in bytes.
    pub memory: u64,
}

impl SharedOptions {
    /// Returns the defaults, with the default codec of a format.
    pub(crate) fn new(codec: Choice) -> Self {
        SharedOptions {
            codec,
            recipes: RecipeTable::default(),
            order: None,
            dedup: true,
            shards: None,
            sparse: true,
            verify: true,
            offset: 0,
            prefix: None,
            time: None,
            force: false,
            reuse: None,
            index: None,
            on_error: OnError::Stop,
            threads: packfs_blocks::pipeline::cores(),
            memory: 64 << 20,
        }
    }

    /// Returns a budget of `memory / part` bytes, at least `least` and, unless `least` is larger, at most `most`.
    pub(crate) fn budget(&self, part: u64, least: usize, most: usize) -> usize {
        usize::try_from(self.memory / part).unwrap_or(usize::MAX).clamp(least, least.max(most))
    }
}
