//! The conductor of file data: receives pieces, decides what becomes of each, and completes files.

use packfs_blocks::units::Size;
use packfs_blocks::{Buffer, Buffers, Progress};

use super::compressed::page_padding;
use super::files::FileTable;
use super::jobs::PieceJobs;
use super::layout::{FilePart, OpenFile, OpenFileState, PendingFile, PendingLocation, StorageLayout};
use super::locations::{LocationResolver, PieceTable};
use super::packed_inode::PackedInode;
use super::rules::{DataRules, FilePolicy};
use super::sharing::SharedData;
use super::staying_extents::{ReferredClusters, ReferredData};
use super::stretches::StretchFinder;
use crate::build::{BatchPart, BlockWriter, BuildTools, FailedFiles, FedBlocks, FileBlock, ReuseLedger, WriterStart};
use crate::erofs::writer::counts::DataTally;
use crate::erofs::writer::encode::lanes::LaneTable;
use crate::erofs::writer::encode::piece::TailPolicy;
use crate::erofs::writer::encode::worker::PackWorker;
use crate::erofs::writer::place::data_zone::{DataZone, FinishedZone};
use crate::erofs::writer::stored::data::StoredData;
use crate::erofs::writer::stored::tails::TailStore;
use crate::source::{SourceDevice, StayingData};
use crate::tree::{DataHandling, FileRecipe};
use crate::{Error, Result};

/// Receives pieces from a [`BlockFeed`](crate::build::BlockFeed) and writes them.
pub(crate) struct DataWriter<'p, 'env> {
    pub(super) rules: DataRules,
    pub(super) lanes: &'env LaneTable,
    /// True if the packed inode also has parts that are not of these files: those of other shards, or directories.
    pub(super) is_cut: bool,
    pub(super) files: FileTable,
    pub(super) sharing: SharedData,
    pub(super) stretches: StretchFinder,
    pub(super) packed_inode: PackedInode,
    pub(super) jobs: PieceJobs<'p, 'env>,
    pub(super) zone: DataZone<'p, 'env>,
    pub(super) pieces: PieceTable,
    /// Bytes that will follow inodes.
    pub(super) keep: TailStore,
    /// Buffers for pieces.
    pub(super) buffers: Buffers,
    /// Buffers for batches of small uncompressed files.
    pub(super) regions: Buffers,
    pub(super) content: blake3::Hasher,
    pub(super) referred: ReferredData,
    pub(super) tally: DataTally<'env>,
    pub(super) progress: &'env Progress,
}

impl<'p, 'env> DataWriter<'p, 'env> {
    /// Makes a writer; `budget` bounds the bytes in flight.
    pub(crate) fn new(
        tools: BuildTools<'p, 'env, PackWorker>,
        rules: DataRules,
        lanes: &'env LaneTable,
        buffers: Buffers,
        place: WriterStart,
        budget: usize,
        ledger: ReuseLedger,
    ) -> Self {
        // If the data has a file of its own, everything is written there.
        let tools = BuildTools { output: tools.blob.unwrap_or(tools.output), ..tools };
        let BuildTools { output, progress, .. } = tools;
        DataWriter {
            rules,
            lanes,
            is_cut: place.is_cut || rules.more_packed,
            files: FileTable::new(rules.on_error),
            sharing: SharedData::new(rules.dedup),
            stretches: StretchFinder::new(rules.block(), rules.form.encoded),
            packed_inode: PackedInode::new(&buffers, rules.piece),
            jobs: PieceJobs::new(tools, budget),
            zone: DataZone::new(tools, place.base, place.pos, budget / 4, ledger),
            pieces: PieceTable::default(),
            keep: TailStore::new(output.scratch()),
            buffers,
            regions: rules.region_buffers(),
            content: blake3::Hasher::new(),
            referred: ReferredData::default(),
            tally: DataTally::new(progress),
            progress,
        }
    }

