//! Finds merged files that equal one of an earlier shard, which needs not be packed again: what
//! [`shard::equal`](crate::build::shard::equal) finds in a tree, by external sorts.
//!
//! Three passes read as little as possible: of all files the length, of files with one length the beginning, and of files
//! with one beginning everything. A record is a key (length, and the digest of what was read) and the index of the file,
//! so sorting brings files with one key together. Files whose key occurs in one shard only are dropped before the next
//! pass: equal files within a shard are found when that is packed.

use std::io;
use std::ops::Range;

use packfs_blocks::Digest;

use super::MergeContext;
use super::files::{MergedFile, OPEN_BATCH, OrderedFiles};
use super::sort::{ExternalSorter, SortedReader, SortedRecords};
use super::spool::{RecordSpool, SpoolCursor};
use crate::Result;
use crate::build::order::FileOrderer;
use crate::build::shard::equal::{HEAD, head, whole};
use crate::source::Contents;

/// Length of an index at the end of a record.
const INDEX_LEN: usize = 8;

/// Reads a file, or its beginning, and returns the digest; `None` if that cannot be read.
type ContentDigest = fn(&dyn Contents, u64, u64) -> Option<Digest>;

/// Files that are not packed, as each equals one of an earlier shard.
pub(super) struct EqualFiles {
    /// Fields: index of the file, number of the other one's data.
    data_numbers: SortedRecords,
    pub(super) count: u64,
}

/// Tells the numbers of data of files that are not packed.
pub(super) struct EqualFileNumbers<'k> {
    reader: SortedReader<'k>,
    next: Option<EqualFile>,
    record: Vec<u8>,
}

/// A file that equals one of an earlier shard.
#[derive(Clone, Copy)]
struct EqualFile {
    index: u64,
    /// Number of the data of the other file.
    data: u32,
}

impl EqualFiles {
    /// Finds the files of these shards that equal one of an earlier shard.
    pub(super) fn find<S>(
        context: &MergeContext<'_>,
        orderer: &FileOrderer<'_, '_, S>,
        files: &OrderedFiles,
        shards: &[Range<u64>],
    ) -> Result<EqualFiles> {
        let search = EqualFileSearch { context, orderer, files, shards };
        let mut pairs = context.new_sorter();
        let candidates = search.select_by_length()?;
        let heads = search.select_by_content(&candidates, head)?;
        // The digest of the beginning is that of the whole of a short file.
        search.add_pairs(&heads, |len| len <= HEAD, &mut pairs)?;
        // Temporary files are removed as soon as they were read: each may be as large as the list of files.
        drop(candidates);
        let long_files = search.sort_indices(&heads, |len| len > HEAD)?;
        drop(heads);
        let wholes = search.select_by_content(&long_files, whole)?;
        search.add_pairs(&wholes, |_| true, &mut pairs)?;
        context.io(number_equal_files(context, pairs))
    }

    /// Returns an empty list, for a build without dedup.
    pub(super) fn none(context: &MergeContext<'_>) -> Result<EqualFiles> {
        context.io(number_equal_files(context, context.new_sorter()))
    }

    pub(super) fn read(&self) -> io::Result<EqualFileNumbers<'_>> {
        let mut numbers = EqualFileNumbers { reader: self.data_numbers.read()?, next: None, record: Vec::new() };
        numbers.advance()?;
        Ok(numbers)
    }
}

impl EqualFileNumbers<'_> {
    /// Returns the number of the data of a file that is not packed, `None` for one that is. Indices have to be asked for
    /// in ascending order.
    pub(super) fn data_number(&mut self, index: u64) -> io::Result<Option<u32>> {
        let Some(file) = self.next.filter(|file| file.index == index) else { return Ok(None) };
        self.advance()?;
        Ok(Some(file.data))
    }

    fn advance(&mut self) -> io::Result<()> {
        self.next = None;
        if self.reader.next(&mut self.record)? {
            let index = first_number(&self.record);
            let data = u32::try_from(last_number(&self.record)).unwrap_or(u32::MAX);
            self.next = Some(EqualFile { index, data });
        }
        Ok(())
    }
}

struct EqualFileSearch<'a, 'p, 'env, S> {
    context: &'p MergeContext<'p>,
    orderer: &'a FileOrderer<'a, 'env, S>,
    files: &'a OrderedFiles,
    /// Indices of the files of each shard.
    shards: &'a [Range<u64>],
}

/// Sorted records with one key, which may be too many for memory.
struct KeyGroup {
    key: Vec<u8>,
    first_file: u64,
    last_file: u64,
    len: u64,
}

