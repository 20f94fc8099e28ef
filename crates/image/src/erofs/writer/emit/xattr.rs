//! Extended attributes: those that follow each inode, those that inodes share, and the table of prefixes.

use std::collections::HashMap;
use std::num::TryFromIntError;

use packfs_blocks::units::beyond;
use zerocopy::IntoBytes;

use super::digest_xattr;
use super::digest_xattr::{DigestXattr, InodeXattrs};
use crate::build::FileDigest;
use crate::erofs::format::{XATTR_FILTER_SEED, XattrEntry, XattrHeader, xattr_prefix};
use crate::erofs::hash::xxh32;
use crate::erofs::writer::options::ErofsOptions;
use crate::tree::{Ino, Tree, XattrId, XattrSet};
use crate::{Error, ExceededLimit, Result, limits};

/// Attributes of this few inodes stay with them unless asked otherwise: reading a shared one costs another access. The
/// default of mkfs.erofs (`-x`); other numbers were not measured.
const SHARE_ABOVE: u32 = 2;
/// Attributes of at least this length are stored away from inodes, however few inodes have them: they would leave no
/// room for other inodes in a block of 4 KiB. Not measured.
const LONG: usize = 2048;
/// Maximum number of shared attributes of an inode: the format counts them in a byte.
const SHARED_MAX: usize = 255;
/// Maximum number of bytes of attributes that an inode can count: 16 bits, in units of four bytes, the header as one
/// more.
const BODY_MAX: usize = size_of::<XattrHeader>() + 4 * (u16::MAX as usize - 1);
/// Maximum number of bytes of a name after its prefix: the format counts them in a byte.
const NAME_MAX: usize = u8::MAX as usize;
/// Maximum number of long prefixes: an index of seven bits.
const PREFIXES_MAX: usize = 128;

const CLASSES: [(&[u8], u8); 5] = [
    (b"user.", xattr_prefix::USER),
    (b"trusted.", xattr_prefix::TRUSTED),
    (b"security.", xattr_prefix::SECURITY),
    (b"system.posix_acl_access", xattr_prefix::ACL_ACCESS),
    (b"system.posix_acl_default", xattr_prefix::ACL_DEFAULT),
];

/// Result with the reason why an attribute does not fit the format.
type XattrResult<T> = std::result::Result<T, ExceededLimit>;

/// All attributes, as stored in the image.
#[derive(Debug)]
pub(crate) struct EncodedXattrs {
    /// Bytes that follow the inodes, for each of the tree's sets.
    bodies: Vec<Box<[u8]>>,
    shared: Vec<u8>,
    uses_prefixes: bool,
    /// The digest that files have besides their sets.
    stamp: Option<DigestXattr>,
}

impl EncodedXattrs {
    /// Encodes the sets of the inodes of `tree`; attributes of more inodes than `share_above` are shared, `None` leaves that
    /// to the writer.
    pub(crate) fn encode(options: &ErofsOptions, tree: &Tree, share_above: Option<u32>) -> Result<EncodedXattrs> {
        let prefixes = XattrPrefixes::of(options)?;
        let used = used_sets(tree)?;
        let mut encoder = XattrEncoder {
            prefixes: &prefixes,
            body_max: if options.inode_digest.is_some() { BODY_MAX - digest_xattr::LEN } else { BODY_MAX },
            wanted: wanted(tree, &used, share_above),
            ids: HashMap::new(),
            shared: Vec::new(),
        };
        let mut bodies = vec![Box::default(); tree.xattrs.len()];
        for UsedXattrSet { id, first, .. } in &used {
            let body = encoder.body(tree.xattrs.get(*id));
            bodies[id.0 as usize] = body.map_err(|why| Error::Limit { path: tree.path_of(*first), why })?;
        }
        let all = used.iter().flat_map(|used| tree.xattrs.get(used.id));
        let has_long = all.into_iter().any(|(name, _)| prefixes.longest(name).is_some());
        let shared = encoder.shared;
        let stamp = DigestXattr::of(options, &prefixes);
        Ok(EncodedXattrs { shared, bodies, uses_prefixes: has_long || stamp.is_some(), stamp })
    }

    /// Returns the attributes that follow an inode with this set and, if it is a file with data, this digest.
    pub(crate) fn attached<'a>(&'a self, id: XattrId, sum: Option<&'a FileDigest>) -> InodeXattrs<'a> {
        InodeXattrs { set: &self.bodies[id.0 as usize], stamp: self.stamp.as_ref().zip(sum) }
    }

