//! Merged files that equal one of an earlier shard: what `equal` finds in a tree, by external sorts.
//!
//! Records are a key (length, and digests of what was read) and the index of the file. What occurs only within one shard is
//! dropped before more is read.

use std::io;
use std::ops::Range;

use packfs_blocks::Digest;

use super::Place;
use super::files::{BATCH, File, Files};
use super::sort::{Sorted, Sorter};
use super::spool::{Cursor, Spool};
use crate::Result;
use crate::build::order::Orderer;
use crate::build::shard::equal::{HEAD, head, whole};
use crate::source::Contents;

/// Length of an index at the end of a record.
const INDEX: usize = 8;

/// Files that are packed, and those that equal an earlier one.
pub(super) struct Known {
    /// For each file that equals one of an earlier shard, its index and the number of the other one's data.
    numbers: Sorted,
    pub(super) count: u64,
}

/// Reads the numbers of files that equal an earlier one.
pub(super) struct Reader<'k>(super::sort::Merge<'k>, Option<(u64, u32)>, Vec<u8>);

impl Known {
    /// Finds the files of these shards that equal one of an earlier shard.
    pub(super) fn find<S>(
        place: &Place<'_>,
        orderer: &Orderer<'_, '_, S>,
        files: &Files,
        shards: &[Range<u64>],
    ) -> Result<Known> {
        let search = Search { place, orderer, files, shards };
        let mut pairs = place.sorter();
        let lengths = search.lengths()?;
        let heads = search.read(&lengths, head)?;
        search.pairs(&heads, |size| size <= HEAD, &mut pairs)?;
        drop(lengths);
        let long = search.indices(&heads, |size| size > HEAD)?;
        drop(heads);
        let wholes = search.read(&long, whole)?;
        search.pairs(&wholes, |_| true, &mut pairs)?;
        place.io(number(place, pairs))
    }

    /// Returns that no file equals another one.
    pub(super) fn none(place: &Place<'_>) -> Result<Known> {
        place.io(number(place, place.sorter()))
    }

    pub(super) fn read(&self) -> io::Result<Reader<'_>> {
        let mut reader = Reader(self.numbers.read()?, None, Vec::new());
        reader.advance()?;
        Ok(reader)
    }
}

impl Reader<'_> {
    /// Returns the number of the data of a file that is not packed; files have to be asked for in order.
    pub(super) fn number(&mut self, file: u64) -> io::Result<Option<u32>> {
        match self.1 {
            Some((known, number)) if known == file => {
                self.advance()?;
                Ok(Some(number))
            }
            _ => Ok(None),
        }
    }

    fn advance(&mut self) -> io::Result<()> {
        let found = self.0.next(&mut self.2)?;
        self.1 = found.then(|| (index(&self.2[..INDEX]), u32::try_from(index(&self.2)).unwrap_or(u32::MAX)));
        Ok(())
    }
}

struct Search<'a, 'p, 'env, S> {
    place: &'p Place<'p>,
    orderer: &'a Orderer<'a, 'env, S>,
    files: &'a Files,
    shards: &'a [Range<u64>],
}

