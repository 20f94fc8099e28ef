//! Checks every data block and every fragment: it decodes, has the right length and overlaps no
//! other, and the gaps between blocks contain no unreferenced data.

use packfs_blocks::Progress;
use packfs_codec::DecodedStream;

use super::inodes::TableInodes;
use crate::check::in_order;
use crate::squashfs::reader::SquashfsReader;
use crate::squashfs::reader::decode::LocatedBlock;
use crate::squashfs::reader::map;
use crate::{Part, Result};
use packfs_tree::{CheckRemark, FindingCollector};

/// Number of decoded bytes per job.
const JOB_LEN: usize = 1 << 20;

/// A stored block and the length that it should decode to.
#[derive(Debug, Clone, Copy)]
struct StoredBlock {
    stored: LocatedBlock,
    len: BlockLength,
}

#[derive(Debug, Clone, Copy)]
enum BlockLength {
    Exactly(usize),
    AtLeast(u64),
}

/// Checks how everything is placed, and decodes a part of it on `threads` threads.
pub(super) fn check(
    reader: &SquashfsReader,
    inodes: TableInodes,
    part: Part,
    threads: usize,
    progress: &Progress,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    let complete = inodes.complete;
    let mut pieces = stored_blocks(reader, inodes, report)?;
    // Layout is checked whole, before a part is chosen: overlaps may cross parts.
    check_layout(reader, &pieces, complete, report)?;
    let len = u128::from(reader.superblock.bytes_used);
    // A block belongs to the part in which it begins, so parts share no work.
    pieces.retain(|piece| part.contains(piece.stored.start.into(), len));
    let total: u64 = pieces.iter().map(|piece| piece.stored.len as u64).sum();
    progress.total.store(total, std::sync::atomic::Ordering::Relaxed);
    let block_size = reader.superblock.block_size as usize;
    // Large enough that threads do not wait for each other.
    let jobs = pieces.chunks((JOB_LEN / block_size).max(1));
    in_order(threads, jobs, report, |job, buf| decode_blocks(reader, job, buf, progress))
}

/// Decodes blocks; returns damage and unusual properties.
fn decode_blocks(
    reader: &SquashfsReader,
    pieces: &[StoredBlock],
    buf: &mut Vec<u8>,
    progress: &Progress,
) -> Vec<CheckRemark> {
    let mut found = Vec::new();
    // The length of a fragment is not known, so there is room for a whole block.
    buf.resize(reader.superblock.block_size as usize, 0);
    for StoredBlock { stored, len } in pieces {
        // Also within a job, which may take a while.
        if progress.is_cancelled() {
            found.push(CheckRemark::Error(crate::Error::Cancelled));
            break;
        }
        let blocks = &reader.metadata.blocks;
        let result = match len {
            BlockLength::Exactly(len) => blocks.verify_exact(*stored, &mut buf[..*len]),
            BlockLength::AtLeast(len) => require_at_least(*stored, blocks.verify(*stored, buf), *len),
        };
        found.extend(match result {
            Ok(decoded) => {
                blocks.oddity(*stored, decoded).map(|text| CheckRemark::Note(stored.structure, stored.start, text))
            }
            Err(error) => Some(CheckRemark::Error(error)),
        });
        Progress::add(&progress.done, stored.len as u64);
    }
    found
}

fn require_at_least(stored: LocatedBlock, decoded: Result<DecodedStream>, used: u64) -> Result<DecodedStream> {
    let decoded = decoded?;
    // A fragment may be longer than what files use of it: some writers leave unused tails.
    if decoded.len as u64 >= used {
        return Ok(decoded);
    }
    let why = format!("it holds {} bytes, but files use {used}", decoded.len);
    Err(crate::Error::corrupt(stored.structure, stored.start, why))
}

