//! The data of several shards as that of one image.

use super::data::DataDone;
use crate::build::Joined;
use crate::{Error, Result};

impl Joined for DataDone {
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
}
