//! Tar archives as a source: v7, ustar, GNU and pax, plain or compressed, from a file or a pipe.
//!
//! An uncompressed archive in a file is only scanned: contents are read in place later, by any
//! thread. Any other archive is read once, and its data is passed on as it arrives.
//!
//! - `format`, `header`, `pax`, `base64`, `acl`, `sparse`: check blocks and records.
//! - `input` with `seekable` (and `contents`) and `stream`: provide the bytes.
//! - `members`: reads one member after the other; `place`: adds members to a tree.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::io::FileAt;

use self::contents::Archive;
use self::input::Input;
use self::members::{MemberKind, Members};
use self::place::{clean, place};
use self::seekable::Seekable;
use self::stream::Stream;
use super::decompress::{self, Compression};
use super::readahead::ReadAhead;
use super::{Exclude, Source, Store};
use crate::tree::{Data, Tree};
use crate::{Error, Result, Warning, WarningKind};

mod acl;
pub(super) mod base64;
mod contents;
pub(crate) mod format;
mod header;
mod input;
mod members;
mod pax;
mod place;
mod seekable;
mod sparse;
mod stream;
#[cfg(test)]
pub(crate) mod tests;

/// Selection of what to take from an archive.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Entries to leave out.
    pub exclude: Exclude,
    /// True to take extended attributes.
    pub xattrs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { exclude: Exclude::default(), xattrs: true }
    }
}

/// Opens the archive at `path`, or on standard input. Its compression (gzip, xz, zstd, bzip2 or
/// none) is detected from its first bytes.
pub fn open(path: Option<&Path>, options: Options) -> Result<Box<dyn Source>> {
    let Some(path) = path else {
        return from_stream(Box::new(io::stdin()), Path::new("standard input"), options);
    };
    let file = File::open(path).map_err(Error::io("cannot open", path))?;
    let kind = file.metadata().map_err(Error::io("cannot read", path))?.file_type();
    if kind.is_file() || kind.is_block_device() {
        let bytes: Arc<dyn ReadAt> = Arc::new(FileAt::open(path, 0).map_err(Error::io("cannot open", path))?);
        let mut start = [0; decompress::MAGIC_LEN];
        let got = bytes.read_at(&mut start, 0).map_err(Error::io("cannot read", path))?;
        return match Compression::of(&start[..got], path)? {
            None => Ok(from_bytes(bytes, path, options)),
            Some(_) => stream(Box::new(file), path, Some(bytes), options),
        };
    }
    from_stream(Box::new(file), path, options)
}

/// Opens an uncompressed archive in `bytes`; `name` is for messages.
pub fn from_bytes(bytes: Arc<dyn ReadAt>, name: &Path, options: Options) -> Box<dyn Source> {
    let archive = Archive { bytes, path: name.to_owned() };
    Box::new(TarSource { members: Some(Members::new(Seekable::new(archive, 0))), options })
}

/// Opens an archive, possibly compressed, that can be read only once; `name` is for messages.
pub fn from_stream(from: Box<dyn Read + Send>, name: &Path, options: Options) -> Result<Box<dyn Source>> {
    stream(from, name, None, options)
}

fn stream(
    from: Box<dyn Read + Send>,
    name: &Path,
    file: Option<Arc<dyn ReadAt>>,
    options: Options,
) -> Result<Box<dyn Source>> {
    let bytes =
        ReadAhead::new(decompress::reader(from, name)?).map_err(Error::io("cannot start a thread for", name))?;
    let stream = Stream::new(Box::new(bytes), name.to_owned(), file);
    Ok(Box::new(TarSource { members: Some(Members::new(stream)), options }))
}

/// Returns true if `head` begins with the header of a member, even a damaged one.
pub(super) fn is_header(head: &[u8]) -> bool {
    header::has_magic(head) || head.first_chunk().is_some_and(|block| header::check(block, 0).is_ok())
}

struct TarSource<I> {
    members: Option<Members<I>>,
    options: Options,
}

impl<I: Input> Source for TarSource<I> {
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
        let taken = self.members.take();
        let mut members = taken.ok_or_else(|| Error::Misuse("an archive can be listed only once".into()))?;
        while let Some(member) = members.next()? {
            if member.path.is_empty() {
                let name = members.input.name().to_owned();
                tree.warnings
                    .add(Warning::new(WarningKind::MemberWithoutName, name).with_detail(at_byte(member.at)))?;
                continue;
            }
            let path = clean(&member.path, member.at)?;
            if self.options.exclude.covers(&path, matches!(member.kind, MemberKind::Dir)) {
                continue;
            }
            let data = match &member.kind {
                MemberKind::File(file) if file.size > 0 => members.input.keep(file.clone(), store)?,
                _ => Data::Empty,
            };
            place(tree, &path, member, data, &self.options)?;
        }
        for (kind, at) in members.noted {
            tree.warnings.add(Warning::new(kind, members.input.name()).with_detail(at_byte(at)))?;
        }
        members.input.finish()
    }
}

fn at_byte(at: u64) -> String {
    format!("at byte {at}")
}
