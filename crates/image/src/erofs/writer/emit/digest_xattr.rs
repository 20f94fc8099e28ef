//! Digests of files as extended attributes, by which Linux shares page cache between images (since 7.0).
//!
//! The name is a long prefix that the superblock points to, so the attribute itself consists of its value only. A name
//! without a class, as the usual one, is no attribute that Linux shows.

use zerocopy::IntoBytes;

use super::xattr::{XattrPrefixes, hashed_bit};
use crate::build::FileDigest;
use crate::erofs::format::{INODE_DIGEST_ALGORITHM, XattrEntry, XattrHeader, xattr_prefix};
use crate::erofs::writer::options::ErofsOptions;
use crate::tree::{Kind, Tree};
use crate::{Error, Result};

/// Length of the attribute in bytes.
pub(crate) const LEN: usize =
    (size_of::<XattrEntry>() + INODE_DIGEST_ALGORITHM.len() + size_of::<FileDigest>()).next_multiple_of(4);

/// The parts of the attribute that are the same for all files.
#[derive(Debug)]
pub(crate) struct DigestXattr {
    entry: XattrEntry,
    /// Bit of the name filter that says the attribute is absent.
    filter_bit: u32,
}

impl DigestXattr {
    /// Returns the attribute of a build, if it stores digests.
    pub(crate) fn of(options: &ErofsOptions, prefixes: &XattrPrefixes) -> Option<DigestXattr> {
        let name = options.inode_digest.as_deref()?;
        let number = prefixes.digest()?;
        let (class, rest) = split(name);
        let len = u16::try_from(INODE_DIGEST_ALGORITHM.len() + size_of::<FileDigest>()).expect("39 bytes");
        let entry = XattrEntry { e_name_len: 0, e_name_index: xattr_prefix::LONG | number, e_value_size: len.into() };
        Some(DigestXattr { entry, filter_bit: hashed_bit(class, rest) })
    }

    fn put(&self, sum: &FileDigest, out: &mut Vec<u8>) {
        let end = out.len() + LEN;
        out.extend_from_slice(self.entry.as_bytes());
        out.extend_from_slice(INODE_DIGEST_ALGORITHM);
        out.extend_from_slice(sum);
        out.resize(end, 0);
    }
}

/// Attributes as they follow an inode.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InodeXattrs<'a> {
    /// The encoded set, with a header unless it is empty.
    pub(crate) set: &'a [u8],
    pub(crate) stamp: Option<(&'a DigestXattr, &'a FileDigest)>,
}

impl InodeXattrs<'_> {
    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        match self.stamp {
            None => self.set.len(),
            Some(_) => self.set.len().max(size_of::<XattrHeader>()) + LEN,
        }
    }

    /// Appends the attributes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let Some((stamp, sum)) = self.stamp else { return out.extend_from_slice(self.set) };
        let start = out.len();
        match self.set {
            // A filter of ones says that there is no attribute. The bit of this one is cleared below.
            [] => out.extend_from_slice(XattrHeader::new(u32::MAX, 0).as_bytes()),
            set => out.extend_from_slice(set),
        }
        // The filter is the first field of the header.
        for (byte, bits) in out[start..].iter_mut().zip(stamp.filter_bit.to_le_bytes()) {
            *byte &= !bits;
        }
        stamp.put(sum, out);
    }
}

/// Splits the name of the attribute into the number of its class, 0 for none, and the rest.
pub(crate) fn split(name: &[u8]) -> (u8, &[u8]) {
    let classes: [(&[u8], u8); 3] =
        [(b"user.", xattr_prefix::USER), (b"trusted.", xattr_prefix::TRUSTED), (b"security.", xattr_prefix::SECURITY)];
    let found = classes.iter().find_map(|(class, number)| Some((*number, name.strip_prefix(*class)?)));
    found.unwrap_or((0, name))
}

/// Returns true if Linux shows attributes of this name, so that files of a directory may have one.
pub(crate) fn is_of_linux(name: &[u8]) -> bool {
    split(name).0 != 0 || name.starts_with(b"system.")
}

/// Refuses a name that cannot be a prefix.
pub(crate) fn check(name: &[u8]) -> Result<()> {
    let rest = split(name).1;
    if rest.is_empty() || rest.len() > usize::from(u8::MAX) || rest.contains(&0) {
        let why = "after its class, the name of an attribute has from 1 to 255 bytes, none of them NUL";
        return Err(Error::option("inode digest", name.escape_ascii(), why));
    }
    if name.starts_with(b"system.") {
        return Err(Error::option("inode digest", name.escape_ascii(), "a digest would replace access control lists"));
    }
    Ok(())
}

/// Removes attributes with the name of the digest from files that get one: the source may be an image with digests.
pub(crate) fn drop_stale(options: &ErofsOptions, tree: &mut Tree) {
    let Some(name) = &options.inode_digest else { return };
    let is_stale = |tree: &Tree, ino| {
        let inode = tree.inode(ino);
        let is_stamped = matches!(inode.kind, Kind::File { size, .. } if size > 0);
        is_stamped && tree.xattrs.get(inode.xattrs).iter().any(|(known, _)| known == name)
    };
    let stale: Vec<_> = tree.inos().filter(|ino| is_stale(tree, *ino)).collect();
    for ino in stale {
        let mut set = tree.xattrs.get(tree.meta(ino).xattrs).clone();
        set.retain(|(known, _)| known != name);
        let set = tree.xattrs.intern(set);
        tree.set_xattrs(ino, set);
    }
}
