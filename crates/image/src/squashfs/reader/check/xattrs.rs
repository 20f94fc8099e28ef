//! Checks the sets of extended attributes: names, lengths, and values that the kernel interprets.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use super::tables::{blocks, check_table};
use crate::Result;
use crate::squashfs::format::{METADATA_LEN, XattrSetEntry};
use crate::squashfs::reader::Reader;
use crate::squashfs::reader::xattr::{Value, XattrTable};
use crate::tree::capability;
use packfs_tree::Report;

/// Checks all sets.
pub(super) fn check(reader: &Reader, xattrs: &XattrTable, report: &mut Report<'_>) -> Result<()> {
    let blocks = blocks(reader, xattrs.pairs, report)?;
    check_table(reader, &xattrs.sets, report)?;
    // Sets share no bytes: together they are no longer than the table, which bounds the work too.
    let mut left = (blocks.len() * METADATA_LEN) as u64;
    let mut elsewhere = HashMap::new();
    for n in 0..u32::try_from(xattrs.sets.len()).unwrap_or(u32::MAX) {
        let (mut names, mut wrong, mut listed) = (HashSet::new(), Vec::new(), 0);
        let result = xattrs.each(&reader.metadata, n, &mut |_, pair| {
            listed += pair.full_name().map_or(0, |name| name.len() as u64 + 1);
            match pair.full_name() {
                None => wrong.push(format!("unknown attribute type {:#x}", pair.kind)),
                Some(name) if name.contains(&0) => wrong.push("NUL in a name".into()),
                Some(name) if names.contains(&name) => wrong.push(format!("name `{}` twice", name.escape_ascii())),
                Some(name) => drop(names.insert(name)),
            }
            let capability = pair.full_name().as_deref() == Some(capability::NAME);
            let mut judge = |value: &[u8]| {
                wrong
                    .extend(capability::defect(value).filter(|_| capability).map(|why| format!("capabilities: {why}")));
            };
            listed += match pair.value {
                Value::Here(value) => {
                    judge(&value);
                    value.len() as u64
                }
                Value::Elsewhere(reference) if capability => {
                    let value = xattrs.value(&reader.metadata, reference)?;
                    judge(&value);
                    value.len() as u64
                }
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
        // Some writers count the listed bytes, others the stored ones.
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
