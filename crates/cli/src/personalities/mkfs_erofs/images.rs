//! Images as sources: mkfs.erofs refers to their data in an image of metadata.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use packfs_image::name::display;

/// Offset of the superblock, its magic number, and the offset of log2 of the block size in it.
const SUPERBLOCK: u64 = 1024;
const MAGIC: [u8; 4] = [0xe2, 0xe1, 0xf5, 0xe0];
const BLOCK_BITS: usize = 12;

/// Returns the smallest block size of images in bytes; all sources have to be EROFS images.
pub(super) fn block_size(sources: &[OsString]) -> Result<u32, String> {
    let sizes = sources.iter().map(|source| of_image(Path::new(source)));
    let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
    Ok(sizes.into_iter().min().unwrap_or(4096))
}

fn of_image(path: &Path) -> Result<u32, String> {
    let mut head = [0; BLOCK_BITS + 1];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut head, SUPERBLOCK));
    let no_image = |why: String| format!("{}: {why}; a source is a directory or an EROFS image", display(path));
    read.map_err(|error| no_image(error.to_string()))?;
    match (head.starts_with(&MAGIC), head[BLOCK_BITS]) {
        (true, bits @ 9..=12) => Ok(1 << bits),
        (true, bits) => Err(no_image(format!("its blocks have 2^{bits} bytes"))),
        (false, _) => Err(no_image("not an EROFS image".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_the_smallest_block_of_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).into_os_string();
        for (name, bits) in [("small", 9), ("usual", 12), ("huge", 16)] {
            let mut image = vec![0; 4096];
            image[1024..1028].copy_from_slice(&MAGIC);
            image[1036] = bits;
            std::fs::write(path(name), image).unwrap();
        }
        std::fs::write(path("text"), vec![b'a'; 4096]).unwrap();
        assert_eq!(block_size(&[path("usual")]), Ok(4096));
        assert_eq!(block_size(&[path("usual"), path("small")]), Ok(512));
        for (name, why) in [("huge", "2^16"), ("text", "not an EROFS image"), ("gone", "No such file")] {
            let told = block_size(&[path("usual"), path(name)]).unwrap_err();
            assert!(told.contains(why) && told.contains(name), "{told}");
        }
    }
}
