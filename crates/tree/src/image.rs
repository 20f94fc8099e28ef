//! The format-independent view of an image: readers implement it, sinks use it.

mod wrapper;

use std::ops::Range;

use packfs_blocks::progress::Progress;

use crate::finding::Finding;
use crate::tree::{DeviceNumber, Time, XattrSet, acl};
use crate::{Part, Result};

pub use wrapper::ImageWrapper;

/// Address of an inode in its image, in the format's own numbering (SquashFS: the inode reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nid(pub u64);

/// Type of an inode.
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
    Char(DeviceNumber),
    /// Block device.
    Block(DeviceNumber),
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

impl FileType {
    /// Returns true for the device by which overlayfs knows that a name is deleted.
    pub fn is_whiteout(&self) -> bool {
        matches!(self, FileType::Char(DeviceNumber::WHITEOUT))
    }

    /// Returns the letter that `find -type` has for the type.
    pub fn letter(&self) -> u8 {
        match self {
            FileType::Dir => b'd',
            FileType::File { .. } => b'f',
            FileType::Symlink { .. } => b'l',
            FileType::Char(_) => b'c',
            FileType::Block(_) => b'b',
            FileType::Fifo => b'p',
            FileType::Socket => b's',
        }
    }

    /// Returns the word that pages and programs in browsers have for the type.
    pub fn word(&self) -> &'static str {
        match self {
            FileType::Dir => "directory",
            FileType::File { .. } => "file",
            FileType::Symlink { .. } => "symlink",
            FileType::Char(_) => "char",
            FileType::Block(_) => "block",
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
        }
    }
}

/// The attributes of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Type, with type-specific fields.
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
    /// Link count stored in the image.
    pub nlink: u32,
    /// True if there are extended attributes.
    pub has_xattrs: bool,
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name, already checked: not empty, `.` or `..`, and without `/` and NUL.
    pub name: Box<[u8]>,
    /// The inode.
    pub nid: Nid,
}

/// A piece of a file that decodes independently: the unit of parallel reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Length in the file.
    pub len: u64,
    /// True for zeros that are not stored.
    pub hole: bool,
}

impl Extent {
    /// Returns the first of adjacent extents together with those of the same kind that follow it.
    pub fn run(extents: impl IntoIterator<Item = Result<Extent>>) -> Result<Option<Extent>> {
        let mut extents = extents.into_iter();
        let Some(mut run) = extents.next().transpose()? else { return Ok(None) };
        for next in extents {
            let next = next?;
            // Extents of one kind belong together, however the format cuts them.
            if next.hole != run.hole {
                break;
            }
            run.len = run.len.saturating_add(next.len);
        }
        Ok(Some(run))
    }
}

/// A piece of a regular file that one read gets from one stored unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredPiece {
    /// Offset in the file.
    pub offset: u64,
    /// Length in the file.
    pub len: u64,
    /// The unit that has to be decoded for it; `None` if reading the piece costs no more than copying it: holes and
    /// uncompressed bytes.
    pub unit: Option<StoredUnit>,
    /// Offset of the piece in the decoded unit.
    pub within: u64,
}

/// Identity of a stored unit: pieces with equal units come from the same decoded bytes. Ascending units lie one after
/// the other in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredUnit {
    /// Number of the space in which `position` counts, in the format's own numbering.
    pub area: u32,
    /// Offset of its first stored byte.
    pub position: u64,
    /// Number of stored bytes.
    pub len: u64,
    /// Number of the way in which it is decoded, in the format's own numbering.
    pub coding: u32,
}

/// Returns the mode of an inode without its ACL, if it has one: nobody gets more than the ACL grants.
pub fn mode_without_acl(image: &dyn Image, nid: Nid, stat: &Stat) -> Result<u16> {
    // If only the owner has any bits, there is nothing to take away.
    if !stat.has_xattrs || stat.mode & acl::SHARED_BITS == 0 || !image.may_have_acls() {
        return Ok(stat.mode);
    }
    Ok(stat.mode & acl::kept_mode_bits(&image.xattrs(nid)?, &XattrSet::new()))
}

/// An open image. Any number of threads may read at once; bad images never cause a panic.
///
/// Programs may implement it: sinks, comparisons, mounts and builds take any `Image`. To change entries or attributes of
/// another image, implement [`ImageWrapper`] instead, which passes on what it does not change. To leave out or rename
/// entries on the way to a sink, `Selection::decide` of packfs-image is less work.
///
/// Contract: inodes come from [`Image::root`], [`Image::read_dir`] or [`Image::lookup`] of the same
/// image. Any other inode may give an error or the attributes of something else, but nothing worse.
/// Every call may be repeated with the same result; none depends on earlier calls, even failed
/// ones. Listing a file or reading a directory is an error.
///
/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) for violations of the format, with structure and
/// offset; [`Error::Unsupported`](crate::Error::Unsupported) for features that this build does not
/// support; [`Error::Io`](crate::Error::Io) if the bytes cannot be read.
pub trait Image: Send + Sync + std::fmt::Debug {
    /// Returns the root directory.
    fn root(&self) -> Nid;

