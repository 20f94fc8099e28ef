//! Images with their compressed metadata blocks decoded and appended, for tests that change it: a changed block is
//! compressed again, into its original place.

use std::ops::Range;

use packfs_codec::Choice;

use super::*;
use crate::squashfs::format::METADATA_LEN;
use crate::squashfs::reader::metadata::{HEADER_LEN, MetadataArea, stored_len};

/// An image, followed by the decoded payloads of its compressed metadata blocks.
pub(super) struct Unpacked {
    /// The image, and the payloads after it.
    pub(super) bytes: Vec<u8>,
    image_len: usize,
    blocks: Vec<Block>,
    /// Choices of the image's codec, the smallest first.
    choices: &'static [&'static str],
}

/// A compressed block. Both ranges count in [`Unpacked::bytes`].
struct Block {
    plain: Range<usize>,
    stored: Range<usize>,
}

impl Unpacked {
    /// Decodes the compressed metadata blocks of an image. A block that changes is compressed by the first of `choices`
    /// that makes it fit.
    pub(super) fn of(image: &[u8], choices: &'static [&'static str]) -> Unpacked {
        let reader = open(image).unwrap();
        let mut unpacked = Unpacked { bytes: image.to_vec(), image_len: image.len(), blocks: Vec::new(), choices };
        for area in areas(&reader) {
            let mut start = area.start;
            while start < area.end {
                let block = reader.metadata.block(area, start).unwrap();
                let from = start as usize + HEADER_LEN;
                let stored = from..from + stored_len(&block);
                if u16::from_le_bytes([block[0], block[1]]) & 0x8000 == 0 {
                    let at = unpacked.bytes.len();
                    unpacked.bytes.extend(&block[HEADER_LEN..]);
                    unpacked.blocks.push(Block { plain: at..unpacked.bytes.len(), stored: stored.clone() });
                }
                start = stored.end as u64;
            }
        }
        unpacked
    }

    /// Returns true for offsets after the image.
    pub(super) fn is_unpacked(&self, at: usize) -> bool {
        at >= self.image_len
    }

    /// Returns the payload of the first block of an area.
    pub(super) fn payload(&self, area: MetadataArea) -> Range<usize> {
        let at = area.start as usize;
        let from = at + HEADER_LEN;
        match self.blocks.iter().find(|block| block.stored.start == from) {
            Some(block) => block.plain.clone(),
            None => from..from + stored_len(&self.bytes[at..]),
        }
    }

    /// Returns the image with the changes made in `bytes`; `None` if they do not fit.
    pub(super) fn pack(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut image = bytes[..self.image_len].to_vec();
        for block in &self.blocks {
            let plain = &bytes[block.plain.clone()];
            if plain != &self.bytes[block.plain.clone()] {
                let stored = &mut image[block.stored.clone()];
                self.choices.iter().find_map(|choice| put(choice, plain, stored))?;
            }
        }
        Some(image)
    }
}

/// The areas of all metadata blocks of an image that has every table.
fn areas(reader: &SquashfsReader) -> [MetadataArea; 7] {
    let xattrs = reader.xattrs.as_ref().unwrap();
    let (fragments, ids) = (reader.fragments.area(), reader.ids_table.area());
    let export = reader.export.as_ref().unwrap().area();
    [reader.inodes, reader.listings, fragments, export, ids, xattrs.pairs, xattrs.sets.area()]
}

/// Compresses into the beginning of a block. Linux ignores the zeros after the stream.
fn put(choice: &str, plain: &[u8], block: &mut [u8]) -> Option<()> {
    let mut encoder = choice.parse::<Choice>().unwrap().encoder(METADATA_LEN).unwrap();
    let mut stream = vec![0; block.len()];
    let len = encoder.encode(plain, &mut stream).unwrap()?;
    block.fill(0);
    block[..len].copy_from_slice(&stream[..len]);
    Some(())
}
