//! The data of several shards as that of one image.

use super::data::{Body, DataDone, Stored};
use super::index::{Cluster, End, Part};
use super::keep::Kept;
use crate::build::Joined;
use crate::{Error, Result};

/// What shards before this one have, which the numbers and offsets of this one continue.
struct Before {
    clusters: u32,
    /// Bytes of the packed inode.
    packed: u64,
    /// Kept bytes.
    kept: u64,
}

impl Joined for DataDone {
    fn end(&self) -> u64 {
        self.end * self.block_len()
    }

    fn shift(&mut self, by: u64) {
        let blocks = by / self.block_len();
        self.end += blocks;
        // Holes are clusters without bytes.
        self.clusters.iter_mut().filter(|cluster| cluster.physical > 0).for_each(|cluster| cluster.start += by);
        for file in &mut self.files {
            match &mut file.body {
                Body::Plain { start, .. } => *start = start.map(|start| start + blocks),
                Body::Chunks { blocks: chunks, .. } => chunks.iter_mut().flatten().for_each(|at| *at += blocks),
                Body::Compressed { .. } => {}
            }
        }
    }

    fn append(&mut self, mut next: Self) -> Result<()> {
        let too_many = |what| move |_| Error::TooMany { what, max: 1 << 32 };
        let count = |list: &[Cluster]| u32::try_from(list.len());
        let before = Before {
            clusters: count(&self.clusters).map_err(too_many("clusters"))?,
            packed: self.packed.as_ref().map_or(0, |packed| packed.size),
            kept: self.keep.append(&next.keep).map_err(Error::io("cannot write", "a temporary file"))?,
        };
        self.clusters.append(&mut next.clusters);
        count(&self.clusters).map_err(too_many("clusters"))?;
        u32::try_from(self.files.len() + next.files.len()).map_err(too_many("files"))?;
        for file in &mut next.files {
            before.place(file)?;
        }
        self.files.append(&mut next.files);
        next.packed_pieces.iter_mut().for_each(|part| part.first += before.clusters);
        self.packed_pieces.append(&mut next.packed_pieces);
        if let Some(mut packed) = next.packed {
            before.place(&mut packed)?;
            self.packed = Some(self.packed.take().map_or(Ok(packed.clone()), |first| joined(first, packed))?);
        }
        self.content = blake3::hash(&[*self.content.as_bytes(), *next.content.as_bytes()].concat());
        self.shares_clusters |= next.shares_clusters;
        self.counts.add(&next.counts);
        self.end = next.end;
        Ok(())
    }
}

impl Before {
    /// Lets the data of a file continue what came before.
    fn place(&self, file: &mut Stored) -> Result<()> {
        match &mut file.body {
            Body::Plain { tail, .. } => self.keep(tail)?,
            Body::Chunks { .. } => {}
            Body::Compressed { parts, end } => {
                parts.iter_mut().for_each(|part| part.first += self.clusters);
                match end {
                    Some(End::Fragment(offset)) => *offset += self.packed,
                    Some(End::Inline { kept, .. }) => self.keep(kept)?,
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn keep(&self, kept: &mut Kept) -> Result<()> {
        *kept = kept.moved(self.kept).ok_or(Error::TooMany { what: "bytes of tails", max: 1 << 48 })?;
        Ok(())
    }
}

/// Returns one packed inode behind the other. The first one ends with a whole block.
fn joined(first: Stored, second: Stored) -> Result<Stored> {
    let parts = |stored: &Stored| match &stored.body {
        Body::Compressed { parts, end: None } => Ok(parts.clone()),
        _ => Err(Error::Misuse("the packed inode consists of clusters only".into())),
    };
    let all: Vec<Part> = parts(&first)?.iter().chain(&parts(&second)?).copied().collect();
    Ok(Stored { size: first.size + second.size, body: Body::Compressed { parts: all.into(), end: None } })
}
