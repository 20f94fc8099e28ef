//! Extended attributes: inline after an inode, or shared by several, under numbered prefixes.

use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use super::ErofsReader;
use super::inode::Inode;
use super::metadata::{MetadataAddress, OffsetSpace};
use super::superblock::Superblock;
use crate::Result;
use crate::erofs::format::{self, Compat, Incompat, XATTR_FILTER_SEED, xattr_prefix};
use crate::erofs::hash::xxh32;
use crate::tree::{ORIGIN_XATTR, XattrSet};

const STRUCTURE: &str = "xattrs";
const PREFIXES: &str = "xattr prefixes";
const HEADER_LEN: usize = size_of::<format::XattrHeader>();
const ENTRY_LEN: usize = size_of::<format::XattrEntry>();
/// Longest name that Linux supports.
const NAME_MAX: usize = 255;

/// A long prefix: the number of an ordinary prefix, and the bytes that follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LongPrefix {
    pub(super) base: u8,
    pub(super) infix: Box<[u8]>,
}

/// One attribute as stored.
#[derive(Debug)]
pub(super) struct StoredXattr {
    /// As stored: see [`xattr_prefix`].
    pub(super) prefix: u8,
    /// Number of the ordinary prefix, with a long one resolved.
    pub(super) base: u8,
    /// Name after the ordinary prefix.
    pub(super) name: Box<[u8]>,
    pub(super) value: Box<[u8]>,
    /// Its id, if it is shared.
    pub(super) shared: Option<u32>,
}

impl StoredXattr {
    /// Returns prefix and name; `None` for undefined prefixes and padding.
    pub(super) fn full_name(&self) -> Option<Box<[u8]>> {
        let prefix: &[u8] = match self.base {
            xattr_prefix::USER => b"user.",
            xattr_prefix::ACL_ACCESS => b"system.posix_acl_access",
            xattr_prefix::ACL_DEFAULT => b"system.posix_acl_default",
            xattr_prefix::TRUSTED => b"trusted.",
            xattr_prefix::SECURITY => b"security.",
            _ => return None,
        };
        Some([prefix, &self.name[..]].concat().into())
    }

    /// Returns the bit of a name filter that says this name is absent.
    pub(super) fn filter_bit(&self) -> u32 {
        // As `erofs_getxattr` of Linux computes it.
        1 << (xxh32(&self.name, XATTR_FILTER_SEED.wrapping_add(self.base.into())) & 31)
    }

    /// Returns true if it consists of zeros, with which some writers pad.
    pub(super) fn is_padding(&self) -> bool {
        self.prefix == 0 && self.name.is_empty() && self.value.is_empty()
    }
}

/// Returns the position of the long prefixes.
pub(super) fn prefix_place(superblock: &Superblock) -> MetadataAddress {
    let space = match superblock {
        // In the order in which Linux decides (`erofs_xattr_prefixes_init`).
        _ if superblock.compat.contains(Compat::PLAIN_XATTR_PREFIXES) => OffsetSpace::Image,
        _ if superblock.incompat.contains(Incompat::METABOX) => OffsetSpace::Metabox,
        _ if superblock.packed.is_some() => OffsetSpace::Packed,
        _ => OffsetSpace::Image,
    };
    MetadataAddress { space, byte: superblock.xattr_prefix_start }
}

/// Reads the long prefixes of an image, which the reader needs before any xattrs.
pub(super) fn read_prefixes(reader: &ErofsReader, superblock: &Superblock) -> Result<Vec<LongPrefix>> {
    let mut place = prefix_place(superblock);
    (0..superblock.xattr_prefixes)
        .map(|n| {
            place = place.align(4);
            let mut len = [0; 2];
            reader.read_meta(PREFIXES, place, &mut len)?;
            let len = u16::from_le_bytes(len);
            // A byte of the length is for the base.
            let Some(infix) = usize::from(len).checked_sub(1).filter(|len| *len <= NAME_MAX) else {
                return Err(place.error(PREFIXES, format!("prefix {n} has {len} bytes")));
            };
            let mut base = [0];
            let mut name = vec![0; infix];
            reader.read_meta(PREFIXES, place.skip(2), &mut base)?;
            reader.read_meta(PREFIXES, place.skip(3), &mut name)?;
            place = place.skip(2 + u64::from(len));
            Ok(LongPrefix { base: base[0], infix: name.into() })
        })
        .collect()
}

/// Name of the attribute that mkfs.erofs 1.9 adds to a directory with whiteouts, also to one that has it already.
pub(super) const MAY_REPEAT: &[u8] = ORIGIN_XATTR;

