//! The superblock against the file, and the metadata blocks of every table: full, adjacent, found by their
//! index, ending where the next table begins.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use packfs_codec::Codec;
use zerocopy::little_endian::U64;

use super::inodes::Inodes;
use crate::Result;
use crate::finding::Report;
use crate::squashfs::format::{METADATA_LEN, XattrSetEntry, flags};
use crate::squashfs::reader::metadata::{Area, HEADER_LEN};
use crate::squashfs::reader::table::Table;
use crate::squashfs::reader::xattr::{Value, XattrTable};
use crate::squashfs::reader::{Reader, metadata};

/// A loop device gives the kernel whole units of this many bytes only.
const PADDING: u64 = 1024;
/// The number that stands for no owner and no group.
const NO_ID: u32 = u32::MAX;
/// All bits of the superblock's flags that writers set.
const FLAGS_KNOWN: u16 = 0x0ffb;

/// Checks the superblock and all tables but the export table.
pub(super) fn check(reader: &Reader, report: &mut Report<'_>) -> Result<()> {
    check_superblock(reader, report);
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
        report.add("id table", reader.ids_table.area().start, format!("it has the id {id} twice"));
    }
    if reader.ids.contains(&NO_ID) {
        let why = format!("{NO_ID} is no owner, and the kernel shows another");
        report.add("id table", reader.ids_table.area().start, why);
    }
    match &reader.xattrs {
        Some(xattrs) => check_xattrs(reader, xattrs, report),
        None => Ok(()),
    }
}

fn check_superblock(reader: &Reader, report: &mut Report<'_>) {
    let (superblock, file_len) = (&reader.superblock, reader.metadata.blocks.disk.len());
    let padded_len = superblock.bytes_used.next_multiple_of(PADDING);
    if padded_len > file_len {
        let why = format!("a loop device cuts off the end of a file of {file_len} bytes: pad it to {padded_len}");
        report.note("superblock", 0, why);
    }
    let mut wrong = |why: String| report.add("superblock", 0, why);
    if superblock.codec == Codec::Lzma {
        wrong("the kernel does not read the legacy lzma codec".into());
    }
    if superblock.flags & !FLAGS_KNOWN != 0 {
        wrong(format!("unknown flags {:#06x}", superblock.flags & !FLAGS_KNOWN));
    }
    if superblock.flags & flags::NO_XATTRS != 0 && superblock.xattr_table.is_some() {
        wrong("its flags deny the xattr table that it points at".into());
    }
    if (superblock.flags & flags::EXPORTABLE != 0) != superblock.export_table.is_some() {
        wrong("its flags and its pointer do not agree on whether there is an export table".into());
    }
}

/// Checks the blocks of a table against its index.
fn check_table(reader: &Reader, table: &Table, report: &mut Report<'_>) -> Result<()> {
    if table.len() == 0 {
        return Ok(());
    }
    let found = blocks(reader, table.area(), report)?;
    if let Some((n, _)) = table.blocks().iter().enumerate().find(|(n, start)| found.get(*n) != Some(start)) {
        let area = table.area();
        report.add(area.structure, area.end, format!("entry {n} of its index does not point at its metadata block"));
    }
    Ok(())
}

/// The kernel lets something lie behind the index of fragments; nothing should.
fn check_fragment_index(reader: &Reader, report: &mut Report<'_>) {
    let superblock = &reader.superblock;
    let end = superblock.fragment_table + reader.fragments.blocks().len() as u64 * 8;
    let next = reader.export.as_ref().unwrap_or(&reader.ids_table).area().start;
    if superblock.fragments > 0 && end != next {
        report.add("fragment table", superblock.fragment_table, format!("its index ends at byte {end}, not at {next}"));
    }
}

