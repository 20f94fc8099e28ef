//! External sort: records are byte strings in byte order. As many as fit the given memory are sorted at once and written to
//! a temporary file; these runs are merged when all are there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;

use packfs_blocks::io::Scratch;

use super::spool::{Cursor, Spool};

/// Maximum number of runs that are merged at once; each has a buffer of 32 KiB.
const FAN_IN: usize = 64;

/// Records to be sorted.
#[derive(Debug)]
pub(super) struct Sorter {
    scratch: Scratch,
    /// Number of bytes kept in memory.
    memory: usize,
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
    runs: Runs,
}

/// Sorted runs, one behind the other.
#[derive(Debug)]
struct Runs {
    spool: Spool,
    ranges: Vec<Range<u64>>,
}

impl Runs {
    fn new(scratch: &Scratch) -> Runs {
        Runs { spool: Spool::new(scratch), ranges: Vec::new() }
    }

    /// Appends a run of records that `next` returns.
    fn add(&mut self, mut next: impl FnMut(&mut Vec<u8>) -> io::Result<bool>) -> io::Result<()> {
        let (start, mut record) = (self.spool.len(), Vec::new());
        while next(&mut record)? {
            self.spool.push(&record)?;
        }
        self.ranges.push(start..self.spool.len());
        Ok(())
    }
}

impl Sorter {
    /// Makes an empty sorter that keeps about `memory` bytes in memory.
    pub(super) fn new(scratch: &Scratch, memory: usize) -> Sorter {
        let (bytes, records) = (Vec::new(), Vec::new());
        Sorter { scratch: scratch.clone(), memory, bytes, records, runs: Runs::new(scratch) }
    }

    pub(super) fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let used = self.bytes.len() + self.records.len() * size_of::<Range<usize>>();
        // Both lists may have room for as much again.
        if used >= self.memory / 2 && !self.records.is_empty() {
            self.spill()?;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.records.push(start..self.bytes.len());
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let bytes = &self.bytes;
        self.records.sort_unstable_by_key(|range| &bytes[range.clone()]);
        let mut records = self.records.drain(..);
        self.runs.add(|record| {
            let Some(range) = records.next() else { return Ok(false) };
            record.clear();
            record.extend_from_slice(&bytes[range]);
            Ok(true)
        })?;
        drop(records);
        self.bytes.clear();
        Ok(())
    }

    /// Ends the list; the records can be read in order, more than once.
    pub(super) fn finish(mut self) -> io::Result<Sorted> {
        if !self.records.is_empty() {
            self.spill()?;
        }
        let Sorter { scratch, mut runs, bytes, records, .. } = self;
        drop((bytes, records));
        while runs.ranges.len() > FAN_IN {
            let mut fewer = Runs::new(&scratch);
            for ranges in runs.ranges.chunks(FAN_IN) {
                let mut merge = Merge::of(&runs.spool, ranges)?;
                fewer.add(|record| merge.next(record))?;
            }
            runs = fewer;
        }
        Ok(Sorted(runs))
    }
}

/// Sorted records.
#[derive(Debug)]
pub(super) struct Sorted(Runs);

impl Sorted {
    /// Reads the records from the first on.
    pub(super) fn read(&self) -> io::Result<Merge<'_>> {
        Merge::of(&self.0.spool, &self.0.ranges)
    }
}

/// Records of several runs in order.
#[derive(Debug)]
pub(super) struct Merge<'r> {
    spool: &'r Spool,
    /// Cursor and end of each run.
    runs: Vec<(Cursor, u64)>,
    /// Next record of each run that is not at its end.
    next: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

impl<'r> Merge<'r> {
    fn of(spool: &'r Spool, ranges: &[Range<u64>]) -> io::Result<Merge<'r>> {
        let runs = ranges.iter().map(|range| (Cursor::at(range.start), range.end)).collect();
        let mut merge = Merge { spool, runs, next: BinaryHeap::new() };
        for run in 0..ranges.len() {
            merge.advance(run, Vec::new())?;
        }
        Ok(merge)
    }

    fn advance(&mut self, run: usize, mut record: Vec<u8>) -> io::Result<()> {
        let (cursor, end) = &mut self.runs[run];
        if cursor.position() < *end && self.spool.next(cursor, &mut record)? {
            self.next.push(Reverse((record, run)));
        }
        Ok(())
    }

    /// Moves the next record to `record`; returns false if there is none.
    pub(super) fn next(&mut self, record: &mut Vec<u8>) -> io::Result<bool> {
        let Some(Reverse((mut found, run))) = self.next.pop() else { return Ok(false) };
        std::mem::swap(record, &mut found);
        self.advance(run, found)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sorted_whatever_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path());
        // 200 runs are merged in two steps.
        for (memory, runs) in [(0, 4), (4096, 10), (1 << 20, 1)] {
            let mut sorter = Sorter::new(&scratch, memory);
            let records: Vec<Vec<u8>> = (0..2000u32)
                .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[..(n % 5) as usize].to_vec())
                .collect();
            records.iter().for_each(|record| sorter.push(record).unwrap());
            let sorted = sorter.finish().unwrap();
            assert!(sorted.0.ranges.len() >= runs && sorted.0.ranges.len() <= FAN_IN);
            let mut expected = records;
            expected.sort();
            for _ in 0..2 {
                let (mut merge, mut record, mut found) = (sorted.read().unwrap(), Vec::new(), Vec::new());
                while merge.next(&mut record).unwrap() {
                    found.push(record.clone());
                }
                assert!(found == expected);
            }
        }
    }
}
