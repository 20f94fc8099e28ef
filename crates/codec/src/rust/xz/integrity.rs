//! The checks of decoded data that xz streams may have, and the CRC32 of their headers.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use super::{StreamResult, UNSUPPORTED};

/// The polynomials of both checksums, with the lowest bit first.
const CRC32_POLYNOMIAL: u64 = 0xedb8_8320;
const CRC64_POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;
/// Bytes that are added to a checksum at a time. Eight would be faster, but decoding takes ten times as long as this.
const STEP: usize = 4;

/// Contribution of a byte to a checksum if 0 to 3 others follow it in the same step. Both checksums fit this, so they share
/// the code.
type CrcTables = [[u64; 256]; STEP];

// Made when they are first needed: as constants they would be half as long as the rest of the decoder.
static CRC32_TABLES: LazyLock<Box<CrcTables>> = LazyLock::new(|| crc_tables(CRC32_POLYNOMIAL));
static CRC64_TABLES: LazyLock<Box<CrcTables>> = LazyLock::new(|| crc_tables(CRC64_POLYNOMIAL));

fn crc_tables(polynomial: u64) -> Box<CrcTables> {
    let mut tables = Box::new([[0; 256]; STEP]);
    for (byte, entry) in (0_u64..).zip(&mut tables[0]) {
        *entry = (0..8).fold(byte, |crc, _| crc >> 1 ^ polynomial & 0_u64.wrapping_sub(crc & 1));
    }
    for step in 1..STEP {
        for byte in 0..256 {
            let before = tables[step - 1][byte];
            tables[step][byte] = before >> 8 ^ tables[0][lowest_byte(before)];
        }
    }
    tables
}

fn lowest_byte(number: u64) -> usize {
    usize::from(number.to_le_bytes()[0])
}

fn crc(tables: &CrcTables, start: u64, bytes: &[u8]) -> u64 {
    let [last, third, second, first] = tables;
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let mut crc = start;
    for step in steps {
        let [a, b, c, d, ..] = (crc ^ u64::from(u32::from_le_bytes(*step))).to_le_bytes().map(usize::from);
        crc = crc >> 32 ^ first[a] ^ second[b] ^ third[c] ^ last[d];
    }
    for byte in rest {
        crc = crc >> 8 ^ last[lowest_byte(crc ^ u64::from(*byte))];
    }
    crc ^ start
}

/// Returns the CRC32 of xz.
#[allow(clippy::cast_possible_truncation, reason = "the upper bits are zero")]
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    crc(&CRC32_TABLES, u32::MAX.into(), bytes) as u32
}

/// The check of all blocks of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IntegrityCheck {
    None,
    Crc32,
    Crc64,
    Sha256,
}

impl IntegrityCheck {
    /// Reads the flags of a stream. Checks that no decoder knows are refused.
    pub(super) fn new(flags: [u8; 2]) -> StreamResult<Self> {
        match flags {
            [0, 0] => Ok(IntegrityCheck::None),
            [0, 1] => Ok(IntegrityCheck::Crc32),
            [0, 4] => Ok(IntegrityCheck::Crc64),
            [0, 10] => Ok(IntegrityCheck::Sha256),
            _ => Err(UNSUPPORTED),
        }
    }

    /// Returns the length of the check after each block.
    pub(super) fn len(self) -> usize {
        match self {
            IntegrityCheck::None => 0,
            IntegrityCheck::Crc32 => 4,
            IntegrityCheck::Crc64 => 8,
            IntegrityCheck::Sha256 => 32,
        }
    }

    /// Returns true if `sum` is the check of `bytes`.
    pub(super) fn matches(self, bytes: &[u8], sum: &[u8]) -> bool {
        match self {
            IntegrityCheck::None => sum.is_empty(),
            IntegrityCheck::Crc32 => crc32(bytes).to_le_bytes() == sum,
            IntegrityCheck::Crc64 => crc(&CRC64_TABLES, u64::MAX, bytes).to_le_bytes() == sum,
            IntegrityCheck::Sha256 => Sha256::digest(bytes).as_slice() == sum,
        }
    }
}
