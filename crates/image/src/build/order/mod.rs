//! The order of file data: similar files together.
//!
//! Files that share blocks (SquashFS fragments, the packed inode of EROFS) compress better beside similar ones. The
//! conductor sorts files by rank, and those small enough to share a block by type and name (`class`). For
//! [`Order::Similar`], workers sketch their contents (`sketch`), and each file is followed by the most similar one
//! (`chain`). Larger files come before them by path, so that no worker is left alone with one at the end. Files used
//! first (`Tree::hot`) precede all others. Both formats use this order. If the files are to be cut into shards, larger
//! files come by name instead of by path.

mod chain;
pub(super) mod class;
mod sketch;
mod sort;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::pipeline::{Pool, Window};
use packfs_blocks::stages::Stage;
use serde::Serialize;

use self::class::FileClass;
use self::sketch::{BINS, ContentSketch};
use super::shard::{Shards, weight};
use crate::source::Contents;
use crate::tree::{FileData, Ino, Kind, Tree};
use crate::{Error, Result};
use packfs_tree::FileRank;

/// Number of files whose sketches are in memory at the same time, 8 MiB with their lists. Larger trees are ordered in
/// windows, so files do not find their like in another one. Other sizes were not measured.
pub(super) const WINDOW: usize = 1 << 14;
/// Number of files that one job reads: enough that a job costs little beside opening them. Not measured.
const BATCH: usize = 32;
/// Number of jobs in flight for each worker, so that none waits for the conductor. Not measured.
const AHEAD: usize = 4;

/// The order of file data in an image, among files of equal rank. Except with [`Order::Path`], files too large to share
/// a block come first, by path, or by name if the image is packed in several shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "DataOrder"))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Order {
    /// By path: files of a directory are together.
    Path,
    /// By type (the extension, or the first bytes of the file), name and length.
    Type,
    /// By type, name and length; each file is followed by the most similar one.
    Similar,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Path => "path",
            Order::Type => "type",
            Order::Similar => "similar",
        })
    }
}

/// A file whose data has to be placed.
#[derive(Debug)]
struct OrderedFile<'t> {
    rank: i32,
    ino: Ino,
    name: &'t [u8],
    /// The bytes of the name that are compared next.
    next: u64,
    /// `None` if it is sorted by path.
    class: Option<FileClass>,
}

/// Orders the files of a tree. Workers read files if the order depends on their contents.
pub(super) struct FileOrderer<'a, 'env, S> {
    pub(super) order: Order,
    /// Maximum size of a file that shares a block as a whole.
    pub(super) small_max: u64,
    /// Shards that the files are to be cut into.
    pub(super) shards: Option<Shards>,
    pub(super) pool: &'a Pool<'env, S>,
    pub(super) progress: &'env Progress,
}

impl<S> FileOrderer<'_, '_, S> {
    /// Returns the files whose data has yet to be read, in order, and the sum of their lengths.
    pub(super) fn arrange(&self, tree: &Tree, ranks: &[FileRank]) -> Result<(Vec<Ino>, u64)> {
        let (mut items, total) = self.collect(tree, ranks)?;
        self.classify(tree, &mut items)?;
        let len = |item: &OrderedFile<'_>| tree.file_len(item.ino);
        // Empty files are not packed.
        let sizes = || items.iter().map(len).filter(|size| *size > 0);
        let gathers = self.gathers(|| sizes().map(weight).sum());
        // The order of paths stays among equal files.
        sort::sort(&mut items, gathers, &len);
        let mut files: Vec<Ino> = items.iter().map(|item| item.ino).collect();
        if self.order == Order::Similar {
            let mut from = 0;
            for together in items.chunk_by(|a, b| (a.rank, a.class.is_some()) == (b.rank, b.class.is_some())) {
                let to = from + together.len();
                if together.iter().all(|item| item.class.is_some()) {
                    files[from..to].chunks_mut(WINDOW).try_for_each(|window| self.chain(tree, window))?;
                }
                from = to;
            }
        }
        Ok((files, total))
    }

    /// Returns true if large files of one name lie together, for which all files have `weight`: parts of them are often
    /// equal, such as the messages of a program in several languages, and equal parts are found within a shard only.
    pub(super) fn gathers(&self, weight: impl FnOnce() -> u128) -> bool {
        self.order != Order::Path && self.shards.is_some_and(|shards| shards.count_for(weight) > 1)
    }