    /// Returns the attributes of an inode.
    fn stat(&self, nid: Nid) -> Result<Stat>;

    /// Returns the entries of a directory, strictly ascending by the bytes of their names: a wrapper that renames entries
    /// sorts them again. The default of [`Image::lookup`] searches by halves, and a comparison follows two images side
    /// by side, so both miss entries in another order.
    fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>>;

    /// Returns the entry of a directory with this name. It has to agree with [`Image::read_dir`].
    fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Option<Nid>> {
        let entries = self.read_dir(dir)?;
        let found = entries.binary_search_by(|entry| (*entry.name).cmp(name));
        Ok(found.ok().map(|n| entries[n].nid))
    }

    /// Returns the extended attributes with their full names.
    fn xattrs(&self, nid: Nid) -> Result<XattrSet>;

    /// Reads from a regular file, decoding only the blocks that hold the range. Returns fewer bytes
    /// than `buf` holds only at the end of the file.
    fn read_at(&self, nid: Nid, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Announces that a range of a regular file will be read soon, from its beginning on. An image that comes over a
    /// network requests the stored bytes of the range, and nothing beyond them; others do nothing. Errors are those of
    /// the reads.
    fn will_read(&self, nid: Nid, range: Range<u64>) {
        let _ = (nid, range);
    }

    /// Announces that ranges of many files will be read, in any order: of an image that comes over a network, their
    /// stored bytes are requested together, and nothing else. Other images take nothing from the iterator.
    fn will_read_many(&self, ranges: &mut dyn Iterator<Item = (Nid, Range<u64>)>) {
        let _ = ranges;
    }

    /// Returns the extents of a regular file in order, without gaps, covering it exactly. Adjacent
    /// holes form one extent of any length. An extent with data is at most a block, or as long as a
    /// compressed extent of EROFS decodes to: 12 MiB.
    fn extents(&self, nid: Nid) -> Result<Vec<Extent>>;

    /// Returns the stretch of data, or the hole, that holds byte `offset` of a regular file: adjacent extents
    /// of one kind, from the first block that holds the byte on. `None` if the file ends before it.
    fn stretch(&self, nid: Nid, offset: u64) -> Result<Option<Extent>> {
        let extents = self.extents(nid)?.into_iter().skip_while(|extent| extent.offset + extent.len <= offset);
        Extent::run(extents.map(Ok))
    }

    /// Calls `visit` for the pieces of a range of a regular file, in order and without gaps, each with the stored unit it
    /// is decoded from. Whoever reads many files sorts their pieces by unit, to have each unit decoded once. Reads
    /// metadata, and no data.
    ///
    /// The default knows no units: it returns the range as one piece.
    fn stored_pieces(&self, nid: Nid, range: Range<u64>, visit: &mut dyn FnMut(StoredPiece)) -> Result<()> {
        let _ = nid;
        visit(StoredPiece { offset: range.start, len: range.end - range.start, unit: None, within: 0 });
        Ok(())
    }

    /// Returns the directory that holds the directory `dir`, the root for the root itself; `None` if the image does
    /// not say.
    fn parent(&self, dir: Nid) -> Result<Option<Nid>> {
        let _ = dir;
        Ok(None)
    }

    /// Returns false if it is known that no inode has extended attributes.
    fn may_have_xattrs(&self) -> bool {
        true
    }

    /// Returns false if it is known that no inode has a POSIX ACL.
    fn may_have_acls(&self) -> bool {
        self.may_have_xattrs()
    }

    /// Returns the number of inodes that the image declares; for progress only.
    fn inode_count(&self) -> u64;

    /// Returns true if its times have fractions of seconds.
    fn holds_nanoseconds(&self) -> bool {
        false
    }

    /// Verifies everything in the image on `threads` threads (0: on the calling one) and calls
    /// `finding` for everything that is wrong or unusual. An image without a finding of
    /// [`Severity::Damage`](crate::Severity) is sound.
    ///
    /// # Errors
    /// Errors that do not concern the image: its file cannot be read, a codec is missing. Damage is not an error.
    fn check(&self, threads: usize, progress: &Progress, finding: &mut dyn FnMut(Finding)) -> Result<()> {
        self.check_part(Part::WHOLE, threads, progress, finding)
    }

    /// Does a part of [`Image::check`]. The first part reports findings of all metadata; the data is read in about equal
    /// parts by its position.
    fn check_part(
        &self,
        part: Part,
        threads: usize,
        progress: &Progress,
        finding: &mut dyn FnMut(Finding),
    ) -> Result<()>;
}