    /// Returns the attributes that bodies refer to by number, counted in words from their start.
    pub(crate) fn shared(&self) -> &[u8] {
        &self.shared
    }

    /// Returns true if inodes may have attributes.
    pub(crate) fn any(&self) -> bool {
        self.stamp.is_some() || self.bodies.iter().any(|body| !body.is_empty())
    }

    /// Returns true if any name is stored with a long prefix.
    pub(crate) fn uses_prefixes(&self) -> bool {
        self.uses_prefixes
    }
}

/// A set in use: the number of its inodes, and the first of them.
struct UsedXattrSet {
    id: XattrId,
    first: Ino,
    inodes: u32,
}

fn used_sets(tree: &Tree) -> Result<Vec<UsedXattrSet>> {
    let mut used = Vec::<UsedXattrSet>::new();
    let mut at = vec![None; tree.xattrs.len()];
    tree.walk(|ino, _| {
        let id = tree.inode(ino).xattrs;
        if id != XattrId::NONE {
            let at = *at[id.0 as usize].get_or_insert_with(|| {
                used.push(UsedXattrSet { id, first: ino, inodes: 0 });
                used.len() - 1
            });
            used[at].inodes += 1;
        }
        Ok(())
    })?;
    Ok(used)
}

type XattrPair<'t> = (&'t [u8], &'t [u8]);

/// Returns the attributes to share; their numbers are set later.
fn wanted<'t>(tree: &'t Tree, used: &[UsedXattrSet], share_above: Option<u32>) -> HashMap<XattrPair<'t>, u32> {
    let mut counts: HashMap<XattrPair<'t>, u32> = HashMap::new();
    for UsedXattrSet { id, inodes, .. } in used {
        for (name, value) in tree.xattrs.get(*id) {
            *counts.entry((name, value)).or_insert(0) += inodes;
        }
    }
    // An inode refers to a shared attribute in 4 bytes; the shortest attribute takes 8.
    counts.retain(|(name, value), count| match share_above {
        Some(above) => *count > above,
        None => *count > SHARE_ABOVE || name.len() + value.len() >= LONG,
    });
    counts
}

struct XattrEncoder<'n, 't> {
    prefixes: &'n XattrPrefixes,
    /// Maximum length of a body.
    body_max: usize,
    wanted: HashMap<XattrPair<'t>, u32>,
    ids: HashMap<XattrPair<'t>, u32>,
    shared: Vec<u8>,
}

impl<'t> XattrEncoder<'_, 't> {
    fn body(&mut self, set: &'t XattrSet) -> XattrResult<Box<[u8]>> {
        let mut ids = Vec::new();
        let mut entries = Vec::new();
        let mut absent = u32::MAX;
        // Sets are sorted by name.
        for (name, value) in set {
            absent &= !filter_bit(name)?;
            // An inode counts its shared attributes in a byte. What is beyond that follows the inode like any
            // other.
            if ids.len() < SHARED_MAX && self.wanted.contains_key(&(&**name, &**value)) {
                ids.push(self.share(name, value)?);
            } else {
                self.prefixes.entry(name, value, &mut entries)?;
            }
        }
        let h_shared_count = u8::try_from(ids.len()).expect("limited above");
        let mut body = XattrHeader::new(absent, h_shared_count).as_bytes().to_vec();
        ids.iter().for_each(|id| body.extend_from_slice(&id.to_le_bytes()));
        body.extend_from_slice(&entries);
        if body.len() > self.body_max {
            let why = beyond(body.len() as u64, self.body_max as u64);
            return Err(format!("attributes, all together {why}").into());
        }
        Ok(body.into())
    }

    fn share(&mut self, name: &'t [u8], value: &'t [u8]) -> XattrResult<u32> {
        if let Some(id) = self.ids.get(&(name, value)) {
            return Ok(*id);
        }
        let id = u32::try_from(self.shared.len() / 4).map_err(|_| "more than 16 GiB of attributes")?;
        self.prefixes.entry(name, value, &mut self.shared)?;
        self.ids.insert((name, value), id);
        Ok(id)
    }
}

/// Returns the filter bit that says there is no such name.
fn filter_bit(name: &[u8]) -> XattrResult<u32> {
    let (class, rest) = split_class(name)?;
    Ok(hashed_bit(class, rest))
}

/// Returns the filter bit of a class and the rest of a name.
pub(crate) fn hashed_bit(class: u8, rest: &[u8]) -> u32 {
    1 << (xxh32(rest, XATTR_FILTER_SEED.wrapping_add(class.into())) & 31)
}

