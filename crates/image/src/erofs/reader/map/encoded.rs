//! Encoded extents: a record for each extent, of 4, 8, 16 or 32 bytes. Short records describe
//! extents of equal length and are found by counting; long ones contain their start and are found
//! by searching.

use super::window::IndexWindow;
use crate::erofs::format::encoded_extent;
use crate::{Error, Result};

/// Length of the field before records of 4 bytes: the position of the first extent.
const FIRST_START: u64 = 8;

/// Position of the records.
#[derive(Debug, Clone, Copy)]
pub(super) struct EncodedIndex {
    start: u64,
    len: RecordLen,
    /// Number of records.
    count: u64,
    /// log2 of the length of extents, if they are of equal length.
    bits: u32,
    size: u64,
}

/// Length of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RecordLen {
    /// Extents of equal length, stored back to back.
    Four = 4,
    /// Extents of equal length.
    Eight = 8,
    /// Extents of any length, in files up to 4 GiB.
    Sixteen = 16,
    /// Extents of any length.
    ThirtyTwo = 32,
}

/// A decoded record, and the end of its extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExtentRecord {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Word of length, format and flags; 0 before the first extent, where there is a hole.
    pub(super) word: u32,
    /// Position of the stored bytes.
    pub(super) physical: u64,
    /// True if it is the last record.
    pub(super) last: bool,
    /// Offset of the record.
    pub(super) entry: u64,
}

/// State of a walk over the records.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordCursor {
    /// Number of the next record.
    next: u64,
    /// For records of 4 bytes: number of bytes stored before it.
    stored: u64,
}

impl RecordLen {
    /// Decodes bits 1 and 2 of the advice.
    pub(super) fn of_advise(bits: u16) -> RecordLen {
        match bits >> 1 & 3 {
            0 => RecordLen::Four,
            1 => RecordLen::Eight,
            2 => RecordLen::Sixteen,
            _ => RecordLen::ThirtyTwo,
        }
    }

    fn bytes(self) -> u64 {
        u64::from(self as u8)
    }

    /// Returns true if all extents have the same length.
    pub(super) fn is_even(self) -> bool {
        matches!(self, RecordLen::Four | RecordLen::Eight)
    }
}

impl EncodedIndex {
    /// Locates the records after a map header that ends at byte `header_end`; `count` is used for
    /// long records only.
    pub(super) fn new(header_end: u64, len: RecordLen, count: u64, bits: u32, size: u64) -> Self {
        let start = header_end.checked_next_multiple_of(len.bytes()).unwrap_or(u64::MAX);
        let count = if len.is_even() { size.div_ceil(1 << bits) } else { count };
        EncodedIndex { start, len, count, bits, size }
    }

    /// Returns the length of a record.
    pub(super) fn record_len(&self) -> RecordLen {
        self.len
    }

    /// Returns the end of the last record.
    pub(super) fn end(&self) -> u64 {
        self.at(self.count)
    }

    /// Returns the offset of record `n`.
    pub(super) fn at(&self, n: u64) -> u64 {
        let first = if self.len == RecordLen::Four { self.start.saturating_add(FIRST_START) } else { self.start };
        first.saturating_add(n.saturating_mul(self.len.bytes()))
    }

    /// Returns the extent that holds byte `offset`, which is within the file.
    pub(super) fn find(
        &self,
        window: &mut IndexWindow<'_>,
        cursor: &mut RecordCursor,
        offset: u64,
    ) -> Result<ExtentRecord> {
        match self.len {
            RecordLen::Four => self.find_stacked(window, cursor, offset >> self.bits),
            RecordLen::Eight => {
                let n = offset >> self.bits;
                let bytes = window.array::<8>(self.at(n))?;
                let [word, low] = words(&bytes);
                Ok(self.even_record(n, word, low.into()))
            }
            RecordLen::Sixteen | RecordLen::ThirtyTwo => self.search(window, cursor, offset),
        }
    }

