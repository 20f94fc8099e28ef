//! Images with their compressed metadata decoded and appended, for tests that change it: changed
//! data is compressed again, into its original place.

use std::collections::BTreeMap;
use std::ops::Range;

use packfs_codec::{Choice, Codec};

use super::*;
use crate::erofs::format::{Incompat, Layout};
use crate::erofs::reader::compression::ErofsCompression;
use crate::erofs::reader::data::{InodeData, read_file};
use crate::erofs::reader::inode::{Inode, InodeType};
use crate::erofs::reader::map::{MappedExtent, PieceStorage, StoredPosition};
use crate::erofs::reader::metadata::{MetadataAddress, OffsetSpace};

/// An image, followed by the decoded data of its metabox, packed inode and compressed directories.
pub(super) struct Unpacked {
    /// The image, and the decoded data after it.
    pub(super) bytes: Vec<u8>,
    image_len: usize,
    block: usize,
    clusters: Vec<Cluster>,
    /// Offsets of the data of inodes.
    starts: BTreeMap<Nid, usize>,
    packed: Option<Nid>,
    metabox: Option<Nid>,
}

/// An extent of such data. Both ranges count in [`Unpacked::bytes`]: clusters may lie in the metabox.
struct Cluster {
    plain: Range<usize>,
    stored: Range<usize>,
    /// Choices of its codec, the smallest first, and the window.
    codec: Option<(&'static [&'static str], u32)>,
}

impl Unpacked {
    pub(super) fn of(image: &[u8]) -> Unpacked {
        let reader = open(image).unwrap();
        let superblock = reader.superblock();
        let mut unpacked = Unpacked {
            bytes: image.to_vec(),
            image_len: image.len(),
            block: superblock.block_size as usize,
            clusters: Vec::new(),
            starts: BTreeMap::new(),
            packed: superblock.packed,
            metabox: superblock.metabox,
        };
        let special = [superblock.metabox, superblock.packed].into_iter().flatten();
        special.for_each(|nid| unpacked.add(&reader, &reader.inode(nid).unwrap()));
        let mut stack = vec![reader.root()];
        while let Some(nid) = stack.pop() {
            let inode = reader.inode(nid).unwrap();
            if inode.kind == InodeType::Dir {
                stack.extend(reader.read_dir(nid).unwrap().into_iter().map(|entry| entry.nid));
                unpacked.add(&reader, &inode);
            }
        }
        assert_eq!(unpacked.pack(&unpacked.bytes).unwrap(), image);
        unpacked
    }

    /// Returns true for offsets after the image.
    pub(super) fn is_unpacked(&self, at: usize) -> bool {
        at >= self.image_len
    }

    /// Returns the offset of a piece of metadata.
    pub(super) fn at(&self, place: MetadataAddress) -> Option<usize> {
        let start = match place.space {
            OffsetSpace::Image => 0,
            OffsetSpace::Metabox => *self.starts.get(&self.metabox?)?,
            OffsetSpace::Packed => *self.starts.get(&self.packed?)?,
        };
        Some(start + place.byte as usize)
    }

    /// Returns the offset of the data of a compressed directory.
    pub(super) fn contents(&self, nid: Nid) -> Option<usize> {
        self.starts.get(&nid).copied()
    }

    /// Appends the data of an inode if it is compressed and nothing prevents decoding it.
    fn add(&mut self, reader: &ErofsReader, inode: &Inode) {
        if !matches!(inode.layout, Layout::CompressedFull | Layout::CompressedCompact) || inode.size == 0 {
            return;
        }
        let mut extents = Vec::new();
        let visit = &mut |extent: &MappedExtent| {
            extents.push(*extent);
            Ok(())
        };
        InodeData::open(reader, inode).unwrap().each(visit).unwrap();
        if let [MappedExtent { data: PieceStorage::Fragment(offset), .. }] = extents[..] {
            let place = MetadataAddress { space: OffsetSpace::Packed, byte: offset };
            self.starts.extend(self.at(place).map(|at| (inode.nid, at)));
            return;
        }
        let start = self.bytes.len();
        let clusters: Option<Vec<_>> =
            extents.iter().map(|extent| self.cluster(reader, inode.payload.space, start, extent)).collect();
        if let Some(clusters) = clusters {
            self.clusters.extend(clusters);
            self.bytes.resize(start + inode.size as usize, 0);
            read_file(reader, inode, &mut self.bytes[start..], 0).unwrap();
            self.starts.insert(inode.nid, start);
        }
    }

    fn cluster(
        &self,
        reader: &ErofsReader,
        space: OffsetSpace,
        start: usize,
        extent: &MappedExtent,
    ) -> Option<Cluster> {
        let superblock = reader.superblock();
        let (stored, codec) = match extent.data {
            PieceStorage::Plain { stored, rotated: false } => (stored, None),
            PieceStorage::Packed { stored, algorithm, partial: false } => {
                assert!(superblock.incompat.contains(Incompat::ZERO_PADDING));
                let choices: &[&str] = match Codec::from_erofs_id(algorithm)? {
                    Codec::Deflate => &["deflate:9", "deflate:1"],
                    Codec::Lzma => &["lzma:9", "lzma:0"],
                    Codec::Zstd => &["zstd:19", "zstd:3", "zstd:-5"],
                    _ => &["lz4hc:12", "lz4", "lz4:acceleration=4", "lz4:acceleration=16"],
                };
                let announced = superblock.compression.iter().find(|one| one.number() == algorithm);
                (stored, Some((choices, announced.map_or(u32::MAX, ErofsCompression::window))))
            }
            _ => return None,
        };
        let at = match stored.place {
            StoredPosition::Image(byte) => byte as usize,
            StoredPosition::Meta(byte) => self.at(MetadataAddress { space, byte })?,
            StoredPosition::Device(..) => return None,
        };
        let plain = start + extent.logical as usize;
        Some(Cluster { plain: plain..plain + extent.len as usize, stored: at..at + stored.len as usize, codec })
    }

    /// Returns the image with the changes made in `bytes`; `None` if they do not fit.
    pub(super) fn pack(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = bytes.to_vec();
        // Clusters of directories may be in the metabox, which was decoded first.
        for cluster in self.clusters.iter().rev() {
            let plain = bytes[cluster.plain.clone()].to_vec();
            if plain != self.bytes[cluster.plain.clone()] {
                let stored = &mut bytes[cluster.stored.clone()];
                match &cluster.codec {
                    None => stored[..plain.len()].copy_from_slice(&plain),
                    Some((choices, window)) => {
                        choices.iter().find_map(|choice| put(choice, *window, &plain, stored, self.block))?;
                    }
                }
            }
        }
        bytes.truncate(self.image_len);
        Some(bytes)
    }
}

/// Compresses into the end of a cluster. The stream must fit, and begin in the first block.
fn put(choice: &str, window: u32, plain: &[u8], cluster: &mut [u8], block: usize) -> Option<()> {
    let mut encoder = choice.parse::<Choice>().unwrap().cluster_encoder(window).unwrap();
    let mut stream = vec![0; cluster.len()];
    let len = encoder.encode(plain, &mut stream).unwrap()?;
    let padding = Some(cluster.len() - len).filter(|padding| *padding < block)?;
    cluster[..padding].fill(0);
    cluster[padding..].copy_from_slice(&stream[..len]);
    Some(())
}
