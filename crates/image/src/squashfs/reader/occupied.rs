//! Positions of everything that an image stores, for statistics.

use std::ops::{ControlFlow, Range};

use super::SquashfsReader;
use super::table::IndexedTable;
use crate::Result;
use crate::image::Nid;
use crate::placement::{OccupiedSpace, StoredRange};

impl OccupiedSpace for SquashfsReader {
    fn len(&self) -> u64 {
        self.metadata.blocks.disk.len()
    }

    fn file(&self, nid: Nid, visit: &mut dyn FnMut(StoredRange)) -> Result<()> {
        self.placement(nid, &mut |placed| {
            if let Some(stored) = placed.stored {
                let range = stored.position..stored.position.saturating_add(stored.len);
                let from = placed.fragment.map_or(0, |fragment| fragment.offset);
                visit(StoredRange {
                    stored: range,
                    plain: from..from + placed.len,
                    fragment: placed.fragment.is_some(),
                });
            }
            ControlFlow::Continue(())
        })
    }

    fn inode(&self, _: Nid, _: &mut dyn FnMut(&'static str, StoredRange)) -> Result<()> {
        // All inodes are in the inode table.
        Ok(())
    }

    fn tables(&self, visit: &mut dyn FnMut(&'static str, StoredRange)) -> Result<()> {
        let mut add = |what, range: Range<u64>| visit(what, StoredRange::metadata(range));
        add("superblock", 0..self.superblock.data_start);
        add("inodes", self.inodes.start..self.inodes.end);
        add("directories", self.listings.start..self.listings.end);
        // Index and records of a table are one thing to statistics.
        add("fragment table", with_index(&self.fragments));
        self.export.iter().for_each(|table| add("export table", with_index(table)));
        add("owners", with_index(&self.ids_table));
        // From the pairs to the end: sets and their index lie in between.
        self.xattrs.iter().for_each(|table| add("xattrs", table.pairs.start..self.superblock.bytes_used));
        Ok(())
    }
}

/// Returns the position of a table's records and of the index after them.
fn with_index(table: &IndexedTable) -> Range<u64> {
    let area = table.area();
    area.start..area.end + size_of_val(table.blocks()) as u64
}
