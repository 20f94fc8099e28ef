//! Extended attributes: those of the tree, escaped so that overlayfs passes them on, and those by which overlayfs and
//! composefs find what an inode stands for.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use packfs_blocks::hex::to_hex;
use packfs_blocks::units::beyond;
use zerocopy::IntoBytes;

use super::FileContent;
use super::order::{ImageNode, InodeRole, STUB_ATTRIBUTE};
use crate::erofs::format::{XattrHeader, xattr_prefix};
use crate::erofs::writer::emit::xattr::{hashed_bit, put_entry, split_class};
use crate::tree::{Ino, ROOT, Tree, XattrId};
use crate::{Error, ExceededLimit, Result};

/// Longest file whose bytes are in the image.
pub const INLINE_MAX: usize = 64;

/// Beginning of the names of overlayfs's own attributes.
const OVERLAY: &[u8] = b"trusted.overlay.";
/// Beginning of the escaped names, which overlayfs shows without their second part.
const ESCAPED: &[u8] = b"trusted.overlay.overlay.";

/// Attributes of a file that stands for a whiteout.
const WHITEOUT_MARKS: [(&[u8], &[u8]); 2] =
    [(b"trusted.overlay.overlay.whiteout", b""), (b"user.overlay.whiteout", b"")];
/// Attributes of a directory with such files.
const WHITEOUTS_MARKS: [(&[u8], &[u8]); 4] = [
    (b"trusted.overlay.overlay.whiteouts", b""),
    (b"user.overlay.whiteouts", b""),
    (b"trusted.overlay.overlay.opaque", b"x"),
    (b"user.overlay.opaque", b"x"),
];
/// Attribute of the root: no name leads to the objects.
const ROOT_MARK: (&[u8], &[u8]) = (b"trusted.overlay.opaque", b"y");

/// Maximum number of shared attributes of an inode.
const SHARED_MAX: usize = u8::MAX as usize;
/// Maximum number of bytes of attributes that an inode can count.
const BODY_MAX: usize = size_of::<XattrHeader>() + 4 * (u16::MAX as usize - 1);

/// The fs-verity digest of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectDigest {
    /// SHA-256 over blocks of 4 KiB.
    Sha256([u8; 32]),
    /// SHA-512 over blocks of 4 KiB.
    Sha512([u8; 64]),
}

impl ObjectDigest {
    /// Returns the bytes of the digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            ObjectDigest::Sha256(bytes) => bytes,
            ObjectDigest::Sha512(bytes) => bytes,
        }
    }

    /// Returns the path of the object below the directory of objects: the first byte in hexadecimal digits, a slash, the
    /// others.
    #[must_use]
    pub fn path(&self) -> String {
        let digits = to_hex(self.as_bytes());
        let (dir, name) = digits.split_at(2);
        format!("{dir}/{name}")
    }

    /// Returns the number that the kernel has for the hash function.
    fn algorithm(&self) -> u8 {
        match self {
            ObjectDigest::Sha256(_) => 1,
            ObjectDigest::Sha512(_) => 2,
        }
    }

    /// Returns the two attributes of a file whose bytes the object has.
    fn attributes<'t>(&self) -> [StoredAttribute<'t>; 2] {
        const VERSION: u8 = 0;
        const FLAGS: u8 = 0;
        let digest = self.as_bytes();
        let len = u8::try_from(4 + digest.len()).expect("at most 64 bytes");
        let metacopy = [&[VERSION, len, FLAGS, self.algorithm()], digest].concat();
        let attribute = |name: &'static [u8], value| StoredAttribute { name: name.into(), value: Cow::Owned(value) };
        let redirect = format!("/{}", self.path()).into_bytes();
        [attribute(b"trusted.overlay.metacopy", metacopy), attribute(b"trusted.overlay.redirect", redirect)]
    }
}

/// An attribute as stored: its full name and its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StoredAttribute<'t> {
    name: Cow<'t, [u8]>,
    value: Cow<'t, [u8]>,
}

impl<'t> StoredAttribute<'t> {
    fn of((name, value): (&'t [u8], &'t [u8])) -> Self {
        StoredAttribute { name: name.into(), value: value.into() }
    }

