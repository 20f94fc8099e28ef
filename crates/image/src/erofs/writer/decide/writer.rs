//! The conductor of file data: receives pieces, decides what becomes of each, and completes files.

use packfs_blocks::units::Size;
use packfs_blocks::{Buffer, Buffers, Progress};

use super::files::Files;
use super::jobs::Jobs;
use super::layout::{File, FilePart, Open, Other, SoFar, Way, What};
use super::locations::{Bodies, Pieces};
use super::packed_inode::PackedInode;
use super::referred::cut_referred;
use super::rules::{How, Rules};
use super::sharing::Sharing;
use super::stretches::Stretches;
use crate::build::{Cut, Failed, Fed, Ledger, Part as Read, Place, Tools, Writer};
use crate::erofs::raw_sharing::PAGE_LEN;
use crate::erofs::writer::counts::Tally;
use crate::erofs::writer::encode::lanes::Lanes;
use crate::erofs::writer::encode::piece::Ending;
use crate::erofs::writer::encode::worker::Worker;
use crate::erofs::writer::place::data_zone::Zone;
use crate::erofs::writer::stored::data::DataDone;
use crate::erofs::writer::stored::tails::Keep;
use crate::source::Run;
use crate::tree::{Handling, Recipe};
use crate::{Error, Result};

/// Receives pieces from a [`Feed`](crate::build::Feed) and writes them.
pub(crate) struct Data<'p, 'env> {
    pub(super) rules: Rules,
    pub(super) lanes: &'env Lanes,
    /// True if more of the packed inode comes before or after that of these files.
    pub(super) is_cut: bool,
    pub(super) files: Files,
    pub(super) sharing: Sharing,
    pub(super) stretches: Stretches,
    pub(super) packed: PackedInode,
    pub(super) jobs: Jobs<'p, 'env>,
    pub(super) zone: Zone<'p, 'env>,
    pub(super) pieces: Pieces,
    /// Data stored after inodes.
    pub(super) keep: Keep,
    /// Buffers for pieces.
    pub(super) buffers: Buffers,
    /// Buffers for batches of small uncompressed files.
    pub(super) regions: Buffers,
    pub(super) content: blake3::Hasher,
    /// Positions of files on additional devices: other files arrive at any time.
    pub(super) referred: blake3::Hasher,
    pub(super) referred_bytes: u64,
    pub(super) tally: Tally<'env>,
    pub(super) progress: &'env Progress,
}

impl<'p, 'env> Data<'p, 'env> {
    /// Makes a writer; `budget` bounds the bytes in flight.
    pub(crate) fn new(
        tools: Tools<'p, 'env, Worker>,
        rules: Rules,
        lanes: &'env Lanes,
        buffers: Buffers,
        place: Place,
        budget: usize,
        ledger: Ledger,
    ) -> Self {
        let tools = Tools { output: tools.blob.unwrap_or(tools.output), ..tools };
        let Tools { output, progress, .. } = tools;
        Data {
            rules,
            lanes,
            is_cut: place.is_cut || rules.more_packed,
            files: Files::new(rules.on_error),
            sharing: Sharing::new(rules.dedup),
            stretches: Stretches::new(rules.block(), rules.form.encoded),
            packed: PackedInode::new(&buffers, rules.piece),
            jobs: Jobs::new(tools, budget),
            zone: Zone::new(tools, (place.base, place.pos), budget / 4, ledger),
            pieces: Pieces::default(),
            keep: Keep::new(output.scratch()),
            buffers,
            regions: rules.region_buffers(),
            content: blake3::Hasher::new(),
            referred: blake3::Hasher::new(),
            referred_bytes: 0,
            tally: Tally::new(progress),
            progress,
        }
    }

