//! Answers the kernel's requests from an image.
//!
//! Opening files and directories is answered once, with "not implemented": the kernel then opens them by itself, keeps
//! what it has read of them and asks no more.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fuser::{
    Errno, FileAttr, FileHandle, Filesystem, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyXattr, Request,
};
use packfs_blocks::trouble::TroubleReporter;
use packfs_image::image::{FileType, Nid};
use packfs_image::{Error, Image};

use crate::ahead::ReadAheadRequests;
use crate::attr::{OwnerOverride, inode_attributes, no_attributes};
use crate::dirs::ListingCache;
use crate::nodes::NodeNumbers;
use crate::paths::PathFinder;
use crate::trace::ReadTrace;

/// Time for which the kernel may keep names and attributes, which is for ever.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);
/// Longest read to ask the kernel for: its own limit for FUSE, 256 pages.
const READ_MAX: u32 = 1 << 20;
/// Number of requests, such as those of read-ahead, that nobody waits for yet. Not measured.
const BACKGROUND: u16 = 64;
/// Inodes are never used again for other files.
const GENERATION: Generation = Generation(0);
/// Block size to report for the whole file system.
const STATFS_BLOCK: u32 = 4096;
/// Longest name in bytes. The kernel passes longer ones on.
const NAME_MAX: u32 = 255;
/// `whence` of lseek(2).
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// An image as the kernel sees it.
pub(crate) struct ImageFs {
    pub(crate) image: Arc<dyn Image>,
    pub(crate) nodes: NodeNumbers,
    pub(crate) owner: OwnerOverride,
    /// True if the kernel checks permissions.
    pub(crate) checks_permissions: bool,
    pub(crate) bytes: u64,
    pub(crate) listings: ListingCache,
    pub(crate) trace: Option<ReadTrace>,
    /// Not while a trace is taken, which lists what programs read.
    pub(crate) ahead: Option<ReadAheadRequests>,
    pub(crate) trouble: TroubleReporter,
    /// True once a changed image was reported: every later error has the same reason.
    pub(crate) told_change: AtomicBool,
    pub(crate) paths: PathFinder,
    /// Counts the requests; whoever waits for a time without any looks at it.
    pub(crate) requests: Arc<AtomicU64>,
}

impl fmt::Debug for ImageFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageFs").field("image", &self.image).finish_non_exhaustive()
    }
}

