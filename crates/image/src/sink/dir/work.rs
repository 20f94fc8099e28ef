//! Jobs of the workers: batches of entries created from open to close, and pieces of large files.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use packfs_blocks::{Progress, Storage};
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::content::{copy, cut};
use super::place::{ExtractTarget, TargetDir};
use super::restore::{AttributeRestorer, CreatedEntry};
use super::{ExtractOptions, ExtractSummary};
use crate::image::{Extent, FileType, Image, Nid, Stat};
use crate::tree::{DeviceNumber, path_of};
use crate::{Error, OnError, Result};

/// Files larger than this are extracted by several workers, in pieces of about this size.
pub(super) const PIECE: u64 = 1 << 20;

/// No format has smaller blocks, so a smaller file has no holes.
const MIN_HOLE: u64 = 4096;

/// State shared by all jobs of an extraction.
#[derive(Debug)]
pub(super) struct ExtractContext<'c> {
    pub(super) restore: AttributeRestorer<'c>,
    pub(super) progress: &'c Progress,
    sparse: bool,
    on_error: OnError,
    stop: AtomicBool,
}

/// An entry to create, of any type except a directory.
#[derive(Debug)]
pub(super) struct ExtractItem {
    pub(super) dir: Arc<TargetDir>,
    pub(super) name: Box<[u8]>,
    pub(super) nid: Nid,
    pub(super) stat: Stat,
}

/// Result of a job, with a fatal error.
pub(super) type JobOutcome = (ExtractSummary, Result<()>);

/// State of a worker: a buffer for file data.
#[derive(Debug, Default)]
pub(super) struct ExtractWorker {
    buf: Vec<u8>,
}

impl<'c> ExtractContext<'c> {
    pub(super) fn new(restore: AttributeRestorer<'c>, options: &ExtractOptions, progress: &'c Progress) -> Self {
        let ExtractOptions { sparse, on_error, .. } = *options;
        ExtractContext { restore, progress, sparse, on_error, stop: AtomicBool::new(false) }
    }

    pub(super) fn place(&self) -> &'c ExtractTarget {
        self.restore.place
    }

    pub(super) fn image(&self) -> &'c dyn Image {
        self.restore.image
    }

    /// Returns `error` if the extraction continues without the entry.
    pub(super) fn skippable(&self, error: Error) -> Result<Error> {
        if self.on_error.skips(&error) {
            return Ok(error);
        }
        self.stop.store(true, Ordering::Relaxed);
        Err(error)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn extents(&self, item: &ExtractItem, size: u64) -> Result<Vec<Extent>> {
        if size < MIN_HOLE || !self.sparse {
            let whole = Extent { offset: 0, len: size, hole: false };
            return Ok(if size == 0 { Vec::new() } else { cut(vec![whole]) });
        }
        let extents = self.image().extents(item.nid)?;
        if extents.last().and_then(|last| last.offset.checked_add(last.len)) != Some(size) {
            return Err(Error::Damaged {
                path: path_of(&item.path()),
                why: "its blocks do not add up to its size".into(),
            });
        }
        Ok(extents)
    }

    /// Creates an empty file; also returns its mode, if that is certain.
    fn create(&self, item: &ExtractItem) -> Result<(Box<dyn Storage>, Option<u16>)> {
        // Without xattrs to set first, the file can be created with its mode. Owner bits that the
        // extractor lacks are set later.
        let mode = if item.stat.has_xattrs { 0o600 } else { item.stat.mode & 0o777 };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || fs::openat(item.dir.fd(), &*item.name, flags, Mode::from_raw_mode(mode.into()));
        let fd = self.place().new_entry(&item.dir, &item.name, open);
        let fd = fd.map_err(|errno| self.place().failed("cannot create", &item.path())(errno))?;
        Ok((self.place().storage(fd), self.place().mode_of_new(&item.dir, mode)))
    }

    /// Sets the length if the data does not.
    fn set_len(&self, item: &ExtractItem, file: &dyn Storage, len: u64) -> Result<()> {
        file.set_len(len).map_err(|error| Error::io("cannot set the size", self.place().shown(&item.path()))(error))
    }

    fn attributes(
        &self,
        item: &ExtractItem,
        file: Option<&dyn Storage>,
        mode: Option<u16>,
        out: &mut ExtractSummary,
    ) -> Result<()> {
        let fd = file.and_then(Storage::file).map(File::as_fd);
        self.restore.all(item.made(fd, mode), item.nid, &item.stat, out)
    }
}

