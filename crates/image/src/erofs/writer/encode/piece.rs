//! What the conductor gives to a worker, and what it gets back: pieces to pack, and packed pieces.

use std::ops::Range;

use packfs_blocks::hash::HalfDigest;
use packfs_blocks::{Buffer, Digest};

use crate::build::NotedUnit;
use crate::erofs::writer::stored::cluster::{StoredCluster, StoredLen};

/// What becomes of the tail of a piece: the bytes that do not fill a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TailPolicy {
    /// The file continues after the piece.
    More,
    /// They get a cluster of their own.
    Cluster,
    /// If they fit in a cluster, they go to the packed inode.
    Fragment,
    /// If they compress to less than a block, they follow the inode.
    Inline,
}

/// A piece to pack.
#[derive(Debug)]
pub(crate) struct PieceJob {
    pub(crate) seq: u32,
    /// Number of the lane that packs it.
    pub(crate) lane: u8,
    pub(crate) range: Range<usize>,
    /// Of its bytes, if it is known.
    pub(crate) digest: Option<Digest>,
    pub(crate) tail_policy: TailPolicy,
    /// True for a whole file, which may be stored uncompressed if it gets no shorter.
    pub(crate) whole: bool,
    /// Parts of it that are already stored, in order.
    pub(crate) reuse: Vec<ReusedStretch>,
}

/// A part of a piece that clusters of an earlier piece decode to.
#[derive(Debug)]
pub(crate) struct ReusedStretch {
    /// Offset in the piece.
    pub(crate) start: usize,
    pub(crate) clusters: Vec<StoredCluster>,
}

/// A cluster of a packed piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedCluster {
    pub(crate) physical: StoredLen,
    pub(crate) logical: u32,
    pub(crate) raw: bool,
    /// Digest of its stored bytes, if an equal cluster may replace it.
    pub(crate) digest: Option<HalfDigest>,
    /// The existing cluster, if it is already stored.
    pub(crate) reused: Option<StoredCluster>,
    /// Its position in an older image, if it is from there.
    pub(crate) older: Option<u64>,
}

impl PackedCluster {
    pub(super) fn new(physical: StoredLen, logical: u32, raw: bool) -> Self {
        PackedCluster { physical, logical, raw, digest: None, reused: None, older: None }
    }
}

/// The tail of a piece: bytes after its clusters.
#[derive(Debug)]
pub(crate) enum PieceTail {
    Nothing,
    /// Goes to the packed inode.
    Fragment(Vec<u8>, Digest),
    /// A last cluster, which follows the inode.
    Inline {
        bytes: Vec<u8>,
        raw: bool,
    },
    /// The whole file gets no shorter: its clusters are its blocks, and these bytes follow them.
    Plain(Vec<u8>),
}

/// Packed pieces, concatenated.
#[derive(Debug)]
pub(crate) struct PackedPieces {
    pub(crate) bytes: Buffer,
    pub(crate) cuts: Vec<PackedCluster>,
    pub(crate) pieces: Vec<PackedPiece>,
}

/// A piece of a [`PackedPieces`].
#[derive(Debug)]
pub(crate) struct PackedPiece {
    pub(crate) seq: u32,
    pub(crate) len: usize,
    /// Number of its clusters.
    pub(crate) cuts: u32,
    /// Number of the algorithm of those that are compressed.
    pub(crate) algorithm: u8,
    /// The bytes after its clusters.
    pub(crate) tail: PieceTail,
    /// For the index, if there is one or an older image.
    pub(crate) noted: Option<NotedUnit>,
}