/// Splits a full name into the number of its class and the rest.
pub(crate) fn split_class(name: &[u8]) -> XattrResult<(u8, &[u8])> {
    let class = CLASSES.iter().find_map(|(class, number)| Some((*number, name.strip_prefix(*class)?)));
    // A class that is a whole name has nothing after it; any other class has something.
    let class = class.filter(|(number, rest)| is_acl(*number) == rest.is_empty());
    class.ok_or_else(|| limits::xattr_class("EROFS", true, name))
}

/// Appends an attribute with the number of a class or prefix, and the rest of its name.
pub(crate) fn put_entry(
    e_name_index: u8,
    rest: &[u8],
    value: &[u8],
    out: &mut Vec<u8>,
) -> std::result::Result<(), TryFromIntError> {
    let e_name_len = u8::try_from(rest.len())?;
    let e_value_size = u16::try_from(value.len())?.into();
    out.extend_from_slice(XattrEntry { e_name_len, e_name_index, e_value_size }.as_bytes());
    out.extend_from_slice(rest);
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
    Ok(())
}

fn is_acl(class: u8) -> bool {
    class == xattr_prefix::ACL_ACCESS || class == xattr_prefix::ACL_DEFAULT
}

/// Long prefixes: a class and the first bytes after it.
#[derive(Debug)]
pub(crate) struct XattrPrefixes {
    list: Vec<(u8, Box<[u8]>)>,
    /// True if the last one is the name of the digest.
    has_digest: bool,
}

impl XattrPrefixes {
    pub(crate) fn of(options: &ErofsOptions) -> Result<XattrPrefixes> {
        let digest = options.inode_digest.as_deref();
        if options.xattr_prefixes.len() + usize::from(digest.is_some()) > PREFIXES_MAX {
            return Err(Error::TooMany { what: "prefixes of attributes", max: PREFIXES_MAX as u64 });
        }
        let wrong = |prefix: &[u8], why: &str| Error::option("xattr prefix", prefix.escape_ascii(), why);
        let mut list = Vec::new();
        for prefix in &options.xattr_prefixes {
            let (class, infix) = split_class(prefix).ok().filter(|(class, _)| !is_acl(*class)).ok_or_else(|| {
                wrong(prefix, "a prefix must begin with user., trusted. or security. and continue, such as user.mime.")
            })?;
            if infix.len() > NAME_MAX {
                return Err(wrong(prefix, "longer than a name can be"));
            }
            list.push((class, infix.into()));
        }
        if let Some(name) = digest {
            digest_xattr::check(name)?;
            let (class, infix) = digest_xattr::split(name);
            list.push((class, infix.into()));
        }
        Ok(XattrPrefixes { list, has_digest: digest.is_some() })
    }

    /// Returns the number of the prefix that is the name of the digest.
    pub(crate) fn digest(&self) -> Option<u8> {
        self.has_digest.then(|| self.count() - 1)
    }

    /// Returns the longest prefix of `name`, as numbered in entries, and the rest.
    fn longest<'n>(&self, name: &'n [u8]) -> Option<(u8, &'n [u8])> {
        let (class, rest) = split_class(name).ok()?;
        let fitting = self.list.iter().zip(0u8..).filter(|((of, infix), _)| *of == class && rest.starts_with(infix));
        let ((_, infix), number) = fitting.max_by_key(|((_, infix), _)| infix.len())?;
        Some((xattr_prefix::LONG | number, &rest[infix.len()..]))
    }

    /// Appends an attribute.
    fn entry(&self, name: &[u8], value: &[u8], out: &mut Vec<u8>) -> XattrResult<()> {
        let (e_name_index, rest) = match self.longest(name) {
            Some(found) => found,
            None => split_class(name)?,
        };
        let too_long = |_| format!("attribute `{}`: name or value too long", name.escape_ascii()).into();
        put_entry(e_name_index, rest, value, out).map_err(too_long)
    }

    pub(crate) fn count(&self) -> u8 {
        u8::try_from(self.list.len()).expect("limited when it was made")
    }

    /// Returns the table as stored in the image.
    pub(crate) fn table(&self) -> Vec<u8> {
        let mut table = Vec::new();
        for (class, infix) in &self.list {
            let len = u16::try_from(1 + infix.len()).expect("limited when it was made");
            table.extend_from_slice(&len.to_le_bytes());
            table.push(*class);
            table.extend_from_slice(infix);
            table.resize(table.len().next_multiple_of(4), 0);
        }
        table
    }
}
