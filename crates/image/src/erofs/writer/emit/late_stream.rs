//! Metadata that is packed as the data of files is, after all of that: directories in the packed inode, and the metabox.

use std::sync::Arc;

use packfs_blocks::Buffers;
use packfs_blocks::pipeline::Window;

use crate::build::{BuildTools, ReuseLedger};
use crate::erofs::writer::decide::packed_inode::PieceStream;
use crate::erofs::writer::encode::lanes::LaneTable;
use crate::erofs::writer::encode::piece::{PackedPieces, PieceJob, TailPolicy};
use crate::erofs::writer::encode::worker::PackWorker;
use crate::erofs::writer::place::data_zone::{ClustersOfPiece, DataZone, FinishedZone};
use crate::erofs::writer::stored::cluster::{ClusterRange, cluster_number};
use crate::erofs::writer::stored::data::StoredData;
use crate::erofs::writer::stored::file::StoredFile;
use crate::{Error, Result};

/// Number of pieces that workers may have at a time, beside one each: work for those that finish while the conductor
/// writes. Each takes the memory of a piece. Not measured.
const AHEAD: usize = 2;

/// A stream of bytes that is packed at the end of the data.
pub(crate) struct LateStream<'p, 'env> {
    tools: BuildTools<'p, 'env, PackWorker>,
    stream: PieceStream,
    zone: DataZone<'p, 'env>,
    lane: u8,
    in_flight: Window<Result<PackedPieces>>,
    parts: Vec<ClusterRange>,
}

impl<'p, 'env> LateStream<'p, 'env> {
    /// Begins a stream after `data` in the image at byte `base` of the output.
    pub(crate) fn new(
        tools: BuildTools<'p, 'env, PackWorker>,
        base: u64,
        data: &StoredData,
        lanes: &LaneTable,
        lane: u8,
    ) -> Self {
        let piece = lanes.piece_len(lane);
        let budget = (tools.pool.threads() + AHEAD) * piece;
        // An index of units for later builds has only the data of files, so this zone notes nothing.
        let zone = DataZone::new(tools, base, data.end * data.block_len(), budget, ReuseLedger::default());
        let in_flight = Window::new(budget);
        LateStream {
            tools,
            stream: PieceStream::new(&Buffers::new(piece), piece),
            zone,
            lane,
            in_flight,
            parts: Vec::new(),
        }
    }

    /// Appends bytes.
    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            bytes = self.stream.put(bytes);
            if let Some(piece) = self.stream.take_full() {
                self.send(piece, TailPolicy::More)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, piece: packfs_blocks::Buffer, tail_policy: TailPolicy) -> Result<()> {
        let bytes = Arc::new(piece);
        let lane = self.lane;
        let range = 0..bytes.len();
        // The number of the piece is not used: parts are collected in the order of submission.
        let piece = PieceJob { seq: 0, lane, range, digest: None, tail_policy, whole: false, reuse: Vec::new() };
        let len = bytes.len();
        let ticket = self.tools.pool.submit(move |worker: &mut PackWorker| worker.pack(&bytes, vec![piece]));
        self.in_flight.push(ticket, len);
        while self.in_flight.is_full() {
            self.take()?;
        }
        Ok(())
    }

    /// Writes the oldest piece in flight; returns false if there is none.
    fn take(&mut self) -> Result<bool> {
        Error::unless_cancelled(self.tools.progress)?;
        let Some(packed) = self.in_flight.pop() else { return Ok(false) };
        let PackedPieces { bytes, cuts, pieces } = packed?;
        let clusters = pieces.iter().map(ClustersOfPiece::from);
        self.parts.extend(self.zone.write_pieces(bytes, &cuts, clusters)?);
        Ok(true)
    }

    /// Packs the rest, and adds all clusters to `data`. Returns where the stream is.
    pub(crate) fn finish(mut self, data: &mut StoredData) -> Result<StoredFile> {
        if let Some(piece) = self.stream.take() {
            self.send(piece, TailPolicy::Cluster)?;
        }
        while self.take()? {}
        let len = self.stream.len();
        let counts = self.zone.counts();
        let FinishedZone { mut clusters, end, .. } = self.zone.finish(data.block_len())?;
        let before = cluster_number(data.clusters.len())?;
        data.clusters.append(&mut clusters);
        data.end = end;
        data.shares_clusters |= counts.shared > 0;
        data.counts.clusters += counts.written;
        data.counts.raw_clusters += counts.raw;
        data.counts.shared_clusters += counts.shared;
        let mut parts = self.parts;
        // So far the ranges count from the first cluster of this stream.
        parts.iter_mut().for_each(|part| part.first += before);
        Ok(StoredFile::of_clusters(len, parts))
    }
}
