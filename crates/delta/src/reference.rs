//! The reference of a group: which blocks of the old file its plain bytes are compressed against.
//!
//! Candidates are the blocks that the new file does not copy. Where they are more than a reference may hold, each group
//! gets those that have most in common with it: sampled hashes of short strings tell.

use packfs_blocks::pipeline::{Pool, Window};

use crate::PatchEffort;
use crate::coding::StreamForm;
use crate::error::Result;
use crate::format::ReferenceBlock;
use crate::make::PatchWorker;
use crate::recipes::DecodedBlock;
use crate::units::DeltaFile;

/// Share of positions whose hash is kept: one in 256. More would find shorter stretches in common, for more memory.
const SAMPLE_MASK: u64 = 0xff << 40;
/// Adjacent plain pieces are joined up to this length, so that they are one block in a program.
const JOINED_MAX: u64 = 1 << 20;
/// Greatest number of blocks in a reference, to bound the length of its program.
const BLOCKS_MAX: usize = 100_000;

/// Blocks of the old file that may be part of a reference, in its order.
#[derive(Debug, Default)]
pub(crate) struct ReferenceCandidates {
    blocks: Vec<ReferenceBlock>,
    /// Sampled hashes of their plain bytes, sorted, each with the number of the block.
    samples: Vec<(u32, u32)>,
    plain_len: u64,
}

impl ReferenceCandidates {
    /// Decodes the units of `file` for which `is_candidate` holds, and samples their hashes.
    pub(crate) fn find<'env>(
        file: &'env DeltaFile,
        is_candidate: &[bool],
        pool: &Pool<'env, PatchWorker>,
        effort: &PatchEffort,
    ) -> Result<Self> {
        let mut found = ReferenceCandidates::default();
        let mut window = Window::new(effort.threads.max(1) * (4 << 20));
        let mut take = |measured: Result<MeasuredBlock>| -> Result<()> {
            let MeasuredBlock { block, samples } = measured?;
            let number = u32::try_from(found.blocks.len()).unwrap_or(u32::MAX);
            found.samples.extend(samples.into_iter().map(|sample| (sample, number)));
            found.plain_len += block.plain_len;
            found.blocks.push(block);
            Ok(())
        };
        let mut at = 0;
        while at < file.units.len() {
            if !is_candidate[at] {
                at += 1;
                continue;
            }
            effort.check()?;
            let first = file.units[at];
            let mut end = first.end();
            at += 1;
            if file.is_encoded(&first) {
                window.push(pool.submit(move |worker| measure_block(file, first, worker)), 1 << 20);
            } else {
                let joins =
                    |unit: &crate::units::FileUnit| !file.is_encoded(unit) && unit.end() - first.offset <= JOINED_MAX;
                while at < file.units.len() && is_candidate[at] && joins(&file.units[at]) {
                    end = file.units[at].end();
                    at += 1;
                }
                window.push(pool.submit(move |_| measure_plain(file, first.offset, end)), 1 << 20);
            }
            if window.is_full() {
                window.pop().map_or(Ok(()), &mut take)?;
            }
        }
        while let Some(measured) = window.pop() {
            take(measured)?;
        }
        // Sorted and bisected: eight bytes a sample, of which a map would take several times as many.
        found.samples.sort_unstable();
        Ok(found)
    }

    /// Returns the blocks to compress `plain` against: all if they fit in `room` bytes, otherwise those with most in common.
    pub(crate) fn select(&self, plain: &[u8], room: u64) -> Vec<ReferenceBlock> {
        if plain.is_empty() {
            return Vec::new();
        }
        // The usual case, an update of moderate size; then no choice can be wrong.
        if self.plain_len <= room && self.blocks.len() <= BLOCKS_MAX {
            return self.blocks.clone();
        }
        let mut hits = vec![0_u32; self.blocks.len()];
        each_sample(plain, &mut |hash| {
            let from = self.samples.partition_point(|(known, _)| *known < hash);
            // What is in many blocks tells nothing about one.
            for (_, block) in self.samples[from..].iter().take_while(|(known, _)| *known == hash).take(8) {
                hits[*block as usize] += 1;
            }
        });
        let mut order: Vec<usize> = (0..self.blocks.len()).filter(|block| hits[*block] > 0).collect();
        // By density and not by hits: a long block with a few more hits takes the room of many short ones.
        let density = |block: usize| u64::from(hits[block]) * 1_000_000 / self.blocks[block].plain_len.max(1);
        // The number decides between equals, so the patch is the same on each run.
        order.sort_by_key(|block| (std::cmp::Reverse(density(*block)), *block));
        let mut left = room;
        // What does not fit is skipped, not the end: shorter blocks may fill what is left.
        order.retain(|block| {
            let len = self.blocks[*block].plain_len;
            let fits = len <= left;
            if fits {
                left -= len;
            }
            fits
        });
        order.truncate(BLOCKS_MAX);
        // In the order of the old file, distances are short and reading moves forward.
        order.sort_unstable();
        order.into_iter().map(|block| self.blocks[block]).collect()
    }
}

