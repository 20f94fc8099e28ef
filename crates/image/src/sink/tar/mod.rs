//! Writes an image as a tar archive: pax where ustar is too narrow, with xattrs, hard links and sparse files.
//!
//! The conductor walks the image and lays out the archive; `super::batch` has file data decoded ahead on
//! all threads, and has it written. `header` builds the headers before each member's data.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use packfs_blocks::io::WriteTurns;
use packfs_blocks::pipeline::{self, Pool};
use packfs_blocks::progress::{Phase, Progress};
use packfs_blocks::system::OsStrExt;

use self::header::TarMember;
use super::batch::{self, ArchiveBatcher, ArchiveOutput, ArchiveTarget};
use super::names::NameCounts;
use super::{PartDealer, Selection, Walk};
use crate::image::{Extent, FileType, Image, Nid, Stat, mode_without_acl};
use crate::source::tar::format::BLOCK;
use crate::tree::{XattrSet, acl, path_of};
use crate::{Error, Part, Result, Warning, WarningKind, Warnings};

mod header;
#[cfg(test)]
mod tests;

/// A hole is left out of the archive if that saves at least this many bytes.
const HOLE_MIN: u64 = 4096;

/// Smallest file whose reading is announced.
const LARGE: u64 = 1 << 20;

/// Options for writing an archive.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TarOptions {
    /// Entries to take.
    pub select: Selection,
    /// Number of leading components to remove from each path; entries with no more components than that are left out.
    pub strip: usize,
    /// Directory of the archive to put everything into, in place of the root.
    pub prefix: Option<PathBuf>,
    /// Number of decoding threads; with 0, everything runs on the calling thread.
    pub threads: usize,
    /// Number of bytes of the archive held at a time; with less than 2 MiB per thread, threads wait for each other.
    pub memory: u64,
    /// Part of the archive to write. All parts, one after the other, are the whole archive; only the last has its end.
    pub part: Part,
    /// True to write extended attributes.
    pub xattrs: bool,
    /// True to write further names of a file as links to it; otherwise as files of their own.
    pub hard_links: bool,
    /// True to fail on a warning with [`Error::Refused`].
    pub strict: bool,
    /// Name of the archive in messages.
    pub name: PathBuf,
}

impl Default for TarOptions {
    fn default() -> Self {
        let threads = packfs_blocks::pipeline::cores();
        TarOptions {
            select: Selection::default(),
            strip: 0,
            prefix: None,
            threads,
            memory: (2 * threads as u64 + 4) * batch::MAX as u64,
            part: Part::WHOLE,
            xattrs: true,
            hard_links: true,
            strict: false,
            name: PathBuf::from("tar archive"),
        }
    }
}

/// Result of writing an archive.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TarSummary {
    /// Number of members.
    pub entries: u64,
    /// Length of the archive in bytes.
    pub bytes: u64,
    /// Warnings about entries that were left out because a tar archive cannot store them.
    pub warnings: Warnings,
}

/// Writes `image`, or the part selected by [`TarOptions::select`], to `out`. Parent directories of
/// selected entries are written too, except the root.
///
/// The bytes do not depend on the number of threads. If the reader of a pipe is gone, the error is
/// an [`Error::Io`] of kind [`BrokenPipe`](std::io::ErrorKind::BrokenPipe).
pub fn write_tar(
    image: &dyn Image,
    out: &mut dyn Write,
    options: &TarOptions,
    progress: &Progress,
) -> Result<TarSummary> {
    write(image, ArchiveTarget::Stream(out), options, progress)
}

/// As [`write_tar`], to a file, which the threads write themselves. Does not commit it.
pub fn write_tar_to(
    image: &dyn Image,
    out: &packfs_blocks::Output,
    options: &TarOptions,
    progress: &Progress,
) -> Result<TarSummary> {
    write(image, ArchiveTarget::File(&WriteTurns::new(out, progress, batch::WAITING)), options, progress)
}

