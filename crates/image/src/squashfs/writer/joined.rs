//! The data of several shards as that of one image.

use super::SquashfsCounts;
use super::data::{BlockPlace, DataDone, FileHoles, TailPlace, WrittenFile};
use crate::build::{FieldDecoder, FieldEncoder, ReuseLedger, ShardData};
use crate::{Error, Result};

impl ShardData for DataDone {
    fn end(&self) -> u64 {
        self.pos
    }

    fn shift(&mut self, by: u64) {
        self.pos += by;
        self.places.iter_mut().for_each(|place| place.start += by);
    }

    fn append(&mut self, mut next: Self) -> Result<()> {
        let too_many = |what| move |_| Error::TooMany { what, max: u32::MAX.into() };
        let blocks = u32::try_from(self.places.len()).expect("counted in 32 bits");
        let fragments = u32::try_from(self.fragments.len()).expect("counted in 32 bits");
        u32::try_from(self.places.len() + next.places.len()).map_err(too_many("blocks"))?;
        u32::try_from(self.files.len() + next.files.len()).map_err(too_many("files"))?;
        for file in &mut next.files {
            file.first += blocks;
            if let Some(tail) = &mut file.tail {
                tail.fragment += fragments;
            }
        }
        self.files.append(&mut next.files);
        self.fragments.extend(next.fragments.iter().map(|seq| blocks + seq));
        self.places.append(&mut next.places);
        self.counts.add(&next.counts);
        self.pos = next.pos;
        Ok(())
    }

    fn files(&self) -> usize {
        self.files.len()
    }

    fn encode(&self, to: &mut dyn FieldEncoder) -> Result<()> {
        to.count(self.places.len());
        for place in &self.places {
            to.u64(place.start);
            to.u32(place.word);
        }
        to.count(self.fragments.len());
        self.fragments.iter().for_each(|seq| to.u32(*seq));
        to.count(self.files.len());
        self.files.iter().for_each(|file| file.encode(to));
        let SquashfsCounts { blocks, raw_blocks, copied_blocks, packed_bytes, duplicate_bytes, hole_bytes } =
            self.counts;
        let counts = [blocks, raw_blocks, copied_blocks, packed_bytes, duplicate_bytes, hole_bytes];
        counts.into_iter().for_each(|count| to.u64(count));
        to.u64(self.pos);
        Ok(())
    }
}

impl DataDone {
    /// Takes the data of a shard.
    pub(super) fn decode(from: &mut FieldDecoder<'_>) -> Result<DataDone> {
        let places = from.list(12, |from| Ok(BlockPlace { start: from.u64()?, word: from.u32()? }))?;
        let fragments = from.list(4, |from| {
            let seq = from.u32()?;
            from.check((seq as usize) < places.len(), "a fragment block does not exist").map(|()| seq)
        })?;
        let files = from.list(18, |from| {
            let file = WrittenFile::decode(from)?;
            let tail = file.tail.is_none_or(|tail| (tail.fragment as usize) < fragments.len());
            from.check(tail && file.run().end <= places.len(), "a file has blocks that do not exist").map(|()| file)
        })?;
        let counts = SquashfsCounts {
            blocks: from.u64()?,
            raw_blocks: from.u64()?,
            copied_blocks: from.u64()?,
            packed_bytes: from.u64()?,
            duplicate_bytes: from.u64()?,
            hole_bytes: from.u64()?,
        };
        Ok(DataDone { pos: from.u64()?, files, places, fragments, counts, ledger: ReuseLedger::default() })
    }
}

impl WrittenFile {
    fn encode(&self, to: &mut dyn FieldEncoder) {
        to.u64(self.size);
        to.u32(self.first);
        to.u32(self.blocks);
        to.u8(u8::from(self.tail.is_some()));
        if let Some(tail) = self.tail {
            to.u32(tail.fragment);
            to.u32(tail.offset());
        }
        to.u8(u8::from(self.holes.is_some()));
        if let Some(holes) = &self.holes {
            to.count(holes.ranges.len());
            for range in &holes.ranges {
                to.u32(range.start);
                to.u32(range.end);
            }
            to.u64(holes.bytes);
        }
    }

    fn decode(from: &mut FieldDecoder<'_>) -> Result<WrittenFile> {
        let size = from.u64()?;
        let first = from.u32()?;
        let blocks = from.u32()?;
        let mut tail = None;
        if from.bool()? {
            tail = TailPlace::new(from.u32()?, from.u32()?);
            from.check(tail.is_some(), "a tail lies outside of every block")?;
        }
        let mut holes = None;
        if from.bool()? {
            let mut before = 0;
            let ranges = from.list(8, |from| {
                let range = from.u32()?..from.u32()?;
                let fits = before <= range.start && range.start <= range.end && range.end <= blocks;
                before = range.end;
                from.check(fits, "a hole lies outside of its file").map(|()| range)
            })?;
            holes = Some(Box::new(FileHoles { ranges, bytes: from.u64()? }));
        }
        Ok(WrittenFile { size, first, blocks, tail, holes })
    }
}
