//! The parts of a dump as an image: a directory with one file.

use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};
use packfs_dump::Set;
use packfs_dump::set::ExtentContent;
use packfs_image::Finding;
use packfs_image::image::{Entry, Extent, FileType, Nid, Stat};
use packfs_image::tree::{Time, XattrSet};
use packfs_image::{Error, Image, Part, Result};

const ROOT: Nid = Nid(0);
const FILE: Nid = Nid(1);

/// A dump, shown as one file.
#[derive(Debug)]
pub struct DumpImage {
    set: Arc<Set>,
    name: Box<[u8]>,
    mtime: Time,
}

impl DumpImage {
    /// Shows a dump as a file called `name`, which must be a file name, with a time of modification.
    pub fn new(set: Arc<Set>, name: &[u8], mtime: Time) -> Self {
        DumpImage { set, name: name.into(), mtime }
    }

    fn file(&self, nid: Nid) -> Result<()> {
        if nid == FILE { Ok(()) } else { Err(Error::Misuse(format!("inode {} is not a regular file", nid.0))) }
    }

    fn dir(&self, nid: Nid) -> Result<()> {
        if nid == ROOT { Ok(()) } else { Err(Error::Misuse(format!("inode {} is not a directory", nid.0))) }
    }
}

impl Image for DumpImage {
    fn root(&self) -> Nid {
        ROOT
    }

    fn stat(&self, nid: Nid) -> Result<Stat> {
        let (kind, mode, nlink) = match nid {
            ROOT => (FileType::Dir, 0o755, 2),
            FILE => (FileType::File { size: self.set.len() }, 0o444, 1),
            _ => return Err(Error::Misuse(format!("there is no inode {}", nid.0))),
        };
        Ok(Stat { kind, ino: nid.0, mode, uid: 0, gid: 0, mtime: self.mtime, nlink, has_xattrs: false })
    }

    fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>> {
        self.dir(nid)?;
        Ok(vec![Entry { name: self.name.clone(), nid: FILE }])
    }

    fn xattrs(&self, _: Nid) -> Result<XattrSet> {
        Ok(XattrSet::new())
    }

    fn may_have_xattrs(&self) -> bool {
        false
    }

    fn read_at(&self, nid: Nid, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.file(nid)?;
        self.set.read_at(buf, offset).map_err(Error::io("cannot read", &PathBuf::from("dump")))
    }

    fn extents(&self, nid: Nid) -> Result<Vec<Extent>> {
        self.file(nid)?;
        Ok(self.set.extents().map(|extent| as_image_extent(&extent)).collect())
    }

    fn stretch(&self, nid: Nid, offset: u64) -> Result<Option<Extent>> {
        self.file(nid)?;
        Extent::run(self.set.extents_from(offset).map(|extent| Ok(as_image_extent(&extent))))
    }

    fn parent(&self, dir: Nid) -> Result<Option<Nid>> {
        self.dir(dir)?;
        Ok(Some(ROOT))
    }

    fn inode_count(&self) -> u64 {
        2
    }

    fn check_part(&self, _: Part, _: usize, _: &Progress, _: &mut dyn FnMut(Finding)) -> Result<()> {
        Err(Error::Unsupported("checking a dump as an image; its set has a check of its own".into()))
    }
}

/// Zeros are holes; what is lost is data, so that reading it is an error and not a hole.
fn as_image_extent(extent: &packfs_dump::set::DumpExtent) -> Extent {
    let hole = extent.content == ExtentContent::Fill([0; 8]);
    Extent { offset: extent.start, len: extent.end - extent.start, hole }
}
