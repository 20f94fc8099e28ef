//! Metadata that is packed as the data of files is, after all of that: directories in the packed inode, and the metabox.

use std::sync::Arc;

use packfs_blocks::Buffers;
use packfs_blocks::pipeline::Window;

use crate::build::{Ledger, Tools};
use crate::erofs::writer::decide::packed_inode::Stream;
use crate::erofs::writer::encode::lanes::Lanes;
use crate::erofs::writer::encode::piece::{Ending, Packed, Piece};
use crate::erofs::writer::encode::worker::Worker;
use crate::erofs::writer::place::data_zone::Zone;
use crate::erofs::writer::stored::cluster::Part;
use crate::erofs::writer::stored::data::DataDone;
use crate::{Error, Result};

/// Number of pieces that workers may have at a time, beside one each.
const AHEAD: usize = 2;

/// A stream of bytes that is packed at the end of the data.
pub(crate) struct Late<'p, 'env> {
    tools: Tools<'p, 'env, Worker>,
    stream: Stream,
    zone: Zone<'p, 'env>,
    lane: u8,
    in_flight: Window<Result<Packed>>,
    parts: Vec<Part>,
}

impl<'p, 'env> Late<'p, 'env> {
    /// Begins a stream after `data` in the image at byte `base` of the output.
    pub(crate) fn new(tools: Tools<'p, 'env, Worker>, base: u64, data: &DataDone, lanes: &Lanes, lane: u8) -> Self {
        let piece = lanes.piece_len(lane);
        let budget = (tools.pool.threads() + AHEAD) * piece;
        let zone = Zone::new(tools, (base, data.end * data.block_len()), budget, Ledger::default());
        let in_flight = Window::new(budget);
        Late { tools, stream: Stream::new(&Buffers::new(piece), piece), zone, lane, in_flight, parts: Vec::new() }
    }

    /// Appends bytes.
    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            bytes = self.stream.put(bytes);
            if let Some(piece) = self.stream.take_full() {
                self.send(piece, Ending::More)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, piece: packfs_blocks::Buffer, ending: Ending) -> Result<()> {
        let (bytes, lane) = (Arc::new(piece), self.lane);
        let range = 0..bytes.len();
        let piece = Piece { seq: 0, lane, range, digest: None, ending, whole: false, reuse: Vec::new() };
        let len = bytes.len();
        let ticket = self.tools.pool.submit(move |worker: &mut Worker| worker.pack(&bytes, vec![piece]));
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
        let Packed { bytes, cuts, pieces } = packed?;
        let counts = pieces.iter().map(|piece| (piece.cuts, piece.algorithm));
        self.parts.extend(self.zone.write(bytes, &cuts, counts)?);
        Ok(true)
    }

    /// Packs the rest, and adds all clusters to `data`. Returns those of the stream, and its length in bytes.
    pub(crate) fn finish(mut self, data: &mut DataDone) -> Result<(Vec<Part>, u64)> {
        if let Some(piece) = self.stream.take() {
            self.send(piece, Ending::Cluster)?;
        }
        while self.take()? {}
        let len = self.stream.len();
        let counts = self.zone.counts();
        let (mut clusters, end, _) = self.zone.finish()?;
        let before =
            u32::try_from(data.clusters.len()).map_err(|_| Error::TooMany { what: "clusters", max: 1 << 32 })?;
        data.clusters.append(&mut clusters);
        data.end = end.div_ceil(data.block_len());
        data.shares_clusters |= counts.shared > 0;
        data.counts.clusters += counts.written;
        data.counts.raw_clusters += counts.raw;
        data.counts.shared_clusters += counts.shared;
        let mut parts = self.parts;
        parts.iter_mut().for_each(|part| part.first += before);
        Ok((parts, len))
    }
}
