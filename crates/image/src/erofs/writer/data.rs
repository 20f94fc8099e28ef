//! File data: decides on the conductor, piece by piece and in order, what is a duplicate, what goes into
//! the packed inode and what is compressed; writes what the workers return.
//!
//! A piece is a small file or a few megabytes of a larger one. It is the unit of compression and of
//! duplicates: a file is a list of pieces, which may lie anywhere, and equal pieces are one. Ends of files
//! that workers leave over are known only when these are done; they are collected in a stream of their own,
//! and written so many jobs later, so that the image does not depend on how fast anybody is.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::pipeline::{Pool, Ticket, Window};
use packfs_blocks::{Buffer, Buffers, Digest, Output, Progress};
use packfs_codec::Decoder;

use super::Counts;
use super::chunk::{self, Chunk, Chunks};
use super::index::{Cluster, Form, Index, Part};
use super::keep::{Keep, Kept};
use super::layout::tail_max;
use super::pack::{Cut as PackedCut, Ending, Packed, Piece, Rest, Short, Worker};
use super::stream::Stream;
use crate::erofs::format::Layout;
use crate::feed::{self, Cut, Fed};
use crate::{Error, OnError, Result};

mod done;
mod raw;
mod reuse;

/// Jobs after which a piece of file ends is written: enough for it to be ready, few enough not to pile up.
const LATE: u64 = 8;
/// Jobs whose pieces are being cut into chunks at a time.
const CHUNKING: usize = 3;
/// Clusters are shared if at least one in so many bytes of a piece is saved by it.
const SHARED_PART: u64 = 64;

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

impl Body {
    /// The layout the inode declares, with a map that begins `at` bytes after a multiple of 32.
    pub(crate) fn layout(&self, at: usize) -> Layout {
        match self {
            Body::Plain { tail, .. } if tail.len() == 0 => Layout::Plain,
            Body::Plain { .. } => Layout::Inline,
            Body::Chunks { .. } => Layout::Chunks,
            Body::Compressed(index) => index.layout(at),
        }
    }
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
    /// What lies behind inodes.
    pub(crate) keep: Keep,
    pub(crate) failed: Vec<(u32, Error)>,
    /// A digest of all file data in the order in which it came.
    pub(crate) content: blake3::Hash,
    /// Whether files have clusters in common but for their whole pieces.
    pub(crate) shares_clusters: bool,
    pub(crate) counts: Counts,
}

/// How file data is put down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) form: Form,
    /// Bytes of a piece.
    pub(crate) piece: usize,
    /// Files up to this length go to the packed inode, if ends of files do.
    pub(crate) fragment_max: usize,
    /// What becomes of the ends of files.
    pub(crate) ending: Ending,
    /// All files go to the packed inode.
    pub(crate) all_fragments: bool,
    /// Nothing is compressed.
    pub(crate) raw: bool,
    /// Uncompressed files are in chunks, all of them.
    pub(crate) chunks: bool,
    /// Uncompressed files may be in chunks, so that their pieces may lie anywhere.
    pub(crate) scattered: bool,
    /// Ends of uncompressed files lie behind their inodes.
    pub(crate) inline_tails: bool,
    pub(crate) dedup: bool,
    /// Average length of the chunks by which parts of files are found that are down already.
    pub(crate) chunk: Option<usize>,
    pub(crate) on_error: OnError,
}

impl Rules {
    fn block(&self) -> usize {
        1 << self.form.block_bits
    }
}

/// Where a part of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The piece with this number.
    Piece(u32),
    /// So many bytes from this offset of the stream of small files on.
    Small { offset: u64, len: u64 },
    /// So many bytes of zeros.
    Hole(u64),
    /// Uncompressed, from this byte on.
    Raw(u64),
}

/// What a piece became.
#[derive(Debug, Clone, Copy)]
struct Done {
    part: Part,
    end: PieceEnd,
}

#[derive(Debug, Clone, Copy)]
enum PieceEnd {
    Nothing,
    /// In the stream of ends.
    Fragment {
        offset: u64,
        len: u64,
    },
    Inline {
        kept: Kept,
        len: u64,
        raw: bool,
    },
    /// Blocks in a row, and what follows them behind the inode.
    Plain(Kept),
}

