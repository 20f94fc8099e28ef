//! Bytes of metadata, wherever the format stores them: in the image, in the metabox or in the
//! packed inode. Those of the first two are cached, as inodes are adjacent.

use std::sync::Arc;

use packfs_blocks::cache::BlockCache;
use zerocopy::{FromBytes, IntoBytes};

use super::ErofsReader;
use super::data;
use super::inode::Inode;
use crate::image::Nid;
use crate::{Error, Result};

/// Number of bytes that are read and cached together.
const PAGE_LEN: usize = 4096;
const PAGE: u64 = PAGE_LEN as u64;

/// Space in which the offset of a piece of metadata counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum OffsetSpace {
    /// The image.
    Image,
    /// The data of the metabox.
    Metabox,
    /// The data of the packed inode.
    Packed,
}

/// Position of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct MetadataAddress {
    /// Space in which `byte` counts.
    pub(super) space: OffsetSpace,
    /// Offset in that space.
    pub(super) byte: u64,
}

impl MetadataAddress {
    /// Returns the position `bytes` later.
    pub(super) fn skip(self, bytes: u64) -> MetadataAddress {
        MetadataAddress { byte: self.byte.saturating_add(bytes), ..self }
    }

    /// Returns the position rounded up to a multiple of `unit`, a power of two.
    pub(super) fn align(self, unit: u64) -> MetadataAddress {
        // Past any image, so that reading there fails.
        MetadataAddress { byte: self.byte.checked_next_multiple_of(unit).unwrap_or(u64::MAX), ..self }
    }

    /// Makes an [`Error::Corrupt`] at this position.
    pub(super) fn error(self, structure: &'static str, why: impl Into<String>) -> Error {
        let why = why.into();
        Error::corrupt(
            structure,
            self.byte,
            match self.space {
                OffsetSpace::Image => why,
                OffsetSpace::Metabox => format!("(in the metabox) {why}"),
                OffsetSpace::Packed => format!("(in the packed inode) {why}"),
            },
        )
    }
}

/// Cache of recently read metadata.
#[derive(Debug)]
pub(super) struct MetadataCache {
    image: BlockCache,
    metabox: BlockCache,
    /// Blocks of directories, by their numbers: a path leads through some of them again and again.
    pub(super) directories: BlockCache<(Nid, u64)>,
}

impl MetadataCache {
    /// Makes a cache of up to `capacity` bytes.
    pub(super) fn new(capacity: u64) -> MetadataCache {
        MetadataCache {
            // The shares were not measured.
            image: BlockCache::new(capacity / 2, PAGE),
            metabox: BlockCache::new(capacity / 4, PAGE),
            directories: BlockCache::new(capacity / 4, PAGE),
        }
    }
}

impl ErofsReader {
    /// Fills `buf` from `place`; `structure` is for messages.
    pub(super) fn read_meta(
        &self,
        structure: &'static str,
        mut place: MetadataAddress,
        mut buf: &mut [u8],
    ) -> Result<()> {
        let start = place;
        // Not cached here: its data goes through the cache of clusters.
        if place.space == OffsetSpace::Packed {
            let got = self.read_special(structure, place, self.packed.as_ref(), buf)?;
            return if got == buf.len() {
                Ok(())
            } else {
                Err(start.error(structure, "the packed inode ends inside it"))
            };
        }
        while !buf.is_empty() {
            let page = place.byte / PAGE * PAGE;
            let skip = place.byte % PAGE;
            let bytes = match place.space {
                OffsetSpace::Image => self.metadata.image.get(page, || self.load_image(page))?,
                // The metabox is compressed, so a page of it is cached decoded.
                _ => self.metadata.metabox.get(page, || self.load_metabox(structure, page))?,
            };
            // The last page of an image may be shorter.
            let there = usize::try_from(skip).ok().and_then(|skip| bytes.get(skip..)).unwrap_or_default();
            if there.is_empty() {
                // The position where the record begins, as only that helps to find it.
                return Err(start.error(
                    structure,
                    match place.space {
                        OffsetSpace::Image => self.disk.ends_inside(),
                        _ => "the metabox ends inside it".into(),
                    },
                ));
            }
            let n = there.len().min(buf.len());
            buf[..n].copy_from_slice(&there[..n]);
            buf = &mut buf[n..];
            place = place.skip(n as u64);
        }
        Ok(())
    }

    /// Reads the record at `place`.
    pub(super) fn get_meta<T: FromBytes + IntoBytes>(
        &self,
        structure: &'static str,
        place: MetadataAddress,
    ) -> Result<T> {
        let mut value = T::new_zeroed();
        self.read_meta(structure, place, value.as_mut_bytes())?;
        Ok(value)
    }

    fn load_image(&self, page: u64) -> Result<Arc<[u8]>> {
        let mut bytes = [0; PAGE_LEN];
        let got = self.disk.read_up_to(page, &mut bytes)?;
        Ok(Arc::from(&bytes[..got]))
    }

    fn load_metabox(&self, structure: &'static str, page: u64) -> Result<Arc<[u8]>> {
        let mut bytes = [0; PAGE_LEN];
        let place = MetadataAddress { space: OffsetSpace::Metabox, byte: page };
        let got = self.read_special(structure, place, self.metabox.as_ref(), &mut bytes)?;
        Ok(Arc::from(&bytes[..got]))
    }

    /// Reads from the data of an inode that holds metadata; it has no fragment, so this terminates.
    fn read_special(
        &self,
        structure: &'static str,
        place: MetadataAddress,
        inode: Option<&Inode>,
        buf: &mut [u8],
    ) -> Result<usize> {
        let Some(inode) = inode else {
            return Err(place.error(structure, "the image has no such inode"));
        };
        data::read_file(self, inode, buf, place.byte)
    }
}