impl<S> EqualFileSearch<'_, '_, '_, S> {
    /// Returns the shard of a file.
    fn shard_of(&self, file: u64) -> usize {
        self.shards.partition_point(|range| range.end <= file)
    }

    /// Returns the indices, in order, of files whose length occurs in several shards.
    fn select_by_length(&self) -> Result<SortedRecords> {
        let mut sorter = self.context.new_sorter();
        let mut cursor = SpoolCursor::default();
        let mut record = Vec::new();
        let mut index = 0u64;
        while let Some(file) = self.files.next(self.context, &mut cursor, &mut record)? {
            self.context.io(sorter.push(&encode_key(file.seen.size(), &[], index)))?;
            index += 1;
        }
        self.sort_indices(&self.select_shared_keys(sorter)?, |_| true)
    }

    /// Returns the indices, in order, of those files whose length satisfies `is_wanted`. The next pass reads the list of
    /// files once, so it needs them in this order.
    fn sort_indices(&self, records: &RecordSpool, is_wanted: impl Fn(u64) -> bool) -> Result<SortedRecords> {
        let mut indices = self.context.new_sorter();
        let mut cursor = SpoolCursor::default();
        let mut record = Vec::new();
        while self.context.io(records.next(&mut cursor, &mut record))? {
            if is_wanted(first_number(&record)) {
                self.context.io(indices.push(&last_number(&record).to_be_bytes()))?;
            }
        }
        self.context.io(indices.finish())
    }

    /// Returns the records, sorted, whose keys occur in several shards.
    fn select_shared_keys(&self, sorter: ExternalSorter) -> Result<RecordSpool> {
        let sorted = self.context.io(sorter.finish())?;
        let groups = self.context.io(self.list_groups(&sorted))?;
        self.context.io(self.keep_groups(&sorted, &groups))
    }

    /// Returns, for the records with one key, their number and 1 if they occur in several shards or 0 if in one. This is
    /// known only after the last one, so the records are read a second time to be kept.
    fn list_groups(&self, sorted: &SortedRecords) -> io::Result<RecordSpool> {
        let mut groups = RecordSpool::new(&self.context.scratch);
        let mut open: Option<KeyGroup> = None;
        let mut reader = sorted.read()?;
        let mut record = Vec::new();
        while reader.next(&mut record)? {
            let key = &record[..record.len() - INDEX_LEN];
            let file = last_number(&record);
            if let Some(complete) = open.take_if(|group| group.key != key) {
                groups.push(&self.group_record(&complete))?;
            }
            let new_group = || KeyGroup { key: key.to_vec(), first_file: file, last_file: file, len: 0 };
            let group = open.get_or_insert_with(new_group);
            group.last_file = file;
            group.len += 1;
        }
        if let Some(complete) = open {
            groups.push(&self.group_record(&complete))?;
        }
        Ok(groups)
    }

    fn group_record(&self, group: &KeyGroup) -> Vec<u8> {
        // Shards are ranges of indices, so the files between the first and the last need no look.
        let is_shared = self.shard_of(group.first_file) != self.shard_of(group.last_file);
        [group.len, u64::from(is_shared)].map(u64::to_be_bytes).concat()
    }

    /// Returns the records of the groups that [`list_groups`](Self::list_groups) marks with 1.
    fn keep_groups(&self, sorted: &SortedRecords, groups: &RecordSpool) -> io::Result<RecordSpool> {
        let mut kept = RecordSpool::new(&self.context.scratch);
        let mut reader = sorted.read()?;
        let mut record = Vec::new();
        let mut cursor = SpoolCursor::default();
        let mut group = Vec::new();
        while groups.next(&mut cursor, &mut group)? {
            let is_shared = last_number(&group) == 1;
            for _ in 0..first_number(&group) {
                reader.next(&mut record)?;
                if is_shared {
                    kept.push(&record)?;
                }
            }
        }
        Ok(kept)
    }

    /// Reads files, given by their indices in order; returns records of those whose digests occur in several shards.
    fn select_by_content(&self, indices: &SortedRecords, digest: ContentDigest) -> Result<RecordSpool> {
        let context = self.context;
        let mut sorter = context.new_sorter();
        let mut batch = Vec::<(u64, MergedFile)>::new();
        let mut wanted = context.io(indices.read())?;
        let mut wanted_record = Vec::new();
        let mut cursor = SpoolCursor::default();
        let mut file_record = Vec::new();
        let mut next_index = 0u64;
        while context.io(wanted.next(&mut wanted_record))? {
            let wanted_index = last_number(&wanted_record);
            while let Some(file) = self.files.next(context, &mut cursor, &mut file_record)? {
                next_index += 1;
                if next_index > wanted_index {
                    batch.push((wanted_index, file));
                    break;
                }
            }
            if batch.len() == OPEN_BATCH {
                self.digest_batch(&mut batch, digest, &mut sorter)?;
            }
        }
        self.digest_batch(&mut batch, digest, &mut sorter)?;
        self.select_shared_keys(sorter)
    }

    /// Adds records of all files of a batch, which are read on the workers, and empties it.
    fn digest_batch(
        &self,
        batch: &mut Vec<(u64, MergedFile)>,
        digest: ContentDigest,
        sorter: &mut ExternalSorter,
    ) -> Result<()> {
        let sources = self.context.open_files(batch.iter().map(|(_, file)| file))?;
        let mut pushed = Ok(());
        self.orderer.read_all(sources.into_iter(), digest, |n, digest| {
            let (index, file) = &batch[n];
            // A file that cannot be read equals none.
            if let (Ok(()), Some(digest)) = (&pushed, digest) {
                pushed = sorter.push(&encode_key(file.seen.size(), digest.as_bytes(), *index));
            }
        })?;
        batch.clear();
        self.context.io(pushed)
    }

    /// Adds pairs of the first file with a key and one with the same key in another shard, for files whose length
    /// satisfies `is_wanted`.
    fn add_pairs(
        &self,
        sorted: &RecordSpool,
        is_wanted: impl Fn(u64) -> bool,
        pairs: &mut ExternalSorter,
    ) -> Result<()> {
        let mut cursor = SpoolCursor::default();
        let mut record = Vec::new();
        let mut group_key = Vec::new();
        let mut first_file = 0;
        while self.context.io(sorted.next(&mut cursor, &mut record))? {
            let key = &record[..record.len() - INDEX_LEN];
            let file = last_number(&record);
            if group_key != key {
                group_key = key.to_vec();
                first_file = file;
            }
            if is_wanted(first_number(&record)) && self.shard_of(file) != self.shard_of(first_file) {
                self.context.io(pairs.push(&[first_file, file].map(u64::to_be_bytes).concat()))?;
            }
        }
        Ok(())
    }
}

