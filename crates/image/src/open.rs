//! Opening an image whatever its format: which one it is, its first bytes say.

use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::ReadAt;

use crate::name::display;
use crate::source::open::{Kind, SNIFF_LEN, sniff};
use crate::{Error, Image, Result, erofs, squashfs};

/// How to read an image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Most bytes of decoded data to keep.
    pub cache_bytes: u64,
    /// What to call the image in messages.
    pub name: PathBuf,
    /// The further devices of an EROFS image that names several, in its order.
    pub devices: Vec<Arc<dyn ReadAt>>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let erofs::ReadOptions { cache_bytes, name, devices } = erofs::ReadOptions::default();
        OpenOptions { cache_bytes, name, devices }
    }
}

/// An opened image of one of the formats.
#[derive(Debug)]
pub enum AnyImage {
    /// SquashFS.
    Squashfs(Box<squashfs::Reader>),
    /// EROFS.
    Erofs(Box<erofs::Reader>),
}

impl AnyImage {
    /// Opens the image at the beginning of `bytes`.
    pub fn open(bytes: Arc<dyn ReadAt>, options: OpenOptions) -> Result<Self> {
        let mut head = [0; SNIFF_LEN];
        let got = bytes.read_at(&mut head, 0).map_err(Error::io("cannot read", &options.name))?;
        let OpenOptions { cache_bytes, name, devices } = options;
        match sniff(&head[..got]) {
            Kind::Erofs => {
                let options = erofs::ReadOptions { cache_bytes, name, devices };
                Ok(AnyImage::Erofs(Box::new(erofs::Reader::open(bytes, options)?)))
            }
            Kind::SquashFs if devices.is_empty() => {
                let options = squashfs::ReadOptions { cache_bytes, name };
                Ok(AnyImage::Squashfs(Box::new(squashfs::Reader::open(bytes, options)?)))
            }
            Kind::SquashFs => {
                let why = format!("{}: a SquashFS image has no further devices", display(&name));
                Err(Error::option("devices", devices.len(), why))
            }
            _ => Err(Error::corrupt("superblock", 0, "this is neither a SquashFS nor an EROFS image")),
        }
    }

    /// What every format has.
    pub fn image(&self) -> &dyn Image {
        match self {
            AnyImage::Squashfs(reader) => &**reader,
            AnyImage::Erofs(reader) => &**reader,
        }
    }

    /// The same, to be kept by several.
    pub fn into_image(self) -> Arc<dyn Image> {
        match self {
            AnyImage::Squashfs(reader) => Arc::new(*reader),
            AnyImage::Erofs(reader) => Arc::new(*reader),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_of_any_format_is_refused() {
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
        assert!(open(b"hsqs".to_vec(), vec![device]).contains("has no further devices"));
    }
}
