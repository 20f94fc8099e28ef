//! Images that are longer than 32-bit block addresses reach: 16 TiB in blocks of 4K. With the feature `48bit`, inodes are
//! extended, which have room for 48 bits, and nids count from the start of the image instead of from the zone's, whose
//! address has 32 bits.

use packfs_blocks::units::Size;
use packfs_codec::Codec;

use crate::erofs::writer::options::{ErofsOptions, Features, keeps_holes};
use crate::{Error, Result};

/// Number of data blocks from which addresses are long: half of what 32 bits reach, so that metadata, which is far shorter,
/// never crosses that limit unnoticed.
const FAR: u64 = 1 << 31;
/// Number of blocks that addresses of 32 bits reach; the last address means no block.
const SHORT_MAX: u64 = u32::MAX as u64;
/// Number of blocks that addresses of 48 bits reach, with room for the metadata.
const LONG_MAX: u64 = 1 << 47;

/// Returns true if addresses after `blocks` blocks of data may need more than 32 bits, and can have them.
pub(crate) fn is_far(options: &ErofsOptions, blocks: u64) -> bool {
    blocks >= FAR && has_long_addresses(options)
}

/// Returns the length in bytes of the longest file. It has to fit in the image if all of it takes blocks, because
/// nothing is compressed and no layout has holes.
pub(in crate::erofs) fn longest_file(options: &ErofsOptions) -> u64 {
    let takes_blocks = options.build.codec.codec() == Codec::None && !keeps_holes(options) && options.refer == 0;
    if !takes_blocks {
        return u64::MAX;
    }
    let max = if has_long_addresses(options) { LONG_MAX } else { SHORT_MAX };
    (max - 1) * u64::from(options.block_size)
}

/// Refuses `len` bytes of data that no address reaches.
pub(crate) fn check(options: &ErofsOptions, len: u64) -> Result<()> {
    let block = u64::from(options.block_size);
    let max = if has_long_addresses(options) { LONG_MAX } else { SHORT_MAX };
    if len.div_ceil(block) < max {
        return Ok(());
    }
    let has = |features| options.features.contains(features);
    let how = if has_long_addresses(options) {
        "use larger blocks"
    } else if !has(Features::BITS_48) {
        "larger blocks or the feature 48bit (Linux 6.15) go further"
    } else if has(Features::COMPACT_INODES) {
        "leave out the feature compact-inodes"
    } else {
        "leave out the feature compressed-dirs, or add metabox"
    };
    let len = Size(len);
    // Limits are one less than a power of two, as one address means no block. The message has the round
    // number.
    let reach = Size(max.next_power_of_two().saturating_mul(block));
    Err(Error::Unsupported(format!("{len} of data in an EROFS image: block addresses end at {reach}; {how}")))
}

