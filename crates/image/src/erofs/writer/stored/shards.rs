//! The data of several shards as that of one image.

use super::cluster::{ClusterRange, StoredCluster, StoredLen};
use super::data::{IndexForm, StoredData};
use super::file::{DataLocation, DataView, FileTail, StoredFile};
use super::tails::{KeptTail, TailStore};
use crate::build::{FieldDecoder, FieldEncoder, FileDigest, ReuseLedger, ShardData};
use crate::erofs::writer::counts::ErofsCounts;
use crate::{Error, Result};

/// Counts of the shards before this one, which its numbers and offsets continue.
struct ShardOffsets {
    clusters: u32,
    /// Bytes of the packed inode.
    packed: u64,
    /// Kept bytes.
    kept: u64,
}

impl ShardData for StoredData {
    fn end(&self) -> u64 {
        self.end * self.block_len()
    }

    fn shift(&mut self, by: u64) {
        let blocks = by / self.block_len();
        self.end += blocks;
        // Holes are clusters without bytes.
        self.clusters
            .iter_mut()
            .filter(|cluster| cluster.physical > StoredLen::HOLE)
            .for_each(|cluster| cluster.start += by);
        for file in &mut self.files {
            file.change(|body| match body {
                DataLocation::Plain { start, .. } => *start = start.map(|start| start + blocks),
                DataLocation::Chunks { blocks: chunks, .. } => chunks.iter_mut().flatten().for_each(|at| *at += blocks),
                DataLocation::Compressed { .. } => {}
            });
        }
    }

    fn append(&mut self, mut next: Self) -> Result<()> {
        let too_many = |what| move |_| Error::TooMany { what, max: 1 << 32 };
        let count = |list: &[StoredCluster]| u32::try_from(list.len());
        let before = ShardOffsets {
            clusters: count(&self.clusters).map_err(too_many("clusters"))?,
            packed: self.packed.as_ref().map_or(0, |packed| packed.size),
            kept: self.keep.append(&next.keep).map_err(Error::io("cannot write", "a temporary file"))?,
        };
        self.clusters.append(&mut next.clusters);
        // The total is checked as well, because clusters have numbers of 32 bits.
        count(&self.clusters).map_err(too_many("clusters"))?;
        u32::try_from(self.files.len() + next.files.len()).map_err(too_many("files"))?;
        for file in &mut next.files {
            before.place(file)?;
        }
        self.files.append(&mut next.files);
        self.sums.append(&mut next.sums);
        next.packed_pieces.iter_mut().for_each(|part| part.first += before.clusters);
        self.packed_pieces.append(&mut next.packed_pieces);
        if let Some(mut packed) = next.packed {
            before.place(&mut packed)?;
            match &mut self.packed {
                // The first one ends with a whole block.
                Some(first) => first.append(packed)?,
                none => *none = Some(packed),
            }
        }
        self.content = blake3::hash(&[*self.content.as_bytes(), *next.content.as_bytes()].concat());
        self.shares_clusters |= next.shares_clusters;
        self.counts.add(&next.counts);
        self.end = next.end;
        Ok(())
    }

    fn files(&self) -> usize {
        self.files.len()
    }

    fn put_sums(&mut self, sums: Vec<FileDigest>) {
        self.sums = sums;
    }

    fn encode(&self, to: &mut dyn FieldEncoder) -> Result<()> {
        to.u64(self.end);
        to.count(self.clusters.len());
        // An image in shards has one algorithm.
        // Files of different shards share no clusters, so nothing depends on page offsets any more.
        for StoredCluster { device: _, start, physical, logical, raw, algorithm: _, partial, page_offset: _ } in
            &self.clusters
        {
            to.u64(*start);
            to.u32(physical.get());
            to.u32(*logical);
            to.u8(u8::from(*raw) | u8::from(*partial) << 1);
        }
        to.count(self.files.len());
        self.files.iter().for_each(|file| file.encode(to));
        to.u8(u8::from(self.packed.is_some()));
        self.packed.iter().for_each(|packed| packed.encode(to));
        put_parts(&self.packed_pieces, to);
        to.put(self.content.as_bytes());
        to.u8(u8::from(self.shares_clusters));
        let ErofsCounts {
            clusters,
            raw_clusters,
            shared_clusters,
            packed_bytes,
            fragment_bytes,
            duplicate_bytes,
            hole_bytes,
        } = self.counts;
        let counts =
            [clusters, raw_clusters, shared_clusters, packed_bytes, fragment_bytes, duplicate_bytes, hole_bytes];
        counts.into_iter().for_each(|count| to.u64(count));
        self.sums.iter().for_each(|sum| to.put(sum));
        to.u64(self.keep.len());
        let copied = self.keep.copy(|bytes| {
            to.put(bytes);
            Ok(())
        });
        copied.map_err(Error::io("cannot read back", "a temporary file"))
    }
}

