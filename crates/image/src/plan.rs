//! What a writer is asked to put down, and what writers of all formats do with it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use packfs_blocks::Progress;

use crate::source::Contents;
use crate::tree::{Data, Ino, Kind, Tree};
use crate::{Error, Result};

/// What to put into an image.
#[derive(Debug)]
pub struct Plan {
    /// The tree.
    pub tree: Tree,
    /// Its regular files in the order in which their data is to lie; those not named follow in the tree's order.
    pub order: Vec<Ino>,
}

/// Puts down the data of all files that sources left for later, first in the order given: `put` takes a file's
/// contents, key and size (not 0) and gives the number it has from then on.
pub(crate) fn put_files(
    tree: &mut Tree,
    order: &[Ino],
    progress: &Progress,
    mut put: impl FnMut(&Arc<dyn Contents>, u64, u64) -> Result<u32>,
) -> Result<()> {
    let mut rest = Vec::new();
    let mut total = progress.done.load(Ordering::Relaxed);
    tree.walk(|ino, _| {
        if let Kind::File { size, data: Data::Source { .. } } = &tree.inode(ino).kind {
            total += size;
            rest.push(ino);
        }
        Ok(())
    })?;
    progress.total.store(total, Ordering::Relaxed);
    for ino in order.iter().chain(&rest) {
        // What the order named is stored by the time the rest comes.
        let Kind::File { size, data } = &mut tree.inode_mut(*ino).kind else { continue };
        let Data::Source { from, key } = data else { continue };
        *data = match *size {
            0 => Data::Empty,
            size => Data::Stored(put(from, *key, size)?),
        };
    }
    Ok(())
}

/// Takes files that could not be read out of the tree; says which and why.
pub(crate) fn leave_out(tree: &mut Tree, failed: &[(u32, Error)]) -> Vec<(String, String)> {
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

/// Why an output could not be begun or finished. A target may also appear in between.
pub(crate) fn output_error(what: &'static str, target: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Usage(format!("{} exists; --force replaces it", target.display())),
        _ => Error::io(what, target)(e),
    }
}

/// The newest time in the tree in whole seconds, if 32 bits hold it: images get theirs from the input, never
/// from the clock.
pub(crate) fn newest(tree: &Tree) -> u32 {
    let mut newest = 0;
    let walked = tree.walk(|ino, _| {
        newest = newest.max(u32::try_from(tree.inode(ino).mtime.secs).unwrap_or(0));
        Ok(())
    });
    debug_assert!(walked.is_ok(), "the visitor never fails");
    newest
}
