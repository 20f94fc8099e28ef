//! The end: what is still under way is written, and every file gets what its inode will carry.

use std::sync::Arc;

use super::open::{Part as FilePart, Stretch};
use super::{Data, Done, File, PieceEnd, Rules, What};
use crate::Result;
use crate::build::Failed;
use crate::erofs::writer::Counts;
use crate::erofs::writer::index::{Cluster, End, Index, Part};
use crate::erofs::writer::keep::{Keep, Kept};
use crate::erofs::writer::pack::Ending;

/// What the inode of a regular file carries to lead to its data.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Whole blocks one behind the other from `start` on ([`None`]: a hole), and the bytes after the last
    /// whole block, which follow the inode and lie within one block.
    Plain { start: Option<u64>, tail: Kept },
    /// Chunks of `1 << bits` blocks each at a block or nowhere.
    Chunks { bits: u8, blocks: Box<[Option<u64>]> },
    /// Compressed, with an index.
    Compressed(Index),
}

/// A file whose data is down.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) size: u64,
    pub(crate) body: Body,
}

/// What remains when all data is down.
#[derive(Debug)]
pub(crate) struct DataDone {
    /// The first block behind the data.
    pub(crate) end: u64,
    /// Files by the numbers the tree has in `Data::Stored`.
    pub(crate) files: Vec<Stored>,
    /// The packed inode's data, if any fragment lies in it.
    pub(crate) packed: Option<Stored>,
    /// Its pieces, in order.
    pub(crate) packed_pieces: Vec<Part>,
    /// Bytes of a block.
    pub(crate) block_len: u64,
    /// What lies behind inodes.
    pub(crate) keep: Keep,
    /// A digest of all file data in the order in which it came.
    pub(crate) content: blake3::Hash,
    /// Whether files have clusters in common but for their whole pieces.
    pub(crate) shares_clusters: bool,
    pub(crate) counts: Counts,
}

impl Data<'_, '_> {
    /// Writes everything that is still under way, and gives every file what its inode will carry.
    pub(super) fn settle_all(mut self) -> Result<(DataDone, Failed)> {
        if self.rules.ending == Ending::Fragment && !self.rules.all_fragments && self.small.len() > 0 {
            // The stream of ends follows, and begins with a block.
            let padding = self.small.len().next_multiple_of(self.rules.block() as u64) - self.small.len();
            let padding = usize::try_from(padding).expect("less than a block");
            self.put_small(&vec![0; padding])?;
        }
        self.send_small(Ending::Cluster)?;
        while self.plan()? {}
        while self.next()? {}
        self.send_ends(Ending::Cluster)?;
        while self.next_late()? {}
        let ends = self.small.len();
        let mut bodies = Bodies { rules: self.rules, done: &self.done, clusters: self.clusters, ends };
        let streams = || self.small.pieces.iter().chain(&self.ends.pieces).copied();
        let packed = What::Compressed(streams().map(FilePart::Piece).collect());
        let packed = File { size: ends + self.ends.len(), what: packed };
        let packed_pieces = streams().map(|seq| self.done[seq as usize].expect("every piece is down").part).collect();
        let parts: Vec<_> = self.files.iter().chain([&packed]).map(|file| bodies.parts(file)).collect();
        let clusters = Arc::new(std::mem::take(&mut bodies.clusters));
        let stored = |(file, found): (File, Found)| {
            let body = match found {
                Found::Body(body) => body,
                Found::Clusters(parts, end) => {
                    let (form, clusters, size) = (self.rules.form, Arc::clone(&clusters), file.size);
                    Body::Compressed(Index { form, clusters, parts, end, size })
                }
            };
            Stored { size: file.size, body }
        };
        let count = self.files.len();
        let mut files: Vec<_> = self.files.into_iter().chain([packed]).zip(parts).map(stored).collect();
        let packed = files.pop().filter(|packed| packed.size > 0);
        debug_assert_eq!(files.len(), count);
        let done = DataDone {
            end: self.pos.div_ceil(1 << self.rules.form.block_bits),
            files,
            packed,
            packed_pieces,
            block_len: self.rules.block() as u64,
            keep: self.keep,
            content: self.content.finalize(),
            shares_clusters: self.counts.shared_clusters > 0,
            counts: self.counts,
        };
        Ok((done, self.failed))
    }
}

