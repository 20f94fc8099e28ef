//! Leaves out files above a size: those of streams before they are stored, all others before anything is read.

use std::io::{self, Read};

use serde::Serialize;

use crate::source::Store;
use crate::tree::{Inode, Kind, Tree};
use crate::{Error, Result};

/// Files that a build left out because of their length.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct OversizedFiles {
    /// Number of files; one with several names counts once.
    pub files: u64,
    /// Sum of their lengths, holes included.
    pub bytes: u64,
}

/// Removes all names of files longer than `max_len`.
pub(super) fn remove_oversized(tree: &mut Tree, max_len: u64) -> Result<OversizedFiles> {
    let oversized_len = |inode: &Inode<'_>| match inode.kind {
        Kind::File { size, .. } => Some(size).filter(|size| *size > max_len),
        _ => None,
    };
    let mut removed = OversizedFiles::default();
    tree.walk(|ino, _| {
        if let Some(len) = oversized_len(&tree.inode(ino)) {
            removed.files += 1;
            removed.bytes = removed.bytes.saturating_add(len);
        }
        Ok(())
    })?;
    if removed.files > 0 {
        tree.retain(|_, inode| oversized_len(&inode).is_none());
    }
    Ok(removed)
}

/// Passes files of streams on to a store, except for those that [`remove_oversized`] takes out of the tree later: their
/// data would stay in the image, or fill the directory for temporary files.
pub(super) struct SmallFileStore<'s> {
    store: &'s mut dyn Store,
    max_len: u64,
}

impl<'s> SmallFileStore<'s> {
    /// Number of the files that are not stored. Nothing asks for their data.
    const NOT_STORED: u32 = u32::MAX;

    pub(super) fn new(store: &'s mut dyn Store, max_len: u64) -> Self {
        SmallFileStore { store, max_len }
    }
}

impl Store for SmallFileStore<'_> {
    fn put(&mut self, from: &mut dyn Read, size: u64, data: &[(u64, u64)]) -> Result<u32> {
        if size <= self.max_len {
            return self.store.put(from, size, data);
        }
        let stored_len: u64 = data.iter().map(|(_, len)| len).sum();
        let skipped = io::copy(&mut from.take(stored_len), &mut io::sink());
        let skipped = skipped.map_err(Error::io("cannot read", "the archive"))?;
        if skipped < stored_len {
            return Err(Error::io("cannot read", "the archive")(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(Self::NOT_STORED)
    }

    fn own_files(&self) -> &[(u64, u64)] {
        self.store.own_files()
    }
}
