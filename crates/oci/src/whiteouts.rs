//! Layers with deleted files as OCI has them: `.wh.NAME` for a device of overlayfs, `.wh..wh..opq` for its attribute.

use packfs_image::Result;
use packfs_image::image::{Entry, FileType, Image, ImageWrapper, Nid, Stat};
use packfs_image::tree::{Time, XattrSet};
use packfs_tree::tree::{OPAQUE_MARK, OPAQUE_XATTR, ORIGIN_XATTR, WHITEOUT_PREFIX};

/// Stands for every mark of a directory: no image has an inode there.
const OPAQUE_NID: Nid = Nid(u64::MAX);

/// An image of a layer, with marks as OCI has them.
#[derive(Debug)]
pub(crate) struct OciWhiteouts<'i>(pub(crate) &'i dyn Image);

impl OciWhiteouts<'_> {
    fn is_opaque(&self, dir: Nid) -> Result<bool> {
        // Most directories have no attributes, so the cheap questions come first.
        if !self.0.may_have_xattrs() || !self.0.stat(dir)?.has_xattrs {
            return Ok(false);
        }
        Ok(self.0.xattrs(dir)?.iter().any(|(name, value)| **name == *OPAQUE_XATTR && **value == *b"y"))
    }
}

/// Returns true for an attribute that a conversion adds for overlayfs.
fn is_of_conversion(name: &[u8], value: &[u8]) -> bool {
    (name == OPAQUE_XATTR && value == b"y") || (name == ORIGIN_XATTR && value.is_empty())
}

impl ImageWrapper for OciWhiteouts<'_> {
    fn inner(&self) -> &dyn Image {
        self.0
    }

    fn stat(&self, nid: Nid) -> Result<Stat> {
        let kind = FileType::File { size: 0 };
        if nid == OPAQUE_NID {
            let mtime = Time { secs: 0, nanos: 0 };
            return Ok(Stat { kind, ino: 0, mode: 0, uid: 0, gid: 0, mtime, nlink: 1, has_xattrs: false });
        }
        let stat = self.0.stat(nid)?;
        // OCI marks deleted names by empty files with one link, whatever the device had.
        Ok(if stat.kind.is_whiteout() { Stat { kind, nlink: 1, ..stat } } else { stat })
    }

    fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>> {
        let mut entries = self.0.read_dir(nid)?;
        for entry in &mut entries {
            if self.0.stat(entry.nid)?.kind.is_whiteout() {
                entry.name = [WHITEOUT_PREFIX, &entry.name].concat().into();
            }
        }
        if self.is_opaque(nid)? {
            entries.push(Entry { name: OPAQUE_MARK.into(), nid: OPAQUE_NID });
        }
        // Readers promise entries sorted by name, which the prefix has changed.
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        // An image of another program may have a file of the name of a mark, too.
        entries.dedup_by(|one, other| one.name == other.name);
        Ok(entries)
    }

    fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Option<Nid>> {
        let entries = ImageWrapper::read_dir(self, dir)?;
        // By the sorted list, as marks have names that the image does not know.
        let found = entries.binary_search_by(|entry| (*entry.name).cmp(name));
        Ok(found.ok().map(|number| entries[number].nid))
    }

    fn xattrs(&self, nid: Nid) -> Result<XattrSet> {
        if nid == OPAQUE_NID {
            return Ok(XattrSet::new());
        }
        let mut xattrs = self.0.xattrs(nid)?;
        xattrs.retain(|(name, value)| !is_of_conversion(name, value));
        Ok(xattrs)
    }
}
