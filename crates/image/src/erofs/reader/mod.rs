//! Reads EROFS images from any writer.
//!
//! The path of data: [`disk`] reads stored bytes. [`metadata`] caches those of metadata, from which
//! [`superblock`], [`inode`], [`dir`] and [`xattr`] parse records. [`map`] finds the extents of a
//! file, [`decode`] decodes them and [`data`] assembles them. [`check`] verifies a whole image.

mod blocks;
mod check;
mod compression;
mod data;
mod decode;
mod dir;
mod disk;
mod dump;
mod inode;
mod long_raw;
mod map;
mod metadata;
mod occupied;
mod placement;
mod staying;
mod superblock;
mod xattr;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};

use self::data::{DeviceRange, RecentExtents};
use self::decode::ClusterCache;
use self::dir::DirentCursor;
use self::disk::DeviceBytes;
use self::inode::{Inode, InodeType};
use self::metadata::MetadataCache;
use self::xattr::LongPrefix;
use crate::followed::FollowedFiles;
use crate::image::{Entry, Extent, FileType, Image, Nid, Stat, StoredPiece};
use crate::tree::XattrSet;
use crate::{Part, Result};
use packfs_tree::Finding;

pub(super) use self::check::MapCheck;
pub use self::compression::ErofsCompression;
pub use self::placement::InodeFacts;
pub use self::superblock::{AdditionalDevice, Superblock};

/// Longest symlink target accepted from an image; the kernel's limit is 4,096.
const TARGET_MAX: u64 = 65535;

/// Options for reading an image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Maximum number of bytes of decoded data to cache, including metadata.
    pub cache_bytes: u64,
    /// Name of the image in messages.
    pub name: PathBuf,
    /// The additional devices of an image that names several, in its order; may be empty if all are in one file.
    pub devices: Vec<Arc<dyn ReadAt>>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { cache_bytes: 32 << 20, name: PathBuf::from("image"), devices: Vec::new() }
    }
}

/// An open EROFS image.
#[derive(Debug)]
pub struct ErofsReader {
    superblock: Superblock,
    disk: DeviceBytes,
    metadata: MetadataCache,
    clusters: ClusterCache,
    /// The metabox: the inode whose data is inodes.
    metabox: Option<Inode>,
    /// The packed inode: the inode whose data is tails of files.
    packed: Option<Inode>,
    /// Recently used extents of the packed inode.
    recent: RecentExtents,
    prefixes: Vec<LongPrefix>,
    /// Files that are read in order, if the image comes over a network.
    followed: Option<FollowedFiles>,
}

impl ErofsReader {
    /// Opens an image. Fails also on defects that make the kernel refuse to mount it.
    pub fn open(source: Arc<dyn ReadAt>, options: ReadOptions) -> Result<ErofsReader> {
        let mut disk = DeviceBytes::new(source, options.name);
        // The superblock says where the devices are, so it is read from the first one before others are
        // attached.
        let superblock = Superblock::read(&mut disk)?;
        disk.attach(&superblock, options.devices)?;
        // How the two should share the memory was not measured.
        let metadata = MetadataCache::new(options.cache_bytes / 4);
        let clusters = ClusterCache::new(options.cache_bytes / 4 * 3);
        let metabox = None;
        let packed = None;
        let prefixes = Vec::new();
        let recent = RecentExtents::default();
        let followed = disk.has_delay().then(FollowedFiles::default);
        let mut reader =
            ErofsReader { superblock, disk, metadata, clusters, metabox, packed, recent, prefixes, followed };
        // In this order: the packed inode may be in the metabox, and the prefixes in either.
        reader.metabox = reader.superblock.metabox.map(|nid| reader.special(nid, "metabox")).transpose()?;
        reader.packed = reader.superblock.packed.map(|nid| reader.special(nid, "packed inode")).transpose()?;
        reader.prefixes = xattr::read_prefixes(&reader, &reader.superblock)?;
        // So that a damaged root is noticed here, as Linux notices it when it mounts.
        match reader.inode(reader.root())? {
            Inode { kind: InodeType::Dir, .. } => Ok(reader),
            other => Err(other.error("the root is not a directory")),
        }
    }

    /// Returns the checked superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns true if an attribute is the digest of a file.
    fn is_digest(&self, pair: &xattr::StoredXattr) -> bool {
        // The prefix is the name of the digest, without a suffix.
        let prefix = self.superblock.digest_prefix.and_then(|number| self.prefixes.get(usize::from(number)));
        prefix.is_some_and(|prefix| prefix.base == pair.base && prefix.infix == pair.name)
    }

    /// Returns a special inode: the packed inode or the metabox. Neither may have parts of its own
    /// data in the packed inode, so that reading them terminates.
    fn special(&self, nid: Nid, what: &str) -> Result<Inode> {
        let inode = self.inode(nid)?;
        if inode.kind != InodeType::File {
            return Err(inode.error(format!("the {what} is not a regular file")));
        }
        if inode.is_fragmented(self)? {
            return Err(inode.error(format!("the {what} has a fragment, which would be inside itself")));
        }
        Ok(inode)
    }

    fn dir(&self, nid: Nid) -> Result<Inode> {
        let inode = self.inode(nid)?;
        match inode.kind {
            InodeType::Dir => Ok(inode),
            _ => Err(inode.error("it is not a directory")),
        }
    }

