//! Block maps of files that a page contains: the pieces of each file, and where the image stores them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use packfs_image::AnyImage;
use packfs_image::placement::{Area, PlacedPiece};
use packfs_image::stats::{EntryType, Stats};
use serde::Serialize;
use serde::ser::{SerializeTuple, Serializer};

use crate::Result;

/// Most pieces of a file in a page; maps of larger files are left out. With blocks of 128 KiB, that is 1 GiB.
const OF_FILE_MAX: usize = 1 << 13;
/// Most pieces in a page: about 15 MB of it.
const MAX: usize = 1 << 19;

/// Pieces of the files of an image, by the positions of the files in its statistics.
#[derive(Debug, Default, Serialize)]
pub struct BlockMaps {
    /// Ways in which pieces are stored; the last number in [`CompactExtent::stored`] is an index into these.
    ways: Vec<StorageForm>,
    files: BTreeMap<usize, Vec<CompactExtent>>,
}

/// Way in which pieces are stored: codec, space of the position, true if other pieces share the stored bytes, true if
/// they follow the inode.
type StorageForm = (Option<&'static str>, String, bool, bool);

/// A piece of a file. As JSON it is an array: `[length]` for a hole, else `[length, position, stored length, way]`, and
/// for a piece in a fragment its index, or -1 for the packed inode.
#[derive(Debug)]
struct CompactExtent {
    len: u64,
    stored: Option<(u64, u64, usize)>,
    fragment: Option<i64>,
}

impl BlockMaps {
    /// Reads where an image stores the data of its files.
    ///
    /// # Errors
    /// Damaged metadata.
    pub fn read(image: &AnyImage, stats: &Stats) -> Result<BlockMaps> {
        let mut pieces = BlockMaps::default();
        let mut left = MAX;
        for (n, entry) in stats.entries.iter().enumerate().filter(|(_, entry)| entry.kind == EntryType::File) {
            let most = left.min(OF_FILE_MAX);
            let mut file = Vec::new();
            image.placement(entry.nid, &mut |placed| {
                // One more than fits tells that the file has more.
                file.push(pieces.convert_piece(&placed));
                if file.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            // A file without pieces has nothing to show.
            // A long file leaves its room to the later, smaller ones.
            if file.len() <= most && !file.is_empty() {
                left -= file.len();
                pieces.files.insert(n, file);
            }
        }
        Ok(pieces)
    }

    fn convert_piece(&mut self, placed: &PlacedPiece) -> CompactExtent {
        let stored = placed.stored.map(|at| {
            let way = (at.codec, area_name(at.area), at.partial, at.inline);
            // A handful of ways in an image, so a search is as fast as a map.
            let known = self.ways.iter().position(|other| *other == way);
            let way = known.unwrap_or_else(|| {
                self.ways.push(way);
                self.ways.len() - 1
            });
            (at.position, at.len, way)
        });
        let fragment = placed.fragment.map(|at| at.index.map_or(-1, i64::from));
        CompactExtent { len: placed.len, stored, fragment }
    }
}

/// Returns the name of the space of a position, as `api/map` has it.
pub(crate) fn area_name(area: Area) -> String {
    match area {
        Area::Image => "image".to_owned(),
        Area::Device(number) => number.to_string(),
        _ => "metabox".to_owned(),
    }
}

impl Serialize for CompactExtent {
    fn serialize<S: Serializer>(&self, out: S) -> std::result::Result<S::Ok, S::Error> {
        let len = 1 + self.stored.map_or(0, |_| 3 + usize::from(self.fragment.is_some()));
        let mut array = out.serialize_tuple(len)?;
        array.serialize_element(&self.len)?;
        if let Some((position, stored, way)) = self.stored {
            array.serialize_element(&position)?;
            array.serialize_element(&stored)?;
            array.serialize_element(&way)?;
            if let Some(fragment) = self.fragment {
                array.serialize_element(&fragment)?;
            }
        }
        array.end()
    }
}
