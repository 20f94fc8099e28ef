//! Cuts merged files into shards and writes the list of each.

use std::ops::Range;

use super::equal::Known;
use super::files::Files;
use super::sort::Sorted;
use super::spool::Cursor;
use super::{Place, cuts};
use crate::build::shard::{Shards, job};
use crate::{Error, Result};

/// Returns the files of each shard.
pub(super) fn ranges(place: &Place<'_>, files: &Files, shards: Shards) -> Result<Vec<Range<u64>>> {
    let (mut at, mut record) = (Cursor::default(), Vec::new());
    let mut cutter = cuts::Cutter::new(files.weight, shards);
    while let Some(file) = files.next(place, &mut at, &mut record)? {
        cutter.add(file.seen.size());
    }
    Ok(cutter.finish())
}

/// Writes the lists of all shards; returns inodes with the numbers of their data.
pub(super) fn write(
    place: &Place<'_>,
    lists: &mut job::Lists<'_>,
    files: &Files,
    ranges: &[Range<u64>],
    known: &Known,
) -> Result<Sorted> {
    let (mut at, mut record, mut numbers) = (Cursor::default(), Vec::new(), place.sorter());
    let (mut known, mut packed) = (place.io(known.read())?, 0u64);
    for range in ranges {
        for index in range.clone() {
            let file = files.next(place, &mut at, &mut record)?;
            let file = file.ok_or_else(|| Error::Misuse("there are fewer files than counted".into()))?;
            let number = match place.io(known.number(index))? {
                Some(number) => number,
                None => {
                    lists.add(place.source, &file.path, file.seen)?;
                    packed += 1;
                    u32::try_from(packed - 1).map_err(|_| Error::TooMany { what: "files", max: 1 << 32 })?
                }
            };
            place.io(numbers.push(&[file.ino.0, number].map(u32::to_be_bytes).concat()))?;
        }
        lists.end_shard()?;
    }
    place.io(numbers.finish())
}
