//! The plan of a build: a tree, and the order of its data.

use std::collections::HashMap;

use super::FileRank;
use crate::Error;
use crate::tree::{FileData, Kind, Tree};

/// Content of an image.
#[derive(Debug)]
pub struct Plan {
    /// The tree.
    pub tree: Tree,
    /// Regular files whose data is to lie before or after that of the others; among files of one rank
    /// [`Options::order`](super::SharedOptions::order) decides.
    pub order: Vec<FileRank>,
}

/// Returns, for each of `files` numbers, whether a name of the tree refers to that file; `None` if
/// all are referenced. Others are members of a stream that a later one replaced, and beginnings of
/// files that could not be read completely.
pub(crate) fn referenced(tree: &Tree, files: usize) -> Option<Vec<bool>> {
    let mut referenced = vec![false; files];
    let walked = tree.walk(|ino, _| {
        if let Kind::File { data: FileData::Stored(file), .. } = tree.inode(ino).kind {
            referenced[file as usize] = true;
        }
        Ok(())
    });
    debug_assert!(walked.is_ok(), "the visitor never fails");
    if referenced.iter().all(|referenced| *referenced) { None } else { Some(referenced) }
}

/// Removes files that could not be read from the tree; returns their paths with the errors.
pub(super) fn leave_out(tree: &mut Tree, failed: &[(u32, Error)]) -> Vec<(String, String)> {
    if failed.is_empty() {
        return Vec::new();
    }
    let gone: HashMap<u32, &Error> = failed.iter().map(|(file, e)| (*file, e)).collect();
    let mut left_out = Vec::new();
    tree.retain(|path, inode| match &inode.kind {
        Kind::File { data: FileData::Stored(file), .. } => match gone.get(file) {
            Some(error) => {
                left_out.push((path.escape_ascii().to_string(), error.to_string()));
                false
            }
            None => true,
        },
        _ => true,
    });
    left_out
}
