//! Checks the sets of extended attributes: names, lengths, and values that the kernel interprets.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use super::tables::{blocks, check_table};
use crate::Result;
use crate::squashfs::format::{METADATA_LEN, XattrSetEntry};
use crate::squashfs::reader::SquashfsReader;
use crate::squashfs::reader::xattr::{StoredValue, XattrTable};
use crate::tree::capability;
use packfs_tree::FindingCollector;

/// Facts about one set of attributes.
#[derive(Debug, Default)]
struct SurveyedSet {
    /// Number of bytes of names and values as programs list them, each value in full.
    listed_len: u64,
    wrong: Vec<String>,
}

/// Checks all sets.
pub(super) fn check(reader: &SquashfsReader, xattrs: &XattrTable, report: &mut FindingCollector<'_>) -> Result<()> {
    let blocks = blocks(reader, xattrs.pairs, report)?;
    check_table(reader, &xattrs.sets, report)?;
    // Sets share no bytes: together they are no longer than the table, which bounds the work too.
    let mut left = (blocks.len() * METADATA_LEN) as u64;
    let mut elsewhere = HashMap::new();
    for n in 0..u32::try_from(xattrs.sets.len()).unwrap_or(u32::MAX) {
        let mut set = SurveyedSet::default();
        // Values elsewhere may be shared, and are read once.
        let stored = report.take(survey(reader, xattrs, n, &mut elsewhere, &mut set))?;
        let SurveyedSet { listed_len, mut wrong } = set;
        let entry = report.take(xattrs.sets.get::<XattrSetEntry>(&reader.metadata, n.into()))?;
        let Some(entry) = entry else { break };
        let size = u64::from(entry.size.get());
        // Some writers count the listed bytes, others the stored ones.
        if entry.count.get() == 0 {
            wrong.push("it cannot be empty".into());
        } else if let Some(stored) = stored.filter(|stored| ![*stored, listed_len].contains(&size)) {
            wrong.push(format!("its size is {size}, but it has {listed_len} bytes, in {stored} stored ones"));
        }
        let len = stored.unwrap_or(0);
        for why in wrong {
            report.add("xattr table", xattrs.pairs.start, format!("set {n}: {why}"));
        }
        // More bytes than there are can only be the same ones twice.
        let Some(rest) = left.checked_sub(len) else {
            report.add("xattr table", xattrs.pairs.start, "its sets overlap");
            break;
        };
        left = rest;
    }
    Ok(())
}

/// Looks at the attributes of set `n`, and returns the number of its stored bytes. `elsewhere` has the lengths of
/// values that several attributes refer to. What was found before an error remains in `set`.
fn survey(
    reader: &SquashfsReader,
    xattrs: &XattrTable,
    n: u32,
    elsewhere: &mut HashMap<u64, u64>,
    set: &mut SurveyedSet,
) -> Result<u64> {
    let mut names = HashSet::new();
    let SurveyedSet { listed_len, wrong } = set;
    xattrs.each(&reader.metadata, n, &mut |_, pair| {
        // With the NUL after the name, as listxattr counts it.
        *listed_len += pair.full_name().map_or(0, |name| name.len() as u64 + 1);
        match pair.full_name() {
            None => wrong.push(format!("unknown attribute type {:#x}", pair.kind)),
            Some(name) if name.contains(&0) => wrong.push("NUL in a name".into()),
            Some(name) if names.contains(&name) => wrong.push(format!("name `{}` twice", name.escape_ascii())),
            Some(name) => drop(names.insert(name)),
        }
        let capability = pair.full_name().as_deref() == Some(capability::NAME);
        let mut judge = |value: &[u8]| {
            wrong.extend(capability::defect(value).filter(|_| capability).map(|why| format!("capabilities: {why}")));
        };
        *listed_len += match pair.value {
            StoredValue::Here(value) => {
                judge(&value);
                value.len() as u64
            }
            // Read again for each, as its value matters and not only its length.
            StoredValue::Elsewhere(reference) if capability => {
                let value = xattrs.value(&reader.metadata, reference)?;
                judge(&value);
                value.len() as u64
            }
            StoredValue::Elsewhere(reference) => match elsewhere.entry(reference) {
                Entry::Occupied(len) => *len.get(),
                Entry::Vacant(place) => *place.insert(xattrs.value(&reader.metadata, reference)?.len() as u64),
            },
        };
        Ok(())
    })
}