    /// Makes the attribute that stands for one of the tree.
    fn escaped(name: &'t [u8], value: &'t [u8]) -> Self {
        match name.strip_prefix(OVERLAY) {
            Some(rest) => StoredAttribute { name: [ESCAPED, rest].concat().into(), value: value.into() },
            None => StoredAttribute::of((name, value)),
        }
    }

    fn put(&self, out: &mut Vec<u8>) -> std::result::Result<(), ExceededLimit> {
        let (class, rest) = split_class(&self.name)?;
        put_entry(class, rest, &self.value, out).map_err(|_| too_long(&self.name))
    }
}

fn too_long(name: &[u8]) -> ExceededLimit {
    format!("attribute `{}`: name or value too long", name.escape_ascii()).into()
}

/// By name, then short values before long ones.
impl Ord for StoredAttribute<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |it: &Self| it.value.len();
        self.name.cmp(&other.name).then(key(self).cmp(&key(other))).then_with(|| self.value.cmp(&other.value))
    }
}

impl PartialOrd for StoredAttribute<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The attributes of all inodes: those of more than one are stored once.
#[derive(Debug)]
pub(super) struct AttributeTable<'t> {
    tree: &'t Tree,
    files: &'t HashMap<Ino, FileContent>,
    /// Places of shared attributes in the table, in words.
    shared: HashMap<StoredAttribute<'t>, u32>,
    /// All shared attributes.
    pub(super) table: Vec<u8>,
    /// True if any inode has an ACL.
    pub(super) has_acl: bool,
}

impl<'t> AttributeTable<'t> {
    pub(super) fn of(tree: &'t Tree, files: &'t HashMap<Ino, FileContent>, nodes: &[ImageNode]) -> Result<Self> {
        let counts = AttributeCounts::of(tree, files, nodes);
        let has_acl = counts.attributes.keys().any(|attribute| is_acl(&attribute.name));
        let mut shared: Vec<StoredAttribute<'t>> = counts.into_shared();
        shared.sort_unstable_by(|one, other| other.cmp(one));
        let mut attributes = AttributeTable { tree, files, shared: HashMap::new(), table: Vec::new(), has_acl };
        for attribute in shared {
            let place = u32::try_from(attributes.table.len() / 4)
                .map_err(|_| Error::TooMany { what: "bytes of shared attributes", max: 4 << 32 })?;
            attribute.put(&mut attributes.table).map_err(|why| Error::limit("", why))?;
            attributes.shared.insert(attribute, place);
        }
        Ok(attributes)
    }

    /// Encodes what follows an inode; `base` is the place of the table in words.
    pub(super) fn body(&self, node: &ImageNode, base: u32) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        own_attributes(self.tree, self.files, node, &mut |attribute| all.push(attribute));
        if all.is_empty() {
            return Ok(Vec::new());
        }
        all.sort();
        self.encode(&all, base).map_err(|why| {
            let path = match node.role {
                InodeRole::Entry(ino) | InodeRole::MarkedWhiteout(ino) => self.tree.path_of(ino),
                InodeRole::Stub => "".into(),
            };
            Error::limit(path, why)
        })
    }

    fn encode(&self, all: &[StoredAttribute<'_>], base: u32) -> std::result::Result<Vec<u8>, ExceededLimit> {
        let mut absent = u32::MAX;
        let mut places = Vec::new();
        let mut local = Vec::new();
        for attribute in all {
            let (class, rest) = split_class(&attribute.name)?;
            absent &= !hashed_bit(class, rest);
            match self.shared.get(attribute) {
                Some(place) => places.push(base + place),
                None => attribute.put(&mut local)?,
            }
        }
        let too_many =
            || format!("{} attributes that other entries have, too; the limit is {SHARED_MAX}", places.len());
        let count = u8::try_from(places.len()).map_err(|_| too_many())?;
        let mut body = XattrHeader::new(absent, count).as_bytes().to_vec();
        places.iter().for_each(|place| body.extend_from_slice(&place.to_le_bytes()));
        body.extend_from_slice(&local);
        if body.len() > BODY_MAX {
            return Err(format!("attributes, all together {}", beyond(body.len() as u64, BODY_MAX as u64)).into());
        }
        Ok(body)
    }
}