    /// Makes record `n` of an index of extents of equal length.
    fn even_record(&self, n: u64, word: u32, physical: u64) -> ExtentRecord {
        let start = n << self.bits;
        let end = (n + 1).saturating_mul(1 << self.bits);
        ExtentRecord { start, end: end.min(self.size), word, physical, last: n + 1 == self.count, entry: self.at(n) }
    }

    /// Finds an extent by summing up the lengths before it, which alone determine where it is stored.
    fn find_stacked(&self, window: &mut IndexWindow<'_>, cursor: &mut RecordCursor, n: u64) -> Result<ExtentRecord> {
        // The sum already includes this extent.
        if cursor.next > n {
            *cursor = RecordCursor::default();
        }
        let base = u64::from_le_bytes(window.array::<8>(self.start)?);
        loop {
            let [word] = words(&window.array::<4>(self.at(cursor.next))?);
            let physical = base.saturating_add(cursor.stored);
            cursor.stored = cursor.stored.saturating_add((word & encoded_extent::LEN_MASK).into());
            cursor.next += 1;
            if cursor.next > n {
                return Ok(self.even_record(n, word, physical));
            }
        }
    }

    /// Returns the last record that begins at or before `offset`.
    fn search(&self, window: &mut IndexWindow<'_>, cursor: &mut RecordCursor, offset: u64) -> Result<ExtentRecord> {
        let mut low = 0;
        let mut high = self.count;
        // Walks request one record after the other.
        if cursor.next < self.count && self.start_of(window, cursor.next)? == offset {
            low = cursor.next + 1;
            high = low;
        }
        // Start of the earliest record that is known to begin after `offset`.
        let mut next_start = self.size;
        while low < high {
            let middle = low + (high - low) / 2;
            let start = self.start_of(window, middle)?;
            if start <= offset {
                low = middle + 1;
            } else if start > next_start {
                // A later record begins before this one, and halving an index out of order misses extents.
                return Err(self.disorder(window, middle));
            } else {
                high = middle;
                next_start = start;
            }
        }
        cursor.next = low;
        let end = if low < self.count { self.start_of(window, low)? } else { self.size };
        // Before the first extent there is a hole.
        let Some(n) = low.checked_sub(1) else {
            let end = end.min(self.size);
            let entry = self.at(0);
            return Ok(ExtentRecord { start: 0, end, word: 0, physical: 0, last: false, entry });
        };
        let record = self.read_long(window, n, end)?;
        if record.start > offset || end <= offset || end > self.size {
            return Err(self.disorder(window, n));
        }
        Ok(record)
    }

    /// Makes the error for a record that does not begin before the next one, or that begins after the end of the file.
    fn disorder(&self, window: &IndexWindow<'_>, n: u64) -> Error {
        let why = format!("records {n} and {} are not in the order of the file, or beyond its end", n + 1);
        window.error(self.at(n), why)
    }

    /// Reads record `n` of an index of extents of any length, whose extent ends at `end`.
    fn read_long(&self, window: &mut IndexWindow<'_>, n: u64, end: u64) -> Result<ExtentRecord> {
        let start = self.start_of(window, n)?;
        let [word, low, high] = words(&window.array::<12>(self.at(n))?);
        let physical = u64::from(high) << 32 | u64::from(low);
        Ok(ExtentRecord { start, end, word, physical, last: n + 1 == self.count, entry: self.at(n) })
    }

    /// Returns the start of the extent of long record `n`.
    fn start_of(&self, window: &mut IndexWindow<'_>, n: u64) -> Result<u64> {
        let at = self.at(n);
        let [low] = words(&window.array::<4>(at.saturating_add(12))?);
        if self.len == RecordLen::Sixteen {
            return Ok(low.into());
        }
        let [high] = words(&window.array::<4>(at.saturating_add(16))?);
        Ok(u64::from(high) << 32 | u64::from(low))
    }
}

/// Returns the first `N` words of 4 bytes.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut out = [0; N];
    for (word, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    out
}