    /// Receives whole files that are shorter than a piece.
    fn add_batch(&mut self, bytes: Buffer, files: Vec<(u32, Result<BatchPart>)>) -> Result<()> {
        let mut fresh = Vec::with_capacity(files.len());
        let mut duplicates = Vec::new();
        let mut stored = Vec::new();
        // All at once, so that the lookups below do not wait for memory one after the other.
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
            match self.sharing.file(self.files.policy(file).key_digest(digest), file) {
                Some(same) => {
                    duplicates.push((file, same));
                    self.tally.saves(range.len());
                }
                None => fresh.push((file, (range, digest))),
            }
        }
        self.store_among_compressed(&bytes, stored)?;
        if self.rules.raw {
            self.store_batch(bytes, &fresh)?
        } else {
            self.pack_batch(bytes, fresh)?
        }
        // Last, because the files that they equal may be in the same batch, and have no location before.
        for (file, same) in duplicates {
            self.files.put_same(file, same);
        }
        Ok(())
    }

    /// Receives the next piece or hole of a larger file.
    fn add_cut(&mut self, file: u32, cut: FileBlock) -> Result<()> {
        let Some(mut open) = self.files.take_open(file, &self.rules, self.packed_inode.small.len()) else {
            return Ok(());
        };
        let cut = if open.state.ends_with_hole() { cut.behind_hole() } else { cut };
        match cut {
            FileBlock::Hole(len) => {
                open.at += len;
                self.add_hole(&mut open.state, len)?;
            }
            FileBlock::Block(bytes, digest) => {
                self.content.update(digest.as_bytes());
                open.at += bytes.len() as u64;
                let last = open.at == self.files.size(file);
                match &mut open.state {
                    OpenFileState::Raw(blocks) => self.store_piece(blocks, bytes, digest, last)?,
                    OpenFileState::Sparse(blocks) => self.store_sparse_piece(blocks, bytes)?,
                    OpenFileState::Compressed(parts) => parts.push(self.add_piece(file, bytes, digest, last)?),
                    OpenFileState::Fragment(_) => self.put_small(&bytes).map(|_| ())?,
                }
            }
        }
        self.files.put_open(open);
        Ok(())
    }

    fn add_hole(&mut self, state: &mut OpenFileState, len: u64) -> Result<()> {
        match state {
            OpenFileState::Raw(blocks) | OpenFileState::Sparse(blocks) => blocks.push_hole(len),
            OpenFileState::Compressed(parts) => parts.push_hole(len),
            OpenFileState::Fragment(_) => return self.put_zeros(len),
        }
        self.tally.hole(len);
        Ok(())
    }

    /// Completes the open file.
    fn complete_file(&mut self) -> Result<()> {
        let Some(OpenFile { file, state, .. }) = self.files.take_whole() else { return Ok(()) };
        let location = match state {
            OpenFileState::Raw(blocks) | OpenFileState::Sparse(blocks) => blocks.finish(),
            OpenFileState::Fragment(offset) => PendingLocation::Fragment(offset),
            OpenFileState::Compressed(parts) => match parts.finish() {
                None => PendingLocation::Hole,
                // Only encoded extents can be holes.
                Some(parts) if self.rules.form.encoded => PendingLocation::compressed(parts),
                Some(parts) => PendingLocation::compressed(self.fill_holes(file, parts)?),
            },
        };
        self.files.put(file, location);
        Ok(())
    }

    /// Sends the rest of both streams of the packed inode, and takes all results. The stream of
    /// tails is complete only when everything else is written.
    fn settle_streams(&mut self) -> Result<()> {
        let has_tails = self.rules.tail_policy == TailPolicy::Fragment && !self.rules.all_fragments;
        if has_tails || self.is_cut {
            // The stream of tails, directories or another shard follows, and has to begin with a page.
            self.put_small(&page_padding(self.packed_inode.small.len()))?;
        }
        if let Some(piece) = self.packed_inode.small.take() {
            self.send_small(piece, TailPolicy::Cluster)?;
        }
        while self.plan_oldest()? {}
        while self.take_result()? {}
        if self.is_cut {
            self.put_tail(&page_padding(self.packed_inode.tails.len()))?;
        }
        if let Some(piece) = self.packed_inode.tails.take() {
            self.send_tail(piece, TailPolicy::Cluster)?;
        }
        self.settle()
    }
}

