//! Positions of everything that an image stores, for statistics.

use std::ops::Range;

use super::Reader;
use super::map;
use super::table::Table;
use crate::Result;
use crate::image::Nid;
use crate::squashfs::format;
use crate::stats::{Occupied, Piece};

impl Occupied for Reader {
    fn len(&self) -> u64 {
        self.metadata.blocks.disk.len()
    }

    fn file(&self, nid: Nid, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        let file = self.file(nid)?;
        let mut blocks = file.blocks(&self.metadata, 0)?;
        while let Some(block) = blocks.next()? {
            if let Some(stored) = block.stored()? {
                let range = stored.start..stored.start.saturating_add(stored.len as u64);
                visit(Piece { stored: range, plain: 0..block.len as u64, fragment: false });
            }
        }
        if let Some(tail) = file.tail().filter(|tail| tail.len > 0) {
            let (number, from) = (tail.tail.fragment.into(), u64::from(tail.tail.offset));
            let entry: format::Fragment = self.fragments.get(&self.metadata, number)?;
            let (start, word) = (entry.start_block.get(), entry.size.get());
            let stored = map::stored("fragment block", start, word, self.superblock.block_size)?;
            let range = stored.start..stored.start.saturating_add(stored.len as u64);
            visit(Piece { stored: range, plain: from..from + tail.len as u64, fragment: true });
        }
        Ok(())
    }

    fn inode(&self, _: Nid, _: &mut dyn FnMut(&'static str, Piece)) -> Result<()> {
        // All inodes are in the inode table.
        Ok(())
    }

    fn tables(&self, visit: &mut dyn FnMut(&'static str, Piece)) -> Result<()> {
        let mut add = |what, range: Range<u64>| visit(what, Piece::metadata(range));
        add("superblock", 0..self.superblock.data_start);
        add("inodes", self.inodes.start..self.inodes.end);
        add("directories", self.listings.start..self.listings.end);
        add("fragment table", with_index(&self.fragments));
        self.export.iter().for_each(|table| add("export table", with_index(table)));
        add("owners", with_index(&self.ids_table));
        self.xattrs.iter().for_each(|table| add("xattrs", table.pairs.start..self.superblock.bytes_used));
        Ok(())
    }
}

/// Returns the position of a table's records and of the index behind them.
fn with_index(table: &Table) -> Range<u64> {
    let area = table.area();
    area.start..area.end + size_of_val(table.blocks()) as u64
}
