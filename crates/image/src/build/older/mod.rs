//! Reuse of compressed data from an older image, and the index that makes the new image reusable.
//!
//! A unit is data that is compressed on its own: a SquashFS block, a piece of an EROFS file. Its compressed form depends
//! on its content, on how it is packed, and on the encoder. So a unit that the older image has from the same encoder need
//! not be compressed again. The [`Index`] beside that image lists its units and their places.
//!
//! Workers look for units ([`Units::find`]) before they encode. The conductor's decisions do not change, so neither do
//! the bytes of the image. A unit is compared with its digest in the index, which proves that it is the encoder's own
//! result, and then verified like any other. Damaged units are not reused.

mod index;
mod ledger;
mod trial;
mod update;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::hash::Half;
use packfs_blocks::io::FileAt;
use packfs_blocks::{Digest, Output, ReadAt};
use packfs_codec::{Codec, Encoder};

use self::index::{Head, Index};
pub(crate) use self::index::{Stretch, Unit};
pub(crate) use self::ledger::Ledger;
pub use self::ledger::Reused;
pub(super) use self::trial::digest as trial;
use super::{Options, output_error};
use crate::{Error, Result, Warning, WarningKind, Warnings};

/// An older image to take compressed blocks from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reuse {
    /// The image.
    pub image: PathBuf,
    /// The index that was written when the image was built.
    pub index: PathBuf,
}

/// Key of a unit: its content, and what else its compressed form depends on beside the encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    digest: [u8; 16],
    form: u8,
}

impl Key {
    /// The key of content with this digest; `form` tells apart the ways in which one encoder packs the same content.
    pub(crate) fn new(digest: &Digest, form: u8) -> Self {
        Key { digest: *digest.half().as_bytes(), form }
    }
}

/// A unit that was packed with an index in mind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noted {
    pub(crate) key: Key,
    /// Digest of its bytes in the image.
    pub(crate) check: Half,
    pub(crate) fate: Fate,
}

/// Origin of the compressed form of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The older image does not have it.
    Fresh,
    /// From the older image.
    Taken,
    /// The older image should have it but has other bytes.
    Damaged,
}

/// The units of an older image, and whether those of this one are noted. All workers share one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Units(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// All that compressed bytes depend on beside the units.
    encoder: String,
    index: Option<PathBuf>,
    older: Option<Older>,
    /// Reason for not using the older image.
    unfit: Option<Warning>,
}

#[derive(Debug)]
struct Older {
    image: FileAt,
    index: Index,
}

impl Units {
    /// Opens the older image and its index, if the options name any. `how` says what the compressed form of a unit depends
    /// on beside the codec; `encoder` makes an encoder of units of up to `len` bytes.
    pub(crate) fn open(
        options: &Options,
        format: &str,
        how: &str,
        len: usize,
        encoder: impl FnOnce() -> packfs_codec::Result<Box<dyn Encoder>>,
    ) -> Result<Self> {
        let Options { codec, index, reuse, .. } = options;
        if index.is_none() && reuse.is_none() {
            return Ok(Units(None));
        }
        if codec.codec() == Codec::None {
            return Err(Error::option("codec", "none", "without compression there is nothing to reuse and no index"));
        }
        let (version, library) = (env!("CARGO_PKG_VERSION"), codec.codec().library());
        let trial = trial::digest(&mut *encoder()?, len)?;
        let encoder = format!("packfs {version}, {library}, {format} {codec}, {how}, trial {trial}");
        let (older, unfit) = match reuse.as_ref().map(|reuse| Older::open(reuse, &encoder)).transpose()? {
            None => (None, None),
            Some(Ok(older)) => (Some(older), None),
            Some(Err(unfit)) => (None, Some(unfit)),
        };
        Ok(Units(Some(Arc::new(Shared { encoder, index: index.clone(), older, unfit }))))
    }

    /// True if units are looked up, noted or both.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// True if an older image is there to be compared with.
    fn has_older(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.older.is_some() || shared.unfit.is_some())
    }

    fn is_noting(&self) -> bool {
        self.index().is_some()
    }

    fn index(&self) -> Option<&Path> {
        self.0.as_ref()?.index.as_deref()
    }

    fn older(&self) -> Option<&Older> {
        self.0.as_ref()?.older.as_ref()
    }

    /// Finds a unit of the older image.
    pub(crate) fn find(&self, key: &Key) -> Option<Unit<'_>> {
        self.older()?.index.find(key)
    }

    /// Reads a stretch of the older image; false if it is not there. What was read is for the caller to check.
    pub(crate) fn read(&self, stretch: &Stretch, dst: &mut [u8]) -> bool {
        self.older().is_some_and(|older| older.image.read_exact_at(dst, stretch.start).is_ok())
    }

    /// Warns if nothing of the older image can be used.
    pub(crate) fn warn(&self, warnings: &mut Warnings) -> Result<()> {
        let unfit = self.0.as_ref().and_then(|shared| shared.unfit.clone());
        unfit.map_or(Ok(()), |unfit| warnings.add(unfit))
    }

    /// Begins the index of the image being built, if there is to be one.
    pub(super) fn begin_index(&self, force: bool) -> Result<Option<Output>> {
        let begin = |path: &Path| Output::create(path, 0o666, force).map_err(output_error("cannot create", path));
        self.index().map(begin).transpose()
    }

    /// Writes the index of an image of `len` bytes that begins at byte `base` of `image`.
    pub(super) fn write_index(
        &self,
        index: &Output,
        ledger: Ledger,
        image: &Output,
        (base, len): (u64, u64),
    ) -> Result<()> {
        let Some(shared) = &self.0 else { return Ok(()) };
        let mut head = vec![0; Head::len(len)];
        image.read_exact_at(&mut head, base).map_err(Error::io("cannot read back", image.target()))?;
        let head = Head { base, digest: Digest::of(&head), len };
        let bytes = ledger.index(&head, &shared.encoder);
        index.write_all_at(&bytes, 0).map_err(Error::io("cannot write", index.target()))
    }
}

impl Older {
    /// Opens an image and its index; returns a warning if nothing can be taken from it by `encoder`.
    fn open(reuse: &Reuse, encoder: &str) -> Result<std::result::Result<Self, Warning>> {
        let Reuse { image: path, index } = reuse;
        std::fs::metadata(path).map_err(Error::io("cannot open", path))?;
        let bytes = std::fs::read(index).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::NoIndex { path: index.clone() },
            _ => Error::io("cannot read", index)(e),
        })?;
        let found = Index::parse(bytes).map_err(|why| Error::Damaged { path: index.clone(), why: why.into() })?;
        let head = found.head();
        let image = FileAt::open(path, head.base).map_err(Error::io("cannot open", path))?;
        let mut bytes = vec![0; Head::len(head.len)];
        let is_it = image.read_exact_at(&mut bytes, 0).is_ok() && Digest::of(&bytes) == head.digest;
        if !is_it {
            // An index is put under its name before its image is: a kill between the two leaves the old image.
            let index = crate::name::display(index).to_string();
            return Ok(Err(Warning::new(WarningKind::ReuseOtherImage, path).with_detail(index)));
        }
        let made = found.encoder();
        if made != encoder {
            return Ok(Err(Warning::new(WarningKind::ReuseOtherEncoder, path).with_detail(made)));
        }
        Ok(Ok(Older { image, index: found }))
    }
}

#[cfg(test)]
mod tests;