fn decode_cluster(from: &mut FieldDecoder<'_>, algorithm: u8) -> Result<StoredCluster> {
    let start = from.u64()?;
    let physical = from.u32()?;
    let logical = from.u32()?;
    let flags = from.u8()?;
    let raw = flags & 1 != 0;
    let partial = flags & 2 != 0;
    let physical = StoredLen::new(physical.into()).ok_or_else(|| from.wrong("a cluster is too long"))?;
    Ok(StoredCluster { device: 0, start, physical, logical, raw, algorithm, partial, page_offset: 0 })
}

fn decode_counts(from: &mut FieldDecoder<'_>) -> Result<ErofsCounts> {
    Ok(ErofsCounts {
        clusters: from.u64()?,
        raw_clusters: from.u64()?,
        shared_clusters: from.u64()?,
        packed_bytes: from.u64()?,
        fragment_bytes: from.u64()?,
        duplicate_bytes: from.u64()?,
        hole_bytes: from.u64()?,
    })
}

impl StoredData {
    /// Takes the data of a shard; data after inodes is kept in `keep`. `with_sums` tells whether files have digests.
    pub(crate) fn decode(
        from: &mut FieldDecoder<'_>,
        form: IndexForm,
        mut keep: TailStore,
        with_sums: bool,
    ) -> Result<StoredData> {
        let end = from.u64()?;
        let clusters = from.list(17, |from| decode_cluster(from, form.algorithm))?;
        let files = from.list(10, |from| StoredFile::decode(from, clusters.len(), form))?;
        let packed = from.bool()?.then(|| StoredFile::decode(from, clusters.len(), form)).transpose()?;
        let packed_pieces = get_parts(from, clusters.len())?;
        let content = blake3::Hash::from_bytes(from.array()?);
        let shares_clusters = from.bool()?;
        let counts = decode_counts(from)?;
        let sums = if with_sums { files.iter().map(|_| from.array()).collect::<Result<_>>()? } else { Vec::new() };
        let kept = from.bytes()?;
        keep.put_all(kept).map_err(Error::io("cannot write", "a temporary file"))?;
        let packed_len = packed.as_ref().map_or(0, |packed| packed.size);
        let kept_len = kept.len() as u64;
        let fits = files.iter().chain(&packed).all(|file| file.fits(packed_len, kept_len));
        from.check(fits, "a file has a tail that does not exist")?;
        let ledger = ReuseLedger::default();
        Ok(StoredData {
            end,
            files,
            clusters,
            form,
            packed,
            packed_pieces,
            keep,
            content,
            shares_clusters,
            counts,
            referred_bytes: 0,
            device: 0,
            device_starts: Vec::new(),
            blob_bytes: 0,
            ledger,
            sums,
        })
    }
}

fn put_parts(parts: &[ClusterRange], to: &mut dyn FieldEncoder) {
    to.count(parts.len());
    for ClusterRange { first, count } in parts {
        to.u32(*first);
        to.u32(*count);
    }
}

fn get_parts(from: &mut FieldDecoder<'_>, clusters: usize) -> Result<Vec<ClusterRange>> {
    from.list(8, |from| {
        let part = ClusterRange { first: from.u32()?, count: from.u32()? };
        let fits = part.first.checked_add(part.count).is_some_and(|end| end as usize <= clusters);
        from.check(fits, "a file has clusters that do not exist").map(|()| part)
    })
}

fn put_kept(kept: KeptTail, to: &mut dyn FieldEncoder) {
    to.u64(kept.start());
    to.u32(u32::try_from(kept.len()).expect("16 bits"));
}