fn write<'env>(
    image: &'env dyn Image,
    to: ArchiveTarget<'env>,
    options: &'env TarOptions,
    progress: &'env Progress,
) -> Result<TarSummary> {
    progress.enter(Phase::Read);
    progress.entries_total.store(super::count(image, &options.select), Relaxed);
    let mut deal = PartDealer::new(image, &options.select, options.part)?;
    let mut walk = Walk::over(image, &options.select)?;
    pipeline::scope(
        options.threads,
        || (),
        |pool: &Pool<'env, ()>| {
            let output = ArchiveOutput { to, name: &options.name, progress };
            let batches = ArchiveBatcher::new(image, pool, output, options.memory);
            let mut tar = TarWriter { image, batches, names: HashMap::new(), options, header: Vec::new() };
            let mut summary = TarSummary { warnings: Warnings::new(options.strict), ..TarSummary::default() };
            let mut names = NameCounts::default();
            let mut has_root = false;
            while let Some(visit) = walk.step()? {
                names.add(visit.path, &visit.stat)?;
                let is_ours = deal.next(&visit.stat);
                let Some(visit) = visit.strip(options.strip) else { continue };
                // The root is a member only if it was selected, and still is the root.
                // Without their first components, several directories may become the root, which then is the first.
                let is_free = visit.depth > 0 || !std::mem::replace(&mut has_root, true);
                let is_member = visit.depth > 0 || options.prefix.is_some() || (visit.selected && options.strip == 0);
                let has_place = is_free && is_member;
                if !is_ours {
                    if has_place {
                        tar.passed_by(&placed(options.prefix.as_deref(), visit.path), visit.nid, &visit.stat);
                    }
                } else if visit.stat.kind == FileType::Socket {
                    summary.warnings.add(Warning::new(WarningKind::Socket, path_of(visit.path)))?;
                } else if has_place {
                    tar.entry(&placed(options.prefix.as_deref(), visit.path), visit.nid, &visit.stat)?;
                    summary.entries += 1;
                }
                Progress::add(&progress.entries, 1);
                Error::unless_cancelled(progress)?;
            }
            summary.bytes = tar.finish(options.part.is_last())?;
            Ok(summary)
        },
    )
}

/// Returns the path of an entry in the archive.
pub(super) fn placed<'v>(prefix: Option<&Path>, path: &'v [u8]) -> Cow<'v, [u8]> {
    match prefix.map(|prefix| prefix.as_os_str().as_bytes()) {
        None => path.into(),
        Some(prefix) if path.is_empty() => prefix.to_vec().into(),
        Some(prefix) => [prefix, b"/", path].concat().into(),
    }
}

/// An archive being written.
struct TarWriter<'p, 'env, 'o> {
    image: &'env dyn Image,
    batches: ArchiveBatcher<'p, 'env>,
    /// The first name of each inode that has several.
    names: HashMap<Nid, Box<[u8]>>,
    options: &'o TarOptions,
    header: Vec<u8>,
}

impl TarWriter<'_, '_, '_> {
    /// Remembers an entry of another part, to which links of this part may refer.
    fn passed_by(&mut self, path: &[u8], nid: Nid, stat: &Stat) {
        if stat.nlink > 1 && !matches!(stat.kind, FileType::Dir | FileType::Socket) {
            self.names.entry(nid).or_insert_with(|| path.into());
        }
    }

    fn entry(&mut self, path: &[u8], nid: Nid, stat: &Stat) -> Result<()> {
        if stat.nlink > 1 && stat.kind != FileType::Dir && self.options.hard_links {
            if let Some(first) = self.names.get(&nid) {
                // As in the member of the first name: some programs give the file the mode of its last one.
                let mode = mode_without_acl(self.image, nid, stat)?;
                let xattrs = &XattrSet::new();
                let member = TarMember { path, stat, mode, xattrs, hard_link: Some(first), regions: None };
                return add_header(&mut self.batches, &mut self.header, &member);
            }
            self.names.insert(nid, path.into());
        }
        let name = member_path(path, stat);
        let (xattrs, mode) = member_attributes(self.image, nid, stat, self.options.xattrs)?;
        let extents = match stat.kind {
            FileType::File { size } => {
                announce(self.image, nid, size);
                extents(self.image, nid, size)?
            }
            _ => Vec::new(),
        };
        let regions = regions(&extents);
        let regions = regions.as_deref();
        let member = TarMember { path: &name, stat, mode, xattrs: &xattrs, hard_link: None, regions };
        add_header(&mut self.batches, &mut self.header, &member)?;
        self.data(path, nid, &extents, regions)
    }

    /// Adds the parts of the extents to be stored, and the padding after them.
    fn data(&mut self, path: &[u8], nid: Nid, extents: &[Extent], regions: Option<&[(u64, u64)]>) -> Result<()> {
        let whole = [(0, u64::MAX)];
        let mut regions = regions.unwrap_or(&whole).iter().peekable();
        let mut stored = 0;
        for extent in extents {
            let end = extent.offset + extent.len;
            while let Some((offset, len)) = regions.peek() {
                let region_end = offset.saturating_add(*len);
                let from = extent.offset.max(*offset);
                let to = end.min(region_end);
                if from < to {
                    self.batches.add_data(nid, path, from, to - from)?;
                    stored += to - from;
                }
                if region_end > end {
                    break;
                }
                regions.next();
            }
        }
        let padding = stored.next_multiple_of(BLOCK as u64) - stored;
        self.batches.add_bytes(&[0; BLOCK][..usize::try_from(padding).unwrap_or(0)])
    }

    /// Ends the archive with two zero blocks if `is_end`. Returns its length.
    fn finish(mut self, is_end: bool) -> Result<u64> {
        if is_end {
            self.batches.add_bytes(&[0; 2 * BLOCK])?;
        }
        self.batches.finish()
    }
}

