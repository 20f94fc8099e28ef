//! Checks the metadata blocks of every table: they are full and adjacent, their index points to
//! them, and they end where the next table begins.

use std::collections::HashSet;

use zerocopy::little_endian::U64;

use super::inodes::TableInodes;
use super::xattrs;
use crate::Result;
use crate::squashfs::format::METADATA_LEN;
use crate::squashfs::reader::metadata::{HEADER_LEN, MetadataArea};
use crate::squashfs::reader::table::IndexedTable;
use crate::squashfs::reader::{SquashfsReader, metadata};
use packfs_tree::FindingCollector;

/// An id that is not valid for owner or group.
const NO_ID: u32 = u32::MAX;
/// Checks all tables but the export table.
pub(super) fn check(reader: &SquashfsReader, report: &mut FindingCollector<'_>) -> Result<()> {
    blocks(reader, reader.inodes, report)?;
    blocks(reader, reader.listings, report)?;
    check_table(reader, &reader.fragments, report)?;
    check_fragment_index(reader, report);
    check_table(reader, &reader.ids_table, report)?;
    if let Some(export) = &reader.export {
        check_table(reader, export, report)?;
    }
    let mut seen = HashSet::new();
    if let Some(id) = reader.ids.iter().find(|id| !seen.insert(**id)) {
        report.add("id table", reader.ids_table.area().start, format!("id {id} appears twice"));
    }
    if reader.ids.contains(&NO_ID) {
        let why = format!("{NO_ID} is not a valid owner; the kernel shows another");
        report.add("id table", reader.ids_table.area().start, why);
    }
    match &reader.xattrs {
        Some(xattrs) => xattrs::check(reader, xattrs, report),
        None => Ok(()),
    }
}

/// Checks the blocks of a table against its index.
pub(super) fn check_table(
    reader: &SquashfsReader,
    table: &IndexedTable,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    if table.len() == 0 {
        return Ok(());
    }
    let found = blocks(reader, table.area(), report)?;
    // Compared as a whole: blocks that are not in the index would be passed over.
    if let Some((n, _)) = table.blocks().iter().enumerate().find(|(n, start)| found.get(*n) != Some(start)) {
        let area = table.area();
        report.add(area.structure, area.end, format!("entry {n} of its index does not point at its metadata block"));
    }
    Ok(())
}

/// The kernel accepts bytes after the fragment index; there should be none.
fn check_fragment_index(reader: &SquashfsReader, report: &mut FindingCollector<'_>) {
    let superblock = &reader.superblock;
    let end = superblock.fragment_table + reader.fragments.blocks().len() as u64 * 8;
    // Tables lie in a fixed order, the export table is optional.
    let next = reader.export.as_ref().unwrap_or(&reader.ids_table).area().start;
    if superblock.fragments > 0 && end != next {
        report.add("fragment table", superblock.fragment_table, format!("its index ends at byte {end}, not at {next}"));
    }
}

/// Walks the metadata blocks of an area; returns the start of each.
pub(super) fn blocks(
    reader: &SquashfsReader,
    area: MetadataArea,
    report: &mut FindingCollector<'_>,
) -> Result<Vec<u64>> {
    let mut starts = Vec::new();
    let mut start = area.start;
    while start < area.end {
        // The position of the next block is unknown then.
        let Some(block) = report.take(reader.metadata.block(area, start))? else { break };
        let stored = metadata::stored_len(&block);
        let payload = block.len() - HEADER_LEN;
        let next = start + (HEADER_LEN + stored) as u64;
        if let Some(text) = report.take(reader.metadata.verify(area, start, &block))?.flatten() {
            report.note(area.structure, start, text);
        }
        if stored > METADATA_LEN {
            report.add(area.structure, start, format!("metadata block stored in {stored} bytes, more than 8192"));
        }
        // Only the last block of a table may be short, as offsets are counted in full blocks.
        if payload == 0 || (payload != METADATA_LEN && next < area.end) {
            report.add(area.structure, start, format!("metadata block of {payload} bytes before the last one"));
        }
        starts.push(start);
        start = next;
    }
    Ok(starts)
}

/// Returns the starts of the metadata blocks of an area, as far as they are readable.
pub(super) fn starts(reader: &SquashfsReader, area: MetadataArea) -> Result<Vec<u64>> {
    // Findings were reported when the area was checked.
    blocks(reader, area, &mut FindingCollector::new(&mut |_| {}))
}

/// Checks that every inode number leads to its inode.
pub(super) fn check_export(
    reader: &SquashfsReader,
    inodes: &TableInodes,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    let Some(export) = &reader.export else { return Ok(()) };
    for found in &inodes.found {
        let n = u64::from(found.number).wrapping_sub(1);
        // Already reported: a number larger than the count.
        if n >= export.len() {
            continue;
        }
        // The other entries lie in the same blocks, or after them.
        let Some(reference) = report.take(export.get::<U64>(&reader.metadata, n))? else { return Ok(()) };
        if reference.get() != found.nid.0 {
            let is = reference.get();
            let should = found.nid.0;
            let why = format!("inode {} is at {should:#x}, but its entry says {is:#x}", found.number);
            report.add("export table", export.area().start, why);
        }
    }
    Ok(())
}
