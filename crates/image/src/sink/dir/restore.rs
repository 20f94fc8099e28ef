//! Restores owner, extended attributes, mode and times of an extracted entry, in an order in which
//! no step undoes another. Refusals of the system are recorded and not fatal.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{self, AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::attributes::{AttributeStore, set_all};
use super::place::{ExtractTarget, TargetDir};
use super::{ExtractSummary, NotRestored};
use crate::Result;
use crate::image::{FileType, Image, Nid, Stat, mode_without_acl};
use crate::tree::{Time, XattrSet, acl, path_of};

/// Mode bits, and an attribute, that give the user of a program more rights than its own. A program
/// without the owner that the image names gets none of them.
const SET_IDS: u16 = 0o6000;
const CAPABILITY: &[u8] = b"security.capability";

/// Attributes to restore, and the destination.
#[derive(Debug)]
pub(super) struct AttributeRestorer<'a> {
    pub(super) image: &'a dyn Image,
    pub(super) place: &'a ExtractTarget,
    pub(super) owner: bool,
    pub(super) xattrs: bool,
    pub(super) times: bool,
}

/// An entry that was just created.
#[derive(Debug, Clone, Copy)]
pub(super) struct CreatedEntry<'a> {
    /// Its directory; for the destination itself, the destination.
    pub(super) dir: &'a TargetDir,
    /// Its name there.
    pub(super) name: &'a [u8],
    /// Descriptor of the entry, if it can be opened.
    pub(super) fd: Option<BorrowedFd<'a>>,
    /// True if it certainly belongs to the running user and group.
    pub(super) ours: bool,
    /// Its mode, if known.
    pub(super) mode: Option<u16>,
}

impl AttributeRestorer<'_> {
    /// Gives `made` the attributes in `stat`. Fails only if the image cannot be read.
    pub(super) fn all(&self, made: CreatedEntry<'_>, nid: Nid, stat: &Stat, out: &mut ExtractSummary) -> Result<()> {
        let mut note = |what: String, errno: Errno| out.not_restored.push(self.not_restored(made, what, errno));
        // True if the entry has the image's owner.
        let mut owned = made.ours && (stat.uid, stat.gid) == (self.place.uid, self.place.gid);
        // The owner comes first: when it changes, the kernel clears set-user-ID bits and capabilities.
        if self.owner && !owned {
            match made.chown(stat.uid, stat.gid) {
                Ok(()) => owned = true,
                Err(errno) => note(format!("owner {}:{}", stat.uid, stat.gid), errno),
            }
        } else if !owned && (stat.mode & SET_IDS != 0 || stat.has_xattrs) {
            // The entry may have the image's owner without a change, wherever it lies.
            owned = made.owner().is_ok_and(|owner| owner == (stat.uid, stat.gid));
        }
        // Before the mode, which may take away the right to set them.
        let set = if self.xattrs && stat.has_xattrs { self.image.xattrs(nid)? } else { XattrSet::new() };
        let mut mode = if self.xattrs { stat.mode } else { mode_without_acl(self.image, nid, stat)? };
        // Of a directory that another part has finished meanwhile, what it had when it was opened says nothing.
        let may_inherit = made.dir.has_default_acl() || self.place.shared && self.image.may_have_xattrs();
        if self.xattrs && may_inherit {
            made.remove_inherited(&set, stat);
        }
        if self.xattrs && stat.has_xattrs {
            mode &= self.restore_xattrs(made, set, owned, &mut note);
        }
        if !owned && mode & SET_IDS != 0 && stat.kind != FileType::Dir {
            // A set-user-ID program must not run as the user who extracts it.
            mode &= !SET_IDS;
            if self.owner {
                note("set-user-ID and set-group-ID bits, without the owner".into(), Errno::PERM);
            }
        }
        if made.mode != Some(mode)
            && !matches!(stat.kind, FileType::Symlink { .. })
            && let Err(errno) = made.chmod(mode)
        {
            note(format!("mode {mode:04o}"), errno);
        }
        if self.times
            && let Err(errno) = made.set_time(stat.mtime)
        {
            note(format!("time {}.{:09}", stat.mtime.secs, stat.mtime.nanos), errno);
        }
        Ok(())
    }

    /// Sets extended attributes, and returns the permission bits that remain: without an ACL, nobody must get more than the
    /// ACL would give. Only an owned entry gets capabilities, which would otherwise be those of
    /// another user.
    fn restore_xattrs(
        &self,
        made: CreatedEntry<'_>,
        mut wanted: XattrSet,
        owned: bool,
        note: &mut dyn FnMut(String, Errno),
    ) -> u16 {
        if !owned && wanted.iter().any(|(name, _)| **name == *CAPABILITY) {
            wanted.retain(|(name, _)| **name != *CAPABILITY);
            if self.owner {
                note("xattr security.capability, without the owner".into(), Errno::PERM);
            }
        }
        let mut kept_bits = u16::MAX;
        for (at, errno) in set_all(&made, &wanted) {
            let (name, value) = &wanted[at];
            if **name == *acl::ACCESS {
                kept_bits &= acl::mode_limit(value);
            }
            note(format!("xattr {}", name.escape_ascii()), errno);
        }
        kept_bits
    }

    /// Records that an attribute of `made` could not be restored.
    pub(super) fn not_restored(&self, made: CreatedEntry<'_>, what: String, errno: Errno) -> NotRestored {
        NotRestored { path: path_of(&made.dir.join(made.name)), what, why: errno.into() }
    }
}

