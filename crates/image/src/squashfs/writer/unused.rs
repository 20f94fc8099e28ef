//! Clears data that no file refers to: members of a stream that a later one replaced, files that
//! could not be read completely. Data blocks become zeros. Unused fragment blocks lose their entry.
//! Fragment blocks still used in part are compressed again with zeros in place of the rest.

use std::collections::BTreeMap;
use std::ops::Range;

use packfs_blocks::Output;
use packfs_blocks::dedup::BlockNumber;

use super::data::{BlockPlace, DataDone, WrittenFile};
use super::pack::{BlockPacker, PackOptions, PackedBlock};
use crate::build::referenced;
use crate::squashfs::format::DATA_RAW;
use crate::tree::Tree;
use crate::{Error, Result};

/// Clears all data that no file of the tree refers to. The image begins at byte `base` of the output.
pub(crate) fn clear(tree: &Tree, data: &mut DataDone, packing: &PackOptions, output: &Output, base: u64) -> Result<()> {
    let Some(used) = referenced(tree, data.files.len()) else { return Ok(()) };
    let used = UsedData::of(data, &used, packing.block_len);
    let image = WrittenImage { output, base };
    for (place, _) in data.places.iter().zip(&used.places).filter(|(_, used)| !**used) {
        image.write(&vec![0; len_of(*place)], place.start)?;
    }
    for (fragment, tails) in &used.tails {
        let seq = data.fragments[*fragment as usize];
        repack(data, seq, tails, packing, image)?;
    }
    if used.tails.len() < data.fragments.len() {
        drop_fragments(data, &used.tails);
    }
    Ok(())
}

/// The part of the data that files refer to.
struct UsedData {
    /// Used blocks, by sequence number.
    places: Vec<bool>,
    /// Used byte ranges of each fragment block that is used in part.
    tails: BTreeMap<u32, Vec<Range<usize>>>,
}

impl UsedData {
    fn of(data: &DataDone, files: &[bool], block_len: usize) -> Self {
        let mut places = vec![false; data.places.len()];
        let mut tails = BTreeMap::<u32, Vec<_>>::new();
        for (stored, _) in data.files.iter().zip(files).filter(|(_, used)| **used) {
            places[stored.run()].fill(true);
            if let Some(tail) = stored.tail {
                let start = tail.offset() as usize;
                tails.entry(tail.fragment).or_default().push(start..start + tail_len(stored, block_len));
                places[data.fragments[tail.fragment as usize] as usize] = true;
            }
        }
        UsedData { places, tails }
    }
}

fn tail_len(stored: &WrittenFile, block_len: usize) -> usize {
    let blocks = u64::from(stored.blocks) * block_len as u64;
    usize::try_from(stored.size - blocks).expect("a tail is shorter than a block")
}

fn len_of(place: BlockPlace) -> usize {
    usize::try_from(place.len()).expect("at most a block")
}

/// The image within its output.
#[derive(Clone, Copy)]
struct WrittenImage<'o> {
    output: &'o Output,
    base: u64,
}

impl WrittenImage<'_> {
    fn write(self, bytes: &[u8], at: u64) -> Result<()> {
        let written = self.output.write_all_at(bytes, self.base + at);
        written.map_err(Error::io("cannot write", self.output.target()))
    }

    fn read(self, place: BlockPlace) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len_of(place)];
        let read = self.output.read_exact_at(&mut bytes, self.base + place.start);
        read.map_err(Error::io("cannot read back", self.output.target()))?;
        Ok(bytes)
    }
}

/// Compresses a fragment block again if it contains anything besides `tails`: in its old place if
/// it fits there, otherwise after all other data.
fn repack(
    data: &mut DataDone,
    seq: BlockNumber,
    tails: &[Range<usize>],
    packing: &PackOptions,
    image: WrittenImage<'_>,
) -> Result<()> {
    let place = data.places[seq as usize];
    let packed = image.read(place)?;
    let mut raw = packing.buffers.take(packing.block_len);
    let len = if place.word & DATA_RAW != 0 {
        raw[..packed.len()].copy_from_slice(&packed);
        packed.len()
    } else {
        packing.choice.codec().decoder()?.decode(&packed, &mut raw)?
    };
    raw.truncate(len);
    if !clear_outside(&mut raw, tails) {
        return Ok(());
    }
    let repacked =
        if packing.plain_fragments { PackedBlock::raw(raw) } else { BlockPacker::new(packing).pack(raw, None)? };
    let fits = repacked.bytes.len() <= packed.len();
    let start = if fits { place.start } else { data.pos };
    image.write(&vec![0; packed.len()], place.start)?;
    image.write(&repacked.bytes, start)?;
    data.places[seq as usize] = BlockPlace { start, word: repacked.word };
    if !fits {
        data.pos += repacked.bytes.len() as u64;
    }
    Ok(())
}

/// Zeroes the bytes outside of `ranges`; returns false if there were none to zero.
fn clear_outside(bytes: &mut [u8], ranges: &[Range<usize>]) -> bool {
    let mut ranges = ranges.to_vec();
    ranges.sort_by_key(|range| range.start);
    let mut at = 0;
    let mut cleared = false;
    for range in ranges.into_iter().chain(std::iter::once(bytes.len()..bytes.len())) {
        if range.start > at {
            bytes[at..range.start].fill(0);
            cleared = true;
        }
        at = at.max(range.end);
    }
    cleared
}

/// Removes unused fragments and renumbers the rest.
fn drop_fragments(data: &mut DataDone, used: &BTreeMap<u32, Vec<Range<usize>>>) {
    let numbers: BTreeMap<u32, u32> = used.keys().copied().zip(0..).collect();
    data.fragments = used.keys().map(|fragment| data.fragments[*fragment as usize]).collect();
    for tail in data.files.iter_mut().filter_map(|file| file.tail.as_mut()) {
        tail.fragment = numbers.get(&tail.fragment).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_outside_of_ranges_become_zeros() {
        let table: [(&[Range<usize>], &[u8]); 5] = [
            (&[], b"\0\0\0\0\0\0"),
            (&[0..2, 2..6], b"abcdef"),
            (&[3..6, 0..3], b"abcdef"),
            (&[4..5, 1..2, 1..2], b"\0b\0\0e\0"),
            (&[1..4, 2..3], b"\0bcd\0\0"),
        ];
        for (ranges, want) in table {
            let mut bytes = *b"abcdef";
            assert_eq!(clear_outside(&mut bytes, ranges), want != b"abcdef", "{ranges:?}");
            assert_eq!(bytes, *want, "{ranges:?}");
        }
    }
}
