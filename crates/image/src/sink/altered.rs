//! An image with other attributes than it stores: owners, modes, times and extended attributes are changed as they are
//! read, so that every sink can write them changed.

use crate::Result;
use crate::image::{Image, ImageWrapper, Nid, Stat, mode_without_acl};
use crate::tree::{TreeTransform, XattrSet, acl};

/// An image as a [`TreeTransform`] changes it.
#[derive(Debug)]
pub struct AlteredImage<'i> {
    image: &'i dyn Image,
    change: TreeTransform,
}

impl<'i> AlteredImage<'i> {
    /// Changes the attributes of `image`.
    pub fn new(image: &'i dyn Image, change: TreeTransform) -> Self {
        AlteredImage { image, change }
    }
}

impl ImageWrapper for AlteredImage<'_> {
    fn inner(&self) -> &dyn Image {
        self.image
    }

    fn stat(&self, nid: Nid) -> Result<Stat> {
        let mut stat = self.image.stat(nid)?;
        if self.change.leaves_out(acl::ACCESS) {
            // With an ACL, the bits of the group are its mask; without it they would give the group more than
            // it had.
            stat.mode = mode_without_acl(self.image, nid, &stat)?;
        }
        self.change.change_stat(&mut stat)?;
        Ok(stat)
    }

    fn xattrs(&self, nid: Nid) -> Result<XattrSet> {
        if self.change.drop_xattrs {
            return Ok(XattrSet::new());
        }
        let mut xattrs = self.image.xattrs(nid)?;
        xattrs.retain(|(name, _)| !self.change.leaves_out(name));
        if acl::access_list(&xattrs).is_some() {
            let before = self.image.stat(nid)?.mode;
            let mode = ImageWrapper::stat(self, nid)?.mode;
            if (mode ^ before) & acl::PERMISSION_BITS != 0 {
                return Ok(acl::after_chmod(&xattrs, mode).unwrap_or(xattrs));
            }
        }
        Ok(xattrs)
    }

    fn may_have_xattrs(&self) -> bool {
        !self.change.drop_xattrs && self.image.may_have_xattrs()
    }

    fn may_have_acls(&self) -> bool {
        !self.change.leaves_out(acl::ACCESS) && self.image.may_have_acls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::FileType;
    use crate::sink::fake::FakeImage;
    use crate::tree::{ExcludeXattrs, Time, TimeChange};

    #[test]
    fn attributes_are_changed_and_contents_are_not() {
        let mut fake = FakeImage::default().dir(0, &[("a", 1), ("l", 2)]).file(1, b"text");
        fake.set(2, FileType::Symlink { target: b"a"[..].into() }, 0o777);
        let time = Time { secs: 5, nanos: 0 };
        let change = TreeTransform {
            uid: Some(7),
            mode: "D0700,F0600".parse().unwrap(),
            time: TimeChange::Set(time),
            exclude_xattrs: ExcludeXattrs::new(["user.*"]).unwrap(),
            ..TreeTransform::default()
        };
        let gid = fake.stat(Nid(1)).unwrap().gid;
        let altered: &dyn Image = &AlteredImage::new(&fake, change);
        for (nid, mode) in [(0, 0o700), (1, 0o600), (2, 0o777)] {
            let stat = altered.stat(Nid(nid)).unwrap();
            assert_eq!((stat.uid, stat.gid, stat.mode, stat.mtime), (7, gid, mode, time), "{nid}");
        }
        let mut text = [0; 8];
        assert_eq!(altered.read_at(Nid(1), &mut text, 0).unwrap(), 4);
        assert_eq!((altered.read_dir(Nid(0)).unwrap().len(), altered.lookup(Nid(0), b"l").unwrap()), (2, Some(Nid(2))));
        let none: &dyn Image =
            &AlteredImage::new(&fake, TreeTransform { drop_xattrs: true, ..TreeTransform::default() });
        assert!(!none.may_have_xattrs() && none.xattrs(Nid(1)).unwrap().is_empty());
    }
}
