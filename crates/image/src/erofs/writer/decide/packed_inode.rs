//! The packed inode under construction. Small files and tails of files are two streams of bytes,
//! cut into pieces. The second follows the first: the tail of a file is known only once the file is
//! compressed.

use packfs_blocks::{Buffer, Buffers};

/// Both streams.
#[derive(Debug)]
pub(super) struct PackedInode {
    pub(super) small: PieceStream,
    pub(super) tails: PieceStream,
}

impl PackedInode {
    /// Makes streams of pieces of `piece_len` bytes.
    pub(super) fn new(buffers: &Buffers, piece_len: usize) -> Self {
        PackedInode { small: PieceStream::new(buffers, piece_len), tails: PieceStream::new(buffers, piece_len) }
    }

    /// Returns the numbers of all pieces, in order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = u32> {
        self.small.pieces.iter().chain(&self.tails.pieces).copied()
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.small.len + self.tails.len
    }
}

/// Concatenated bytes of many files.
#[derive(Debug)]
pub(crate) struct PieceStream {
    buffers: Buffers,
    piece_len: usize,
    filling: Option<(Buffer, usize)>,
    len: u64,
    /// Numbers of the pieces sent so far.
    pieces: Vec<u32>,
}

impl PieceStream {
    /// Makes a stream of pieces of `piece_len` bytes.
    pub(crate) fn new(buffers: &Buffers, piece_len: usize) -> Self {
        PieceStream { buffers: buffers.clone(), piece_len, filling: None, len: 0, pieces: Vec::new() }
    }

    /// Returns the number of bytes put so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends bytes that fit into the piece being filled; returns the rest.
    pub(crate) fn put<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let piece_len = self.piece_len;
        // Taken with the first bytes: an image without tails needs no buffer for them.
        let (filling, used) = self.filling.get_or_insert_with(|| (self.buffers.take(piece_len), 0));
        let (now, later) = bytes.split_at(bytes.len().min(piece_len - *used));
        filling[*used..*used + now.len()].copy_from_slice(now);
        *used += now.len();
        self.len += now.len() as u64;
        later
    }

    /// Takes the piece being filled, if it is full.
    pub(crate) fn take_full(&mut self) -> Option<Buffer> {
        if self.filling.as_ref()?.1 == self.piece_len { self.take() } else { None }
    }

    /// Takes the piece being filled, if it is not empty.
    pub(crate) fn take(&mut self) -> Option<Buffer> {
        let (mut filling, used) = self.filling.take()?;
        filling.truncate(used);
        Some(filling)
    }

    /// Records the number under which a taken piece is sent.
    pub(crate) fn sent(&mut self, seq: u32) {
        self.pieces.push(seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_gives_its_bytes_in_whole_pieces_and_a_last_one() {
        let mut packed = PackedInode::new(&Buffers::new(10), 10);
        let mut pieces = Vec::new();
        let mut seq = 0;
        for len in [3, 6, 1, 25, 0, 4] {
            let bytes = vec![len; usize::from(len)];
            let mut left = &bytes[..];
            while !left.is_empty() {
                left = packed.small.put(left);
                if let Some(piece) = packed.small.take_full() {
                    pieces.push(piece.to_vec());
                    packed.small.sent(seq);
                    seq += 1;
                }
            }
        }
        assert!(pieces.iter().all(|piece| piece.len() == 10));
        pieces.extend(packed.small.take().map(|piece| piece.to_vec()));
        assert_eq!(pieces.concat(), [vec![3; 3], vec![6; 6], vec![1], vec![25; 25], vec![4; 4]].concat());
        assert!(packed.small.take().is_none());
        packed.tails.sent(9);
        assert_eq!(packed.pieces().collect::<Vec<_>>(), [0, 1, 2, 9]);
        assert_eq!((packed.small.len(), packed.len()), (39, 39));
    }
}