/// A candidate, and the sampled hashes of its bytes.
struct MeasuredBlock {
    block: ReferenceBlock,
    samples: Vec<u32>,
}

fn measure_block(file: &DeltaFile, unit: crate::units::FileUnit, worker: &mut PatchWorker) -> Result<MeasuredBlock> {
    let Some(block) = file.block(&unit) else { return measure_plain(file, unit.offset, unit.end()) };
    let (form, plain) = match DecodedBlock::read(file, block, &mut worker.decoders)? {
        Ok(decoded) => (StreamForm::of(block.coding), decoded.input),
        // A block that cannot be decoded may still share bytes as it is stored.
        Err(stored) => (None, stored),
    };
    let plain_len = plain.len() as u64;
    let block = ReferenceBlock { offset: unit.offset, stored_len: unit.len, form, plain_len };
    Ok(MeasuredBlock { block, samples: samples_of(&plain) })
}

fn measure_plain(file: &DeltaFile, offset: u64, end: u64) -> Result<MeasuredBlock> {
    let stored = file.read(offset..end)?;
    let stored_len = end - offset;
    let block = ReferenceBlock { offset, stored_len, form: None, plain_len: stored_len };
    Ok(MeasuredBlock { block, samples: samples_of(&stored) })
}

fn samples_of(plain: &[u8]) -> Vec<u32> {
    let mut samples = Vec::new();
    each_sample(plain, &mut |hash| samples.push(hash));
    samples.sort_unstable();
    samples.dedup();
    samples
}

/// Calls `take` for the hashes of some strings of 64 bytes, chosen by the hash, so that equal stretches have equal
/// samples.
fn each_sample(plain: &[u8], take: &mut dyn FnMut(u32)) {
    let mut hash = 0_u64;
    for (at, byte) in plain.iter().enumerate() {
        // Each byte is shifted out after 64 steps, so a hash depends on the last 64 bytes alone.
        hash = (hash << 1).wrapping_add(scrambled(*byte));
        if at >= 63 && hash & SAMPLE_MASK == SAMPLE_MASK {
            take(
                // Both halves fit in 32 bits.
                u32::try_from(hash >> 32 & 0xffff_ffff).unwrap_or_default()
                    ^ u32::try_from(hash & 0xffff_ffff).unwrap_or_default(),
            );
        }
    }
}

/// Returns a number with random-looking bits for a byte.
fn scrambled(byte: u8) -> u64 {
    let mixed = (u64::from(byte) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 32)
}

/// Reads and decodes the blocks of a reference.
pub(crate) fn load<'env>(
    blocks: &[ReferenceBlock],
    pool: &Pool<'env, PatchWorker>,
    effort: &PatchEffort,
    old: &'env dyn packfs_blocks::ReadAt,
) -> Result<Vec<u8>> {
    // Bounded by the checks of the group, or by the option when a patch is made.
    let len: u64 = blocks.iter().map(|block| block.plain_len).sum();
    let mut reference = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
    let mut window = Window::new(effort.threads.max(1) * (4 << 20));
    let mut take = |plain: Result<Vec<u8>>| -> Result<()> {
        reference.extend_from_slice(&plain?);
        Ok(())
    };
    for block in blocks {
        effort.check()?;
        let block = *block;
        window.push(pool.submit(move |worker| load_block(block, worker, old)), 1 << 20);
        if window.is_full() {
            window.pop().map_or(Ok(()), &mut take)?;
        }
    }
    while let Some(plain) = window.pop() {
        take(plain)?;
    }
    Ok(reference)
}

fn load_block(block: ReferenceBlock, worker: &mut PatchWorker, old: &dyn packfs_blocks::ReadAt) -> Result<Vec<u8>> {
    use crate::error::Error;
    let mut stored = vec![0; usize::try_from(block.stored_len).unwrap_or_default()];
    old.read_exact_at(&mut stored, block.offset).map_err(Error::io("cannot read the old file"))?;
    let Some(form) = block.form else { return Ok(stored) };
    let mut plain = vec![0; usize::try_from(block.plain_len).unwrap_or_default()];
    // The digest of the old file is right, so it is the patch that is wrong.
    match worker.decoders.decode_exactly(form, &stored, &mut plain)? {
        true => Ok(plain),
        false => Err(Error::damaged("block of the old file", block.offset, "it does not decode as the patch says")),
    }
}
