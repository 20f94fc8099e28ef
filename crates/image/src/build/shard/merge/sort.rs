//! External sort, for lists that may be larger than memory. Records are byte strings, sorted by their bytes. As many as
//! fit the given memory are sorted at once and written to a temporary file as a run; [`ExternalSorter::finish`] merges
//! runs until few enough are left to be merged while they are read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;

use packfs_blocks::io::Scratch;

use super::spool::{RecordSpool, SpoolCursor};

/// Maximum number of runs that are merged at once. Each has a cursor that reads 32 KiB ahead: 2 MiB in all. More
/// would take fewer passes over the data and more memory.
const FAN_IN: usize = 64;

/// Receives records to be sorted.
#[derive(Debug)]
pub(super) struct ExternalSorter {
    scratch: Scratch,
    /// Number of bytes kept in memory.
    memory: usize,
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
    runs: SortedRuns,
}

/// Sorted runs, one after the other in a spool.
#[derive(Debug)]
struct SortedRuns {
    spool: RecordSpool,
    ranges: Vec<Range<u64>>,
}

impl SortedRuns {
    fn new(scratch: &Scratch) -> SortedRuns {
        SortedRuns { spool: RecordSpool::new(scratch), ranges: Vec::new() }
    }

    /// Appends a run of the records that `read_next` reads, until it returns false.
    fn add_run(&mut self, mut read_next: impl FnMut(&mut Vec<u8>) -> io::Result<bool>) -> io::Result<()> {
        let start = self.spool.len();
        let mut record = Vec::new();
        while read_next(&mut record)? {
            self.spool.push(&record)?;
        }
        self.ranges.push(start..self.spool.len());
        Ok(())
    }
}

impl ExternalSorter {
    /// Makes an empty sorter that keeps about `memory` bytes in memory.
    pub(super) fn new(scratch: &Scratch, memory: usize) -> ExternalSorter {
        ExternalSorter {
            scratch: scratch.clone(),
            memory,
            bytes: Vec::new(),
            records: Vec::new(),
            runs: SortedRuns::new(scratch),
        }
    }

    pub(super) fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let used = self.bytes.len() + self.records.len() * size_of::<Range<usize>>();
        // Both lists double when they grow, so they may have room for as much again.
        if used >= self.memory / 2 && !self.records.is_empty() {
            self.spill()?;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.records.push(start..self.bytes.len());
        Ok(())
    }

    /// Writes the records in memory as a run.
    fn spill(&mut self) -> io::Result<()> {
        let bytes = &self.bytes;
        self.records.sort_unstable_by_key(|range| &bytes[range.clone()]);
        let mut records = self.records.drain(..);
        self.runs.add_run(|record| {
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
    pub(super) fn finish(mut self) -> io::Result<SortedRecords> {
        if !self.records.is_empty() {
            self.spill()?;
        }
        let ExternalSorter { scratch, mut runs, bytes, records, .. } = self;
        // The next sort begins while these records are read, and needs the memory.
        drop(bytes);
        drop(records);
        while runs.ranges.len() > FAN_IN {
            let mut fewer = SortedRuns::new(&scratch);
            for ranges in runs.ranges.chunks(FAN_IN) {
                let mut reader = SortedReader::of(&runs.spool, ranges)?;
                fewer.add_run(|record| reader.next(record))?;
            }
            runs = fewer;
        }
        Ok(SortedRecords(runs))
    }
}

/// Sorted records.
#[derive(Debug)]
pub(super) struct SortedRecords(SortedRuns);

impl SortedRecords {
    /// Reads the records from the first on.
    pub(super) fn read(&self) -> io::Result<SortedReader<'_>> {
        SortedReader::of(&self.0.spool, &self.0.ranges)
    }
}

/// Records of several runs in order.
#[derive(Debug)]
pub(super) struct SortedReader<'r> {
    spool: &'r RecordSpool,
    /// Cursor and end of each run.
    runs: Vec<(SpoolCursor, u64)>,
    /// Next record of each run that is not at its end.
    next: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

impl<'r> SortedReader<'r> {
    fn of(spool: &'r RecordSpool, ranges: &[Range<u64>]) -> io::Result<SortedReader<'r>> {
        let runs = ranges.iter().map(|range| (SpoolCursor::at(range.start), range.end)).collect();
        let mut reader = SortedReader { spool, runs, next: BinaryHeap::new() };
        for run in 0..ranges.len() {
            reader.advance(run, Vec::new())?;
        }
        Ok(reader)
    }

    /// Reads the next record of a run.
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
            let mut sorter = ExternalSorter::new(&scratch, memory);
            let records: Vec<Vec<u8>> = (0..2000u32)
                .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[..(n % 5) as usize].to_vec())
                .collect();
            records.iter().for_each(|record| sorter.push(record).unwrap());
            let sorted = sorter.finish().unwrap();
            assert!(sorted.0.ranges.len() >= runs && sorted.0.ranges.len() <= FAN_IN);
            let mut expected = records;
            expected.sort();
            for _ in 0..2 {
                let mut reader = sorted.read().unwrap();
                let mut record = Vec::new();
                let mut found = Vec::new();
                while reader.next(&mut record).unwrap() {
                    found.push(record.clone());
                }
                assert!(found == expected);
            }
        }
    }
}