fn get_kept(from: &mut FieldDecoder<'_>) -> Result<KeptTail> {
    let start = from.u64()?;
    let len = from.u32()?;
    let kept = usize::try_from(len).ok().and_then(|len| KeptTail::new(start, len));
    kept.ok_or_else(|| from.wrong("a tail is too long"))
}

impl StoredFile {
    fn encode(&self, to: &mut dyn FieldEncoder) {
        to.u64(self.size);
        match self.view() {
            // An image in shards has no additional devices.
            DataView::Plain { device: _, start, tail } => {
                to.u8(0);
                put_block(start, to);
                put_kept(tail, to);
            }
            DataView::Chunks { device: _, bits, blocks } => {
                to.u8(1);
                to.u8(bits);
                to.count(blocks.len());
                blocks.iter().for_each(|block| put_block(*block, to));
            }
            DataView::Compressed { parts, tail } => {
                to.u8(2);
                put_parts(parts, to);
                match tail {
                    None => to.u8(0),
                    Some(FileTail::Fragment(offset)) => {
                        to.u8(1);
                        to.u64(offset);
                    }
                    Some(FileTail::Inline { kept, raw, algorithm: _ }) => {
                        to.u8(2 + u8::from(raw));
                        put_kept(kept, to);
                    }
                }
            }
        }
    }

    fn decode(from: &mut FieldDecoder<'_>, clusters: usize, form: IndexForm) -> Result<StoredFile> {
        let size = from.u64()?;
        let body = match from.u8()? {
            0 => DataLocation::Plain { device: 0, start: get_block(from)?, tail: get_kept(from)? },
            1 => DataLocation::Chunks { device: 0, bits: from.u8()?, blocks: from.list(8, get_block)?.into() },
            2 => {
                let parts = get_parts(from, clusters)?.into();
                let tail = match from.u8()? {
                    0 => None,
                    1 => Some(FileTail::Fragment(from.u64()?)),
                    raw => Some(FileTail::Inline { kept: get_kept(from)?, raw: raw == 3, algorithm: form.algorithm }),
                };
                DataLocation::Compressed { parts, tail }
            }
            _ => return Err(from.wrong("a file has an unknown form")),
        };
        Ok(StoredFile::new(size, body))
    }

    /// Returns true if all that follows the inode, or is in the packed inode, is within these lengths.
    fn fits(&self, packed: u64, kept: u64) -> bool {
        let has = |tail: KeptTail| tail.start() + tail.len() as u64 <= kept;
        match self.view() {
            DataView::Plain { tail, .. } => has(tail),
            DataView::Compressed { tail: Some(FileTail::Inline { kept, .. }), .. } => has(kept),
            DataView::Compressed { tail: Some(FileTail::Fragment(offset)), .. } => offset <= packed,
            DataView::Compressed { tail: None, .. } | DataView::Chunks { .. } => true,
        }
    }
}

/// Puts a block; a hole is one that no image has.
fn put_block(block: Option<u64>, to: &mut dyn FieldEncoder) {
    to.u64(block.unwrap_or(u64::MAX));
}

fn get_block(from: &mut FieldDecoder<'_>) -> Result<Option<u64>> {
    let block = from.u64()?;
    from.check(block == u64::MAX || block < 1 << 55, "a block lies beyond every image")?;
    Ok(Some(block).filter(|block| *block != u64::MAX))
}

impl ShardOffsets {
    /// Lets the data of a file continue what came before.
    fn place(&self, file: &mut StoredFile) -> Result<()> {
        file.change(|body| match body {
            DataLocation::Plain { tail, .. } => self.keep(tail),
            DataLocation::Chunks { .. } => Ok(()),
            DataLocation::Compressed { parts, tail } => {
                parts.iter_mut().for_each(|part| part.first += self.clusters);
                match tail {
                    Some(FileTail::Fragment(offset)) => *offset += self.packed,
                    Some(FileTail::Inline { kept, .. }) => self.keep(kept)?,
                    None => {}
                }
                Ok(())
            }
        })
    }

    fn keep(&self, kept: &mut KeptTail) -> Result<()> {
        *kept = kept.moved(self.kept).ok_or(Error::TooMany { what: "bytes of tails", max: 1 << 48 })?;
        Ok(())
    }
}
