//! What single files have instead of what the image says: codec, cluster size, and a place in the order of data.

use packfs_codec::Choice;

use crate::tree::Ino;
use crate::{Error, Result};

/// Codecs and cluster sizes that files may have; [`FileRecipe`](crate::tree::FileRecipe) refers to them by number.
#[derive(Debug, Clone, Default)]
pub struct RecipeTable {
    codecs: Vec<Choice>,
    clusters: Vec<u32>,
}

impl RecipeTable {
    /// Maximum number of codecs, and of cluster sizes.
    pub const MAX: usize = 15;

    /// Returns the number of a codec, which is added unless it is there.
    pub fn codec(&mut self, codec: Choice) -> Result<u8> {
        number(&mut self.codecs, codec, "codecs of single files")
    }

    /// Returns the number of a cluster size in bytes, which is added unless it is there.
    pub fn cluster(&mut self, size: u32) -> Result<u8> {
        number(&mut self.clusters, size, "cluster sizes of single files")
    }

    /// Returns true if all files are packed alike.
    pub fn is_empty(&self) -> bool {
        self.codecs.is_empty() && self.clusters.is_empty()
    }

    /// Returns the codecs in the order of their numbers, which count from 1.
    pub fn codecs(&self) -> &[Choice] {
        &self.codecs
    }

    /// Returns the cluster sizes in the order of their numbers, which count from 1.
    pub fn clusters(&self) -> &[u32] {
        &self.clusters
    }
}

/// Returns the number of an item in a list, counted from 1.
fn number<T: PartialEq>(list: &mut Vec<T>, item: T, what: &'static str) -> Result<u8> {
    // Few enough to be searched one by one.
    let at = list.iter().position(|known| *known == item).unwrap_or(list.len());
    if at == RecipeTable::MAX {
        return Err(Error::TooMany { what, max: RecipeTable::MAX as u64 });
    }
    if at == list.len() {
        list.push(item);
    }
    Ok(u8::try_from(at + 1).expect("15 at most"))
}

/// Rank of a file: data of lower ranks comes first, whatever the order. The default rank is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRank {
    /// The file.
    pub ino: Ino,
    /// Its rank.
    pub rank: i32,
}
