//! Files that equal one of an earlier shard. Only files of equal length are read, and completely only if their beginnings
//! are equal, too.

use std::ops::Range;

use packfs_blocks::Digest;
use packfs_blocks::hash::is_zero;

use super::FileOrderer;
use crate::Result;
use crate::source::Contents;
use crate::tree::{Ino, Tree};

/// Number of bytes of a file's beginning that are read of all files of one length, so that only those with equal
/// beginnings are read as a whole. A page: the system reads no less. Not measured.
pub(super) const HEAD: u64 = PAGE as u64;
const PAGE: usize = 4096;
/// Number of bytes read at once. Not measured.
const PIECE: usize = 1 << 18;

/// Returns, by index and in their order, the files that equal the first of their kind and lie in another shard, with the
/// index of that. A file that cannot be read equals none.
pub(super) fn find<S>(
    orderer: &FileOrderer<'_, '_, S>,
    tree: &Tree,
    files: &[Ino],
    shards: &[Range<usize>],
) -> Result<Vec<(usize, usize)>> {
    let shard = |file: usize| shards.partition_point(|range| range.end <= file);
    let mut alike = of_equal_length(tree, files, shard);
    read(orderer, tree, files, &mut alike, head)?;
    keep_over_cuts(&mut alike, shard);
    // The digest of the beginning is that of the whole of a short file.
    let (mut long, mut equal): (Vec<_>, Vec<_>) = alike.into_iter().partition(|(size, ..)| *size > HEAD);
    read(orderer, tree, files, &mut long, whole)?;
    keep_over_cuts(&mut long, shard);
    equal.append(&mut long);
    // The first of a group is the earliest file, which is packed. Those of its own shard are not listed: dedup finds
    // them when the shard is packed.
    let groups = equal.chunk_by(same).flat_map(|group| {
        let first = group[0].2;
        group.iter().map(move |(.., file)| (*file, first)).filter(move |(file, first)| shard(*file) != shard(*first))
    });
    let mut found: Vec<_> = groups.collect();
    found.sort_unstable();
    Ok(found)
}

/// Returns the files whose length occurs in several shards, without their digests.
fn of_equal_length(tree: &Tree, files: &[Ino], shard: impl Fn(usize) -> usize) -> Vec<(u64, Digest, usize)> {
    // Of all files only this is kept, a third of what is kept of those that are left.
    let mut sizes: Vec<(u64, u32)> = files.iter().zip(0..).map(|(ino, at)| (tree.file_len(*ino), at)).collect();
    sizes.sort_unstable();
    let none = Digest::from([0; 32]);
    let groups = sizes.chunk_by(|one, other| one.0 == other.0);
    let over_cuts = groups.filter(|group| shard(group[0].1 as usize) != shard(group[group.len() - 1].1 as usize));
    over_cuts.flatten().map(|(size, at)| (*size, none, *at as usize)).collect()
}

fn same(one: &(u64, Digest, usize), other: &(u64, Digest, usize)) -> bool {
    (one.0, one.1) == (other.0, other.1)
}

/// Sorts by what is equal, and keeps only what occurs in several shards.
fn keep_over_cuts(files: &mut Vec<(u64, Digest, usize)>, shard: impl Fn(usize) -> usize) {
    files.sort_unstable();
    let over_cuts = files.chunk_by(same).filter(|group| shard(group[0].2) != shard(group[group.len() - 1].2));
    *files = over_cuts.flatten().copied().collect();
}

/// Sets the digest of each file to that of what is read of it; removes files that cannot be read.
fn read<S>(
    orderer: &FileOrderer<'_, '_, S>,
    tree: &Tree,
    files: &[Ino],
    alike: &mut Vec<(u64, Digest, usize)>,
    look: fn(&dyn Contents, u64, u64) -> Option<Digest>,
) -> Result<()> {
    // In the order of their data, which suits disks.
    alike.sort_unstable_by_key(|(.., file)| *file);
    let inos: Vec<Ino> = alike.iter().map(|(.., file)| files[*file]).collect();
    let mut unread = vec![false; alike.len()];
    orderer.read(tree, &inos, look, |n, digest| match digest {
        Some(digest) => alike[n].1 = digest,
        None => unread[n] = true,
    })?;
    let mut unread = unread.into_iter();
    alike.retain(|_| !unread.next().unwrap_or(true));
    Ok(())
}

/// Returns a digest of a file's beginning; `None` if it cannot be read.
pub(super) fn head(from: &dyn Contents, key: u64, size: u64) -> Option<Digest> {
    let mut bytes = vec![0; usize::try_from(size.min(HEAD)).ok()?];
    let mut file = from.open(key).ok()?;
    file.read_exact_at(&mut bytes, 0).ok()?;
    // The digest of a short file is that of the whole, and one that has changed since it was listed equals none.
    file.finish().ok()?;
    Some(Digest::of(&bytes))
}

/// Returns a digest of all bytes of a file that are not zero. Which zeros are holes depends on the file system.
pub(super) fn whole(from: &dyn Contents, key: u64, size: u64) -> Option<Digest> {
    let mut file = from.open(key).ok()?;
    let mut bytes = vec![0; PIECE];
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < size {
        let Some((start, end)) = file.next_data(at).ok()?.filter(|(_, end)| *end > at) else { break };
        // Pages begin at multiples of their length, wherever the file system says that data begins.
        at = at.max(start / HEAD * HEAD);
        while at < end {
            let len = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
            file.read_exact_at(&mut bytes[..len], at).ok()?;
            for (page, offset) in bytes[..len].chunks(PAGE).zip((at..).step_by(PAGE)) {
                if !is_zero(page) {
                    hasher.update(&offset.to_le_bytes()).update(page);
                }
            }
            at += len as u64;
        }
    }
    // A file that changed while it was read equals none.
    file.finish().ok()?;
    Some(Digest::from(*hasher.finalize().as_bytes()))
}
