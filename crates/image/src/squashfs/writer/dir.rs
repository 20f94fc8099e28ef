//! Writes directory listings: runs of entries under headers, and index entries for long listings.

use zerocopy::IntoBytes;

use super::inode::{IndexEntry, ListingPosition};
use super::table::GrowingTable;
use crate::Result;
use crate::squashfs::format::{DIR_RUN_MAX, DirEntry, DirHeader, METADATA_LEN};

/// An entry whose inode is already placed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedInode<'t> {
    pub(crate) name: &'t [u8],
    /// Start of the inode's metadata block in the inode table, and offset in the block.
    pub(crate) start: u32,
    pub(crate) offset: u16,
    pub(crate) number: u32,
    /// Basic inode type.
    pub(crate) kind: u16,
}

/// Writes the listing of `entries` (names ascending). Starts are numbers of metadata blocks: the
/// caller turns them into addresses once those are known, and sets the parent.
pub(crate) fn write(table: &mut GrowingTable<'_, '_>, entries: &[NamedInode<'_>]) -> Result<ListingPosition> {
    let at = table.at();
    let mut len = 0usize;
    let mut signposts: Vec<(usize, u32, &[u8])> = Vec::new();
    let mut rest = entries;
    let mut bytes = Vec::new();
    // Offset at which the next index entry is due: at the first header from there on.
    let mut due = METADATA_LEN;
    while let Some(first) = rest.first() {
        if len >= due {
            signposts.push((len, table.at().block, first.name));
            due = len + METADATA_LEN;
        }
        let (run, after) = rest.split_at(run_len(rest, due - len));
        bytes.clear();
        let header = DirHeader {
            count: u32::try_from(run.len() - 1).expect("at most 256").into(),
            start_block: first.start.into(),
            inode_number: first.number.into(),
        };
        bytes.extend_from_slice(header.as_bytes());
        for entry in run {
            let head = DirEntry {
                offset: entry.offset.into(),
                inode_number: delta(first, entry).expect("checked by run_len").into(),
                r#type: entry.kind.into(),
                size: u16::try_from(entry.name.len() - 1).expect("a name is 1 to 255 bytes").into(),
            };
            bytes.extend_from_slice(head.as_bytes());
            bytes.extend_from_slice(entry.name);
        }
        table.push(&bytes)?;
        len += bytes.len();
        rest = after;
    }
    let index = signposts.into_iter().map(|(offset, start, name)| IndexEntry {
        offset: u32::try_from(offset).unwrap_or(u32::MAX),
        start,
        name: name.into(),
    });
    let len = u32::try_from(len)
        .map_err(|_| crate::Error::TooMany { what: "bytes in a directory listing", max: u32::MAX.into() })?;
    Ok(ListingPosition { len, start: at.block, offset: at.offset, index: index.collect(), parent: 0 })
}

/// Returns how many entries fit under one header: same inode block, numbers near the first one's,
/// and not beyond the next index entry.
fn run_len(entries: &[NamedInode<'_>], room: usize) -> usize {
    let first = &entries[0];
    let mut used = size_of::<DirHeader>();
    let fits = entries.iter().take(DIR_RUN_MAX).take_while(|entry| {
        // At least one entry, even if an index entry is due before it.
        let start_here = used < room || std::ptr::eq(*entry, first);
        used += size_of::<DirEntry>() + entry.name.len();
        start_here && entry.start == first.start && delta(first, entry).is_some()
    });
    fits.count()
}

fn delta(first: &NamedInode<'_>, entry: &NamedInode<'_>) -> Option<i16> {
    i16::try_from(i64::from(entry.number) - i64::from(first.number)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &'static [u8], start: u32, number: u32) -> NamedInode<'static> {
        NamedInode { name, start, offset: 0, number, kind: 2 }
    }

    #[test]
    fn runs_end_where_the_format_requires() {
        let cases: [(&str, Vec<NamedInode<'_>>, usize, usize); 6] = [
            ("one", vec![entry(b"a", 0, 1)], 8192, 1),
            ("other block", vec![entry(b"a", 0, 1), entry(b"b", 8, 2)], 8192, 1),
            ("far number", vec![entry(b"a", 0, 1), entry(b"b", 0, 40_000)], 8192, 1),
            ("near below", vec![entry(b"a", 0, 40_000), entry(b"b", 0, 7233)], 8192, 2),
            ("256", vec![entry(b"a", 0, 1); 300], 8192, 256),
            ("signpost due", vec![entry(b"a", 0, 1); 300], 100, 10),
        ];
        for (what, entries, room, want) in cases {
            assert_eq!(run_len(&entries, room), want, "{what}");
        }
    }
}