impl ExtractItem {
    /// Returns the path below the destination.
    pub(super) fn path(&self) -> Vec<u8> {
        self.dir.join(&self.name)
    }

    fn made<'i>(&'i self, fd: Option<std::os::fd::BorrowedFd<'i>>, mode: Option<u16>) -> CreatedEntry<'i> {
        CreatedEntry { dir: &self.dir, name: &self.name, fd, ours: self.dir.is_plain(), mode }
    }

    fn unlink(&self) {
        // Best effort: an error is already being returned.
        let _ = fs::unlinkat(self.dir.fd(), &*self.name, AtFlags::empty());
    }
}

impl ExtractWorker {
    /// Makes a batch of entries.
    pub(super) fn batch(&mut self, context: &ExtractContext<'_>, items: &[ExtractItem]) -> JobOutcome {
        let mut out = ExtractSummary::default();
        let mut result = Ok(());
        for item in items {
            if context.stopped() {
                break;
            }
            let made = Error::unless_cancelled(context.progress).and_then(|()| self.item(context, item, &mut out));
            if let Err(error) = made {
                match context.skippable(error.in_entry(&item.path())) {
                    Ok(error) => out.skip(error, &item.stat),
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            }
        }
        Progress::add(&context.progress.done, out.bytes);
        (out, result)
    }

    fn item(&mut self, context: &ExtractContext<'_>, item: &ExtractItem, out: &mut ExtractSummary) -> Result<()> {
        const NONE: DeviceNumber = DeviceNumber { major: 0, minor: 0 };
        match &item.stat.kind {
            // Only the conductor makes directories.
            FileType::Dir => Ok(()),
            FileType::File { size } => self.file(context, item, *size, out),
            FileType::Symlink { target } => {
                let link = || fs::symlinkat(&**target, item.dir.fd(), &*item.name);
                let made = context.place().new_entry(&item.dir, &item.name, link);
                made.map_err(|e| context.place().failed("cannot create symbolic link", &item.path())(e))?;
                out.symlinks += 1;
                context.attributes(item, None, None, out)
            }
            FileType::Char(device) => node(context, item, fs::FileType::CharacterDevice, *device, out),
            FileType::Block(device) => node(context, item, fs::FileType::BlockDevice, *device, out),
            FileType::Fifo => node(context, item, fs::FileType::Fifo, NONE, out),
            FileType::Socket => node(context, item, fs::FileType::Socket, NONE, out),
        }
    }

    fn file(
        &mut self,
        context: &ExtractContext<'_>,
        item: &ExtractItem,
        size: u64,
        out: &mut ExtractSummary,
    ) -> Result<()> {
        let extents = context.extents(item, size)?;
        let (file, mode) = context.create(item)?;
        let mut fill = || {
            copy(context.image(), item.nid, &extents, &*file, &mut self.buf, &|| item.path())?;
            if extents.last().is_some_and(|last| last.hole) {
                context.set_len(item, &*file, size)?;
            }
            context.attributes(item, Some(&*file), mode, out)
        };
        fill().inspect_err(|_| item.unlink())?;
        out.files += 1;
        out.bytes += size;
        Ok(())
    }

    /// Copies a piece of a large file; the job that copies the last one finishes the file.
    pub(super) fn piece(
        &mut self,
        context: &ExtractContext<'_>,
        large: &LargeExtraction,
        range: Range<usize>,
    ) -> JobOutcome {
        let mut out = ExtractSummary::default();
        if context.stopped() || large.failed.load(Ordering::Relaxed) {
            return (out, Ok(()));
        }
        let cancelled = Error::unless_cancelled(context.progress);
        let result = match cancelled.and_then(|()| self.copy_piece(context, large, range, &mut out)) {
            Ok(()) => Ok(()),
            // One error per file is enough.
            Err(_) if large.failed.swap(true, Ordering::Relaxed) => Ok(()),
            Err(error) => {
                let error = error.in_entry(&large.item.path());
                context.skippable(error).map(|error| out.skip(error, &large.item.stat))
            }
        };
        (out, result)
    }

    fn copy_piece(
        &mut self,
        context: &ExtractContext<'_>,
        large: &LargeExtraction,
        range: Range<usize>,
        out: &mut ExtractSummary,
    ) -> Result<()> {
        let LargeExtraction { item, file, mode, extents, left, .. } = large;
        let extents = extents.get(range).unwrap_or_default();
        copy(context.image(), item.nid, extents, &**file, &mut self.buf, &|| item.path())?;
        let len = extents.iter().map(|extent| extent.len).sum();
        Progress::add(&context.progress.done, len);
        // Only the last one sets the attributes: a write after that would change the time again.
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            context.attributes(item, Some(&**file), *mode, out)?;
            large.whole.store(true, Ordering::Relaxed);
            out.files += 1;
            out.bytes += large.size;
        }
        Ok(())
    }
}

