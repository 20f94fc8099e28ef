//! The units of an image: its stored blocks, and pieces of what lies between them. Equal units of two images are found by
//! digest.

use std::ops::Range;
use std::sync::Arc;

use packfs_blocks::pipeline::{Pool, Window};
use packfs_blocks::{Digest, Progress, ReadAt};
use packfs_image::stored_blocks::{BlockCoding, StoredBlock};
use packfs_image::{AnyImage, Error as ImageError, OpenOptions};

use crate::PatchEffort;
use crate::error::{Error, Result};
use crate::identity::FileIdentity;
use crate::make::PatchWorker;

/// Bytes between blocks are cut at multiples of this length: the block size of EROFS, in whose steps uncompressed files
/// move.
const PIECE_LEN: u64 = 4096;
/// Bytes that a job reads and hashes: many units have a few KiB, for which a job would cost more than the hashing.
const BATCH_LEN: usize = 1 << 20;

/// A file, and the image in it if there is one.
#[derive(Debug)]
pub(crate) struct DeltaFile {
    pub(crate) bytes: Arc<dyn ReadAt>,
    pub(crate) image: Option<AnyImage>,
    pub(crate) blocks: Vec<StoredBlock>,
    pub(crate) units: Vec<FileUnit>,
}

/// A stored block, or a piece of what lies between blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileUnit {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Number of the block.
    pub(crate) block: Option<u32>,
}

impl FileUnit {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Digests of all units, and the identity of the file.
#[derive(Debug)]
pub(crate) struct HashedUnits {
    pub(crate) digests: Vec<[u8; 16]>,
    pub(crate) identity: FileIdentity,
}

impl DeltaFile {
    /// Lists the units of a file. One that is no image, or whose metadata is damaged, is a file of plain bytes.
    pub(crate) fn open(bytes: &Arc<dyn ReadAt>) -> Result<Self> {
        let opened = AnyImage::open(Arc::clone(bytes), OpenOptions::default());
        let listed = opened.and_then(|image| image.stored_blocks().map(|blocks| (image, blocks)));
        let (image, blocks) = match listed {
            Ok((image, blocks)) => (Some(image), blocks),
            // Only a failed read is an error. Whatever the metadata has wrong, plain bytes still make a patch.
            Err(error @ ImageError::Io { .. }) => return Err(error.into()),
            Err(_) => (None, Vec::new()),
        };
        let units = units_of(bytes.len(), &blocks)?;
        Ok(DeltaFile { bytes: Arc::clone(bytes), image, blocks, units })
    }

    /// Returns the block of a unit.
    pub(crate) fn block(&self, unit: &FileUnit) -> Option<&StoredBlock> {
        self.blocks.get(usize::try_from(unit.block?).ok()?)
    }

    /// Returns true if a unit has an encoded block.
    pub(crate) fn is_encoded(&self, unit: &FileUnit) -> bool {
        self.block(unit).is_some_and(|block| block.coding != BlockCoding::Plain)
    }

    /// Reads a range of stored bytes.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let len = usize::try_from(range.end - range.start).unwrap_or_default();
        let mut stored = vec![0; len];
        self.bytes.read_exact_at(&mut stored, range.start).map_err(Error::io("cannot read an image"))?;
        Ok(stored)
    }

    /// Hashes all units and the file.
    pub(crate) fn hash<'env>(&'env self, pool: &Pool<'env, PatchWorker>, effort: &PatchEffort) -> Result<HashedUnits> {
        let mut window = Window::new(effort.threads.max(1) * (2 << 20));
        let mut hasher = blake3::Hasher::new();
        let mut digests = Vec::with_capacity(self.units.len());
        let mut take = |hashed: Result<HashedBatch>| -> Result<()> {
            let hashed = hashed?;
            hasher.update(&hashed.stored);
            Progress::add(&effort.progress.done, hashed.stored.len() as u64);
            digests.extend(hashed.digests);
            Ok(())
        };
        let mut first = 0;
        while first < self.units.len() {
            effort.check()?;
            let start = self.units[first].offset;
            // At least one: a unit may be longer than a batch.
            let more =
                self.units[first..].iter().take_while(|unit| unit.end() - start <= BATCH_LEN as u64).count().max(1);
            let batch = &self.units[first..first + more];
            first += more;
            window.push(pool.submit(move |_| self.hash_batch(batch)), BATCH_LEN);
            if window.is_full() {
                window.pop().map_or(Ok(()), &mut take)?;
            }
        }
        while let Some(hashed) = window.pop() {
            take(hashed)?;
        }
        let identity = FileIdentity { len: self.bytes.len(), digest: *hasher.finalize().as_bytes() };
        Ok(HashedUnits { digests, identity })
    }

    fn hash_batch(&self, batch: &[FileUnit]) -> Result<HashedBatch> {
        let start = batch[0].offset;
        let stored = self.read(start..batch[batch.len() - 1].end())?;
        let digest = |unit: &FileUnit| {
            let from = usize::try_from(unit.offset - start).unwrap_or_default();
            let to = usize::try_from(unit.end() - start).unwrap_or_default();
            // Half a digest is enough to find equal units: the result is compared with the full digest of the file.
            *Digest::of(&stored[from..to]).half().as_bytes()
        };
        let digests = batch.iter().map(digest).collect();
        Ok(HashedBatch { digests, stored })
    }
}

struct HashedBatch {
    digests: Vec<[u8; 16]>,
    stored: Vec<u8>,
}

/// Returns the units of a file of `len` bytes.
fn units_of(len: u64, blocks: &[StoredBlock]) -> Result<Vec<FileUnit>> {
    let mut units = Vec::new();
    let mut at = 0;
    let add_pieces = |units: &mut Vec<FileUnit>, range: Range<u64>| {
        let mut at = range.start;
        while at < range.end {
            // Cut at multiples in the file and not in the gap, so that equal data at equal alignment gives equal
            // pieces.
            let end = (at + 1).next_multiple_of(PIECE_LEN).min(range.end);
            units.push(FileUnit { offset: at, len: end - at, block: None });
            at = end;
        }
    };
    for (number, block) in blocks.iter().enumerate() {
        // Blocks are in order and do not overlap, as `stored_blocks` promises.
        add_pieces(&mut units, at..block.position);
        at = block.position + block.len;
        let number = u32::try_from(number)
            .map_err(|_| Error::from(ImageError::TooMany { what: "stored blocks", max: u32::MAX.into() }))?;
        units.push(FileUnit { offset: block.position, len: block.len, block: Some(number) });
    }
    add_pieces(&mut units, at..len);
    Ok(units)
}
