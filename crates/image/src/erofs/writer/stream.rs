//! A part of the packed inode in the making: bytes one behind the other, cut into pieces.

use packfs_blocks::{Buffer, Buffers};

/// Bytes of many files.
#[derive(Debug)]
pub(crate) struct Stream {
    buffers: Buffers,
    piece: usize,
    filling: Option<(Buffer, usize)>,
    len: u64,
    /// Numbers of the pieces sent so far.
    pub(crate) pieces: Vec<u32>,
}

impl Stream {
    /// A stream of pieces of `piece` bytes.
    pub(crate) fn new(buffers: Buffers, piece: usize) -> Self {
        Stream { buffers, piece, filling: None, len: 0, pieces: Vec::new() }
    }

    /// Bytes put so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends what fits into the piece being filled; returns the rest.
    pub(crate) fn put<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let piece = self.piece;
        let (filling, used) = self.filling.get_or_insert_with(|| (self.buffers.take(piece), 0));
        let (now, later) = bytes.split_at(bytes.len().min(piece - *used));
        filling[*used..*used + now.len()].copy_from_slice(now);
        *used += now.len();
        self.len += now.len() as u64;
        later
    }

    /// Whether the piece being filled has to be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.filling.as_ref().is_some_and(|(_, used)| *used == self.piece)
    }

    /// The piece being filled, if there is anything in it.
    pub(crate) fn take(&mut self) -> Option<Buffer> {
        let (mut filling, used) = self.filling.take()?;
        filling.truncate(used);
        Some(filling)
    }
}