    /// Receives whole files that are shorter than a piece.
    fn batch(&mut self, bytes: Buffer, files: Vec<(u32, Result<Read>)>) -> Result<()> {
        let (mut fresh, mut again, mut stored) = (Vec::with_capacity(files.len()), Vec::new(), Vec::new());
        self.sharing.touch_files(files.iter().filter_map(|(_, read)| Some(&read.as_ref().ok()?.1)));
        for (file, read) in files {
            let (range, digest) = match read {
                Ok(part) => part,
                Err(e) => {
                    self.files.fail(file, e)?;
                    continue;
                }
            };
            self.content.update(digest.as_bytes());
            if self.files.is_stored(file) {
                stored.push((file, (range, digest)));
                continue;
            }
            match self.sharing.file(self.files.how(file).keyed(digest), file) {
                Some(same) => {
                    again.push((file, same));
                    self.tally.saves(range.len());
                }
                None => fresh.push((file, (range, digest))),
            }
        }
        self.stored_batch(&bytes, stored)?;
        if self.rules.raw {
            self.raw_batch(bytes, &fresh)?
        } else {
            self.pack_batch(bytes, fresh)?
        }
        // Only now: the files they equal may be in the same batch.
        again.into_iter().for_each(|(file, same)| self.files.put_same(file, same));
        Ok(())
    }

    /// Receives the next piece or hole of a larger file.
    fn cut(&mut self, file: u32, cut: Cut) -> Result<()> {
        let Some(mut open) = self.files.take_open(file, &self.rules, self.packed.small.len()) else { return Ok(()) };
        match if open.so_far.ends_with_hole() { cut.behind_hole() } else { cut } {
            Cut::Hole(len) => {
                open.at += len;
                self.hole(&mut open.so_far, len)?;
            }
            Cut::Block(bytes, digest) => {
                self.content.update(digest.as_bytes());
                open.at += bytes.len() as u64;
                let last = open.at == self.files.size(file);
                match &mut open.so_far {
                    SoFar::Raw(blocks) => self.raw_piece(blocks, bytes, digest, last)?,
                    SoFar::Sparse(blocks) => self.sparse_piece(blocks, bytes)?,
                    SoFar::Compressed(parts) => parts.push(self.piece(file, bytes, digest, last)?),
                    SoFar::Fragment(_) => self.put_small(&bytes).map(|_| ())?,
                }
            }
        }
        self.files.put_open(open);
        Ok(())
    }

    fn hole(&mut self, so_far: &mut SoFar, len: u64) -> Result<()> {
        match so_far {
            SoFar::Raw(blocks) | SoFar::Sparse(blocks) => blocks.push_hole(len),
            SoFar::Compressed(parts) => parts.push_hole(len),
            SoFar::Fragment(_) => return self.put_zeros(len),
        }
        self.tally.hole(len);
        Ok(())
    }

    /// Completes the open file.
    fn end(&mut self) -> Result<()> {
        let Some(Open { file, so_far, .. }) = self.files.take_whole() else { return Ok(()) };
        let what = match so_far {
            SoFar::Raw(blocks) | SoFar::Sparse(blocks) => blocks.finish(),
            SoFar::Fragment(offset) => What::Fragment(offset),
            SoFar::Compressed(parts) => match parts.finish() {
                None => What::Hole,
                Some(parts) if self.rules.form.encoded => What::compressed(parts),
                Some(parts) => What::compressed(self.fill_holes(file, parts)?),
            },
        };
        self.files.put(file, what);
        Ok(())
    }

    /// Sends the rest of both streams of the packed inode, and takes all results. The stream of
    /// tails is complete only when everything else is written.
    fn settle_streams(&mut self) -> Result<()> {
        // Each piece has to begin with a page of the packed inode.
        let padding =
            |len: u64| vec![0; usize::try_from(len.next_multiple_of(PAGE_LEN) - len).expect("less than a page")];
        let has_tails = self.rules.ending == Ending::Fragment && !self.rules.all_fragments;
        if has_tails || self.is_cut {
            // The stream of tails or that of the next shard follows.
            self.put_small(&padding(self.packed.small.len()))?;
        }
        if let Some(piece) = self.packed.small.take() {
            self.send_small(piece, Ending::Cluster)?;
        }
        while self.plan()? {}
        while self.next()? {}
        if self.is_cut {
            self.put_end(&padding(self.packed.ends.len()))?;
        }
        if let Some(piece) = self.packed.ends.take() {
            self.send_end(piece, Ending::Cluster)?;
        }
        self.settle()
    }
}