impl<S> Search<'_, '_, '_, S> {
    fn shard(&self, file: u64) -> usize {
        self.shards.partition_point(|range| range.end <= file)
    }

    /// Returns the indices, in order, of files whose length occurs in several shards.
    fn lengths(&self) -> Result<Sorted> {
        let (mut at, mut record, mut sorter) = (Cursor::default(), Vec::new(), self.place.sorter());
        let mut index = 0u64;
        while let Some(file) = self.files.next(self.place, &mut at, &mut record)? {
            self.place.io(sorter.push(&key(file.seen.size(), &[], index)))?;
            index += 1;
        }
        self.indices(&self.over_cuts(sorter)?, |_| true)
    }

    /// Returns the indices, in order, of records whose files have a length to `keep`.
    fn indices(&self, records: &Spool, keep: impl Fn(u64) -> bool) -> Result<Sorted> {
        let (mut at, mut record, mut indices) = (Cursor::default(), Vec::new(), self.place.sorter());
        while self.place.io(records.next(&mut at, &mut record))? {
            if keep(index(&record[..INDEX])) {
                self.place.io(indices.push(&index(&record).to_be_bytes()))?;
            }
        }
        self.place.io(indices.finish())
    }

    /// Returns the records, sorted, whose keys occur in several shards.
    fn over_cuts(&self, sorter: Sorter) -> Result<Spool> {
        let sorted = self.place.io(sorter.finish())?;
        // The length of each group is known at its end only.
        let mut lens = Spool::new(&self.place.scratch);
        let mut kept = Spool::new(&self.place.scratch);
        let io = (|| {
            let (mut read, mut record, mut group) = (sorted.read()?, Vec::new(), None::<(Vec<u8>, u64, u64, u64)>);
            let end = |lens: &mut Spool, (_, first, last, len): (Vec<u8>, u64, u64, u64)| {
                let len = if self.shard(first) == self.shard(last) { [len, 0] } else { [len, 1] };
                lens.push(&len.map(u64::to_be_bytes).concat())
            };
            while read.next(&mut record)? {
                let (key, file) = (&record[..record.len() - INDEX], index(&record));
                match &mut group {
                    Some((known, _, last, len)) if *known == key => (*last, *len) = (file, *len + 1),
                    _ => {
                        group.replace((key.to_vec(), file, file, 1)).map_or(Ok(()), |group| end(&mut lens, group))?;
                    }
                }
            }
            group.map_or(Ok(()), |group| end(&mut lens, group))?;
            let (mut read, mut at, mut len) = (sorted.read()?, Cursor::default(), Vec::new());
            while lens.next(&mut at, &mut len)? {
                for _ in 0..index(&len[..INDEX]) {
                    read.next(&mut record)?;
                    if index(&len) == 1 {
                        kept.push(&record)?;
                    }
                }
            }
            Ok(())
        })();
        self.place.io(io).map(|()| kept)
    }

    /// Reads files in order; returns those whose contents, as far as `look` reads them, occur in several shards.
    fn read(&self, indices: &Sorted, look: fn(&dyn Contents, u64, u64) -> Option<Digest>) -> Result<Spool> {
        let place = self.place;
        let (mut wanted, mut record) = (place.io(indices.read())?, Vec::new());
        let (mut at, mut found, mut next) = (Cursor::default(), Vec::new(), 0u64);
        let (mut sorter, mut batch) = (place.sorter(), Vec::<(u64, File)>::new());
        while place.io(wanted.next(&mut record))? {
            let wanted = index(&record);
            while let Some(file) = self.files.next(place, &mut at, &mut found)? {
                next += 1;
                if next > wanted {
                    batch.push((wanted, file));
                    break;
                }
            }
            if batch.len() == BATCH {
                self.digest(&mut batch, look, &mut sorter)?;
            }
        }
        self.digest(&mut batch, look, &mut sorter)?;
        self.over_cuts(sorter)
    }

    fn digest(
        &self,
        batch: &mut Vec<(u64, File)>,
        look: fn(&dyn Contents, u64, u64) -> Option<Digest>,
        sorter: &mut Sorter,
    ) -> Result<()> {
        let sources = self.place.open(batch.iter().map(|(_, file)| file))?;
        let mut pushed = Ok(());
        self.orderer.read_all(sources.into_iter(), look, |n, digest| {
            let (index, file) = &batch[n];
            // A file that cannot be read equals none.
            if let (Ok(()), Some(digest)) = (&pushed, digest) {
                pushed = sorter.push(&key(file.seen.size(), digest.as_bytes(), *index));
            }
        })?;
        batch.clear();
        self.place.io(pushed)
    }

    /// Adds each file that equals the first of its kind and lies in another shard, after the index of that.
    fn pairs(&self, sorted: &Spool, is_meant: impl Fn(u64) -> bool, pairs: &mut Sorter) -> Result<()> {
        let (mut at, mut record) = (Cursor::default(), Vec::new());
        let (mut kind, mut first) = (Vec::new(), 0);
        while self.place.io(sorted.next(&mut at, &mut record))? {
            let (key, file) = (&record[..record.len() - INDEX], index(&record));
            if kind != key {
                (kind, first) = (key.to_vec(), file);
            }
            if is_meant(index(&record[..INDEX])) && self.shard(file) != self.shard(first) {
                self.place.io(pairs.push(&[first, file].map(u64::to_be_bytes).concat()))?;
            }
        }
        Ok(())
    }
}

fn key(size: u64, digest: &[u8], index: u64) -> Vec<u8> {
    [&size.to_be_bytes(), digest, &index.to_be_bytes()].concat()
}

/// Returns the number at the end of a record.
fn index(record: &[u8]) -> u64 {
    u64::from_be_bytes(*record.last_chunk().expect("eight bytes"))
}

/// Finds the numbers of data from pairs of an earlier file and one that equals it: files that are not packed have none.
fn number(place: &Place<'_>, pairs: Sorter) -> io::Result<Known> {
    let pairs = pairs.finish()?;
    let (mut read, mut record, mut left_out, mut count) = (pairs.read()?, Vec::new(), place.sorter(), 0);
    while read.next(&mut record)? {
        left_out.push(&index(&record).to_be_bytes())?;
        count += 1;
    }
    let left_out = left_out.finish()?;
    let (mut read, mut others) = (pairs.read()?, left_out.read()?);
    let (mut numbers, mut other, mut before) = (place.sorter(), Vec::new(), 0);
    let mut has_other = others.next(&mut other)?;
    while read.next(&mut record)? {
        let first = index(&record[..INDEX]);
        while has_other && index(&other) < first {
            before += 1;
            has_other = others.next(&mut other)?;
        }
        numbers.push(&[index(&record), first - before].map(u64::to_be_bytes).concat())?;
    }
    Ok(Known { numbers: numbers.finish()?, count })
}