/// A file as far as it is known before all is down.
#[derive(Debug, Clone, Default)]
struct File {
    size: u64,
    places: Box<[Place]>,
    tail: Kept,
    /// So much of it is holes that it is not compressed.
    sparse: bool,
}

/// Takes pieces from a [`Feed`](crate::feed::Feed) and puts them down.
pub(crate) struct Data<'p, 'env> {
    pool: &'p Pool<'env, Worker>,
    output: &'env Output,
    progress: &'p Progress,
    /// Byte of the output file at which the image begins.
    base: u64,
    rules: Rules,
    /// For pieces.
    buffers: Buffers,
    /// For batches of small files that are not compressed.
    regions: Buffers,
    /// Where the next cluster goes, counted from the image's start.
    pos: u64,
    window: Window<Result<Work>>,
    /// Pieces that are being cut into chunks.
    chunking: VecDeque<Chunking>,
    chunks: Chunks,
    /// For reading clusters back.
    decoder: Option<Box<dyn Decoder>>,
    packed: Vec<u8>,
    unpacked: Vec<u8>,
    /// Pieces up to this have been handed to workers.
    planned: u32,
    /// Jobs taken out of the window.
    taken: u64,
    /// Pieces of the stream of ends, each to be written after so many jobs.
    late: VecDeque<(u64, Ticket<Result<Packed>>)>,
    clusters: Vec<Cluster>,
    done: Vec<Option<Done>>,
    keep: Keep,
    /// Whole files that came in one go.
    known: HashMap<Digest, u32>,
    /// Pieces by content and whether the file goes on behind them.
    pieces: HashMap<(Digest, bool), Place>,
    zeros: HashMap<(u64, bool), Place>,
    small: Stream,
    ends: Stream,
    known_ends: HashMap<Digest, u64>,
    /// Clusters by what they are in the image.
    known_clusters: HashMap<Short, u32>,
    raw_ends: HashMap<Digest, (u64, Kept)>,
    open: Vec<Place>,
    open_tail: Kept,
    /// Bytes of the open file that have come.
    at: u64,
    files: Vec<File>,
    failed: Vec<(u32, Error)>,
    content: blake3::Hasher,
    counts: Counts,
}

/// Pieces of some bytes, and their chunks.
type Chunking = (Arc<Buffer>, Vec<Piece>, Ticket<Vec<Vec<Chunk>>>);

/// What comes to be written next.
#[derive(Debug)]
enum Work {
    Packed(Packed),
    /// So many bytes were written by the worker.
    Written(u64),
}

