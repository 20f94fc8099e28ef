//! Encoded extents: a record for each extent, of 4, 8, 16 or 32 bytes. Short records are for extents of equal
//! length and are found by counting; long ones say where they begin and are searched for.

use super::window::Window;
use crate::erofs::format::encoded_extent;
use crate::{Error, Result};

/// Bytes before records of 4 bytes: where the first extent is stored.
const FIRST_START: u64 = 8;

/// Where the records lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoded {
    start: u64,
    len: RecordLen,
    /// Number of records.
    count: u64,
    /// log2 of the length of extents, where they are of equal length.
    bits: u32,
    size: u64,
}

/// Length of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RecordLen {
    /// Extents of equal length, stored back to back.
    Four = 4,
    /// Of equal length.
    Eight = 8,
    /// Of any length, in files up to 4 GiB.
    Sixteen = 16,
    /// Of any length.
    ThirtyTwo = 32,
}

/// What a record says, and where its extent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The word of length, format and flags; 0 before the first extent, where there is a hole.
    pub(super) word: u32,
    /// Where it is stored.
    pub(super) physical: u64,
    /// Whether it is the last.
    pub(super) last: bool,
    /// Where the record lies.
    pub(super) entry: u64,
}

/// How far a walk over the records has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    /// Number of the next record.
    next: u64,
    /// Records of 4 bytes: bytes stored before it.
    stored: u64,
}

impl RecordLen {
    /// From bits 1 and 2 of the advice.
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

    /// Whether all extents have the same length.
    pub(super) fn is_even(self) -> bool {
        matches!(self, RecordLen::Four | RecordLen::Eight)
    }
}

impl Encoded {
    /// The records behind a map header that ends at byte `header_end`; `count` is of use for long ones only.
    pub(super) fn new(header_end: u64, len: RecordLen, count: u64, bits: u32, size: u64) -> Self {
        let start = header_end.checked_next_multiple_of(len.bytes()).unwrap_or(u64::MAX);
        let count = if len.is_even() { size.div_ceil(1 << bits) } else { count };
        Encoded { start, len, count, bits, size }
    }

    /// Length of a record.
    pub(super) fn record_len(&self) -> RecordLen {
        self.len
    }

    /// Byte behind the last record.
    pub(super) fn end(&self) -> u64 {
        self.at(self.count)
    }

    /// Byte of record `n`.
    pub(super) fn at(&self, n: u64) -> u64 {
        let first = if self.len == RecordLen::Four { self.start.saturating_add(FIRST_START) } else { self.start };
        first.saturating_add(n.saturating_mul(self.len.bytes()))
    }

    /// The extent that holds byte `offset`, which the file has.
    pub(super) fn find(&self, window: &mut Window<'_>, cursor: &mut Cursor, offset: u64) -> Result<Record> {
        match self.len {
            RecordLen::Four => self.find_stacked(window, cursor, offset >> self.bits),
            RecordLen::Eight => {
                let n = offset >> self.bits;
                let bytes = window.array::<8>(self.at(n))?;
                let [word, low] = words(&bytes);
                Ok(self.even(n, word, low.into()))
            }
            RecordLen::Sixteen | RecordLen::ThirtyTwo => self.search(window, cursor, offset),
        }
    }

    fn even(&self, n: u64, word: u32, physical: u64) -> Record {
        let (start, end) = (n << self.bits, (n + 1).saturating_mul(1 << self.bits));
        Record { start, end: end.min(self.size), word, physical, last: n + 1 == self.count, entry: self.at(n) }
    }

    /// Only the lengths before it tell where an extent is stored.
    fn find_stacked(&self, window: &mut Window<'_>, cursor: &mut Cursor, n: u64) -> Result<Record> {
        if cursor.next > n {
            *cursor = Cursor::default();
        }
        let base = u64::from_le_bytes(window.array::<8>(self.start)?);
        loop {
            let [word] = words(&window.array::<4>(self.at(cursor.next))?);
            let physical = base.saturating_add(cursor.stored);
            cursor.stored = cursor.stored.saturating_add((word & encoded_extent::LEN_MASK).into());
            cursor.next += 1;
            if cursor.next > n {
                return Ok(self.even(n, word, physical));
            }
        }
    }

    /// The last record that begins at or before `offset`.
    fn search(&self, window: &mut Window<'_>, cursor: &mut Cursor, offset: u64) -> Result<Record> {
        let (mut low, mut high) = (0, self.count);
        // Walks ask for one after the other.
        if cursor.next < self.count && self.start_of(window, cursor.next)? == offset {
            (low, high) = (cursor.next + 1, cursor.next + 1);
        }
        let mut behind = self.size;
        while low < high {
            let middle = low + (high - low) / 2;
            let start = self.start_of(window, middle)?;
            if start <= offset {
                low = middle + 1;
            } else if start > behind {
                return Err(self.disorder(window, middle));
            } else {
                (high, behind) = (middle, start);
            }
        }
        cursor.next = low;
        let end = if low < self.count { self.start_of(window, low)? } else { self.size };
        let Some(n) = low.checked_sub(1) else {
            let (end, entry) = (end.min(self.size), self.at(0));
            return Ok(Record { start: 0, end, word: 0, physical: 0, last: false, entry });
        };
        let record = self.long(window, n, end)?;
        if record.start > offset || end <= offset || end > self.size {
            return Err(self.disorder(window, n));
        }
        Ok(record)
    }

    /// Record `n` does not begin before the one behind it, or begins behind the end of the file.
    fn disorder(&self, window: &Window<'_>, n: u64) -> Error {
        let why = format!("records {n} and {} are not in the order of the file, or beyond its end", n + 1);
        window.error(self.at(n), why)
    }

    fn long(&self, window: &mut Window<'_>, n: u64, end: u64) -> Result<Record> {
        let start = self.start_of(window, n)?;
        let [word, low, high] = words(&window.array::<12>(self.at(n))?);
        let physical = u64::from(high) << 32 | u64::from(low);
        Ok(Record { start, end, word, physical, last: n + 1 == self.count, entry: self.at(n) })
    }

    /// Where the extent of long record `n` begins.
    fn start_of(&self, window: &mut Window<'_>, n: u64) -> Result<u64> {
        let at = self.at(n);
        let [low] = words(&window.array::<4>(at.saturating_add(12))?);
        if self.len == RecordLen::Sixteen {
            return Ok(low.into());
        }
        let [high] = words(&window.array::<4>(at.saturating_add(16))?);
        Ok(u64::from(high) << 32 | u64::from(low))
    }
}

/// The first `N` words of 4 bytes.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut out = [0; N];
    for (word, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    out
}
