//! Writes the xattr table: names and values of every set, each set once, long and repeated values once.

use std::collections::HashMap;

use packfs_blocks::pipeline::Pool;
use zerocopy::IntoBytes;

use super::ErrorOfInode;
use super::pack::BlockPacker;
use super::table::{GrowingTable, RecordPosition};
use crate::limits;
use crate::squashfs::format::{XattrKey, XattrSetEntry, XattrValue, xattr_type};
use crate::tree::{Ino, TreeXattrs, XattrId, XattrSet};
use crate::{ExceededLimit, Result};

/// Longer values are stored outside the sets, which are read to list names.
const INLINE_MAX: usize = 256;
/// A reference takes 8 bytes, so sharing shorter values gains nothing.
const SHARE_MIN: usize = 9;

const PREFIXES: [(&[u8], u16); 3] =
    [(b"user.", xattr_type::USER), (b"trusted.", xattr_type::TRUSTED), (b"security.", xattr_type::SECURITY)];

/// Splits a full name into its prefix's number and the rest; the error says what SquashFS supports.
pub(crate) fn split_name(name: &[u8]) -> std::result::Result<(u16, &[u8]), ExceededLimit> {
    let found = PREFIXES.iter().find_map(|(prefix, kind)| Some((*kind, name.strip_prefix(*prefix)?)));
    found.ok_or_else(|| limits::xattr_class("SquashFS", false, name))
}

/// The finished table: packed names and values, and the sets' entries in order of their index.
#[derive(Debug)]
pub(crate) struct XattrTable {
    pub(crate) pairs: Vec<u8>,
    pub(crate) sets: Vec<XattrSetEntry>,
    /// Index of each of the tree's sets that is used.
    pub(crate) index: HashMap<XattrId, u32>,
}

/// Writes the sets listed in `used`, in order; each comes with an inode that has it, for messages.
pub(crate) fn write(
    pool: &Pool<'_, BlockPacker>,
    plain: bool,
    xattrs: &TreeXattrs,
    used: &[(XattrId, Ino)],
    blame: &ErrorOfInode<'_>,
) -> Result<XattrTable> {
    let mut writer =
        XattrWriter { table: GrowingTable::new(pool, plain), values: HashMap::new(), repeats: HashMap::new() };
    for (id, _) in used {
        for (_, value) in xattrs.get(*id).iter().filter(|(_, value)| value.len() >= SHARE_MIN) {
            *writer.repeats.entry(value).or_insert(0) += 1;
        }
    }
    let mut sets = Vec::new();
    let mut index = HashMap::new();
    for (id, ino) in used {
        let limit = |why| blame(*ino, why);
        let number = u32::try_from(sets.len()).map_err(|_| limit("more than 2^32 sets of attributes".into()))?;
        sets.push(writer.set(xattrs.get(*id), &limit)?);
        index.insert(*id, number);
    }
    let mut entries = Vec::with_capacity(sets.len());
    for (at, count, size) in sets {
        let reference = writer.table.reference(at)?.into();
        entries.push(XattrSetEntry { xattr: reference, count: count.into(), size: size.into() });
    }
    let pairs = writer.table.finish()?.packed;
    Ok(XattrTable { pairs, sets: entries, index })
}

struct XattrWriter<'p, 'env, 't> {
    table: GrowingTable<'p, 'env>,
    /// Positions of values that can be referred to.
    values: HashMap<&'t [u8], RecordPosition>,
    repeats: HashMap<&'t [u8], u32>,
}

impl<'t> XattrWriter<'_, '_, 't> {
    /// Writes one set; returns its position, number of pairs and nominal size.
    fn set(
        &mut self,
        set: &'t XattrSet,
        limit: &dyn Fn(ExceededLimit) -> crate::Error,
    ) -> Result<(RecordPosition, u32, u32)> {
        for (_, value) in set {
            // Shared and long values come first: a set's pairs must be contiguous.
            let shared = self.repeats.get(&**value).is_some_and(|count| *count > 1);
            if (shared || value.len() > INLINE_MAX) && !self.values.contains_key(&**value) {
                let at = self.table.at();
                self.value(value, limit)?;
                self.values.insert(value, at);
            }
        }
        let start = self.table.at();
        let mut size = 0usize;
        for (name, value) in set {
            let (kind, rest) = split_name(name).map_err(limit)?;
            let name_len =
                u16::try_from(rest.len()).map_err(|_| limit("an attribute name of 64 KiB or more".into()))?;
            let elsewhere = self.values.get(&**value).copied();
            let kind = if elsewhere.is_some() { kind | xattr_type::OUT_OF_LINE } else { kind };
            self.table.push(XattrKey { r#type: kind.into(), size: name_len.into() }.as_bytes())?;
            self.table.push(rest)?;
            match elsewhere {
                Some(at) => {
                    let reference = self.table.reference(at)?;
                    self.table.push(XattrValue { vsize: 8.into() }.as_bytes())?;
                    self.table.push(&reference.to_le_bytes())?;
                }
                None => self.value(value, limit)?,
            }
            // The size that a reader adds to the inode's block count: the pair as text with its NUL.
            size += name.len() + 1 + value.len();
        }
        let count = u32::try_from(set.len()).map_err(|_| limit("more than 2^32 attributes".into()))?;
        Ok((start, count, u32::try_from(size).map_err(|_| limit("attributes of more than 4 GiB".into()))?))
    }

    fn value(&mut self, value: &[u8], limit: &dyn Fn(ExceededLimit) -> crate::Error) -> Result<()> {
        let vsize = u32::try_from(value.len()).map_err(|_| limit("an attribute value of 4 GiB or more".into()))?.into();
        self.table.push(XattrValue { vsize }.as_bytes())?;
        self.table.push(value)
    }
}
