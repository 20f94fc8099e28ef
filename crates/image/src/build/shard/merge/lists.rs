//! Cuts merged files into shards and writes the list of each.

use std::ops::Range;

use super::equal::EqualFiles;
use super::files::OrderedFiles;
use super::sort::SortedRecords;
use super::spool::SpoolCursor;
use super::{MergeContext, cuts};
use crate::build::shard::{Shards, job};
use crate::{Error, Result};

/// Returns the indices of the files of each shard.
pub(super) fn cut_shards(context: &MergeContext<'_>, files: &OrderedFiles, shards: Shards) -> Result<Vec<Range<u64>>> {
    let mut cursor = SpoolCursor::default();
    let mut record = Vec::new();
    let mut cutter = cuts::ShardCutter::new(files.weight, shards);
    while let Some(file) = files.next(context, &mut cursor, &mut record)? {
        cutter.add(file.seen.size());
    }
    Ok(cutter.finish())
}

/// Writes the lists of all shards; returns inodes with the numbers of their data. Data is numbered as it is packed, so a
/// file that equals one of an earlier shard has the number of that one.
pub(super) fn write_lists(
    context: &MergeContext<'_>,
    lists: &mut job::ShardLists<'_>,
    files: &OrderedFiles,
    ranges: &[Range<u64>],
    equal_files: &EqualFiles,
) -> Result<SortedRecords> {
    let mut cursor = SpoolCursor::default();
    let mut record = Vec::new();
    // The tree needs the numbers in the order of inodes, not of data.
    let mut numbers = context.new_sorter();
    let mut equal_numbers = context.io(equal_files.read())?;
    let mut packed = 0u64;
    for range in ranges {
        for index in range.clone() {
            let file = files.next(context, &mut cursor, &mut record)?;
            let file = file.ok_or_else(|| Error::Misuse("there are fewer files than counted".into()))?;
            let number = match context.io(equal_numbers.data_number(index))? {
                Some(number) => number,
                None => {
                    lists.add(context.source, &file.path, file.seen)?;
                    packed += 1;
                    u32::try_from(packed - 1).map_err(|_| Error::TooMany { what: "files", max: 1 << 32 })?
                }
            };
            context.io(numbers.push(&[file.ino.0, number].map(u32::to_be_bytes).concat()))?;
        }
        lists.end_shard()?;
    }
    context.io(numbers.finish())
}
