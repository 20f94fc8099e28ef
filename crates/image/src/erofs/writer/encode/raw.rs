//! Data that is stored as it is: how far it reaches, and its clusters.

use packfs_blocks::encode::is_worth_a_try;

use super::lanes::PackingOptions;
use super::piece::{PackedCluster, PieceTail};
use super::worker::{LaneEncoder, OutputMark, PackOutput};
use crate::erofs::writer::stored::cluster::{StoredLen, count};
use crate::erofs::writer::stored::tails::tail_max;

/// Number of bytes that are probed at a time to tell whether compressing is worth a try. More would overlook text
/// between compressed files, as when the beginning stood for a whole cluster; less would see too little of what
/// repeats. Other lengths were not measured.
const PROBE_LEN: usize = 32 << 10;
/// Number of bytes of an uncompressed file that are one cluster if no other file can share it: the longest that Linux
/// reads, as each cluster takes an entry in memory.
const LONGEST_UNSHARED: usize = 1 << 20;

impl LaneEncoder {
    /// Returns how many bytes at the beginning of `rest`, up to a cluster, are not worth a try. In a large cluster, what
    /// shrinks may begin anywhere, so that the beginning alone would not tell.
    pub(super) fn hopeless_len(&self, rest: &[u8]) -> usize {
        let PackingOptions { choice, cluster, .. } = &self.packing;
        let look = &rest[..rest.len().min(*cluster)];
        if is_worth_a_try(choice, &look[..look.len().min(PROBE_LEN)]) {
            return 0;
        }
        let parts = look.chunks_exact(PROBE_LEN).enumerate().skip(1);
        let mut worth = parts.filter(|(_, part)| is_worth_a_try(choice, part));
        worth.next().map_or(look.len(), |(n, _)| n * PROBE_LEN)
    }

    /// Returns true if a file's clusters and the data after its inode take more room than its
    /// blocks and tail would.
    pub(super) fn is_no_shorter(&self, packed: usize, tail: &PieceTail, len: usize) -> bool {
        let blocks = self.plain_len(len);
        // Unaligned data cannot be addressed as blocks.
        if self.packing.unaligned && blocks > 0 {
            return false;
        }
        match tail {
            PieceTail::Inline { bytes, .. } => packed + bytes.len() >= len,
            PieceTail::Nothing => packed > blocks,
            PieceTail::Fragment(..) | PieceTail::Plain(_) => false,
        }
    }

    /// Returns how much of a file of `len` bytes is in blocks if it is uncompressed: the rest after
    /// the last whole block gets its own block if it is too long to follow any inode.
    pub(super) fn plain_len(&self, len: usize) -> usize {
        let tail = len % self.packing.block;
        if tail > tail_max(self.packing.block) { len } else { len - tail }
    }

    /// Returns the number of bytes of an uncompressed file that are one cluster. Compressed files may share these
    /// clusters, so they are like their own; without sharing, fewer take less memory.
    pub(super) fn longest_plain(&self) -> usize {
        if self.packing.share { self.packing.raw } else { LONGEST_UNSHARED }
    }

    /// Removes a file's clusters, from `before` on, and adds its blocks instead; the data after them is the rest.
    pub(super) fn store_plain(&self, src: &[u8], before: OutputMark, out: &mut PackOutput) -> PieceTail {
        out.return_to(before);
        let len = self.plain_len(src.len());
        if len > 0 {
            out.bytes[out.len..out.len + len].copy_from_slice(&src[..len]);
            let padding = len.next_multiple_of(self.packing.block) - len;
            out.bytes[out.len + len..out.len + len + padding].fill(0);
            out.len += len + padding;
            for part in src[..len].chunks(self.longest_plain()) {
                let physical = StoredLen::of_cut(part.len().next_multiple_of(self.packing.block));
                out.cuts.push(PackedCluster::new(physical, count(part.len()), true));
            }
        }
        PieceTail::Plain(src[len..].to_vec())
    }

    /// Stores the beginning of `rest`, at most `most` bytes, uncompressed; returns its length.
    pub(super) fn store_raw(&self, rest: &[u8], most: usize, first: usize, out: &mut PackOutput) -> usize {
        let PackingOptions { block, raw: longest, .. } = self.packing;
        // Whole blocks: the rest at the end of a file begins its own cluster.
        let len = if rest.len() < block { rest.len() } else { rest.len().min(most) / block * block };
        let len = len.min(longest);
        out.bytes[out.len..out.len + len].copy_from_slice(&rest[..len]);
        let physical = self.packing.physical(len);
        out.bytes[out.len + len..out.len + physical].fill(0);
        out.len += physical;
        let whole = |bytes: u32| (bytes as usize).is_multiple_of(block);
        // Joined with the cluster before, which saves an entry of the index, unless that ends within a block.
        match out.cuts[first..].last_mut() {
            Some(last) if last.raw && whole(last.logical) && last.logical as usize + len <= longest && len >= block => {
                last.logical += count(len);
                last.physical = StoredLen::of_cut(last.physical.bytes() + physical);
            }
            _ => out.cuts.push(PackedCluster::new(StoredLen::of_cut(physical), count(len), true)),
        }
        len
    }
}