impl CreatedEntry<'_> {
    fn owner(&self) -> rustix::io::Result<(u32, u32)> {
        let found = match self.fd {
            Some(fd) => fs::fstat(fd)?,
            None => fs::statat(self.dir.fd(), self.name, AtFlags::SYMLINK_NOFOLLOW)?,
        };
        Ok((found.st_uid, found.st_gid))
    }

    fn chown(&self, uid: u32, gid: u32) -> rustix::io::Result<()> {
        let uid = Some(Uid::from_raw(uid));
        let gid = Some(Gid::from_raw(gid));
        match self.fd {
            Some(fd) => fs::fchown(fd, uid, gid),
            None => fs::chownat(self.dir.fd(), self.name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    fn chmod(&self, mode: u16) -> rustix::io::Result<()> {
        let mode = Mode::from_raw_mode(mode.into());
        match self.fd {
            Some(fd) => fs::fchmod(fd, mode),
            None => {
                // chmod by name follows links; through a descriptor of exactly this entry it cannot.
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let entry = fs::openat(self.dir.fd(), self.name, flags, Mode::empty())?;
                fs::chmodat(CWD, through_proc(entry.as_fd(), b"").as_slice(), mode, AtFlags::empty())
            }
        }
    }

    /// Removes the access control lists that the entry inherited: the image says who may do what.
    fn remove_inherited(&self, set: &XattrSet, stat: &Stat) {
        let lists: &[&str] = match stat.kind {
            FileType::Symlink { .. } => &[],
            FileType::Dir => &["system.posix_acl_access", "system.posix_acl_default"],
            _ => &["system.posix_acl_access"],
        };
        for list in lists.iter().filter(|list| set.iter().all(|(name, _)| **name != *list.as_bytes())) {
            // Usually there is none.
            self.remove(list.as_bytes());
        }
    }

    fn set_time(&self, mtime: Time) -> rustix::io::Result<()> {
        let time = Timespec { tv_sec: mtime.secs, tv_nsec: mtime.nanos.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        match self.fd {
            Some(fd) => fs::futimens(fd, &times),
            None => fs::utimensat(self.dir.fd(), self.name, &times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }
}

impl AttributeStore for CreatedEntry<'_> {
    fn set(&self, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
        match self.fd {
            Some(fd) => fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            None => {
                let path = through_proc(self.dir.fd(), self.name);
                fs::lsetxattr(path.as_slice(), name, value, XattrFlags::empty())
            }
        }
    }

    fn remove(&self, name: &[u8]) {
        let _ = match self.fd {
            Some(fd) => fs::fremovexattr(fd, name),
            None => fs::lremovexattr(through_proc(self.dir.fd(), self.name).as_slice(), name),
        };
    }
}

/// Returns a path to `name` in an open directory, or to the open file itself if `name` is empty,
/// for calls that take no descriptor.
fn through_proc(fd: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes();
    if !name.is_empty() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    path
}
