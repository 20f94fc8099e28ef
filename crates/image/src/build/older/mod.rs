//! Reuse of compressed data from an older image, and the index that makes the new image reusable.
//!
//! A unit is data that is compressed on its own: a SquashFS block, a piece of an EROFS file. Its compressed form
//! depends on its content, on how it is packed, and on the encoder. So a unit that the older image contains in the same
//! encoding need not be compressed again. The [`UnitIndex`] beside that image lists its units and their positions.
//!
//! Workers look for units ([`ReusableUnits::find`]) before they encode. The conductor's decisions do not change, so
//! neither do the bytes of the image. A unit is compared with its digest in the index, which proves that it is the
//! encoder's own result, and then verified like any other. Damaged units are not reused.

mod index;
mod ledger;
mod trial;
mod update;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::hash::HalfDigest;
use packfs_blocks::io::FileAt;
use packfs_blocks::{Digest, Output, ReadAt};
use packfs_codec::{Codec, Encoder};

use self::index::{ImageStart, UnitIndex};
pub(crate) use self::index::{OlderUnit, UnitStretch};
pub(crate) use self::ledger::ReuseLedger;
pub use self::ledger::ReusedData;
pub(super) use self::trial::digest as trial;
use super::{SharedOptions, output_error};
use crate::{Error, Result, Warning, WarningKind, Warnings};

/// An older image whose compressed blocks are reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReusedImage {
    /// Path of the image.
    pub image: PathBuf,
    /// Path of its index.
    pub index: PathBuf,
}

/// Key of a unit: its content, and how it is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitKey {
    digest: [u8; 16],
    form: u8,
}

impl UnitKey {
    /// Returns the key of content with this digest. `form` distinguishes the ways in which one encoder packs the same
    /// content.
    pub(crate) fn new(digest: &Digest, form: u8) -> Self {
        UnitKey { digest: *digest.half().as_bytes(), form }
    }
}

/// A unit that will be recorded in an index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotedUnit {
    pub(crate) key: UnitKey,
    /// Digest of its bytes in the image.
    pub(crate) check: HalfDigest,
    pub(crate) fate: UnitOrigin,
}

/// Origin of a unit's compressed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitOrigin {
    /// Compressed now: the older image does not contain it.
    Fresh,
    /// Reused from the older image.
    Taken,
    /// Compressed now, because the older image has other bytes than its index says.
    Damaged,
}

/// Units of the older image, and whether those of the new one are recorded. All workers share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReusableUnits(Option<Arc<SharedUnits>>);

#[derive(Debug)]
struct SharedUnits {
    /// Everything but the units that compressed bytes depend on.
    encoder: String,
    index: Option<PathBuf>,
    older: Option<OlderImage>,
    /// Reason why the older image cannot be used.
    unfit: Option<Warning>,
}

#[derive(Debug)]
struct OlderImage {
    image: FileAt,
    index: UnitIndex,
}

impl ReusableUnits {
    /// Opens the older image and its index, if the options name them. `how` describes all that the compressed form
    /// depends on except the codec; `encoder` creates an encoder of units of up to `len` bytes.
    pub(crate) fn open(
        options: &SharedOptions,
        format: &str,
        how: &str,
        len: usize,
        encoder: impl FnOnce() -> packfs_codec::Result<Box<dyn Encoder>>,
    ) -> Result<Self> {
        let SharedOptions { codec, index, reuse, .. } = options;
        if index.is_none() && reuse.is_none() {
            return Ok(ReusableUnits(None));
        }
        // To copy is what an uncompressed build does anyway.
        if codec.codec() == Codec::None {
            return Err(Error::option("codec", "none", "without compression there is nothing to reuse and no index"));
        }
        let version = env!("CARGO_PKG_VERSION");
        let library = codec.codec().library();
        let trial = trial::digest(&mut *encoder()?, len)?;
        // The version of packfs too: its own encoders and decisions may change with each, and the bytes must
        // be those of a build from scratch.
        let encoder = format!("packfs {version}, {library}, {format} {codec}, {how}, trial {trial}");
        let (older, unfit) = match reuse.as_ref().map(|reuse| OlderImage::open(reuse, &encoder)).transpose()? {
            None => (None, None),
            Some(Ok(older)) => (Some(older), None),
            Some(Err(unfit)) => (None, Some(unfit)),
        };
        Ok(ReusableUnits(Some(Arc::new(SharedUnits { encoder, index: index.clone(), older, unfit }))))
    }