/// Returns all stored blocks, by address.
fn stored_blocks(
    reader: &SquashfsReader,
    inodes: TableInodes,
    report: &mut FindingCollector<'_>,
) -> Result<Vec<StoredBlock>> {
    let block_size = reader.superblock.block_size;
    let mut pieces = Vec::with_capacity(inodes.blocks.len() + inodes.fragments.len());
    for (start, data) in inodes.blocks {
        let stored = map::stored("data block", start, data.word, block_size);
        // A block that reaches past the end of the image was already reported with its file.
        let inside = |stored: &LocatedBlock| start.saturating_add(stored.len as u64) <= reader.superblock.bytes_used;
        if let Some(stored) = report.take(stored)?.filter(inside) {
            pieces.push(StoredBlock { stored, len: BlockLength::Exactly(data.len) });
        }
    }
    for n in 0..reader.superblock.fragments {
        let used = inodes.fragments.get(&n).copied().unwrap_or(0);
        match reader.fragment(n) {
            Ok(stored) => pieces.push(StoredBlock { stored, len: BlockLength::AtLeast(used) }),
            Err(error) => report.error(error)?,
        }
    }
    // By length too, so that the same findings come in the same order.
    pieces.sort_unstable_by_key(|piece| (piece.stored.start, piece.stored.len));
    Ok(pieces)
}

/// The bytes up to the largest end of a block so far, within which others may lie.
#[derive(Debug, Clone, Copy)]
struct CoveredBytes {
    end: u64,
    /// True if the block that ends there is uncompressed, so that all its bytes are data. Decoders of most codecs stop at
    /// the end of the stream, whatever follows it.
    is_raw: bool,
}

impl CoveredBytes {
    fn add(&mut self, stored: LocatedBlock) {
        let end = stored.start + stored.len as u64;
        if end > self.end {
            *self = CoveredBytes { end, is_raw: stored.raw };
        }
    }
}

/// Checks that blocks do not overlap, and that gaps between them are zeros.
fn check_layout(
    reader: &SquashfsReader,
    pieces: &[StoredBlock],
    complete: bool,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    let data_end = reader.superblock.inode_table;
    let mut covered = CoveredBytes { end: reader.superblock.data_start, is_raw: true };
    for StoredBlock { stored, .. } in pieces {
        let end = covered.end;
        if stored.start < end && covered.is_raw {
            report.add(stored.structure, stored.start, format!("it overlaps the block that ends at byte {end}"));
        } else if stored.start < end {
            report.note(stored.structure, stored.start, format!("a compressed block before it ends at byte {end}"));
        } else if complete {
            // Otherwise the bytes may belong to an inode that was not found.
            check_gap(reader, end, stored.start, report)?;
        }
        covered.add(*stored);
    }
    let end = covered.end;
    if end > data_end {
        let text = format!("data blocks reach up to byte {end}");
        if covered.is_raw {
            report.add("inode table", data_end, text);
        } else {
            report.note("inode table", data_end, text);
        }
    } else if complete {
        check_gap(reader, end, data_end, report)?;
    }
    Ok(())
}

/// Zeros are padding; any other bytes are data that some inode should reference.
fn check_gap(reader: &SquashfsReader, start: u64, end: u64, report: &mut FindingCollector<'_>) -> Result<()> {
    let mut buf = [0; 4096];
    let mut at = start;
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(buf.len()).min(buf.len());
        // What cannot be read is reported once, not for every gap.
        if report.take(reader.metadata.blocks.disk.read("data", at, &mut buf[..len]))?.is_none() {
            return Ok(());
        }
        if buf[..len].iter().any(|byte| *byte != 0) {
            report.add("data", start, format!("no file refers to the {} bytes up to byte {end}", end - start));
            return Ok(());
        }
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_that_reaches_farthest_decides() {
        let block = |start, len, raw| LocatedBlock { structure: "data block", start, len, raw };
        // Of blocks within a longer one, neither the end nor the coding counts.
        for is_raw in [true, false] {
            let mut covered = CoveredBytes { end: 0, is_raw: !is_raw };
            covered.add(block(0, 100, is_raw));
            covered.add(block(10, 10, !is_raw));
            assert_eq!((covered.end, covered.is_raw), (100, is_raw));
            covered.add(block(90, 20, !is_raw));
            assert_eq!((covered.end, covered.is_raw), (110, !is_raw));
        }
    }
}
