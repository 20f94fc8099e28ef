//! Limits of image formats and of Linux, checked on the whole tree: after the scan, before any data is packed.
//!
//! Limits of Linux and of every format are here; each format adds its own numbers in its
//! `limits.rs`. An image that passes can be written, and the kernel shows all of it. The sizes of
//! compressed tables are known only later.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use packfs_blocks::units::beyond;

use crate::tree::{DeviceNumber, Ino, Inode, Kind, KindRef, Tree, XattrId, XattrSet, acl, capability, path_of};
use crate::{Error, ExceededLimit, Result, Warning, WarningKind};

/// Longest name of a directory entry in bytes.
const NAME_MAX: usize = 255;
/// Longest target of a symbolic link in bytes: a page, including the NUL after it.
const SYMLINK_MAX: usize = 4095;
/// Largest size of a file: offsets are signed.
const FILE_MAX: u64 = i64::MAX.unsigned_abs();
/// Largest major number of a device (12 bits), and largest minor number (20 bits).
const DEVICE_MAX: DeviceNumber = DeviceNumber { major: 0xfff, minor: 0xf_ffff };
/// An id that is not valid for owner or group: system calls read it as "leave unchanged", and the
/// kernel shows another.
const NO_ID: u32 = u32::MAX;
/// Longest full name of an extended attribute in bytes.
const XATTR_NAME_MAX: usize = 255;
/// Maximum number of bytes in the attribute names of one inode, each followed by a NUL.
const XATTR_LIST_MAX: usize = 65_536;

const USER: &[u8] = b"user.";
const CLASSES: [&[u8]; 3] = [USER, b"trusted.", b"security."];

/// Limits of one format, given the options of a build.
#[derive(Debug, Clone)]
pub(crate) struct FormatLimits {
    /// Name of the format in messages.
    pub(crate) format: &'static str,
    /// Largest size of a regular file in bytes, if it is below that of Linux.
    pub(crate) file: u64,
    /// Range of inode times in seconds since 1970, and the same as years. `None`: all times.
    pub(crate) times: Option<(RangeInclusive<i64>, &'static str)>,
    /// Maximum number of different owners and groups. `None`: unlimited.
    pub(crate) owners: Option<usize>,
    /// True if inodes can have POSIX ACLs.
    pub(crate) acls: bool,
    /// Longest value of an extended attribute in bytes.
    pub(crate) xattr_value: usize,
    /// Maximum number of bytes in the attribute values of one inode.
    pub(crate) xattr_values: usize,
}

/// Checks `tree`. The first entry that exceeds a limit fails with [`Error::Limit`]. POSIX ACLs that
/// the format cannot store are removed from the tree, with a warning for each entry.
pub(crate) fn check(tree: &mut Tree, limits: &FormatLimits) -> Result<()> {
    if !limits.acls {
        leave_out_acls(tree)?;
    }
    let mut sets = vec![None; tree.xattrs.len()];
    let mut owners = HashSet::new();
    let tree = &*tree;
    tree.walk(|ino, path| {
        let refuse = |why: ExceededLimit| Error::limit(path_of(path), why);
        let inode = tree.inode(ino);
        limits.inode(&inode).map_err(refuse)?;
        let set = sets[inode.xattrs.0 as usize];
        let set = match set {
            Some(set) => set,
            None => limits.xattrs(tree.xattrs.get(inode.xattrs)).map_err(refuse)?,
        };
        sets[inode.xattrs.0 as usize] = Some(set);
        set.belongs_to(&inode.kind).map_err(refuse)?;
        limits.owners(&mut owners, &inode).map_err(refuse)?;
        check_names(tree, limits, ino, path)
    })
}

/// Removes POSIX ACLs from the tree, with a warning for each affected entry.
fn leave_out_acls(tree: &mut Tree) -> Result<()> {
    let with_acl: Vec<bool> = tree.xattrs.sets().map(has_acl).collect();
    if !with_acl.contains(&true) {
        return Ok(());
    }
    let mut warnings = std::mem::take(&mut tree.warnings);
    let walked = tree.walk(|ino, path| {
        let XattrId(set) = tree.inode(ino).xattrs;
        match with_acl[set as usize] {
            true => warnings.add(Warning::new(WarningKind::PosixAcl, path_of(path))),
            false => Ok(()),
        }
    });
    tree.warnings = warnings;
    walked?;
    tree.exclude_xattrs(acl::is_name);
    Ok(())
}

/// Checks the names in a directory: a file may have several, and a walk reaches it only by the first.
fn check_names(tree: &Tree, limits: &FormatLimits, dir: Ino, path: &[u8]) -> Result<()> {
    tree.entries(dir).try_for_each(|(name, _)| {
        let full = || [path, if path.is_empty() { b"" } else { b"/" }, name].concat();
        limits.name(name).map_err(|why| Error::limit(path_of(&full()), why))
    })
}

/// Returns true if POSIX ACLs are among attributes.
pub(crate) fn has_acl(set: &XattrSet) -> bool {
    set.iter().any(|(name, _)| acl::is_name(name))
}

/// Kinds of attributes in a set that are not allowed on every file.
#[derive(Debug, Clone, Copy, Default)]
struct AttributeNeeds {
    user: bool,
    acl_access: bool,
    acl_default: bool,
}

impl AttributeNeeds {
    /// Linux neither shows these attributes to programs nor lets programs set them elsewhere.
    fn belongs_to(self, kind: &KindRef<'_>) -> std::result::Result<(), ExceededLimit> {
        let wrong = match kind {
            Kind::File { .. } => {
                self.acl_default.then_some("a default ACL on a regular file; only directories can have one")
            }
            Kind::Dir => None,
            _ if self.user => Some("`user.` attributes; Linux allows them only on regular files and directories"),
            Kind::Symlink(_) if self.acl_access => Some("a POSIX ACL on a symbolic link; Linux does not allow that"),
            _ => self.acl_default.then_some("a default ACL; only directories can have one"),
        };
        wrong.map_or(Ok(()), |wrong| Err(wrong.into()))
    }
}

impl FormatLimits {
    /// Checks the length of a name.
    #[allow(clippy::unused_self, reason = "all formats have the limit of Linux")]
    pub(crate) fn name(&self, name: &[u8]) -> std::result::Result<(), ExceededLimit> {
        match name.len() {
            ..=NAME_MAX => Ok(()),
            len => Err(format!("a name of {len} bytes; the limit is {NAME_MAX}").into()),
        }
    }

