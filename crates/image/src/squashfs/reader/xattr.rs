//! Extended attributes: sets of names and values; values may be stored elsewhere and shared.

use zerocopy::little_endian::U64;
use zerocopy::{FromZeros, IntoBytes};

use super::disk::ImageBytes;
use super::metadata::{MetadataArea, MetadataBlocks, MetadataCursor, MetadataPosition};
use super::table::{IndexedTable, TablePlace};
use crate::squashfs::format::{self, METADATA_LEN, xattr_type};
use crate::tree::XattrSet;
use crate::{Error, Result};

const STRUCTURE: &str = "xattr table";
/// Longest name and value that Linux supports.
const NAME_MAX: usize = 255;
const VALUE_MAX: usize = 65536;
/// Maximum number of bytes of names in one set, which is the most that Linux can list, and of
/// values, which is more than any file system has stored so far.
const NAMES_MAX: usize = 65536;
const VALUES_MAX: usize = 64 << 20;

/// Prefixes of names, by type.
const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// Length of the shortest prefix.
const PREFIX_MIN: usize = 5;
/// Length of a reference to a value.
const REFERENCE_LEN: u32 = 8;

/// The xattrs of an image.
#[derive(Debug)]
pub(super) struct XattrTable {
    /// Position of each set.
    pub(super) sets: IndexedTable,
    /// Names and values.
    pub(super) pairs: MetadataArea,
}

/// One attribute as stored.
#[derive(Debug)]
pub(super) struct TableXattr {
    pub(super) kind: u16,
    pub(super) name: Box<[u8]>,
    pub(super) value: StoredValue,
}

/// A value as stored.
#[derive(Debug)]
pub(super) enum StoredValue {
    /// Stored with its name.
    Here(Box<[u8]>),
    /// Stored at this reference, possibly shared.
    Elsewhere(u64),
}

impl XattrTable {
    /// Reads the header and the index at byte `start`; they end at byte `end` of the image. No
    /// metadata block of the table begins before byte `first`.
    pub(super) fn open(disk: &ImageBytes, start: u64, first: u64, end: u64) -> Result<XattrTable> {
        let mut header = format::XattrTable::new_zeroed();
        disk.read(STRUCTURE, start, header.as_mut_bytes())?;
        let count = header.xattr_ids.get();
        if count == 0 {
            return Err(Error::corrupt(STRUCTURE, start, "the table has no sets"));
        }
        let place = TablePlace {
            structure: "xattr set table",
            record_len: size_of::<format::XattrSetEntry>(),
            count: count.into(),
            index: start + size_of::<format::XattrTable>() as u64,
            end,
            exact: true,
            blocks: (first, start),
        };
        let sets = IndexedTable::open(disk, place)?;
        // The header points back to names and values, which come first.
        let kv_start = header.xattr_table_start.get();
        let sets_start = sets.area().start;
        if kv_start >= sets_start || kv_start < first {
            let why = format!("names and values at byte {kv_start} do not lie before the sets at byte {sets_start}");
            return Err(Error::corrupt(STRUCTURE, start, why));
        }
        Ok(XattrTable { sets, pairs: MetadataArea { structure: STRUCTURE, start: kv_start, end: sets_start } })
    }

    /// Returns set number `n`: full names with values, sorted. Attributes of unknown type are left out.
    pub(super) fn set(&self, metadata: &MetadataBlocks, n: u32) -> Result<XattrSet> {
        let mut set = XattrSet::new();
        let mut values = 0;
        self.each(metadata, n, &mut |_, pair| {
            // Linux leaves out unknown types too.
            let Some(name) = pair.full_name() else { return Ok(()) };
            let value = match pair.value {
                StoredValue::Here(value) => value,
                StoredValue::Elsewhere(reference) => self.value(metadata, reference)?,
            };
            // A shared value counts each time: it is copied for each.
            values += value.len();
            if values > VALUES_MAX {
                let why = format!("set {n} has more than {VALUES_MAX} bytes of values");
                return Err(Error::corrupt(STRUCTURE, self.pairs.start, why));
            }
            set.push((name, value));
            Ok(())
        })?;
        set.sort();
        // The order of names in a set is up to the writer, so equal ones are neighbours only now.
        if let Some(twice) = set.windows(2).find(|two| two[0].0 == two[1].0) {
            let why = format!("set {n} has the name `{}` twice", twice[0].0.escape_ascii());
            return Err(Error::corrupt(STRUCTURE, self.pairs.start, why));
        }
        Ok(set)
    }

