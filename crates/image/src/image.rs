//! The format-neutral view of an image: what every reader gives and every sink takes.

use packfs_blocks::progress::Progress;

use crate::Result;
use crate::finding::Finding;
use crate::tree::{Device, Time, XattrSet};

/// An inode's address in its image, as the format counts them (SquashFS: the inode reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nid(pub u64);

/// What an inode of an image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileType {
    /// Directory.
    Dir,
    /// Regular file of `size` bytes.
    File {
        /// Length in bytes.
        size: u64,
    },
    /// Symbolic link.
    Symlink {
        /// Its target.
        target: Box<[u8]>,
    },
    /// Character device.
    Char(Device),
    /// Block device.
    Block(Device),
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

/// The attributes of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Type, with what only that type has.
    pub kind: FileType,
    /// Number of the inode; equal for all names of one file.
    pub ino: u64,
    /// The 12 permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of last modification.
    pub mtime: Time,
    /// Link count as the image has it.
    pub nlink: u32,
    /// Whether there are extended attributes to ask for.
    pub has_xattrs: bool,
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name: checked, so neither empty nor `.` or `..`, and without `/` and NUL.
    pub name: Box<[u8]>,
    /// The inode.
    pub nid: Nid,
}

/// A piece of a file that decodes on its own: the unit of parallel reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Length in the file.
    pub len: u64,
    /// Whether it is all zeros with nothing stored.
    pub hole: bool,
}

/// An opened image. Any number of threads may read at once; nothing here ever panics on bad images.
///
/// Contract: inodes come from [`Image::root`], [`Image::read_dir`] or [`Image::lookup`] of the same image. Any other may
/// give an error or the attributes of something else, never more than that. Every call may be repeated and gives the
/// same answer; none depends on an earlier one, failed ones included. Asking a file for entries, or a directory for
/// bytes, is an error.
///
/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) for what breaks the format, with structure and offset;
/// [`Error::Unsupported`](crate::Error::Unsupported) for what this build does not read; [`Error::Io`](crate::Error::Io) if
/// the bytes cannot be had.
pub trait Image: Send + Sync + std::fmt::Debug {
    /// The root directory.
    fn root(&self) -> Nid;

    /// Attributes of an inode.
    fn stat(&self, nid: Nid) -> Result<Stat>;

    /// Entries of a directory, strictly ascending by name.
    fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>>;

    /// The entry of a directory with this name.
    fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Option<Nid>> {
        let entries = self.read_dir(dir)?;
        let found = entries.binary_search_by(|entry| (*entry.name).cmp(name));
        Ok(found.ok().map(|n| entries[n].nid))
    }

    /// Extended attributes with their full names.
    fn xattrs(&self, nid: Nid) -> Result<XattrSet>;

    /// Reads from a regular file, touching only the blocks that hold the range. Fewer bytes than `buf`
    /// holds only at the end of the file.
    fn read_at(&self, nid: Nid, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// The extents of a regular file in order, without gaps, covering it exactly. Neighbouring holes are
    /// one extent, which may be of any length; an extent with data is at most a block, or
    /// what a compressed extent of EROFS decodes to: 12 MiB.
    fn extents(&self, nid: Nid) -> Result<Vec<Extent>>;

    /// Number of inodes the image says it has; for progress only.
    fn inode_count(&self) -> u64;

    /// Whether its times have fractions of seconds.
    fn holds_nanoseconds(&self) -> bool {
        false
    }

    /// Verifies everything in the image on `threads` threads (0: on the calling one) and calls `finding` for each
    /// thing that is wrong or unusual. Without a finding of [`Severity::Damage`](crate::Severity) it is sound.
    ///
    /// # Errors
    /// What is not about the image: its file cannot be read, a codec is not there. Damage is no error.
    fn check(&self, threads: usize, progress: &Progress, finding: &mut dyn FnMut(Finding)) -> Result<()>;
}