fn is_acl(name: &[u8]) -> bool {
    split_class(name).is_ok_and(|(class, _)| class == xattr_prefix::ACL_ACCESS || class == xattr_prefix::ACL_DEFAULT)
}

/// Passes all attributes of an inode to `each`.
fn own_attributes<'t>(
    tree: &'t Tree,
    files: &HashMap<Ino, FileContent>,
    node: &ImageNode,
    each: &mut dyn FnMut(StoredAttribute<'t>),
) {
    marks(node).iter().for_each(|mark| each(StoredAttribute::of(*mark)));
    match node.role {
        InodeRole::Entry(ino) | InodeRole::MarkedWhiteout(ino) => {
            if let Some(FileContent::Object(digest)) = files.get(&ino) {
                digest.attributes().into_iter().for_each(&mut *each);
            }
            set_attributes(tree, tree.inode(ino).xattrs, each);
        }
        InodeRole::Stub => stub_attributes(tree, each),
    }
    if node.role == InodeRole::Entry(ROOT) {
        each(StoredAttribute::of(ROOT_MARK));
    }
}

fn marks(node: &ImageNode) -> &'static [(&'static [u8], &'static [u8])] {
    match node.role {
        InodeRole::MarkedWhiteout(_) => &WHITEOUT_MARKS,
        _ if node.has_whiteouts => &WHITEOUTS_MARKS,
        _ => &[],
    }
}

fn set_attributes<'t>(tree: &'t Tree, set: XattrId, each: &mut dyn FnMut(StoredAttribute<'t>)) {
    tree.xattrs.get(set).iter().for_each(|(name, value)| each(StoredAttribute::escaped(name, value)));
}

fn stub_attributes<'t>(tree: &'t Tree, each: &mut dyn FnMut(StoredAttribute<'t>)) {
    let root = tree.xattrs.get(tree.inode(ROOT).xattrs).iter();
    root.filter(|(name, _)| **name == *STUB_ATTRIBUTE)
        .for_each(|(name, value)| each(StoredAttribute::of((name, value))));
}

/// Numbers of inodes that have an attribute. Those of objects are counted by digest: there may be as many as files.
#[derive(Debug, Default)]
struct AttributeCounts<'t> {
    attributes: HashMap<StoredAttribute<'t>, u32>,
    objects: HashMap<&'t ObjectDigest, u32>,
}

impl<'t> AttributeCounts<'t> {
    fn of(tree: &'t Tree, files: &'t HashMap<Ino, FileContent>, nodes: &[ImageNode]) -> Self {
        let mut counts = AttributeCounts::default();
        let mut sets = HashMap::new();
        let mut stubs = 0;
        for node in nodes {
            marks(node).iter().for_each(|mark| counts.add(StoredAttribute::of(*mark), 1));
            match node.role {
                InodeRole::Entry(ino) | InodeRole::MarkedWhiteout(ino) => {
                    if let Some(FileContent::Object(digest)) = files.get(&ino) {
                        *counts.objects.entry(digest).or_insert(0) += 1;
                    }
                    let set = tree.inode(ino).xattrs;
                    if set != XattrId::NONE {
                        *sets.entry(set).or_insert(0) += 1;
                    }
                }
                InodeRole::Stub => stubs += 1,
            }
        }
        sets.into_iter().for_each(|(set, n)| set_attributes(tree, set, &mut |attribute| counts.add(attribute, n)));
        stub_attributes(tree, &mut |attribute| counts.add(attribute, stubs));
        counts
    }

    fn add(&mut self, attribute: StoredAttribute<'t>, n: u32) {
        *self.attributes.entry(attribute).or_insert(0) += n;
    }

    /// Returns the attributes that are stored once.
    fn into_shared(self) -> Vec<StoredAttribute<'t>> {
        let shared = self.attributes.into_iter().filter(|(_, n)| *n > 1).map(|(attribute, _)| attribute);
        let objects = self.objects.into_iter().filter(|(_, n)| *n > 1);
        shared.chain(objects.flat_map(|(digest, _)| digest.attributes())).collect()
    }
}
