//! Images as sources: mkfs.erofs refers to their data in an image of metadata.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_image::erofs::{ErofsReader, ReadOptions};
use packfs_image::name::display;

/// Largest block that packfs writes, in bytes.
pub(super) const BLOCK_MAX: u32 = 4096;

/// Returns the smallest block size of images in bytes; all sources have to be EROFS images.
pub(super) fn smallest_block_size(sources: &[OsString]) -> Result<u32, String> {
    let sizes = sources.iter().map(|source| image_block_size(Path::new(source)));
    let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
    Ok(sizes.into_iter().min().unwrap_or(BLOCK_MAX))
}

fn image_block_size(path: &Path) -> Result<u32, String> {
    let no_image = |why: String| format!("{}: {why}; a source is a directory or an EROFS image", display(path));
    // Only the header is read, to fail for a file that is no image before packfs makes anything.
    let bytes = FileAt::open(path, 0).map_err(|error| no_image(error.to_string()))?;
    let image =
        ErofsReader::open(Arc::new(bytes), ReadOptions::default()).map_err(|error| no_image(error.to_string()))?;
    match image.superblock().block_size {
        size @ ..=BLOCK_MAX => Ok(size),
        size => Err(no_image(format!("its blocks have {size} bytes, and packfs writes at most {BLOCK_MAX}"))),
    }
}

#[cfg(test)]
mod tests {
    use packfs_blocks::Progress;
    use packfs_codec::{Choice, Codec};
    use packfs_image::erofs;
    use packfs_image::{Plan, Tree};

    use super::*;

    #[test]
    fn images_have_the_smallest_block_of_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).into_os_string();
        for (name, block_size) in [("small", 512), ("usual", 4096)] {
            let mut options = erofs::ErofsOptions::default();
            options.block_size = block_size;
            options.target_kernel = "6.4".parse().unwrap();
            options.build.codec = Choice::new(Codec::None);
            options.features |= erofs::Features::NO_CHECKSUM;
            let empty = |_: &mut dyn packfs_image::source::Store| Ok(Plan { tree: Tree::default(), order: Vec::new() });
            erofs::build(Path::new(&path(name)), &options, &Progress::default(), empty).unwrap();
        }
        // log2 of the block size is the byte after the checksum and the features. Blocks stay in their order.
        let usual = std::fs::read(path("usual")).unwrap();
        let mut huge: Vec<u8> = usual.chunks(4096).flat_map(|block| [block, &[0; 61_440]].concat()).collect();
        huge[1036] = 16;
        std::fs::write(path("huge"), huge).unwrap();
        std::fs::write(path("text"), vec![b'a'; 4096]).unwrap();
        assert_eq!(smallest_block_size(&[path("usual")]), Ok(4096));
        assert_eq!(smallest_block_size(&[path("usual"), path("small")]), Ok(512));
        for (name, why) in
            [("huge", "its blocks have 65536 bytes"), ("text", "not an EROFS image"), ("gone", "No such file")]
        {
            let told = smallest_block_size(&[path("usual"), path(name)]).unwrap_err();
            assert!(told.contains(why) && told.contains(name), "{told}");
        }
    }
}