/// Returns the xattrs of an inode: full names with values, sorted. Attributes with unknown prefixes are left out. Of an
/// attribute that may repeat, it is the one that Linux finds first: inline ones come before shared ones.
pub(super) fn set(reader: &ErofsReader, inode: &Inode) -> Result<XattrSet> {
    let mut found = Vec::new();
    each(reader, inode, &mut |pair| {
        let is_shared = pair.shared.is_some();
        found.extend(pair.full_name().map(|name| (name, is_shared, pair.value)));
    })?;
    // The order in which Linux searches: inline ones first.
    found.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
    // Any other attribute that appears twice is damage.
    found.dedup_by(|later, first| later.0 == first.0 && *later.0 == *MAY_REPEAT);
    if let Some(twice) = found.windows(2).find(|two| two[0].0 == two[1].0) {
        return Err(inode.error(format!("it has the xattr `{}` twice", twice[0].0.escape_ascii())));
    }
    Ok(found.into_iter().map(|(name, _, value)| (name, value)).collect())
}

/// Calls `visit` for each xattr of an inode, shared ones first; returns their name filter.
pub(super) fn each(reader: &ErofsReader, inode: &Inode, visit: &mut dyn FnMut(StoredXattr)) -> Result<u32> {
    let body = inode.place.skip(inode.payload.byte.saturating_sub(inode.place.byte) - u64::from(inode.xattr_len));
    let mut bytes = vec![0; usize::try_from(inode.xattr_len).unwrap_or(0)];
    // The filter of no attributes at all: every name is absent.
    if bytes.is_empty() {
        return Ok(!0);
    }
    reader.read_meta(STRUCTURE, body, &mut bytes)?;
    let wrong = |why: String| body.error(STRUCTURE, format!("inode {}: {why}", inode.nid.0));
    let Ok((header, _)) = format::XattrHeader::read_from_prefix(&bytes) else {
        return Err(wrong(format!("only {} bytes of xattrs", bytes.len())));
    };
    let inline = HEADER_LEN + usize::from(header.h_shared_count) * size_of::<U32>();
    // The header alone needs no room: the count of an inode without xattrs is 0.
    if bytes.len() == HEADER_LEN || inline > bytes.len() {
        let count = header.h_shared_count;
        let len = bytes.len();
        return Err(wrong(format!("{count} shared xattrs in {len} bytes")));
    }
    // Shared ones are listed by number and read where all of them are.
    for id in bytes[HEADER_LEN..inline].as_chunks().0 {
        visit(shared(reader, u32::from_le_bytes(*id))?);
    }
    let mut rest = &bytes[inline..];
    // Entries fill the rest, each padded to 4 bytes.
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let Ok((entry, behind)) = format::XattrEntry::read_from_prefix(rest) else {
            return Err(wrong(format!("an xattr at offset {at} is cut off")));
        };
        let name_len = usize::from(entry.e_name_len);
        let value_len = usize::from(entry.e_value_size.get());
        let Some((name, value)) = behind.split_at_checked(name_len) else {
            return Err(wrong(format!("the xattr at offset {at} is cut off in its name")));
        };
        let Some(value) = value.get(..value_len) else {
            return Err(wrong(format!("the xattr at offset {at} is cut off in its value")));
        };
        visit(pair(reader, body.skip(at as u64), entry, name, value.into(), None)?);
        // The padding of the last one may be missing.
        rest = rest.get((ENTRY_LEN + name_len + value_len).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(header.h_name_filter.get())
}

/// Returns the shared xattr with an id.
fn shared(reader: &ErofsReader, id: u32) -> Result<StoredXattr> {
    let in_metabox = reader.superblock.compat.contains(Compat::SHARED_XATTRS_IN_METABOX);
    let space = if in_metabox { OffsetSpace::Metabox } else { OffsetSpace::Image };
    let place = MetadataAddress { space, byte: reader.superblock.xattr_start.saturating_add(u64::from(id) * 4) };
    let entry: format::XattrEntry = reader.get_meta(STRUCTURE, place)?;
    let name_len = usize::from(entry.e_name_len);
    let value_len = usize::from(entry.e_value_size.get());
    let mut bytes = vec![0; name_len + value_len];
    reader.read_meta(STRUCTURE, place.skip(ENTRY_LEN as u64), &mut bytes)?;
    let value = bytes.split_off(name_len).into();
    pair(reader, place, entry, &bytes, value, Some(id))
}

fn pair(
    reader: &ErofsReader,
    place: MetadataAddress,
    entry: format::XattrEntry,
    name: &[u8],
    value: Box<[u8]>,
    shared: Option<u32>,
) -> Result<StoredXattr> {
    let prefix = entry.e_name_index;
    if prefix & xattr_prefix::LONG == 0 {
        return Ok(StoredXattr { prefix, base: prefix, name: name.into(), value, shared });
    }
    let number = usize::from(prefix & !xattr_prefix::LONG);
    let Some(LongPrefix { base, infix }) = reader.prefixes.get(number) else {
        let why = format!("long prefix {number}, but there are only {}", reader.prefixes.len());
        return Err(place.error(STRUCTURE, why));
    };
    // The infix of the prefix, then the rest of the name.
    Ok(StoredXattr { prefix, base: *base, name: [infix, name].concat().into(), value, shared })
}