/// Returns true if blocks and inodes can have addresses of more than 32 bits. Compressed directories name inodes before
/// their own length, and so the place of the inodes, is known.
fn has_long_addresses(options: &ErofsOptions) -> bool {
    let has = |features| options.features.contains(features);
    has(Features::BITS_48)
        && !has(Features::COMPACT_INODES)
        && (has(Features::METABOX) || !has(Features::COMPRESSED_DIRS))
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::Fs;
    use crate::build::ImageFormat;
    use crate::build::shard::far_tests::build_at;
    use crate::erofs::writer::ErofsFormat;
    use crate::testing::{Node, Piece, Spec, can_mount, disagreements, everything, snapshot_tree};

    fn refused(features: Features, block_size: u32, len: u64) -> String {
        let options = ErofsOptions { features, block_size, ..ErofsOptions::default() };
        check(&options, len).err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn data_beyond_all_addresses_is_refused_with_its_size_and_a_way_out() {
        let none = Features::empty();
        let wide = Features::BITS_48;
        let last = u64::from(u32::MAX) * 4096;
        assert_eq!(refused(none, 4096, last - 4096), "");
        let said = refused(none, 4096, 17 << 40);
        assert!(said.contains("17 TiB of data") && said.contains("16 TiB") && said.contains("48bit"), "{said}");
        assert!(refused(none, 512, 3 << 40).contains("2 TiB"));
        assert_eq!(refused(wide, 4096, 17 << 40), "");
        assert!(refused(wide | Features::COMPRESSED_DIRS, 4096, 17 << 40).contains("compressed-dirs"));
        assert_eq!(refused(wide | Features::COMPRESSED_DIRS | Features::METABOX, 4096, 17 << 40), "");
        assert!(refused(wide | Features::COMPACT_INODES, 4096, 17 << 40).contains("compact-inodes"));
        assert!(refused(wide, 512, u64::MAX).contains("larger blocks"));
    }

    #[test]
    fn a_file_whose_holes_take_blocks_has_to_fit() {
        let kernel = |kernel: &str| kernel.parse().unwrap();
        let table = [
            ("none", "5.4", true, (u64::from(u32::MAX) - 1) * 4096),
            ("none", "6.1", false, (u64::from(u32::MAX) - 1) * 4096),
            ("none", "6.1", true, u64::MAX),
            ("lz4", "5.4", true, u64::MAX),
        ];
        for (codec, target, sparse, longest) in table {
            let mut options = ErofsOptions { target_kernel: kernel(target), ..ErofsOptions::default() };
            options.build.codec = codec.parse().unwrap();
            options.build.sparse = sparse;
            assert_eq!(longest_file(&options), longest, "{codec}, {target}, sparse: {sparse}");
        }
        // A member of a sparse archive: the tree is refused before anything is written.
        let spec = Spec::of([(b"disk".to_vec(), Node::file(vec![Piece::Hole(20 << 40)]))]);
        let mut options =
            ErofsOptions { target_kernel: kernel("5.4"), features: Features::empty(), ..ErofsOptions::default() };
        options.build.codec = "none".parse().unwrap();
        let refused = ErofsFormat::new(&options).unwrap().check(&mut spec.tree().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("disk") && refused.contains("20"), "{refused}");
    }

    #[test]
    fn images_of_more_than_16_tib_are_read() {
        // A file of this length is too long for ext4, where temporary files may lie.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let at = 17u64 << 40;
        let wide = Features::BITS_48;
        let cases = [
            ("lz4", wide | Features::FRAGMENTS | Features::DEDUPE),
            ("zstd:1", wide | Features::UNALIGNED | Features::ALL_FRAGMENTS),
            ("lz4", wide | Features::METABOX | Features::COMPRESSED_DIRS),
            ("none", wide | Features::NO_INLINE),
            ("none", wide | Features::CHUNKS),
        ];
        for (n, (codec, features)) in cases.into_iter().enumerate() {
            let mut options = ErofsOptions {
                features,
                cluster_size: 16 << 10,
                target_kernel: "6.18".parse().unwrap(),
                ..ErofsOptions::default()
            };
            options.build.codec = codec.parse().unwrap();
            options.build.threads = 2;
            let spec = everything(4096, 65535);
            let image = dir.path().join(n.to_string());
            let build = |options: &ErofsOptions, at| build_at(&ErofsFormat::new(options)?, spec.tree()?, at, &image);
            build(&options, at).unwrap();
            assert!(image.metadata().unwrap().len() > at);
            let opened = Fs::open(&image).map(Fs::into_image);
            let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
            if can_mount("images_of_more_than_16_tib_are_read") {
                assert_eq!(disagreements(&want, &image, opened, "erofs"), Vec::<String>::new(), "{codec}");
            }
            std::fs::remove_file(&image).unwrap();
            options.features = Features::empty();
            let error = build(&options, at).unwrap_err().to_string();
            assert!(error.contains("of data in an EROFS image") && error.contains("48bit"), "{error}");
        }
    }
}
