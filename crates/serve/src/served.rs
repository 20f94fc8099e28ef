//! An image that is served, and what requests find in it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};
use packfs_image::image::{ImageWrapper, Nid, Stat};
use packfs_image::sink::resolve;
use packfs_image::stats::{MeasuredImage, Stats};
use packfs_image::{AnyImage, Image, diff};

use crate::Result;
use crate::explorer::ImageModel;

/// An image to serve.
#[derive(Debug, Clone)]
pub struct ServedImage {
    /// Name of the image; also its place if there are several.
    pub name: String,
    /// The image.
    pub image: Arc<AnyImage>,
    /// Its bytes.
    pub bytes: Arc<dyn ReadAt>,
    /// Text that is another one if the bytes are others, as from the time of modification and the length of a file.
    pub version: String,
    /// True if the bytes come from another server.
    pub remote: bool,
    /// The name of an older image, and that image, with which the explorer compares this one.
    pub older: Option<(String, Arc<AnyImage>)>,
}

/// An entry of an image that a path leads to.
#[derive(Debug)]
pub(crate) struct ResolvedEntry {
    pub(crate) nid: Nid,
    pub(crate) stat: Stat,
}

impl ServedImage {
    /// Returns what a path leads to; symbolic links are followed within the image, whose root is the highest.
    pub(crate) fn find(&self, path: &[Vec<u8>]) -> Result<Option<ResolvedEntry>> {
        let image = self.image.image();
        let found = match resolve(image, &path.join(&b'/')) {
            // A loop leads nowhere: the answer is that for a path that is not there.
            Err(packfs_image::Error::LinkLoop { .. }) => None,
            found => found?,
        };
        Ok(found.map(|nid| Ok::<_, packfs_image::Error>(ResolvedEntry { nid, stat: image.stat(nid)? })).transpose()?)
    }

    /// Returns what the explorer shows, as JSON. All metadata is read for it; with an older image all data of both,
    /// too.
    pub(crate) fn model(&self) -> Result<Vec<u8>> {
        let stats = Stats::measure(&self.image)?;
        let mut model = ImageModel::new(self.name.as_bytes(), &self.image, &stats)?;
        if let Some((name, older)) = &self.older {
            let mut differences = Vec::new();
            let options = diff::DiffOptions::default();
            let found = &mut |difference| differences.push(difference);
            diff::diff(older.image(), self.image.image(), &options, &Progress::default(), found)?;
            let old_stats = Stats::measure(older)?;
            let older = MeasuredImage { image: older, stats: &old_stats };
            let newer = MeasuredImage { image: &self.image, stats: &stats };
            model.compare(name.as_bytes(), older, newer, &differences)?;
        }
        Ok(serde_json::to_vec(&model)?)
    }
}

/// A regular file of an image.
#[derive(Debug)]
pub(crate) struct ServedFile {
    pub(crate) image: Arc<AnyImage>,
    pub(crate) bytes: Arc<dyn ReadAt>,
    pub(crate) nid: Nid,
    pub(crate) size: u64,
}

impl ReadAt for ServedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.image.image().read_at(self.nid, buf, offset)?)
    }

    fn len(&self) -> u64 {
        self.size
    }

    fn will_read(&self, range: Range<u64>) {
        self.image.image().will_read(self.nid, range);
    }

    fn has_delay(&self) -> bool {
        self.bytes.has_delay()
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.bytes.check_unchanged()
    }
}

/// A directory of an image as an image of its own.
#[derive(Debug)]
pub(crate) struct SubdirImage<'i> {
    pub(crate) image: &'i dyn Image,
    pub(crate) root: Nid,
}

impl ImageWrapper for SubdirImage<'_> {
    fn inner(&self) -> &dyn Image {
        self.image
    }

    fn root(&self) -> Nid {
        self.root
    }

    fn parent(&self, dir: Nid) -> packfs_image::Result<Option<Nid>> {
        // The archive must not lead out of the directory.
        if dir == self.root { Ok(Some(self.root)) } else { self.image.parent(dir) }
    }
}

#[cfg(test)]
mod tests {
    use packfs_image::image::{Entry, Extent, FileType};
    use packfs_image::tree::{Time, XattrSet};
    use packfs_image::{Finding, Part};

    use super::*;

    const ROOT: Nid = Nid(1);
    const DIR: Nid = Nid(2);
    const FILE: Nid = Nid(3);

    /// An image that answers every question otherwise than the defaults of [`Image`] would.
    #[derive(Debug)]
    struct OwnAnswers;

    const STRETCH: Extent = Extent { offset: 0, len: 1 << 40, hole: true };

    impl Image for OwnAnswers {
        fn root(&self) -> Nid {
            ROOT
        }

        fn stat(&self, nid: Nid) -> packfs_image::Result<Stat> {
            let mtime = Time { secs: 0, nanos: 1 };
            Ok(Stat { kind: FileType::Dir, ino: nid.0, mode: 0, uid: 0, gid: 0, mtime, nlink: 2, has_xattrs: false })
        }

        fn read_dir(&self, _: Nid) -> packfs_image::Result<Vec<Entry>> {
            Ok(Vec::new())
        }

        fn lookup(&self, _: Nid, _: &[u8]) -> packfs_image::Result<Option<Nid>> {
            Ok(Some(FILE))
        }

        fn xattrs(&self, _: Nid) -> packfs_image::Result<XattrSet> {
            Ok(XattrSet::new())
        }

        fn read_at(&self, _: Nid, _: &mut [u8], _: u64) -> packfs_image::Result<usize> {
            Ok(0)
        }

        fn extents(&self, _: Nid) -> packfs_image::Result<Vec<Extent>> {
            Ok(Vec::new())
        }

        fn stretch(&self, _: Nid, _: u64) -> packfs_image::Result<Option<Extent>> {
            Ok(Some(STRETCH))
        }

        fn parent(&self, _: Nid) -> packfs_image::Result<Option<Nid>> {
            Ok(Some(ROOT))
        }

        fn may_have_xattrs(&self) -> bool {
            true
        }

        fn may_have_acls(&self) -> bool {
            false
        }

        fn inode_count(&self) -> u64 {
            3
        }

        fn holds_nanoseconds(&self) -> bool {
            true
        }

        fn check_part(&self, _: Part, _: usize, _: &Progress, _: &mut dyn FnMut(Finding)) -> packfs_image::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_directory_as_an_image_changes_nothing_but_the_root() {
        let below: &dyn Image = &SubdirImage { image: &OwnAnswers, root: DIR };
        assert_eq!(below.root(), DIR);
        assert_eq!(below.lookup(DIR, b"any").unwrap(), Some(FILE));
        assert_eq!(below.stretch(FILE, 0).unwrap(), Some(STRETCH));
        assert!(below.holds_nanoseconds());
        assert!(below.may_have_xattrs() && !below.may_have_acls());
        assert_eq!(below.inode_count(), 3);
        // The root is its own parent, and nothing leads out of it.
        assert_eq!(below.parent(DIR).unwrap(), Some(DIR));
        assert_eq!(below.parent(Nid(4)).unwrap(), Some(ROOT));
    }
}