/// Returns the path of a member as its header has it: that of a directory ends with a slash.
fn member_path<'p>(path: &'p [u8], stat: &Stat) -> Cow<'p, [u8]> {
    match stat.kind {
        FileType::Dir => [if path.is_empty() { b"." } else { path }, b"/"].concat().into(),
        _ => path.into(),
    }
}

/// Returns the extended attributes to store, and the mode that goes with them.
fn member_attributes(image: &dyn Image, nid: Nid, stat: &Stat, with_xattrs: bool) -> Result<(XattrSet, u16)> {
    if !with_xattrs {
        return Ok((XattrSet::new(), mode_without_acl(image, nid, stat)?));
    }
    let xattrs = if stat.has_xattrs { image.xattrs(nid)? } else { XattrSet::new() };
    // The mask of an ACL would give too much where the archive is unpacked without ACLs.
    let mode = stat.mode & acl::kept_mode_bits(&xattrs, &XattrSet::new());
    Ok((xattrs, mode))
}

/// Returns the header of an entry of an archive whose data a program writes itself, for example as it arrives over a
/// network.
///
/// Such an archive is the header of each entry, after that of a regular file its bytes and zeros up to a multiple of 512
/// bytes, and 1024 zeros at the end. Holes are stored as zeros. `path` is the one in the archive, where directories come
/// before what they hold. `first_path` makes the entry a hard link to that earlier one, without bytes of its own.
///
/// # Errors
/// Those of the image; [`Error::Unsupported`] for a socket, which no archive holds.
pub fn member_header(image: &dyn Image, path: &[u8], nid: Nid, first_path: Option<&[u8]>) -> Result<Vec<u8>> {
    let stat = image.stat(nid)?;
    if stat.kind == FileType::Socket {
        return Err(Error::Unsupported(format!("{}: a tar archive holds no sockets", path.escape_ascii())));
    }
    let (xattrs, mode) = match first_path {
        Some(_) => (XattrSet::new(), mode_without_acl(image, nid, &stat)?),
        None => member_attributes(image, nid, &stat, true)?,
    };
    let name = member_path(path, &stat);
    let member = TarMember { path: &name, stat: &stat, mode, xattrs: &xattrs, hard_link: first_path, regions: None };
    let mut bytes = Vec::new();
    header::add(&mut bytes, &member);
    Ok(bytes)
}

fn add_header(batches: &mut ArchiveBatcher<'_, '_>, scratch: &mut Vec<u8>, member: &TarMember<'_>) -> Result<()> {
    scratch.clear();
    header::add(scratch, member);
    batches.add_bytes(scratch)
}

/// Announces that a whole file will be read. Small ones follow each other in the image, which shows by itself.
pub(super) fn announce(image: &dyn Image, nid: Nid, size: u64) {
    if size >= LARGE {
        image.will_read(nid, 0..size);
    }
}

/// Returns the extents of a file; reads them only if there can be a hole worth leaving out or several blocks.
pub(super) fn extents(image: &dyn Image, nid: Nid, size: u64) -> Result<Vec<Extent>> {
    match size {
        0 => Ok(Vec::new()),
        1..HOLE_MIN => Ok(vec![Extent { offset: 0, len: size, hole: false }]),
        _ => image.extents(nid),
    }
}

/// Returns the regions to store of a file with holes worth leaving out: whole blocks of the
/// archive, except the last, which ends with the file and may be empty. `None` if there are no such
/// holes.
fn regions(extents: &[Extent]) -> Option<Vec<(u64, u64)>> {
    let size = extents.last().map_or(0, |last| last.offset + last.len);
    let mut regions = Vec::new();
    let mut begin = 0;
    for hole in extents.iter().filter(|extent| extent.hole) {
        let start = hole.offset.next_multiple_of(BLOCK as u64);
        let end = hole.offset + hole.len;
        let end = if end == size { end } else { end - end % BLOCK as u64 };
        if end >= start.saturating_add(HOLE_MIN) {
            if start > begin {
                regions.push((begin, start - begin));
            }
            begin = end;
        }
    }
    if begin == 0 {
        return None;
    }
    regions.push((begin, size - begin));
    Some(regions)
}