/// What files refer to.
struct Bodies<'d> {
    rules: Rules,
    done: &'d [Option<Done>],
    /// Holes are appended as they come.
    clusters: Vec<Cluster>,
    /// Where the stream of ends begins in the packed inode.
    ends: u64,
}

/// Where a file is.
enum Found {
    Body(Body),
    Clusters(Box<[Part]>, Option<End>),
}

impl Bodies<'_> {
    fn parts(&mut self, file: &File) -> Found {
        let parts = match &file.what {
            What::Missing(_) | What::Hole => return Found::Body(Body::Plain { start: None, tail: Kept::NONE }),
            What::Raw { stretches, tail } => return Found::Body(blocks(stretches, *tail, self.rules)),
            What::Fragment { offset, len } => {
                return Found::Clusters(Box::new([]), Some(End::Fragment { offset: *offset, len: *len }));
            }
            What::Compressed(parts) => parts,
        };
        if let Some(body) = self.plain(parts) {
            return Found::Body(body);
        }
        let (mut found, mut end) = (Vec::<Part>::new(), None);
        for part in parts {
            let part = match *part {
                FilePart::Piece(seq) => {
                    let done = self.done[seq as usize].expect("every piece is down");
                    end = self.end(done.end);
                    done.part
                }
                FilePart::Hole(len) => self.hole(len),
            };
            match found.last_mut() {
                Some(last) if last.first + last.count == part.first => last.count += part.count,
                _ if part.count > 0 => found.push(part),
                _ => {}
            }
        }
        Found::Clusters(found.into(), end)
    }

    /// The body of a file that was not compressed after all.
    fn plain(&self, parts: &[FilePart]) -> Option<Body> {
        let [FilePart::Piece(seq)] = parts else { return None };
        let Some(Done { part, end: PieceEnd::Plain(tail) }) = self.done[*seq as usize] else { return None };
        let first = self.clusters[part.first as usize..].first().filter(|_| part.count > 0);
        Some(Body::Plain { start: first.map(|first| first.start >> self.rules.form.block_bits), tail })
    }

    fn end(&self, end: PieceEnd) -> Option<End> {
        match end {
            PieceEnd::Nothing | PieceEnd::Plain(_) => None,
            PieceEnd::Fragment { offset, len } => Some(End::Fragment { offset: self.ends + offset, len }),
            PieceEnd::Inline { kept, len, raw } => Some(End::Inline { kept, len, raw }),
        }
    }

    /// A hole as clusters of no bytes, as encoded extents have it.
    fn hole(&mut self, mut len: u64) -> Part {
        const MOST: u32 = 1 << 30;
        let first = u32::try_from(self.clusters.len()).expect("fewer than 2^32 clusters");
        while len > 0 {
            let logical = u32::try_from(len).unwrap_or(MOST).min(MOST);
            self.clusters.push(Cluster { start: 0, physical: 0, logical, raw: true, partial: false });
            len -= u64::from(logical);
        }
        let count = u32::try_from(self.clusters.len()).expect("fewer than 2^32 clusters") - first;
        Part { first, count }
    }
}

/// One row if it is one, else chunks.
fn blocks(stretches: &[Stretch], tail: Kept, rules: Rules) -> Body {
    let (bits, piece) = (rules.form.block_bits, rules.piece as u64);
    let mut chunks = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        match *stretch {
            Stretch::At(start) => chunks.push(Some(start >> bits)),
            Stretch::Hole(len) => chunks.extend((0..len.div_ceil(piece)).map(|_| None)),
        }
    }
    let in_row = |first: u64| (0..).zip(&chunks).all(|(n, chunk)| *chunk == Some(first + n * (piece >> bits)));
    match chunks.first() {
        None => Body::Plain { start: None, tail },
        Some(Some(first)) if !rules.chunks && in_row(*first) => Body::Plain { start: Some(*first), tail },
        _ => {
            let bits = u8::try_from((piece >> bits).ilog2()).expect("a few bits");
            Body::Chunks { bits, blocks: chunks.into() }
        }
    }
}