    /// Returns true if units are looked up, recorded, or both.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns true if there is an older image to compare with.
    fn has_older(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.older.is_some() || shared.unfit.is_some())
    }

    fn is_noting(&self) -> bool {
        self.index().is_some()
    }

    fn index(&self) -> Option<&Path> {
        self.0.as_ref()?.index.as_deref()
    }

    fn older(&self) -> Option<&OlderImage> {
        self.0.as_ref()?.older.as_ref()
    }

    /// Looks up a unit of the older image.
    pub(crate) fn find(&self, key: &UnitKey) -> Option<OlderUnit<'_>> {
        self.older()?.index.find(key)
    }

    /// Reads a stretch of the older image; false if it does not exist. The caller verifies the bytes.
    pub(crate) fn read(&self, stretch: &UnitStretch, dst: &mut [u8]) -> bool {
        self.older().is_some_and(|older| older.image.read_exact_at(dst, stretch.start).is_ok())
    }

    /// Warns if the older image cannot be used.
    pub(crate) fn warn(&self, warnings: &mut Warnings) -> Result<()> {
        let unfit = self.0.as_ref().and_then(|shared| shared.unfit.clone());
        unfit.map_or(Ok(()), |unfit| warnings.add(unfit))
    }

    /// Creates the index of the new image, if requested.
    pub(super) fn begin_index(&self, force: bool) -> Result<Option<Output>> {
        let begin = |path: &Path| Output::create(path, 0o666, force).map_err(output_error("cannot create", path));
        self.index().map(begin).transpose()
    }

    /// Writes the index of an image of `len` bytes at offset `base` of `image`.
    pub(super) fn write_index(
        &self,
        index: &Output,
        ledger: ReuseLedger,
        image: &Output,
        (base, len): (u64, u64),
    ) -> Result<()> {
        let Some(shared) = &self.0 else { return Ok(()) };
        let mut head = vec![0; ImageStart::len(len)];
        // Read back: the superblock was written last, by the format's own writer.
        image.read_exact_at(&mut head, base).map_err(Error::io("cannot read back", image.target()))?;
        let head = ImageStart { base, digest: Digest::of(&head), len };
        let bytes = ledger.index(&head, &shared.encoder);
        index.write_all_at(&bytes, 0).map_err(Error::io("cannot write", index.target()))
    }
}

impl OlderImage {
    /// Opens an image and its index; returns a warning if `encoder` cannot reuse anything.
    fn open(reuse: &ReusedImage, encoder: &str) -> Result<std::result::Result<Self, Warning>> {
        let ReusedImage { image: path, index } = reuse;
        // First, so that a mistyped name is told of the image and not of its index.
        std::fs::metadata(path).map_err(Error::io("cannot open", path))?;
        let bytes = std::fs::read(index).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::NoIndex { path: index.clone() },
            _ => Error::io("cannot read", index)(e),
        })?;
        let found = UnitIndex::parse(bytes).map_err(|why| Error::Damaged { path: index.clone(), why: why.into() })?;
        let head = found.head();
        let image = FileAt::open(path, head.base).map_err(Error::io("cannot open", path))?;
        let mut bytes = vec![0; ImageStart::len(head.len)];
        // The first page suffices: it holds the superblock with lengths, times and UUID, and each unit is
        // verified when it is used.
        let is_it = image.read_exact_at(&mut bytes, 0).is_ok() && Digest::of(&bytes) == head.digest;
        if !is_it {
            // The index gets its name before the image, so a kill in between leaves the old image with the new index.
            let index = crate::name::display(index).to_string();
            return Ok(Err(Warning::new(WarningKind::ReuseOtherImage, path).with_detail(index)));
        }
        let made = found.encoder();
        if made != encoder {
            return Ok(Err(Warning::new(WarningKind::ReuseOtherEncoder, path).with_detail(made)));
        }
        Ok(Ok(OlderImage { image, index: found }))
    }
}

#[cfg(test)]
mod tests;
