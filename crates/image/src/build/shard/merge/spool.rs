//! Records in a temporary file: what a merge would keep in memory if its length had a bound. They are appended, and read
//! from the front by any number of cursors, even while more are appended.

use std::io;

use packfs_blocks::io::{Scratch, Storage};

/// Number of bytes written at once, and kept in memory until then: a spool of less never creates a file. Not measured.
const WRITE_LEN: usize = 1 << 18;
/// Number of bytes that a cursor reads at once. Smaller than [`WRITE_LEN`], as one merge has up to 64 cursors.
const READ_AHEAD_LEN: usize = 1 << 15;

/// A list of records. Its file is created once they no longer fit a small buffer.
#[derive(Debug)]
pub(super) struct RecordSpool {
    scratch: Scratch,
    file: Option<Box<dyn Storage>>,
    /// Number of bytes in the file.
    written: u64,
    /// Bytes that follow them.
    tail: Vec<u8>,
}

/// Position in a [`RecordSpool`], and bytes read ahead.
#[derive(Debug, Default)]
pub(super) struct SpoolCursor {
    at: u64,
    bytes: Vec<u8>,
    /// Position of the first byte read ahead.
    start: u64,
}

impl SpoolCursor {
    /// Makes a cursor at a position that [`RecordSpool::len`] returned.
    pub(super) fn at(at: u64) -> SpoolCursor {
        SpoolCursor { at, bytes: Vec::new(), start: at }
    }

    /// Returns the position of the next record.
    pub(super) fn position(&self) -> u64 {
        self.at
    }
}

impl RecordSpool {
    pub(super) fn new(scratch: &Scratch) -> RecordSpool {
        RecordSpool { scratch: scratch.clone(), file: None, written: 0, tail: Vec::new() }
    }

    /// Returns the number of bytes of all records, which is the position of the next one.
    pub(super) fn len(&self) -> u64 {
        self.written + self.tail.len() as u64
    }

    /// Appends a record of less than 4 GiB.
    pub(super) fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let len = u32::try_from(record.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.tail.extend_from_slice(&len.to_le_bytes());
        self.tail.extend_from_slice(record);
        if self.tail.len() < WRITE_LEN {
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(self.scratch.file()?),
        };
        file.write_all_at(&self.tail, self.written)?;
        self.written += self.tail.len() as u64;
        self.tail.clear();
        Ok(())
    }

    /// Reads the next record into `record`; returns false if there is none.
    pub(super) fn next(&self, cursor: &mut SpoolCursor, record: &mut Vec<u8>) -> io::Result<bool> {
        if cursor.at == self.len() {
            return Ok(false);
        }
        let len = self.read(cursor, 4)?;
        let len = u32::from_le_bytes(*len.first_chunk().expect("four bytes")) as usize;
        record.clear();
        record.extend_from_slice(self.read(cursor, len)?);
        Ok(true)
    }

    fn read<'c>(&self, cursor: &'c mut SpoolCursor, len: usize) -> io::Result<&'c [u8]> {
        let end = cursor.at + len as u64;
        if end > cursor.start + cursor.bytes.len() as u64 {
            self.fill(cursor, len.max(READ_AHEAD_LEN))?;
        }
        let from = usize::try_from(cursor.at - cursor.start).expect("within the bytes read ahead");
        cursor.at = end;
        cursor.bytes.get(from..from + len).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads up to `len` bytes ahead.
    fn fill(&self, cursor: &mut SpoolCursor, len: usize) -> io::Result<()> {
        let at = cursor.at;
        let len = usize::try_from(self.len().saturating_sub(at)).unwrap_or(len).min(len);
        cursor.start = at;
        cursor.bytes.resize(len, 0);
        let in_file = usize::try_from(self.written.saturating_sub(at)).unwrap_or(len).min(len);
        if let Some(file) = self.file.as_ref().filter(|_| in_file > 0) {
            file.read_exact_at(&mut cursor.bytes[..in_file], at)?;
        }
        let from = usize::try_from(at.saturating_sub(self.written)).unwrap_or(0);
        cursor.bytes[in_file..].copy_from_slice(&self.tail[from..from + len - in_file]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_order_also_while_more_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = RecordSpool::new(&Scratch::new(dir.path()));
        let record = |n: usize| vec![u8::try_from(n % 251).unwrap(); [0, 1, 70, 5000, 300_000][n % 5]];
        let mut follows = SpoolCursor::default();
        let mut found = Vec::new();
        let mut middle = 0;
        for n in 0..200 {
            if n == 77 {
                middle = spool.len();
            }
            spool.push(&record(n)).unwrap();
            if n % 3 > 0 {
                assert!(spool.next(&mut follows, &mut found).unwrap());
                assert_eq!(found, record(n / 3 * 2 + n % 3 - 1));
            }
        }
        let mut again = SpoolCursor::at(middle);
        for n in 77..200 {
            assert!(spool.next(&mut again, &mut found).unwrap());
            assert_eq!(found, record(n));
        }
        assert!(!spool.next(&mut again, &mut found).unwrap());
        assert_eq!(again.position(), spool.len());
        assert!(spool.file.is_some());
    }
}