    /// Collects the files whose data has yet to be read, by path, and the sum of their lengths.
    fn collect<'t>(&self, tree: &'t Tree, ranks: &[FileRank]) -> Result<(Vec<OrderedFile<'t>>, u64)> {
        let mut ranks: HashMap<Ino, i32> = ranks.iter().map(|FileRank { ino, rank }| (*ino, *rank)).collect();
        // Files used first precede all others, each with a rank of its own.
        // Ranks of a sort file are 16 bits wide, so the lowest numbers are free.
        ranks.extend(tree.hot().iter().copied().zip(i32::MIN..));
        let mut items = Vec::new();
        let mut total = 0;
        tree.walk_named(|ino, name, _| {
            if let Kind::File { size, data: FileData::Source { .. } } = tree.inode(ino).kind {
                total += size;
                let by_class = self.order != Order::Path && size <= self.small_max && !tree.is_hot(ino);
                // Nearly all builds have none; a lookup for each of millions of files would be felt.
                let rank = if ranks.is_empty() { 0 } else { ranks.get(&ino).copied().unwrap_or(0) };
                items.push(OrderedFile { rank, ino, name, next: 0, class: by_class.then(|| FileClass::of_name(name)) });
            }
            Ok(())
        })?;
        Ok((items, total))
    }

    /// Determines the class of files by their first bytes if their names do not tell it.
    fn classify(&self, tree: &Tree, items: &mut [OrderedFile<'_>]) -> Result<()> {
        let unknown: Vec<usize> = (0..items.len()).filter(|n| items[*n].class == Some(FileClass::UNKNOWN)).collect();
        let files: Vec<Ino> = unknown.iter().map(|n| items[*n].ino).collect();
        self.read(tree, &files, class::of_contents, |n, class| items[unknown[n]].class = Some(class))
    }

    /// Reorders neighbouring files so that each follows a similar one.
    fn chain(&self, tree: &Tree, files: &mut [Ino]) -> Result<()> {
        let before = files.to_vec();
        let order = self.similar(&before, |ino| source(tree, *ino))?;
        files.iter_mut().zip(order).for_each(|(file, n)| *file = before[n]);
        Ok(())
    }

    /// Returns an order of neighbouring files, as indices, in which each follows a similar one. `files` are in some order
    /// of their places on disk.
    pub(super) fn similar<T: Ord>(&self, files: &[T], source: impl Fn(&T) -> ReadableFile) -> Result<Vec<usize>> {
        let mut by_place: Vec<u32> = (0..).take(files.len()).collect();
        // Read in the order of places, as a disk likes it, and not in that of names.
        by_place.sort_by_key(|n| &files[*n as usize]);
        // By bin and not by file: each job links the values of one bin, which then lie in a row.
        let mut bins = vec![vec![sketch::NONE; files.len()]; BINS];
        let sources = by_place.iter().map(|n| source(&files[*n as usize]));
        self.read_all(sources, sketch::of_file, |n, sketch: ContentSketch| {
            bins.iter_mut().zip(sketch).for_each(|(bin, least)| bin[by_place[n] as usize] = least);
        })?;
        let links: Vec<_> =
            bins.into_iter().map(|bin| self.pool.submit(move |_: &mut S| chain::BinLinks::of(&bin))).collect();
        let stages = &self.progress.stages;
        let links = stages.time(Stage::Wait, || links.into_iter().map(|ticket| ticket.wait()).collect());
        Ok(chain::order(links, files.len()))
    }

    /// Processes each of `files` on workers, and passes on the results with the indices of the files.
    pub(super) fn read<T: Send + 'static>(
        &self,
        tree: &Tree,
        files: &[Ino],
        look: fn(&dyn Contents, u64, u64) -> T,
        take: impl FnMut(usize, T),
    ) -> Result<()> {
        self.read_all(files.iter().map(|ino| source(tree, *ino)), look, take)
    }

    /// As [`FileOrderer::read`], for files outside of a tree.
    pub(super) fn read_all<T: Send + 'static>(
        &self,
        files: impl Iterator<Item = ReadableFile>,
        look: fn(&dyn Contents, u64, u64) -> T,
        mut take: impl FnMut(usize, T),
    ) -> Result<()> {
        let FileOrderer { pool, progress, .. } = *self;
        let mut window = Window::new((pool.threads() + 1) * AHEAD);
        let mut at = 0;
        let mut take = |seen: Vec<T>| {
            seen.into_iter().for_each(|seen| {
                take(at, seen);
                at += 1;
            });
        };
        let mut files = files.fuse();
        loop {
            Error::unless_cancelled(progress)?;
            let batch: Vec<_> = files.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            let job = move |_: &mut S| {
                let seen = batch.iter().map(|(from, key, size)| look(&**from, *key, *size));
                progress.stages.time(Stage::Read, || seen.collect())
            };
            window.push(pool.submit(job), 1);
            while window.is_full() {
                if let Some(seen) = progress.stages.time(Stage::Wait, || window.pop()) {
                    take(seen);
                }
            }
        }
        while let Some(seen) = progress.stages.time(Stage::Wait, || window.pop()) {
            take(seen);
        }
        Ok(())
    }
}

/// A file that can be read: its source, its key in it, and its length.
pub(super) type ReadableFile = (Arc<dyn Contents>, u64, u64);

fn source(tree: &Tree, ino: Ino) -> ReadableFile {
    match tree.inode(ino).kind {
        Kind::File { size, data: FileData::Source { from, key } } => (Arc::clone(from), key, size),
        _ => unreachable!("only files that are to be read are put in order"),
    }
}

#[cfg(test)]
mod tests;