fn node(
    context: &ExtractContext<'_>,
    item: &ExtractItem,
    kind: fs::FileType,
    device: DeviceNumber,
    out: &mut ExtractSummary,
) -> Result<()> {
    let mode = if item.stat.has_xattrs { 0o600 } else { item.stat.mode & 0o777 };
    let number = fs::makedev(device.major, device.minor);
    let make = || fs::mknodat(item.dir.fd(), &*item.name, kind, Mode::from_raw_mode(mode.into()), number);
    match context.place().new_entry(&item.dir, &item.name, make) {
        Ok(()) => {
            out.special += 1;
            context.attributes(item, None, context.place().mode_of_new(&item.dir, mode), out)
        }
        Err(errno @ (Errno::PERM | Errno::OPNOTSUPP)) => {
            let what = match kind {
                fs::FileType::CharacterDevice => format!("character device {}:{}", device.major, device.minor),
                fs::FileType::BlockDevice => format!("block device {}:{}", device.major, device.minor),
                fs::FileType::Fifo => "named pipe".into(),
                _ => "socket".into(),
            };
            out.not_restored.push(context.restore.not_restored(item.made(None, None), what, errno));
            Ok(())
        }
        Err(errno) => Err(context.place().failed("cannot create special file", &item.path())(errno)),
    }
}

/// A large file in progress. Dropped before it is complete, it is removed.
#[derive(Debug)]
pub(super) struct LargeExtraction {
    item: ExtractItem,
    size: u64,
    file: Box<dyn Storage>,
    mode: Option<u16>,
    extents: Vec<Extent>,
    /// Number of pieces not yet copied.
    left: AtomicUsize,
    failed: AtomicBool,
    whole: AtomicBool,
}

impl LargeExtraction {
    /// Creates the file, and returns the extents of each piece: at least one piece.
    pub(super) fn create(
        context: &ExtractContext<'_>,
        item: ExtractItem,
        size: u64,
    ) -> Result<(Self, Vec<Range<usize>>)> {
        let extents = context.extents(&item, size)?;
        let pieces = pieces(&extents);
        let (file, mode) = context.create(&item)?;
        let left = AtomicUsize::new(pieces.len());
        let failed = AtomicBool::new(false);
        let whole = AtomicBool::new(false);
        let large = LargeExtraction { item, size, file, mode, extents, left, failed, whole };
        // Now, as the last piece may be a hole, or be copied before the others.
        context.set_len(&large.item, &*large.file, size)?;
        Ok((large, pieces))
    }
}

impl Drop for LargeExtraction {
    fn drop(&mut self) {
        if !*self.whole.get_mut() {
            self.item.unlink();
        }
    }
}

fn pieces(extents: &[Extent]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (at, extent) in extents.iter().enumerate() {
        bytes += if extent.hole { 0 } else { extent.len };
        if bytes >= PIECE {
            out.push(start..at + 1);
            (start, bytes) = (at + 1, 0);
        }
    }
    if start < extents.len() || out.is_empty() {
        out.push(start..extents.len());
    }
    out
}
