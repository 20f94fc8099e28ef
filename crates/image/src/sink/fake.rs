//! A hand-made image for tests: it may contain things that no reader would let through.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use packfs_blocks::Progress;

use crate::image::{Entry, Extent, FileType, Image, Nid, Stat};
use crate::tree::{Time, XattrSet};
use crate::{Error, Part, Result};

/// Inodes by number; the root is 0.
#[derive(Debug, Default)]
pub(crate) struct FakeImage {
    pub(crate) inodes: BTreeMap<u64, FakeInode>,
    /// Number of directories that were listed.
    pub(crate) listed: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct FakeInode {
    pub(crate) stat: Stat,
    pub(crate) entries: Vec<Entry>,
    pub(crate) data: Vec<u8>,
    /// True if reading it fails.
    pub(crate) damaged: bool,
}

impl FakeImage {
    /// Sets the inode `nid`, owned by the user who runs the test.
    pub(crate) fn set(&mut self, nid: u64, kind: FileType, mode: u16) -> &mut FakeInode {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let mtime = Time { secs: 1_000_000_000, nanos: 0 };
        let stat = Stat { kind, ino: nid, mode, uid, gid, mtime, nlink: 1, has_xattrs: false };
        let inode = FakeInode { stat, entries: Vec::new(), data: Vec::new(), damaged: false };
        self.inodes.insert(nid, inode);
        self.inodes.get_mut(&nid).expect("just inserted")
    }

    /// Sets a directory.
    pub(crate) fn dir(mut self, nid: u64, entries: &[(&str, u64)]) -> Self {
        let entries =
            entries.iter().map(|(name, nid)| Entry { name: name.as_bytes().into(), nid: Nid(*nid) }).collect();
        self.set(nid, FileType::Dir, 0o755).entries = entries;
        self
    }

    /// Sets a file.
    pub(crate) fn file(mut self, nid: u64, data: &[u8]) -> Self {
        self.set(nid, FileType::File { size: data.len() as u64 }, 0o644).data = data.into();
        self
    }

    /// Sets a symbolic link.
    pub(crate) fn symlink(mut self, nid: u64, target: &str) -> Self {
        self.set(nid, FileType::Symlink { target: target.as_bytes().into() }, 0o777);
        self
    }

    fn get(&self, nid: Nid) -> Result<&FakeInode> {
        let inode = self.inodes.get(&nid.0).filter(|inode| !inode.damaged || inode.stat.kind != FileType::Dir);
        inode.ok_or_else(|| Error::corrupt("inode", nid.0, "not there"))
    }
}

impl Image for FakeImage {
    fn root(&self) -> Nid {
        Nid(0)
    }

    fn stat(&self, nid: Nid) -> Result<Stat> {
        Ok(self.get(nid)?.stat.clone())
    }

    fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        Ok(self.get(nid)?.entries.clone())
    }

    fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Option<Nid>> {
        Ok(self.get(dir)?.entries.iter().find(|entry| *entry.name == *name).map(|entry| entry.nid))
    }

    fn xattrs(&self, _: Nid) -> Result<XattrSet> {
        Ok(Vec::new())
    }

    fn read_at(&self, nid: Nid, buf: &mut [u8], offset: u64) -> Result<usize> {
        let inode = self.get(nid)?;
        if inode.damaged {
            return Err(Error::corrupt("data block", offset, "does not decode"));
        }
        packfs_blocks::ReadAt::read_at(&inode.data, buf, offset).map_err(Error::io("cannot read", "fake"))
    }

    fn extents(&self, nid: Nid) -> Result<Vec<Extent>> {
        let FileType::File { size } = self.get(nid)?.stat.kind else { return Ok(Vec::new()) };
        let blocks =
            (0..size).step_by(4096).map(|offset| Extent { offset, len: (size - offset).min(4096), hole: false });
        Ok(blocks.collect())
    }

    fn inode_count(&self) -> u64 {
        self.inodes.len() as u64
    }

    fn check_part(&self, _: Part, _: usize, _: &Progress, _: &mut dyn FnMut(crate::Finding)) -> Result<()> {
        Ok(())
    }
}