    /// Adds the owner and the group of an inode to those known; fails if there are too many.
    pub(crate) fn owners(&self, known: &mut HashSet<u32>, inode: &Inode<'_>) -> std::result::Result<(), ExceededLimit> {
        let Some(max) = self.owners else { return Ok(()) };
        known.extend([inode.uid, inode.gid]);
        if known.len() > max { Err(ExceededLimit::Owners { max }) } else { Ok(()) }
    }

    /// Checks an inode except its names and attributes.
    pub(crate) fn inode(&self, inode: &Inode<'_>) -> std::result::Result<(), ExceededLimit> {
        if let Some((times, range)) = &self.times
            && !times.contains(&inode.mtime.secs)
        {
            return Err(ExceededLimit::Time { secs: inode.mtime.secs, format: self.format, range });
        }
        for (what, id) in [("owner", inode.uid), ("group", inode.gid)] {
            if id == NO_ID {
                return Err(format!("{what} {NO_ID}, which is not a valid id; the limit is {}", NO_ID - 1).into());
            }
        }
        match &inode.kind {
            Kind::File { size, .. } if *size > self.file.min(FILE_MAX) => {
                Err(format!("a file of {}", beyond(*size, self.file.min(FILE_MAX))).into())
            }
            Kind::Symlink(target) if !(1..=SYMLINK_MAX).contains(&target.len()) => {
                Err(format!("a symlink target of {} bytes; the kernel reads 1 to {SYMLINK_MAX}", target.len()).into())
            }
            Kind::Symlink(target) if target.contains(&0) => {
                Err("a symlink target with a NUL in it, where the kernel would end it".into())
            }
            Kind::Char(DeviceNumber { major, minor }) | Kind::Block(DeviceNumber { major, minor })
                if *major > DEVICE_MAX.major || *minor > DEVICE_MAX.minor =>
            {
                let format = self.format;
                let most = DEVICE_MAX;
                let most = format!("{format} supports majors up to {}, minors up to {}", most.major, most.minor);
                Err(format!("device number {major}:{minor}; {most}").into())
            }
            _ => Ok(()),
        }
    }

    /// Checks a set of attributes.
    fn xattrs(&self, set: &XattrSet) -> std::result::Result<AttributeNeeds, ExceededLimit> {
        let mut needs = AttributeNeeds::default();
        let mut names = 0;
        let mut values = 0;
        for (name, value) in set {
            self.xattr(name, value)?;
            needs.user |= name.starts_with(USER);
            needs.acl_access |= **name == *acl::ACCESS;
            needs.acl_default |= **name == *acl::DEFAULT;
            names += name.len() + 1;
            values += value.len();
        }
        if names > XATTR_LIST_MAX {
            let count = set.len();
            let why = beyond(names as u64, XATTR_LIST_MAX as u64);
            return Err(format!("{count} attributes, whose names take {why}").into());
        }
        if values > self.xattr_values {
            let why = beyond(values as u64, self.xattr_values as u64);
            return Err(format!("attribute values, all together {why}").into());
        }
        Ok(needs)
    }

    fn xattr(&self, name: &[u8], value: &[u8]) -> std::result::Result<(), ExceededLimit> {
        let shown = name.escape_ascii();
        let acl = self.acls && (name == acl::ACCESS || name == acl::DEFAULT);
        let rest = CLASSES.iter().find_map(|class| name.strip_prefix(*class));
        if !acl && rest.is_none() {
            return Err(xattr_class(self.format, self.acls, name));
        }
        if rest.is_some_and(|rest| rest.is_empty() || rest.contains(&0)) {
            return Err(format!("attribute `{shown}`: its name is empty, or has a NUL, after the class").into());
        }
        if name.len() > XATTR_NAME_MAX {
            let len = name.len();
            return Err(format!("attribute `{shown}`: a name of {len} bytes; the limit is {XATTR_NAME_MAX}").into());
        }
        let defect = match name {
            acl::ACCESS | acl::DEFAULT => acl::defect(value),
            capability::NAME => capability::defect(value),
            _ => None,
        };
        if let Some(why) = defect {
            return Err(format!("attribute `{shown}`: a value that the kernel refuses: {why}").into());
        }
        if value.len() > self.xattr_value {
            let why = beyond(value.len() as u64, self.xattr_value as u64);
            return Err(format!("attribute `{shown}`: a value of {why}").into());
        }
        Ok(())
    }
}

/// Makes the error of an attribute of a class that `format` does not support; `acls` is true if it
/// supports POSIX ACLs.
pub(crate) fn xattr_class(format: &'static str, acls: bool, name: &[u8]) -> ExceededLimit {
    let classes = match acls {
        true => "user., trusted. and security. attributes and POSIX ACLs",
        false => "user., trusted. and security. attributes",
    };
    ExceededLimit::XattrClass { format, classes, name: name.to_owned() }
}

#[cfg(test)]
mod tests;