impl<'p, 'env> Data<'p, 'env> {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        pool: &'p Pool<'env, Worker>,
        output: &'env Output,
        progress: &'p Progress,
        rules: Rules,
        buffers: Buffers,
        (base, pos): (u64, u64),
        budget: usize,
        keep: Keep,
        decoder: Option<Box<dyn Decoder>>,
    ) -> Self {
        Data {
            pool,
            output,
            progress,
            base,
            rules,
            small: Stream::new(buffers.clone(), rules.piece),
            ends: Stream::new(buffers.clone(), rules.piece),
            regions: Buffers::new(feed::BATCH_LEN.max(rules.piece) + feed::BATCH_FILES * rules.block()),
            buffers,
            pos,
            window: Window::new(budget),
            chunking: VecDeque::new(),
            chunks: Chunks::default(),
            decoder,
            packed: Vec::new(),
            unpacked: Vec::new(),
            planned: 0,
            taken: 0,
            late: VecDeque::new(),
            clusters: Vec::new(),
            done: Vec::new(),
            keep,
            known: HashMap::new(),
            pieces: HashMap::new(),
            zeros: HashMap::new(),
            known_ends: HashMap::new(),
            known_clusters: HashMap::new(),
            raw_ends: HashMap::new(),
            open: Vec::new(),
            open_tail: Kept::NONE,
            at: 0,
            files: Vec::new(),
            failed: Vec::new(),
            content: blake3::Hasher::new(),
            counts: Counts::default(),
        }
    }

    /// A number for one more file; `sparse` if almost all of it is holes.
    pub(crate) fn add_file(&mut self, size: u64, sparse: bool) -> Result<u32> {
        let file = u32::try_from(self.files.len()).map_err(|_| Error::Usage("more than 2^32 files".into()))?;
        self.files.push(File { size, sparse, ..File::default() });
        Ok(file)
    }

    /// Takes what a feed hands out.
    pub(crate) fn take(&mut self, fed: Fed) -> Result<()> {
        match fed {
            Fed::Small { bytes, files } => self.batch(bytes, files),
            Fed::Blocks { file, cuts, last } => match cuts {
                Ok(cuts) => {
                    cuts.into_iter().try_for_each(|cut| self.cut(file, cut))?;
                    if last { self.end(file) } else { Ok(()) }
                }
                Err(e) => self.fail(file, e),
            },
        }
    }

    fn fail(&mut self, file: u32, error: Error) -> Result<()> {
        // Pieces of a file that failed go on coming in; it is reported once. What was written of it stays
        // behind unreferenced.
        (self.open, self.open_tail, self.at) = (Vec::new(), Kept::NONE, 0);
        if self.rules.on_error == OnError::Stop {
            return Err(error);
        }
        if self.failed.last().is_none_or(|(last, _)| *last != file) {
            self.failed.push((file, error));
        }
        Ok(())
    }

    fn save(&self, len: u64) {
        Progress::add(&self.progress.done, len);
        Progress::add(&self.progress.saved, len);
    }

    /// Whole files that are shorter than a piece.
    fn batch(&mut self, bytes: Buffer, files: Vec<(u32, Result<feed::Part>)>) -> Result<()> {
        let (mut fresh, mut again) = (Vec::new(), Vec::new());
        for (file, read) in files {
            let (range, digest) = match read {
                Ok(part) => part,
                Err(e) => {
                    self.fail(file, e)?;
                    continue;
                }
            };
            self.content.update(digest.as_bytes());
            if let Some(same) = self.known.get(&digest).filter(|_| self.rules.dedup) {
                again.push((file, *same));
                self.counts.duplicate_bytes += range.len() as u64;
                self.save(range.len() as u64);
                continue;
            }
            self.known.insert(digest, file);
            fresh.push((file, range));
        }
        if self.rules.raw {
            self.raw_batch(bytes, &fresh)?
        } else {
            self.pack_batch(bytes, fresh)?
        }
        // Only now: what they are equal to may be of the same batch.
        for (file, same) in again {
            self.files[file as usize] = self.files[same as usize].clone();
        }
        Ok(())
    }

    fn pack_batch(&mut self, bytes: Buffer, fresh: Vec<(u32, Range<usize>)>) -> Result<()> {
        let mut pieces = Vec::new();
        for (file, range) in fresh {
            let len = range.len();
            let fragment = self.rules.ending == Ending::Fragment && len <= self.rules.fragment_max;
            let place = if fragment || self.rules.all_fragments {
                self.put_small(&bytes[range])?
            } else if self.is_tail(len) {
                self.packs(len);
                self.files[file as usize].tail = self.keep(&bytes[range])?;
                continue;
            } else {
                let seq = self.piece()?;
                pieces.push(Piece {
                    seq,
                    range,
                    ending: self.rules.ending,
                    whole: self.rules.inline_tails,
                    reuse: Vec::new(),
                });
                self.packs(len);
                Place::Piece(seq)
            };
            self.files[file as usize].places = Box::new([place]);
        }
        if pieces.is_empty() { Ok(()) } else { self.submit(bytes, pieces) }
    }

    /// Whether a file of so many bytes can only lie behind its inode: compressed it would take a block too.
    fn is_tail(&self, len: usize) -> bool {
        self.rules.inline_tails && self.rules.ending == Ending::Cluster && len <= tail_max(self.rules.block())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<Kept> {
        if bytes.is_empty() {
            return Ok(Kept::NONE);
        }
        self.keep.put(bytes).map_err(Error::io("cannot write", "a temporary file"))
    }

    fn cut(&mut self, file: u32, cut: Cut) -> Result<()> {
        let len = match &cut {
            Cut::Hole(len) => *len,
            Cut::Block(bytes, digest) => {
                self.content.update(digest.as_bytes());
                bytes.len() as u64
            }
        };
        self.at += len;
        let File { size, sparse, .. } = self.files[file as usize];
        let last = self.at == size;
        match cut {
            Cut::Hole(_) if self.rules.all_fragments => self.zeros_small(len),
            Cut::Hole(_) => {
                self.counts.hole_bytes += len;
                self.save(len);
                self.open.push(Place::Hole(len));
                Ok(())
            }
            Cut::Block(bytes, digest) if self.rules.raw || sparse => self.raw_block(bytes, digest, last, sparse),
            Cut::Block(bytes, _) if self.rules.all_fragments => {
                let place = self.put_small(&bytes)?;
                self.join_small(place);
                Ok(())
            }
            Cut::Block(bytes, digest) => {
                let place = self.block(bytes, digest, last)?;
                self.open.push(place);
                Ok(())
            }
        }
    }

    fn block(&mut self, bytes: Buffer, digest: Digest, last: bool) -> Result<Place> {
        let len = bytes.len();
        // A piece from the middle of a file may end another, but not the other way round.
        let found = self.pieces.get(&(digest, false)).or_else(|| self.pieces.get(&(digest, true)).filter(|_| last));
        if let Some(place) = found.copied().filter(|_| self.rules.dedup) {
            self.counts.duplicate_bytes += len as u64;
            self.save(len as u64);
            return Ok(place);
        }
        let place = Place::Piece(self.piece()?);
        self.pieces.insert((digest, last), place);
        self.packs(len);
        self.submit_whole(place, bytes, if last { self.rules.ending } else { Ending::More })?;
        Ok(place)
    }

    fn submit_whole(&mut self, place: Place, bytes: Buffer, ending: Ending) -> Result<()> {
        let Place::Piece(seq) = place else { return Ok(()) };
        let range = 0..bytes.len();
        self.submit(bytes, vec![Piece { seq, range, ending, whole: false, reuse: Vec::new() }])
    }

    /// Counts bytes that go to a codec.
    fn packs(&mut self, len: usize) {
        self.counts.packed_bytes += len as u64;
        Progress::add(&self.progress.done, len as u64);
        Progress::add(&self.progress.packed, len as u64);
    }

    /// A number for one more piece.
    fn piece(&mut self) -> Result<u32> {
        self.done.push(None);
        u32::try_from(self.done.len() - 1).map_err(|_| Error::Usage("more than 2^32 pieces of files".into()))
    }

    /// Appends to the stream of small files.
    fn put_small(&mut self, bytes: &[u8]) -> Result<Place> {
        self.packs(bytes.len());
        self.counts.fragment_bytes += bytes.len() as u64;
        let (place, mut left) = (Place::Small { offset: self.small.len(), len: bytes.len() as u64 }, bytes);
        while !left.is_empty() {
            left = self.small.put(left);
            if self.small.is_full() {
                self.send_small(Ending::More)?;
            }
        }
        Ok(place)
    }

    fn send_small(&mut self, ending: Ending) -> Result<()> {
        if let Some(bytes) = self.small.take() {
            let seq = self.piece()?;
            self.small.pieces.push(seq);
            self.submit_whole(Place::Piece(seq), bytes, ending)?;
        }
        Ok(())
    }

    fn zeros_small(&mut self, mut len: u64) -> Result<()> {
        let zeros = vec![0; self.rules.piece];
        while len > 0 {
            let part = usize::try_from(len).unwrap_or(usize::MAX).min(zeros.len());
            let place = self.put_small(&zeros[..part])?;
            self.join_small(place);
            len -= part as u64;
        }
        Ok(())
    }

    /// The open file lies whole in the stream of small files, one part behind the other.
    fn join_small(&mut self, place: Place) {
        match (self.open.last_mut(), place) {
            (Some(Place::Small { len, .. }), Place::Small { len: more, .. }) => *len += more,
            _ => self.open.push(place),
        }
    }

    fn end(&mut self, file: u32) -> Result<()> {
        let (open, tail) = (std::mem::take(&mut self.open), std::mem::take(&mut self.open_tail));
        self.at = 0;
        if self.failed.last().is_some_and(|(failed, _)| *failed == file) {
            return Ok(());
        }
        let all_holes = open.iter().all(|place| matches!(place, Place::Hole(_)));
        let says_holes = self.rules.raw || self.rules.form.encoded || self.files[file as usize].sparse || all_holes;
        let places = if says_holes { open } else { self.fill_holes(open)? };
        let file = &mut self.files[file as usize];
        (file.places, file.tail) = (places.into(), tail);
        Ok(())
    }

    /// Puts pieces of zeros, each length once, in place of holes: this form of index has none.
    fn fill_holes(&mut self, open: Vec<Place>) -> Result<Vec<Place>> {
        let mut places = Vec::with_capacity(open.len());
        let count = open.len();
        for (n, place) in open.into_iter().enumerate() {
            let Place::Hole(mut len) = place else {
                places.push(place);
                continue;
            };
            while len > 0 {
                let part = len.min(self.rules.piece as u64);
                len -= part;
                let last = len == 0 && n + 1 == count;
                let place = match self.zeros.get(&(part, last)) {
                    Some(place) => *place,
                    None => self.zero_piece(part, last)?,
                };
                places.push(place);
            }
        }
        Ok(places)
    }

    fn zero_piece(&mut self, len: u64, last: bool) -> Result<Place> {
        let mut bytes = self.buffers.take(usize::try_from(len).expect("a piece at most"));
        bytes.fill(0);
        let place = Place::Piece(self.piece()?);
        self.zeros.insert((len, last), place);
        self.submit_whole(place, bytes, if last { Ending::Cluster } else { Ending::More })?;
        Ok(place)
    }

    fn submit(&mut self, bytes: Buffer, pieces: Vec<Piece>) -> Result<()> {
        let bytes = Arc::new(bytes);
        let Some(average) = self.rules.chunk else { return self.submit_planned(&bytes, pieces) };
        let (shared, ranges) = (Arc::clone(&bytes), pieces.iter().map(|piece| piece.range.clone()).collect::<Vec<_>>());
        let ticket = self.pool.submit(move |_: &mut Worker| {
            ranges.into_iter().map(|range| chunk::chunks(&shared[range], average)).collect()
        });
        self.chunking.push_back((bytes, pieces, ticket));
        if self.chunking.len() > CHUNKING { self.plan().map(|_| ()) } else { Ok(()) }
    }

    fn submit_planned(&mut self, bytes: &Arc<Buffer>, pieces: Vec<Piece>) -> Result<()> {
        let Some(last) = pieces.last() else { return Ok(()) };
        self.planned = last.seq + 1;
        // The pieces and what they are packed into.
        let held = pieces.iter().map(|piece| piece.range.len()).sum::<usize>() * 2;
        let bytes = Arc::clone(bytes);
        let ticket = self.pool.submit(move |worker: &mut Worker| worker.pack(&bytes, pieces).map(Work::Packed));
        self.push(ticket, held)
    }

    fn push(&mut self, ticket: Ticket<Result<Work>>, held: usize) -> Result<()> {
        self.window.push(ticket, held);
        while self.window.is_full() {
            self.next()?;
        }
        Ok(())
    }

    /// Takes the oldest job's result and, when their time has come, those of ends.
    fn next(&mut self) -> Result<bool> {
        let Some(work) = self.window.pop() else { return Ok(false) };
        self.taken += 1;
        match work? {
            Work::Packed(packed) => self.write(packed)?,
            Work::Written(len) => Progress::add(&self.progress.written, len),
        }
        while self.late.front().is_some_and(|(due, _)| *due <= self.taken) {
            self.next_late()?;
        }
        Ok(true)
    }

    fn next_late(&mut self) -> Result<bool> {
        let Some((_, ticket)) = self.late.pop_front() else { return Ok(false) };
        let packed = ticket.wait()?;
        self.write(packed)?;
        Ok(true)
    }

    fn write(&mut self, packed: Packed) -> Result<()> {
        let Packed { bytes, cuts, pieces } = packed;
        let (mut at, mut written, mut cuts) = (0, 0, &cuts[..]);
        for (seq, count, rest) in pieces {
            let first =
                u32::try_from(self.clusters.len()).map_err(|_| Error::Usage("more than 2^32 clusters".into()))?;
            let (mine, others) = cuts.split_at(count as usize);
            cuts = others;
            let worth = self.is_sharing_worth_it(mine);
            for cut in mine {
                if let Some(cluster) = cut.reused {
                    self.clusters.push(cluster);
                    self.counts.shared_clusters += 1;
                    continue;
                }
                let end = at + cut.physical as usize;
                match self.shared(cut).filter(|_| worth) {
                    Some(cluster) => {
                        self.write_bytes(&bytes[written..at])?;
                        written = end;
                        self.clusters.push(cluster);
                        self.counts.shared_clusters += 1;
                    }
                    None => {
                        let start = self.pos + (at - written) as u64;
                        self.cluster(cut, start)?;
                    }
                }
                at = end;
            }
            let end = self.rest(rest)?;
            self.done[seq as usize] = Some(Done { part: Part { first, count }, end });
        }
        self.write_bytes(&bytes[written..at])
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let at = self.base + self.pos;
        self.output.write_all_at(bytes, at).map_err(Error::io("cannot write", self.output.target()))?;
        Progress::add(&self.progress.written, bytes.len() as u64);
        self.pos += bytes.len() as u64;
        Ok(())
    }

    /// Notes a cluster that lies at `start`.
    fn cluster(&mut self, cut: &PackedCut, start: u64) -> Result<()> {
        let PackedCut { physical, logical, raw, digest, .. } = *cut;
        if let Some(digest) = digest {
            let n = u32::try_from(self.clusters.len()).map_err(|_| Error::Usage("more than 2^32 clusters".into()))?;
            self.known_clusters.insert(digest, n);
        }
        self.clusters.push(Cluster { start, physical, logical, raw, partial: false });
        self.counts.clusters += 1;
        self.counts.raw_clusters += u64::from(raw);
        Ok(())
    }

    /// A cluster that is down and equal.
    fn shared(&self, cut: &PackedCut) -> Option<Cluster> {
        let found = self.clusters[*self.known_clusters.get(&cut.digest?)? as usize];
        let same = (found.physical, found.logical, found.raw) == (cut.physical, cut.logical, cut.raw);
        same.then_some(found)
    }

    /// Clusters elsewhere cost a larger index: for a few of many it is larger than they are.
    fn is_sharing_worth_it(&self, cuts: &[PackedCut]) -> bool {
        let saved: u64 = cuts.iter().filter(|cut| self.shared(cut).is_some()).map(|cut| u64::from(cut.physical)).sum();
        let all: u64 = cuts.iter().map(|cut| u64::from(cut.logical)).sum();
        saved * SHARED_PART >= all
    }

    fn rest(&mut self, rest: Rest) -> Result<PieceEnd> {
        Ok(match rest {
            Rest::Nothing => PieceEnd::Nothing,
            Rest::Inline { bytes, logical, raw } => {
                let kept = self.keep(&bytes)?;
                PieceEnd::Inline { kept, len: logical.into(), raw }
            }
            Rest::Plain(tail) => PieceEnd::Plain(self.keep(&tail)?),
            Rest::Fragment(bytes, digest) => {
                let len = bytes.len() as u64;
                self.counts.fragment_bytes += len;
                if let Some(offset) = self.known_ends.get(&digest).filter(|_| self.rules.dedup) {
                    self.counts.duplicate_bytes += len;
                    return Ok(PieceEnd::Fragment { offset: *offset, len });
                }
                let offset = self.put_end(&bytes)?;
                self.known_ends.insert(digest, offset);
                PieceEnd::Fragment { offset, len }
            }
        })
    }

    /// Appends to the stream of ends.
    fn put_end(&mut self, bytes: &[u8]) -> Result<u64> {
        let (offset, mut left) = (self.ends.len(), bytes);
        while !left.is_empty() {
            left = self.ends.put(left);
            if self.ends.is_full() {
                self.send_ends(Ending::More)?;
            }
        }
        Ok(offset)
    }

    fn send_ends(&mut self, ending: Ending) -> Result<()> {
        if let Some(bytes) = self.ends.take() {
            let seq = self.piece()?;
            self.ends.pieces.push(seq);
            let pieces = vec![Piece { seq, range: 0..bytes.len(), ending, whole: false, reuse: Vec::new() }];
            let bytes = Arc::new(bytes);
            let ticket = self.pool.submit(move |worker: &mut Worker| worker.pack(&bytes, pieces));
            self.late.push_back((self.taken + LATE, ticket));
        }
        Ok(())
    }
}