impl Writer for Data<'_, '_> {
    type Done = DataDone;

    fn add_file(&mut self, size: u64, how: (Handling, Recipe), data_len: &dyn Fn() -> u64) -> Result<u32> {
        let (handling, recipe) = how;
        // Trees are checked before their data arrives, streams are not.
        if size > self.rules.longest_file {
            let size = Size(size);
            let longest = Size(self.rules.longest_file);
            let why = format!(
                "a file of {size}: without compression and holes, a file of an EROFS image has at most {longest}"
            );
            return Err(Error::Unsupported(why));
        }
        let lane = self.lanes.of(recipe);
        // What is in the packed inode is packed as the image is.
        let alone = !self.rules.raw && (lane > 0 || handling.contains(Handling::NO_FRAGMENT));
        let how = How { lane, alone };
        let way = if handling.contains(Handling::STORE) {
            Way::stored(&self.rules)
        } else {
            Way::of(&self.rules.of(how), size, data_len)
        };
        self.files.add(size, way, how)
    }

    fn refer(&mut self, size: u64, device: u16, runs: &[Run]) -> Result<Option<u32>> {
        let Some(chunks) = cut_referred(size, runs, self.rules.form.block_bits) else { return Ok(None) };
        let held: u64 = runs.iter().map(|run| run.len).sum();
        for number in runs.iter().flat_map(|run| [run.offset, run.len, run.at]).chain([size, device.into()]) {
            self.referred.update(&number.to_le_bytes());
        }
        self.referred_bytes += held;
        Progress::add(&self.progress.done, size);
        let file = self.files.add(size, Way::Raw, How::default())?;
        self.files.put(file, if held > 0 { Other::Elsewhere(device, chunks).into() } else { What::Hole });
        Ok(Some(file))
    }

    fn take(&mut self, fed: Fed) -> Result<()> {
        match fed {
            Fed::Small { bytes, files } => self.batch(bytes, files),
            Fed::Blocks { file, cuts, last } => match cuts {
                Ok(cuts) => {
                    cuts.into_iter().try_for_each(|cut| self.cut(file, cut))?;
                    if last { self.end() } else { Ok(()) }
                }
                Err(e) => self.files.fail(file, e),
            },
            Fed::Unread { file, unread } => match unread {
                Ok(unread) => self.unread(file, &unread),
                Err(e) => self.files.fail(file, e),
            },
        }
    }

    fn finish(mut self) -> Result<(DataDone, Failed)> {
        self.settle_streams()?;
        let Data { rules, files, sharing, stretches, packed, zone, pieces, keep, content, tally, .. } = self;
        let content = match self.referred.count() {
            0 => content.finalize(),
            _ => blake3::hash(&[content.finalize(), self.referred.finalize()].map(|hash| *hash.as_bytes()).concat()),
        };
        // Both used memory for every file, which the next steps need.
        drop((sharing, stretches));
        let counts = tally.counts(zone.counts());
        let ((clusters, pos, ledger), (files, failed)) = (zone.finish()?, files.finish());
        let mut bodies = Bodies { rules, pieces: &pieces, clusters, ends: packed.small.len() };
        let files = files.into_iter().map(|file| bodies.stored(file)).collect();
        let packed_pieces = packed.pieces().map(|seq| pieces.done(seq).part).collect();
        let what = What::compressed(packed.pieces().map(FilePart::Piece).collect());
        let packed = Some(File { size: packed.len(), what }).filter(|packed| packed.size > 0);
        let done = DataDone {
            end: pos.div_ceil(rules.block() as u64),
            files,
            packed: packed.map(|packed| bodies.stored(packed)),
            clusters: bodies.clusters,
            form: rules.form,
            packed_pieces,
            keep,
            content,
            shares_clusters: counts.shared_clusters > 0,
            counts,
            referred_bytes: self.referred_bytes,
            device: rules.device,
            blob_bytes: 0,
            ledger,
            sums: Vec::new(),
        };
        Ok((done, failed))
    }
}
