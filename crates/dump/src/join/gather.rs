//! Gathers the decoded chunks of a segment into pieces that are written at once, and leaves out what is zeros.

use packfs_blocks::io::{OutputPiece, WriteTurns};
use packfs_blocks::{Buffers, Output, Progress};

use super::repeat;
use crate::set::DumpBytes;
use crate::{Error, Result};

/// Length of a piece.
pub(super) const PIECE_LEN: usize = 512 << 10;

/// Maximum number of bytes that wait while others are written.
pub(super) const MAX_WAITING_LEN: usize = 1 << 20;

/// The output of a join, and how workers write to it.
#[derive(Debug)]
pub(super) struct JoinSink<'o> {
    output: &'o Output,
    turns: WriteTurns<'o>,
    progress: &'o Progress,
    buffers: Buffers,
}

/// The piece that a worker fills.
pub(super) struct PieceGatherer<'s> {
    sink: &'s JoinSink<'s>,
    piece: Option<OutputPiece>,
}

impl<'o> JoinSink<'o> {
    pub(super) fn new(output: &'o Output, progress: &'o Progress) -> Self {
        let turns = WriteTurns::new(output, progress, MAX_WAITING_LEN);
        let buffers = Buffers::new(PIECE_LEN);
        JoinSink { output, turns, progress, buffers }
    }
}

impl<'s> PieceGatherer<'s> {
    pub(super) fn new(sink: &'s JoinSink<'s>) -> Self {
        PieceGatherer { sink, piece: None }
    }

    /// Has bytes written at offset `at` of the dump, now or by [`PieceGatherer::finish`].
    pub(super) fn put(&mut self, at: u64, bytes: DumpBytes<'_>) -> Result<()> {
        let output = self.sink.output;
        match bytes {
            DumpBytes::Data(bytes) => self.data(at, bytes),
            // Zeros are not gathered, so that they become holes.
            DumpBytes::Fill { pattern: [0, 0, 0, 0, 0, 0, 0, 0], len, .. } => {
                Progress::add(&self.sink.progress.saved, len);
                output.leave_zeros_at(at, len)
            }
            DumpBytes::Fill { pattern, skip, len } => {
                repeat(pattern, skip, len, |from, bytes| self.data(at + from, bytes))
            }
        }
        .map_err(Error::io("cannot write", output.target()))
    }

    fn data(&mut self, mut at: u64, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let piece = self.piece.get_or_insert_with(|| OutputPiece::new(self.sink.buffers.take(PIECE_LEN)));
            let (_, rest) = bytes.split_at(piece.add(bytes, at));
            at += (bytes.len() - rest.len()) as u64;
            bytes = rest;
            if piece.is_full() {
                self.hand_over()?;
            }
        }
        Ok(())
    }

    /// Has the rest written.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.hand_over().map_err(Error::io("cannot write", self.sink.output.target()))
    }

    fn hand_over(&mut self) -> std::io::Result<()> {
        self.piece.take().map_or(Ok(()), |piece| self.sink.turns.write(piece))
    }
}