/// Walks the metadata blocks of an area; returns where each begins.
pub(super) fn blocks(reader: &Reader, area: Area, report: &mut Report<'_>) -> Result<Vec<u64>> {
    let (mut starts, mut start) = (Vec::new(), area.start);
    while start < area.end {
        let Some(block) = report.take(reader.metadata.block(area, start))? else { break };
        let (stored, payload) = (metadata::stored_len(&block), block.len() - HEADER_LEN);
        let next = start + (HEADER_LEN + stored) as u64;
        if stored > METADATA_LEN {
            report.add(area.structure, start, format!("metadata block stored in {stored} bytes, more than 8192"));
        }
        if payload == 0 || (payload != METADATA_LEN && next < area.end) {
            report.add(area.structure, start, format!("metadata block of {payload} bytes before the last one"));
        }
        starts.push(start);
        start = next;
    }
    Ok(starts)
}

/// Where the metadata blocks of an area begin, as far as they are readable.
pub(super) fn starts(reader: &Reader, area: Area) -> Result<Vec<u64>> {
    // Findings were reported when the area was checked.
    blocks(reader, area, &mut Report::new(&mut |_| {}))
}

/// Every inode number must lead to its inode.
pub(super) fn check_export(reader: &Reader, inodes: &Inodes, report: &mut Report<'_>) -> Result<()> {
    let Some(export) = &reader.export else { return Ok(()) };
    for found in &inodes.found {
        let n = u64::from(found.number).wrapping_sub(1);
        if n >= export.len() {
            continue;
        }
        let Some(reference) = report.take(export.get::<U64>(&reader.metadata, n))? else { return Ok(()) };
        if reference.get() != found.nid.0 {
            let (is, should) = (reference.get(), found.nid.0);
            let why = format!("inode {} is at {should:#x}, but its entry says {is:#x}", found.number);
            report.add("export table", export.area().start, why);
        }
    }
    Ok(())
}

fn check_xattrs(reader: &Reader, xattrs: &XattrTable, report: &mut Report<'_>) -> Result<()> {
    let blocks = blocks(reader, xattrs.pairs, report)?;
    check_table(reader, &xattrs.sets, report)?;
    // Sets have no bytes in common: together they are no longer than the table, which bounds the work too.
    let mut left = (blocks.len() * METADATA_LEN) as u64;
    let mut elsewhere = HashMap::new();
    for n in 0..u32::try_from(xattrs.sets.len()).unwrap_or(u32::MAX) {
        let (mut names, mut wrong, mut listed) = (HashSet::new(), Vec::new(), 0);
        let result = xattrs.each(&reader.metadata, n, &mut |_, pair| {
            listed += pair.full_name().map_or(0, |name| name.len() as u64 + 1);
            match pair.full_name() {
                None => wrong.push(format!("attribute type {:#x} is not known", pair.kind)),
                Some(name) if name.contains(&0) => wrong.push("NUL in a name".into()),
                Some(name) if names.contains(&name) => wrong.push(format!("name `{}` twice", name.escape_ascii())),
                Some(name) => drop(names.insert(name)),
            }
            listed += match pair.value {
                Value::Here(value) => value.len() as u64,
                Value::Elsewhere(reference) => match elsewhere.entry(reference) {
                    Entry::Occupied(len) => *len.get(),
                    Entry::Vacant(place) => *place.insert(xattrs.value(&reader.metadata, reference)?.len() as u64),
                },
            };
            Ok(())
        });
        let stored = report.take(result)?;
        let entry = report.take(xattrs.sets.get::<XattrSetEntry>(&reader.metadata, n.into()))?;
        let Some(entry) = entry else { break };
        let size = u64::from(entry.size.get());
        // One writer counts what is listed, another what is stored.
        if entry.count.get() == 0 {
            wrong.push("it cannot be empty".into());
        } else if let Some(stored) = stored.filter(|stored| ![*stored, listed].contains(&size)) {
            wrong.push(format!("its size is {size}, but it has {listed} bytes, in {stored} stored ones"));
        }
        let len = stored.unwrap_or(0);
        for why in wrong {
            report.add("xattr table", xattrs.pairs.start, format!("set {n}: {why}"));
        }
        let Some(rest) = left.checked_sub(len) else {
            report.add("xattr table", xattrs.pairs.start, "its sets overlap");
            break;
        };
        left = rest;
    }
    Ok(())
}