/// Makes a record to be sorted. Numbers are big-endian, as records are sorted by their bytes.
fn encode_key(len: u64, digest: &[u8], index: u64) -> Vec<u8> {
    [&len.to_be_bytes(), digest, &index.to_be_bytes()].concat()
}

/// Returns the number at the start of a record, which is the length of files if it begins with a key.
fn first_number(record: &[u8]) -> u64 {
    u64::from_be_bytes(*record.first_chunk().expect("eight bytes"))
}

/// Returns the number at the end of a record, which is the index of a file if it begins with a key.
fn last_number(record: &[u8]) -> u64 {
    u64::from_be_bytes(*record.last_chunk().expect("eight bytes"))
}

/// Finds the numbers of data from pairs of an earlier file and one that equals it.
///
/// Files that are not packed have no number of their own, so the number of an earlier file is its index without the files
/// before it that are not packed. Both lists are read side by side: pairs are sorted by the earlier file.
fn number_equal_files(context: &MergeContext<'_>, pairs: ExternalSorter) -> io::Result<EqualFiles> {
    let pairs = pairs.finish()?;
    let unpacked = list_unpacked(context, &pairs)?;
    let mut data_numbers = context.new_sorter();
    let mut unpacked_reader = unpacked.files.read()?;
    let mut unpacked_record = Vec::new();
    let mut has_unpacked = unpacked_reader.next(&mut unpacked_record)?;
    let mut unpacked_before = 0;
    let mut reader = pairs.read()?;
    let mut record = Vec::new();
    while reader.next(&mut record)? {
        let first_file = first_number(&record);
        let file = last_number(&record);
        while has_unpacked && last_number(&unpacked_record) < first_file {
            unpacked_before += 1;
            has_unpacked = unpacked_reader.next(&mut unpacked_record)?;
        }
        let data = first_file - unpacked_before;
        data_numbers.push(&[file, data].map(u64::to_be_bytes).concat())?;
    }
    Ok(EqualFiles { data_numbers: data_numbers.finish()?, count: unpacked.count })
}

/// Indices of files that are not packed, in order.
struct UnpackedFiles {
    files: SortedRecords,
    count: u64,
}

fn list_unpacked(context: &MergeContext<'_>, pairs: &SortedRecords) -> io::Result<UnpackedFiles> {
    let mut files = context.new_sorter();
    let mut count = 0;
    let mut reader = pairs.read()?;
    let mut record = Vec::new();
    while reader.next(&mut record)? {
        files.push(&last_number(&record).to_be_bytes())?;
        count += 1;
    }
    Ok(UnpackedFiles { files: files.finish()?, count })
}
