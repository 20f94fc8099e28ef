//! Enumeration of stored blocks: see [`AnyImage::stored_blocks`](crate::AnyImage::stored_blocks).

use super::SquashfsReader;
use super::decode::LocatedBlock;
use super::metadata::{HEADER_LEN, MetadataArea};
use crate::Result;
use crate::image::{FileType, Nid, Stat};
use crate::squashfs::format::{METADATA_LEN, METADATA_RAW};
use crate::stored_blocks::{BlockCoding, DecodedLen, FilePosition, StoredBlock};

impl SquashfsReader {
    /// Returns the length of the file that the image is in.
    pub(crate) fn image_len(&self) -> u64 {
        self.metadata.blocks.disk.len()
    }

    /// Calls `visit` for the data blocks of an inode.
    pub(crate) fn file_blocks(&self, nid: Nid, stat: &Stat, visit: &mut dyn FnMut(StoredBlock)) -> Result<()> {
        if !matches!(stat.kind, FileType::File { .. }) {
            return Ok(());
        }
        let file = self.file(nid)?;
        let mut blocks = file.blocks(&self.metadata, 0)?;
        while let Some(block) = blocks.next()? {
            if let Some(stored) = block.stored()? {
                let len = block.len as u64;
                let continuation = Some(FilePosition { nid, offset: block.offset + len });
                visit(StoredBlock { continuation, ..self.data_block(stored, DecodedLen::Exactly(len)) });
            }
        }
        Ok(())
    }

    /// Calls `visit` for fragment blocks and metadata blocks.
    pub(crate) fn table_blocks(&self, visit: &mut dyn FnMut(StoredBlock)) -> Result<()> {
        for number in 0..self.superblock.fragments {
            let stored = self.fragment(number)?;
            visit(self.data_block(stored, DecodedLen::AtMost(self.superblock.block_size.into())));
        }
        let xattrs = self.xattrs.iter().flat_map(|table| [table.pairs, table.sets.area()]);
        let tables = [&self.fragments, &self.ids_table].into_iter().chain(&self.export).map(|table| table.area());
        for area in [self.inodes, self.listings].into_iter().chain(tables).chain(xattrs) {
            self.metadata_blocks(area, visit)?;
        }
        Ok(())
    }

    fn data_block(&self, stored: LocatedBlock, decoded_len: DecodedLen) -> StoredBlock {
        let coding = match stored.raw {
            true => BlockCoding::Plain,
            false => BlockCoding::Block(self.superblock.codec),
        };
        let len = stored.len as u64;
        StoredBlock { position: stored.start, len, coding, decoded_len, continuation: None }
    }

    /// Calls `visit` for the metadata blocks of an area, each without its header, up to the first that cannot be one.
    fn metadata_blocks(&self, area: MetadataArea, visit: &mut dyn FnMut(StoredBlock)) -> Result<()> {
        let header_len = HEADER_LEN as u64;
        let mut at = area.start;
        while at + header_len < area.end {
            let mut header = [0; HEADER_LEN];
            self.metadata.blocks.disk.read(area.structure, at, &mut header)?;
            let header = u16::from_le_bytes(header);
            let len = u64::from(header & !METADATA_RAW);
            let position = at + header_len;
            if len == 0 || position + len > area.end {
                break;
            }
            let coding = match header & METADATA_RAW {
                0 => BlockCoding::Metadata(self.superblock.codec),
                _ => BlockCoding::Plain,
            };
            let decoded_len = DecodedLen::AtMost(METADATA_LEN as u64);
            visit(StoredBlock { position, len, coding, decoded_len, continuation: None });
            at = position + len;
        }
        Ok(())
    }
}