impl BlockWriter for DataWriter<'_, '_> {
    type DataPositions = StoredData;

    fn add_file(&mut self, size: u64, policy: (DataHandling, FileRecipe), data_len: &dyn Fn() -> u64) -> Result<u32> {
        let (handling, recipe) = policy;
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
        // The packed inode has one codec, that of the image.
        let is_alone = !self.rules.raw && (lane > 0 || handling.contains(DataHandling::NO_FRAGMENT));
        let policy = FilePolicy { lane, is_alone };
        let layout = if handling.contains(DataHandling::STORE) {
            StorageLayout::uncompressed(&self.rules)
        } else {
            StorageLayout::choose(&self.rules.for_policy(policy), size, data_len)
        };
        self.files.add(size, layout, policy)
    }

    fn add_device(&mut self, device: &SourceDevice) -> Result<()> {
        self.place_device(device)
    }

    fn refer(&mut self, size: u64, device: u16, staying: &StayingData) -> Result<Option<u32>> {
        self.refer_to(size, device, staying)
    }

    fn take(&mut self, fed: FedBlocks) -> Result<()> {
        match fed {
            FedBlocks::Small { bytes, files } => self.add_batch(bytes, files),
            FedBlocks::Blocks { file, cuts, last } => match cuts {
                Ok(cuts) => {
                    cuts.into_iter().try_for_each(|cut| self.add_cut(file, cut))?;
                    if last { self.complete_file() } else { Ok(()) }
                }
                Err(e) => self.files.fail(file, e),
            },
            FedBlocks::Unread { file, unread } => match unread {
                Ok(unread) => self.add_unread(file, &unread),
                Err(e) => self.files.fail(file, e),
            },
        }
    }

    fn finish(mut self) -> Result<(StoredData, FailedFiles)> {
        self.settle_streams()?;
        let DataWriter { rules, files, sharing, stretches, packed_inode, zone, pieces, keep, content, tally, .. } =
            self;
        let mut referred = self.referred;
        let content = match referred.positions() {
            None => content.finalize(),
            Some(positions) => blake3::hash(&[content.finalize(), positions].map(|hash| *hash.as_bytes()).concat()),
        };
        // Both have entries for every file, whose memory the next steps need.
        drop(sharing);
        drop(stretches);
        let counts = tally.counts(zone.counts());
        let FinishedZone { mut clusters, end, ledger } = zone.finish(rules.block() as u64)?;
        let ReferredClusters { first: referred_first, packed: joined } = referred.append_clusters(&mut clusters)?;
        let (files, failed) = files.finish();
        let tails_start = packed_inode.small.len();
        let mut resolver = LocationResolver { rules, pieces: &pieces, clusters, referred_first, tails_start };
        let files = files.into_iter().map(|file| resolver.resolve(file)).collect();
        let packed_pieces = packed_inode.pieces().map(|seq| pieces.done(seq).part).collect();
        let location = PendingLocation::compressed(packed_inode.pieces().map(FilePart::Piece).collect());
        let packed = Some(PendingFile { size: packed_inode.len(), location }).filter(|packed| packed.size > 0);
        let done = StoredData {
            end,
            files,
            // Devices have packed inodes of their own, which are joined; an image that refers to them packs nothing
            // else.
            packed: joined.or_else(|| packed.map(|packed| resolver.resolve(packed))),
            clusters: resolver.clusters,
            form: rules.form,
            packed_pieces,
            keep,
            content,
            shares_clusters: counts.shared_clusters > 0 || referred.shares_clusters,
            counts,
            referred_bytes: referred.bytes,
            device: rules.device,
            device_starts: Vec::new(),
            blob_bytes: 0,
            ledger,
            sums: Vec::new(),
        };
        Ok((done, failed))
    }
}