    /// Calls `visit` for each attribute of a set; returns the length of the set.
    pub(super) fn each(
        &self,
        metadata: &MetadataBlocks,
        n: u32,
        visit: &mut dyn FnMut(MetadataPosition, TableXattr) -> Result<()>,
    ) -> Result<u64> {
        let entry: format::XattrSetEntry = self.sets.get(metadata, n.into())?;
        let mut cursor = metadata.cursor(self.pairs, self.position(entry.xattr.get()))?;
        let mut names = 0;
        let mut len = 0;
        for _ in 0..entry.count.get() {
            let at = cursor.position();
            let pair = read_pair(&mut cursor)?;
            // As Linux lists it: with a prefix, and a NUL at the end.
            // In the order of the image, so a set is read from front to back.
            names += pair.name.len() + PREFIX_MIN + 1;
            if names > NAMES_MAX {
                let why = format!("set {n} has {} attributes, more than Linux can list", entry.count.get());
                return Err(Error::corrupt(STRUCTURE, self.pairs.start, why));
            }
            len += (size_of::<format::XattrKey>() + pair.name.len() + size_of::<format::XattrValue>()) as u64;
            len += match &pair.value {
                StoredValue::Here(value) => value.len() as u64,
                StoredValue::Elsewhere(_) => REFERENCE_LEN.into(),
            };
            visit(at, pair)?;
        }
        Ok(len)
    }

    /// Returns the value at a reference.
    pub(super) fn value(&self, metadata: &MetadataBlocks, reference: u64) -> Result<Box<[u8]>> {
        read_value(&mut metadata.cursor(self.pairs, self.position(reference))?)
    }

    /// Returns the position that a reference points to.
    pub(super) fn position(&self, reference: u64) -> MetadataPosition {
        // An offset beyond the block is an error of the cursor.
        let offset = usize::try_from(reference & 0xffff).unwrap_or(METADATA_LEN);
        MetadataPosition { block: self.pairs.start.saturating_add(reference >> 16), offset }
    }
}

impl TableXattr {
    /// Returns prefix and name; `None` for undefined types.
    pub(super) fn full_name(&self) -> Option<Box<[u8]>> {
        let prefix = PREFIXES.get(usize::from(self.kind & !xattr_type::OUT_OF_LINE))?;
        Some([prefix, &self.name[..]].concat().into())
    }
}

fn read_pair(cursor: &mut MetadataCursor<'_>) -> Result<TableXattr> {
    let at = cursor.position();
    let key: format::XattrKey = cursor.get()?;
    let len = usize::from(key.size.get());
    // A longer name could not be asked for: XATTR_NAME_MAX of Linux.
    if len == 0 || len > NAME_MAX {
        return Err(cursor.error(format!("attribute at offset {}: name of {len} bytes", at.offset)));
    }
    let mut name = vec![0; len];
    cursor.read(&mut name)?;
    let value = if key.r#type.get() & xattr_type::OUT_OF_LINE == 0 {
        StoredValue::Here(read_value(cursor)?)
    } else {
        let stored: format::XattrValue = cursor.get()?;
        if stored.vsize.get() != REFERENCE_LEN {
            let len = stored.vsize.get();
            return Err(cursor.error(format!("attribute at offset {}: a reference of {len} bytes", at.offset)));
        }
        StoredValue::Elsewhere(cursor.get::<U64>()?.get())
    };
    Ok(TableXattr { kind: key.r#type.get(), name: name.into(), value })
}

fn read_value(cursor: &mut MetadataCursor<'_>) -> Result<Box<[u8]>> {
    let at = cursor.position();
    let stored: format::XattrValue = cursor.get()?;
    let len = usize::try_from(stored.vsize.get()).unwrap_or(usize::MAX);
    // XATTR_SIZE_MAX of Linux.
    if len > VALUE_MAX {
        return Err(cursor.error(format!("attribute value at offset {}: {len} bytes, more than 65536", at.offset)));
    }
    let mut value = vec![0; len];
    cursor.read(&mut value)?;
    Ok(value.into())
}
