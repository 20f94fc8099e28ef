//! Opens an image of any format; its first bytes identify the format.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::ReadAt;

use crate::image::Nid;
use crate::placement::PlacedPiece;
use crate::source::open::{FileFormat, SNIFF_LEN, sniff};
use crate::{Error, Image, Result, erofs, squashfs};

/// Options for reading an image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Maximum number of bytes of decoded data to cache.
    pub cache_bytes: u64,
    /// Name of the image in messages.
    pub name: PathBuf,
    /// The additional devices of an EROFS image that names several, in its order.
    pub devices: Vec<Arc<dyn ReadAt>>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let erofs::ReadOptions { cache_bytes, name, devices } = erofs::ReadOptions::default();
        OpenOptions { cache_bytes, name, devices }
    }
}

/// An open image of one of the formats.
#[derive(Debug)]
pub enum AnyImage {
    /// SquashFS.
    Squashfs(Box<squashfs::SquashfsReader>),
    /// EROFS.
    Erofs(Box<erofs::ErofsReader>),
}

impl AnyImage {
    /// Opens the image at the beginning of `bytes`.
    pub fn open(bytes: Arc<dyn ReadAt>, options: OpenOptions) -> Result<Self> {
        let mut head = [0; SNIFF_LEN];
        let got = bytes.read_at(&mut head, 0).map_err(Error::io("cannot read", &options.name))?;
        let OpenOptions { cache_bytes, name, devices } = options;
        match sniff(&head[..got]) {
            FileFormat::Erofs => {
                let options = erofs::ReadOptions { cache_bytes, name, devices };
                Ok(AnyImage::Erofs(Box::new(erofs::ErofsReader::open(bytes, options)?)))
            }
            FileFormat::SquashFs if devices.is_empty() => {
                let options = squashfs::ReadOptions { cache_bytes, name };
                Ok(AnyImage::Squashfs(Box::new(squashfs::SquashfsReader::open(bytes, options)?)))
            }
            FileFormat::SquashFs => {
                Err(Error::option("number of devices", devices.len(), "a SquashFS image has no additional devices"))
            }
            _ => Err(Error::NoImage { path: name }),
        }
    }

    /// Returns the format-independent view.
    pub fn image(&self) -> &dyn Image {
        match self {
            AnyImage::Squashfs(reader) => &**reader,
            AnyImage::Erofs(reader) => &**reader,
        }
    }

    /// Returns the format-independent view, for shared ownership.
    pub fn into_image(self) -> Arc<dyn Image> {
        match self {
            AnyImage::Squashfs(reader) => Arc::new(*reader),
            AnyImage::Erofs(reader) => Arc::new(*reader),
        }
    }

    /// Calls `visit` for each piece of an inode's data, in order and without gaps, until it breaks. Adjacent holes are one
    /// piece. SquashFS stores the data of regular files only; EROFS also that of directories and symbolic links.
    ///
    /// Reads metadata, and no data.
    pub fn placement(&self, nid: Nid, visit: &mut dyn FnMut(PlacedPiece) -> ControlFlow<()>) -> Result<()> {
        match self {
            AnyImage::Squashfs(reader) => reader.placement(nid, visit),
            AnyImage::Erofs(reader) => reader.placement(nid, visit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_images_are_refused() {
        let open = |bytes: Vec<u8>, devices: Vec<Arc<dyn ReadAt>>| {
            let options = OpenOptions { devices, ..OpenOptions::default() };
            AnyImage::open(Arc::new(bytes), options).unwrap_err().to_string()
        };
        for other in [vec![], b"hello".to_vec(), vec![0; 4096]] {
            assert!(open(other, Vec::new()).contains("neither a SquashFS nor an EROFS image"));
        }
        let erofs = [vec![0; 1024], vec![0xe2, 0xe1, 0xf5, 0xe0]].concat();
        assert!(open(erofs, Vec::new()).contains("too short for any EROFS image"));
        assert!(open(b"hsqs".to_vec(), Vec::new()).contains("too short for any SquashFS image"));
        let device: Arc<dyn ReadAt> = Arc::new(Vec::new());
        assert!(open(b"hsqs".to_vec(), vec![device]).contains("has no additional devices"));
    }
}