    fn file(&self, nid: Nid) -> Result<Inode> {
        let inode = self.inode(nid)?;
        match inode.kind {
            InodeType::File => Ok(inode),
            _ => Err(inode.error("it is not a regular file")),
        }
    }

    fn target(&self, inode: &Inode) -> Result<Box<[u8]>> {
        let len = inode.size;
        if len == 0 || len > TARGET_MAX {
            return Err(inode.error(format!("symlink target of {len} bytes")));
        }
        // Bounded above, so it fits memory.
        let mut target = vec![0; usize::try_from(len).unwrap_or(0)];
        data::read_file(self, inode, &mut target, 0)?;
        match target.contains(&0) {
            true => Err(inode.error("NUL in the symlink target")),
            false => Ok(target.into()),
        }
    }
}

impl Image for ErofsReader {
    fn root(&self) -> Nid {
        self.superblock.root
    }

    fn stat(&self, nid: Nid) -> Result<Stat> {
        let inode = self.inode(nid)?;
        let kind = match inode.kind {
            InodeType::Dir => FileType::Dir,
            InodeType::File => FileType::File { size: inode.size },
            InodeType::Symlink => FileType::Symlink { target: self.target(&inode)? },
            InodeType::Block => FileType::Block(inode.device()),
            InodeType::Char => FileType::Char(inode.device()),
            InodeType::Fifo => FileType::Fifo,
            InodeType::Socket => FileType::Socket,
        };
        let Inode { mode, uid, gid, mtime, nlink, xattr_len, .. } = inode;
        // EROFS has no numbers of inodes besides their positions.
        Ok(Stat { kind, ino: nid.0, mode, uid, gid, mtime, nlink, has_xattrs: xattr_len > 0 })
    }

    fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>> {
        let dir = self.dir(nid)?;
        let mut entries = Vec::new();
        let mut listing = DirentCursor::open(self, &dir);
        while let Some((entry, name)) = listing.next()? {
            // Other formats and callers have no entries for these.
            if name != b"." && name != b".." {
                entries.push(Entry { name: name.into(), nid: entry.nid });
            }
        }
        Ok(entries)
    }

    fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Option<Nid>> {
        let found = dir::lookup(self, &self.dir(dir)?, name)?;
        Ok(found.map(|entry| entry.nid))
    }

    fn xattrs(&self, nid: Nid) -> Result<XattrSet> {
        xattr::set(self, &self.inode(nid)?)
    }

    fn read_at(&self, nid: Nid, buf: &mut [u8], offset: u64) -> Result<usize> {
        let file = self.file(nid)?;
        if let Some(rest) = self.followed.as_ref().and_then(|all| all.note(nid, offset, buf.len(), file.size)) {
            self.will_read(nid, rest);
        }
        data::read_file(self, &file, buf, offset)
    }

    fn will_read(&self, nid: Nid, range: Range<u64>) {
        if let Some(followed) = &self.followed {
            // The notice knows that the caller announces by itself, so that nothing is announced twice.
            followed.announced(nid, &range);
            // Whoever reads gets the errors.
            let tell = &mut |(device, stored): DeviceRange| {
                self.disk.will_read(device, stored.start, stored.end - stored.start);
            };
            let _ = self.file(nid).and_then(|file| data::announce(self, &file, range, tell));
        }
    }

    fn will_read_many(&self, ranges: &mut dyn Iterator<Item = (Nid, Range<u64>)>) {
        let Some(followed) = &self.followed else { return };
        let mut stored_ranges = Vec::new();
        for (nid, range) in ranges {
            followed.announced(nid, &range);
            let tell = &mut |stored: DeviceRange| stored_ranges.push(stored);
            let _ = self.file(nid).and_then(|file| data::announce(self, &file, range, tell));
        }
        // In the order in which `read_many` reads units.
        stored_ranges.sort_unstable_by_key(|(device, range)| (*device, range.start));
        self.disk.will_read_ranges(&stored_ranges);
    }

    fn extents(&self, nid: Nid) -> Result<Vec<Extent>> {
        data::extents(self, &self.file(nid)?)
    }

    fn stretch(&self, nid: Nid, offset: u64) -> Result<Option<Extent>> {
        data::stretch(self, &self.file(nid)?, offset)
    }

    fn stored_pieces(&self, nid: Nid, range: Range<u64>, visit: &mut dyn FnMut(StoredPiece)) -> Result<()> {
        self.visit_pieces(nid, range, visit)
    }

    fn parent(&self, dir: Nid) -> Result<Option<Nid>> {
        let dir = self.dir(dir)?;
        let mut listing = DirentCursor::open(self, &dir);
        // Both sort before nearly all names, so it is in the first block.
        while let Some((entry, name)) = listing.next()? {
            if name == b".." {
                return Ok(Some(entry.nid));
            }
        }
        Ok(None)
    }

    fn inode_count(&self) -> u64 {
        self.superblock.inodes
    }

    fn holds_nanoseconds(&self) -> bool {
        true
    }

    fn check_part(
        &self,
        part: Part,
        threads: usize,
        progress: &Progress,
        finding: &mut dyn FnMut(Finding),
    ) -> Result<()> {
        check::run(self, part, threads, progress, finding)
    }
}

#[cfg(test)]
mod tests;
