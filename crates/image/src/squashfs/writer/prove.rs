//! Reads the inode and fragment tables back from the new image and checks them by the rules of a check. Verification of
//! blocks proves that they decode; this proves that Linux finds them.

use super::SquashfsOptions;
use super::numbering::InodeNumbering;
use super::pack::BlockPacker;
use crate::build::{BuildTools, unreadable};
use crate::squashfs::reader::{BrokenRule, ReadOptions, SquashfsReader, first_broken};
use crate::tree::{Ino, Tree};
use crate::{Error, Result};

/// Number of bytes of metadata kept in memory: inodes are read in the order of the image.
const CACHE_LEN: u64 = 4 << 20;

/// Fails if an inode or a fragment breaks a rule.
pub(super) fn maps(
    tools: BuildTools<'_, '_, BlockPacker>,
    options: &SquashfsOptions,
    tree: &Tree,
    numbering: &InodeNumbering,
) -> Result<()> {
    let BuildTools { output, progress, .. } = tools;
    let source = output.reader(options.build.offset).map_err(Error::io("cannot read back", output.target()))?;
    let reader =
        SquashfsReader::open(source, ReadOptions { cache_bytes: CACHE_LEN, name: output.target().to_owned() })?;
    let Some(BrokenRule { inode, finding }) = first_broken(&reader, progress)? else { return Ok(()) };
    let find_inode = |number: u32| tree.inos().find(|ino: &Ino| numbering.number(*ino) == number);
    let path = inode.and_then(find_inode).map_or_else(|| output.target().to_owned(), |ino| tree.path_of(ino));
    Err(unreadable(path, &finding))
}
