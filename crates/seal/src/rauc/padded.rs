//! An image with zeros up to whole blocks.

use std::io;
use std::sync::Arc;

use packfs_blocks::ReadAt;

use super::BLOCK_SIZE;

/// Least number of blocks: RAUC refuses an image without a tree, as one over a single block would be.
const BLOCKS_MIN: u64 = 2;

/// An image, and zeros after it.
#[derive(Debug)]
pub(super) struct PaddedImage {
    image: Arc<dyn ReadAt>,
    /// Length with the zeros in bytes.
    len: u64,
}

impl PaddedImage {
    pub(super) fn new(image: &Arc<dyn ReadAt>) -> Self {
        let blocks = image.len().div_ceil(BLOCK_SIZE.into()).max(BLOCKS_MIN);
        PaddedImage { image: Arc::clone(image), len: blocks * u64::from(BLOCK_SIZE) }
    }
}

impl ReadAt for PaddedImage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = |len: u64| usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left(self.len));
        let stored = len.min(left(self.image.len()));
        if stored > 0 {
            self.image.read_exact_at(&mut buf[..stored], offset)?;
        }
        buf[stored..len].fill(0);
        Ok(len)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.image.check_unchanged()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_follow_up_to_whole_blocks() {
        for (len, padded_len) in [(0, 8192), (1, 8192), (8192, 8192), (8193, 12288)] {
            let image: Arc<dyn ReadAt> = Arc::new(vec![7; len]);
            let padded = PaddedImage::new(&image);
            let mut bytes = vec![1; 20000];
            assert_eq!(padded.read_at(&mut bytes, 0).unwrap(), padded_len, "{len}");
            assert!(bytes[..len].iter().all(|byte| *byte == 7), "{len}");
            assert!(bytes[len..padded_len].iter().all(|byte| *byte == 0), "{len}");
            assert_eq!(padded.read_at(&mut bytes, padded.len()).unwrap(), 0);
        }
    }
}