thread_local! {
    /// Bytes on their way from the image to the kernel.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl ImageFs {
    /// Counts a request and returns the inode that it is about.
    fn begin(&self, number: INodeNo) -> Nid {
        // Relaxed: only a change of the number counts.
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.nodes.nid(number)
    }

    /// Reports an error and returns what to tell the kernel.
    fn failed(&self, number: INodeNo, error: &Error) -> Errno {
        match error {
            Error::Changed { .. } => {
                // Once: from here on every read fails, and a line for each would bury it.
                if !self.told_change.swap(true, Ordering::Relaxed) {
                    self.trouble.tell(format_args!("{error}; reads fail until the image is mounted again"));
                }
            }
            // If the image cannot be read now, as over a network, a search for the path would wait as well.
            Error::Io { .. } => self.trouble.tell(format_args!("inode {}: {error}", number.0)),
            _ => match self.paths.find(&*self.image, self.nodes.root, self.nodes.nid(number)) {
                Some(path) => self.trouble.tell(format_args!("{path}: {error}")),
                None => self.trouble.tell(format_args!("inode {}: {error}", number.0)),
            },
        }
        Errno::EIO
    }

    fn attr(&self, nid: Nid) -> Result<FileAttr, Error> {
        let stat = self.image.stat(nid)?;
        let number = self.nodes.number(nid).ok_or_else(|| Error::Misuse(format!("inode {} has no number", nid.0)))?;
        Ok(inode_attributes(number, &stat, self.owner))
    }

    /// Looks up a name; `.` and `..` are asked for by NFS servers.
    fn find(&self, dir: Nid, name: &[u8]) -> Result<Option<Nid>, Error> {
        match name {
            b"." => Ok(Some(dir)),
            b".." => self.above(dir),
            _ => self.image.lookup(dir, name),
        }
    }

    fn above(&self, dir: Nid) -> Result<Option<Nid>, Error> {
        // The root of the mount may be a directory of the image, whose parent is not to be seen.
        if dir == self.nodes.root { Ok(Some(dir)) } else { self.image.parent(dir) }
    }

    /// Calls `add` for each entry of a directory after number `offset`, with the number that comes after it, until
    /// there is no more room.
    fn list(&self, dir: Nid, offset: u64, add: &mut dyn FnMut(u64, &[u8], &FileAttr) -> bool) -> Result<(), Error> {
        let mut next = usize::try_from(offset).unwrap_or(usize::MAX);
        for name in [&b"."[..], b".."].into_iter().skip(next) {
            next += 1;
            // A damaged parent must not hide what the directory itself lists.
            let nid = if name == b"." { dir } else { self.above(dir).ok().flatten().unwrap_or(dir) };
            if add(next as u64, name, &self.attr(nid).unwrap_or_else(|_| no_attributes())) {
                return Ok(());
            }
        }
        let listing = self.listings.get(&*self.image, dir)?;
        // `.` and `..` have the numbers 0 and 1.
        // At least 2: `.` and `..` were skipped or added above.
        for (name, nid) in listing.from(next - 2) {
            next += 1;
            if let Some(trace) = &self.trace {
                trace.note_name(dir, name, nid);
            }
            // A damaged inode still has its name; looking it up tells the error.
            if add(next as u64, name, &self.attr(nid).unwrap_or_else(|_| no_attributes())) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the names of an inode's extended attributes, each with a NUL after it.
    fn xattr_names(&self, nid: Nid, privileged: bool) -> Result<Vec<u8>, Error> {
        let set = self.image.xattrs(nid)?;
        // As the kernel's file systems list them (`simple_xattr_list`): `trusted.` is for CAP_SYS_ADMIN
        // alone.
        let visible = set.iter().filter(|(name, _)| privileged || !name.starts_with(b"trusted."));
        Ok(visible.flat_map(|(name, _)| name.iter().copied().chain([0])).collect())
    }

    /// Returns where the next data or hole is, from byte `offset` of a file on; `None` if there is none.
    fn seek(&self, nid: Nid, offset: u64, want_hole: bool) -> Result<Option<u64>, Error> {
        let FileType::File { size } = self.image.stat(nid)?.kind else { return Ok(None) };
        let mut at = offset;
        while at < size {
            let Some(found) = self.image.stretch(nid, at)? else { break };
            if found.hole == want_hole {
                return Ok(Some(at));
            }
            // At least one byte on: a stretch without length would keep us here for ever.
            at = found.offset.saturating_add(found.len).max(at + 1);
        }
        // Every file ends with a hole of no length.
        Ok((want_hole && offset < size).then_some(size))
    }
}

impl Filesystem for ImageFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_EXPORT_SUPPORT,
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
        ];
        if self.checks_permissions && self.image.may_have_acls() {
            // Without it, the kernel takes the mask of an ACL for the permissions of the group.
            let _ = config.add_capabilities(InitFlags::FUSE_POSIX_ACL);
        }
        for flag in wanted {
            // What this kernel lacks is slower without.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(READ_MAX);
        // More than it offers is refused with what it offers.
        let _ = config.set_max_readahead(READ_MAX).or_else(|most| config.set_max_readahead(most));
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let dir = self.begin(parent);
        let name = name.as_bytes();
        if name.len() > NAME_MAX as usize {
            return reply.error(Errno::ENAMETOOLONG);
        }
        let found = self.find(dir, name).and_then(|found| found.map(|nid| Ok((nid, self.attr(nid)?))).transpose());
        match found {
            Ok(Some((nid, attr))) => {
                if let Some(trace) = &self.trace {
                    trace.note_name(dir, name, nid);
                }
                reply.entry(&FOR_EVER, &attr, GENERATION);
            }
            // A handle of an NFS client leads to a directory that is not connected: it looks the path up
            // again.
            Ok(None) if name == b".." => reply.error(Errno::ESTALE),
            // Inode 0 says that there is none, and may be kept; ENOENT would be asked for again each time.
            Ok(None) => reply.entry(&FOR_EVER, &no_attributes(), GENERATION),
            Err(error) => reply.error(self.failed(parent, &error)),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let nid = self.begin(number);
        match self.attr(nid) {
            Ok(attr) => reply.attr(&FOR_EVER, &attr),
            Err(error) => reply.error(self.failed(number, &error)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let nid = self.begin(number);
        match self.image.stat(nid).map(|stat| stat.kind) {
            Ok(FileType::Symlink { target }) => reply.data(&target),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(self.failed(number, &error)),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let nid = self.begin(number);
        if let Some(trace) = &self.trace {
            trace.note_read(self.nodes.root, nid);
        }
        // The kernel reads the rest of a long file in many requests, which say nothing about the order of
        // files.
        if let Some(ahead) = self.ahead.as_ref().filter(|_| offset == 0) {
            ahead.note_request(nid);
        }
        // The buffer stays with the thread: allocating and clearing up to a MiB for each request costs more
        // than many reads.
        let size = size.min(READ_MAX) as usize;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.image.read_at(nid, &mut buffer[..size], offset) {
                Ok(len) => reply.data(&buffer[..len]),
                Err(error) => reply.error(self.failed(number, &error)),
            }
        });
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let dir = self.begin(number);
        let mut add =
            |next, name: &[u8], attr: &FileAttr| reply.add(attr.ino, next, attr.kind, OsStr::from_bytes(name));
        match self.list(dir, offset, &mut add) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.failed(number, &error)),
        }
    }

    fn readdirplus(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let dir = self.begin(number);
        let mut files = Vec::new();
        let mut add = |next, name: &[u8], attr: &FileAttr| {
            if attr.kind == fuser::FileType::RegularFile {
                files.push((self.nodes.nid(attr.ino), attr.size));
            }
            reply.add(attr.ino, next, OsStr::from_bytes(name), &FOR_EVER, attr, GENERATION)
        };
        let listed = self.list(dir, offset, &mut add);
        if let Some(ahead) = &self.ahead {
            ahead.note_listing(&files);
        }
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.failed(number, &error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = self.bytes.div_ceil(STATFS_BLOCK.into());
        reply.statfs(blocks, 0, 0, self.image.inode_count(), 0, STATFS_BLOCK, NAME_MAX, STATFS_BLOCK);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let nid = self.begin(number);
        // Answered once: after ENOSYS, the kernel asks for no attributes of this mount any more.
        if !self.image.may_have_xattrs() {
            return reply.error(Errno::ENOSYS);
        }
        match self.image.xattrs(nid) {
            Ok(set) => match set.iter().find(|(found, _)| **found == *name.as_bytes()) {
                Some((_, value)) => reply_sized(reply, value, size),
                None => reply.error(missing_xattr(name.as_bytes())),
            },
            Err(error) => reply.error(self.failed(number, &error)),
        }
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let nid = self.begin(number);
        if !self.image.may_have_xattrs() {
            return reply.error(Errno::ENOSYS);
        }
        // The user ID stands for CAP_SYS_ADMIN, which a request does not tell.
        match self.xattr_names(nid, request.uid() == 0) {
            Ok(names) => reply_sized(reply, &names, size),
            Err(error) => reply.error(self.failed(number, &error)),
        }
    }

    fn lseek(&self, _: &Request, number: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let nid = self.begin(number);
        let Ok(from) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let want_hole = match whence {
            SEEK_DATA => false,
            SEEK_HOLE => true,
            _ => return reply.error(Errno::EINVAL),
        };
        match self.seek(nid, from, want_hole) {
            Ok(found) => match found.and_then(|found| i64::try_from(found).ok()) {
                Some(found) => reply.offset(found),
                None => reply.error(Errno::ENXIO),
            },
            Err(error) => reply.error(self.failed(number, &error)),
        }
    }
}

/// Returns what Linux says of an extended attribute that an image does not have, by its name.
fn missing_xattr(name: &[u8]) -> Errno {
    // A file system with ACLs says of a file without any that there is no data; other names of `system.` are not ours.
    if name.starts_with(b"system.posix_acl_") {
        return Errno::NO_XATTR;
    }
    let rest = [&b"user."[..], b"trusted.", b"security."].iter().find_map(|prefix| name.strip_prefix(*prefix));
    match rest {
        Some(b"") => Errno::EINVAL,
        Some(_) => Errno::NO_XATTR,
        None => Errno::EOPNOTSUPP,
    }
}

/// Answers with a value, or with its length if that is asked for.
fn reply_sized(reply: ReplyXattr, value: &[u8], size: u32) {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => reply.size(len),
        // Too small for the value: the program asks for its length and comes again (getxattr(2)).
        Ok(len) if len <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}
