//! Sparse members: where the data in an archive belongs in the file.
//!
//! Four spellings: the old GNU type `S` (map in the header and in blocks after it), pax 0.0 and 0.1 (map in
//! the extended header) and pax 1.0 (map in front of the data).

use zerocopy::FromBytes;

use packfs_blocks::units::beyond;

use super::format::{BLOCK, GnuHeader, GnuRegion, GnuRegions};
use super::header::field;
use super::pax::parse_decimal;
use crate::archive::MAX_SIZE;
use crate::archive::input::{ArchiveInput, DataRegion, truncated};
use crate::{Error, Result};

/// Maximum number of regions in a map, which then takes 16 MB.
pub(super) const MAX_REGIONS: u64 = 1_000_000;

fn bad(at: u64, why: impl Into<String>) -> Error {
    Error::corrupt("sparse map", at, why)
}

/// Checks a map against the file's length and the number of bytes stored for it; drops empty regions.
pub(super) fn check(mut map: Vec<DataRegion>, size: u64, stored: u64, at: u64) -> Result<Vec<DataRegion>> {
    limit(map.len() as u64, at)?;
    if size > MAX_SIZE {
        return Err(bad(at, format!("a file of {}", beyond(size, MAX_SIZE))));
    }
    map.retain(|region| region.len > 0);
    let mut end = 0;
    let mut sum = 0u64;
    for DataRegion { offset, len } in &map {
        if *offset < end {
            return Err(bad(at, format!("the region at {offset} begins before the last one's end")));
        }
        end = offset.checked_add(*len).filter(|end| *end <= size).ok_or_else(|| {
            bad(at, format!("the region of {len} bytes at {offset} goes beyond the file's end at {size}"))
        })?;
        // Cannot overflow: regions do not overlap, and the last one ends within `size`.
        sum += len;
    }
    if sum != stored {
        return Err(bad(at, format!("its regions hold {sum} bytes, the archive {stored}")));
    }
    Ok(map)
}

fn limit(regions: u64, at: u64) -> Result<()> {
    if regions > MAX_REGIONS {
        return Err(bad(at, format!("{regions} regions: more than the {MAX_REGIONS} this reader allows")));
    }
    Ok(())
}

/// Reads the map and the file length of an old GNU sparse member, including the blocks that follow the header.
pub(super) fn old_gnu(header: &[u8], input: &mut dyn ArchiveInput, at: u64) -> Result<(Vec<DataRegion>, u64)> {
    let header = GnuHeader::read_from_bytes(header).map_err(|_| bad(at, "not a block"))?;
    let size = field(&header.real_size, "real size", at)?;
    let mut map = Vec::new();
    let mut more = add_regions(&mut map, &header.regions, at)? && header.is_extended != 0;
    // Checked for each block, as each may announce another one.
    while more {
        limit(map.len() as u64, at)?;
        let block_at = input.offset();
        let block =
            GnuRegions::read_from_bytes(&read_block(input, "sparse map")?).map_err(|_| bad(block_at, "not a block"))?;
        more = add_regions(&mut map, &block.regions, block_at)? && block.is_extended != 0;
    }
    Ok((map, size))
}

/// Adds regions up to the first unused one; returns true if all were used.
fn add_regions(map: &mut Vec<DataRegion>, regions: &[GnuRegion], at: u64) -> Result<bool> {
    for GnuRegion { offset, len } in regions {
        if len[0] == 0 {
            return Ok(false);
        }
        map.push(DataRegion { offset: field(offset, "offset", at)?, len: field(len, "length", at)? });
    }
    Ok(true)
}

/// Reads the map that pax 1.0 places before the data: a count, then an offset and a length for each
/// region, one number per line, padded to a block. Reads at most `stored` bytes.
pub(super) fn in_front(input: &mut dyn ArchiveInput, stored: u64) -> Result<Vec<DataRegion>> {
    let mut lines = NumberLines {
        at: input.offset(),
        end: input.offset().saturating_add(stored),
        input,
        block: [0; BLOCK],
        used: BLOCK,
    };
    let count = lines.number()?;
    limit(count, lines.at)?;
    // Grows with the numbers that are read: their count is only a claim of the archive.
    let mut map = Vec::new();
    for _ in 0..count {
        map.push(DataRegion { offset: lines.number()?, len: lines.number()? });
    }
    Ok(map)
}

/// Numbers, one per line, from whole blocks.
struct NumberLines<'i> {
    input: &'i mut dyn ArchiveInput,
    at: u64,
    end: u64,
    block: [u8; BLOCK],
    used: usize,
}

impl NumberLines<'_> {
    fn number(&mut self) -> Result<u64> {
        let mut digits = [0; 20];
        let mut count = 0;
        loop {
            let byte = self.byte()?;
            match digits.get_mut(count) {
                _ if byte == b'\n' => break,
                Some(digit) => *digit = byte,
                None => return Err(bad(self.at, "a number of more than 20 digits")),
            }
            count += 1;
        }
        parse_decimal(&digits[..count])
            .ok_or_else(|| bad(self.at, format!("`{}` is not a number", digits[..count].escape_ascii())))
    }

    fn byte(&mut self) -> Result<u8> {
        if self.used == BLOCK {
            self.at = self.input.offset();
            if self.end.saturating_sub(self.at) < BLOCK as u64 {
                return Err(bad(self.at, "it goes beyond the member's end"));
            }
            self.block = read_block(self.input, "sparse map")?;
            self.used = 0;
        }
        self.used += 1;
        Ok(self.block[self.used - 1])
    }
}

/// Reads the next block of `structure`, which must be complete.
fn read_block(input: &mut dyn ArchiveInput, structure: &'static str) -> Result<[u8; BLOCK]> {
    let at = input.offset();
    let mut block = [0; BLOCK];
    match input.read(&mut block)? {
        BLOCK => Ok(block),
        got => Err(truncated(structure, at, got as u64, BLOCK as u64)),
    }
}
