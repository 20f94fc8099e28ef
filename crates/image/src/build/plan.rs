//! The plan of a build: a tree, and the order of its data.

use std::collections::HashMap;

use crate::Error;
use crate::tree::{Data, Ino, Kind, Tree};

/// Content of an image.
#[derive(Debug)]
pub struct Plan {
    /// The tree.
    pub tree: Tree,
    /// Its regular files in the order of their data; files not listed follow in the tree's order.
    pub order: Vec<Ino>,
}

/// Returns the files whose data sources left for later, those of `order` first, and the sum of
/// their lengths. May name a file twice.
pub(super) fn to_read(tree: &Tree, order: Vec<Ino>) -> (Vec<Ino>, u64) {
    let (mut files, mut total) = (order, 0);
    let walked = tree.walk(|ino, _| {
        if let Kind::File { size, data: Data::Source { .. } } = &tree.inode(ino).kind {
            total += size;
            files.push(ino);
        }
        Ok(())
    });
    debug_assert!(walked.is_ok(), "the visitor never fails");
    (files, total)
}

/// Returns, for each of `files` numbers, whether a name of the tree refers to that file; `None` if
/// all are referenced. Others are members of a stream that a later one replaced, and beginnings of
/// files that could not be read completely.
pub(crate) fn referenced(tree: &Tree, files: usize) -> Option<Vec<bool>> {
    let mut referenced = vec![false; files];
    let walked = tree.walk(|ino, _| {
        if let Kind::File { data: Data::Stored(file), .. } = tree.inode(ino).kind {
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
        Kind::File { data: Data::Stored(file), .. } => match gone.get(file) {
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
