//! Encoders that may have made the blocks of an image. Images of SquashFS name most settings; EROFS names only what
//! decoders need, so its levels are tried.

use packfs_codec::table::OptionForm;
use packfs_codec::{Choice, Codec};
use packfs_image::AnyImage;
use packfs_image::erofs::ErofsCompression;
use packfs_image::squashfs::CompressorOptions;
use packfs_image::stored_blocks::BlockCoding;

use crate::coding::{EncoderForm, EncoderSettings};

/// Returns the encoders to try for blocks of a coding, the likeliest first.
pub(crate) fn encoders(image: &AnyImage, coding: BlockCoding) -> Vec<EncoderSettings> {
    let form = match (coding, image) {
        (BlockCoding::Block(_), AnyImage::Squashfs(reader)) => EncoderForm::Block(reader.superblock().block_size),
        (BlockCoding::Metadata(_), _) => EncoderForm::Metadata,
        (BlockCoding::Cluster(codec), AnyImage::Erofs(reader)) => {
            // Old images name no algorithm; theirs is LZ4 with its greatest distance.
            let known = reader.superblock().compression.iter().find(|one| Some(one.number()) == codec.erofs_id());
            EncoderForm::Cluster(known.map_or(65_535, window))
        }
        _ => return Vec::new(),
    };
    let texts = match (coding, image) {
        (BlockCoding::Block(codec) | BlockCoding::Metadata(codec), AnyImage::Squashfs(reader)) => {
            of_squashfs(codec, reader.superblock().options)
        }
        (BlockCoding::Cluster(codec), _) => of_erofs(codec),
        _ => Vec::new(),
    };
    let choices = texts.iter().filter_map(|text| text.parse::<Choice>().ok());
    // What `apply` would refuse is not worth trying.
    choices.map(|choice| EncoderSettings { choice, form }).filter(EncoderSettings::is_bounded).collect()
}

/// Returns the room of clusters that the superblock names; `None` if it names none.
pub(crate) fn cluster_room(image: &AnyImage, coding: BlockCoding) -> Option<u32> {
    let (AnyImage::Erofs(reader), BlockCoding::Cluster(Codec::Lz4)) = (image, coding) else { return None };
    let superblock = reader.superblock();
    superblock.compression.iter().find_map(|one| match one {
        ErofsCompression::Lz4 { max_cluster_blocks, .. } => {
            Some(u32::from(*max_cluster_blocks) * superblock.block_size)
        }
        _ => None,
    })
}

fn window(compression: &ErofsCompression) -> u32 {
    match compression {
        ErofsCompression::Lz4 { max_distance, .. } => (*max_distance).into(),
        ErofsCompression::Lzma { dict_size } => *dict_size,
        ErofsCompression::Deflate { window_bits } => 1 << window_bits,
        ErofsCompression::Zstd { window_log } => 1 << window_log,
        _ => 65_535,
    }
}

fn of_squashfs(codec: Codec, options: Option<CompressorOptions>) -> Vec<String> {
    let levels = |name: &str, levels: &[i32], more: &str| -> Vec<String> {
        levels.iter().map(|level| format!("{name}:{level}{more}")).collect()
    };
    match (codec, options) {
        (Codec::Zstd, Some(CompressorOptions::Zstd { level })) => of_zstd(level),
        // Options are stored only if they differ from the usual ones: zstd 15, gzip 9, lzo 8.
        (Codec::Zstd, _) => of_zstd(15),
        (Codec::Gzip, Some(CompressorOptions::Gzip { level, window, strategies })) => {
            let names = set_names(codec, "strategies", u32::from(strategies));
            let mut found = vec![format!("gzip:{level}:window={window},strategies={names}")];
            // Levels above 9 are those of libdeflate, which a superblock names as 9.
            found.extend(levels("gzip", &[10, 11, 12], ""));
            found
        }
        (Codec::Gzip, _) => levels("gzip", &[9, 12, 10, 11], ""),
        (Codec::Xz, Some(CompressorOptions::Xz { dictionary, filters })) => {
            let mut found = Vec::new();
            // The superblock names the filters that may have been tried, which `auto` chooses among for each block.
            for bcj in ["auto".to_owned(), set_names(codec, "bcj", filters)] {
                for level in XZ_LEVELS {
                    found.push(format!("xz:{level},dict={dictionary},bcj={bcj}"));
                }
            }
            found
        }
        (Codec::Xz, _) => XZ_LEVELS.iter().map(|level| format!("xz:{level}")).collect(),
        (Codec::Lzma, _) => XZ_LEVELS.iter().map(|level| format!("lzma:{level}")).collect(),
        (Codec::Lzo, Some(CompressorOptions::Lzo { algorithm, level })) => {
            let name = ["lzo1x_1", "lzo1x_1_11", "lzo1x_1_12", "lzo1x_1_15", "lzo1x_999"].get(algorithm as usize);
            match name {
                Some(&"lzo1x_999") => vec![format!("lzo:{level}")],
                Some(name) => vec![format!("lzo:algorithm={name}")],
                None => Vec::new(),
            }
        }
        (Codec::Lzo, _) => vec!["lzo:8".into()],
        (Codec::Lz4, Some(CompressorOptions::Lz4 { flags, .. })) if flags & 1 != 0 => of_lz4hc(),
        (Codec::Lz4, _) => of_lz4(),
        _ => Vec::new(),
    }
}

/// Levels of xz and lzma, the usual ones first: the search ends when all samples are made.
const XZ_LEVELS: [&str; 14] =
    ["6", "9", "6,extreme", "9,extreme", "8", "7", "5", "4", "3", "2", "1", "0", "7,extreme", "8,extreme"];

fn of_zstd(level: i32) -> Vec<String> {
    // Frames of packfs had no content size once, and may still be without it (`content-size=no`).
    vec![format!("zstd:{level}"), format!("zstd:{level}:content-size=no")]
}

fn of_lz4hc() -> Vec<String> {
    [12, 9, 11, 10, 8, 7, 6, 5, 4, 3, 2, 1].iter().map(|level| format!("lz4hc:{level}")).collect()
}

fn of_lz4() -> Vec<String> {
    (1..=8).map(|acceleration| format!("lz4:acceleration={acceleration}")).collect()
}

fn of_erofs(codec: Codec) -> Vec<String> {
    match codec {
        Codec::Lz4 => {
            // The usual levels first: the search ends when all samples are made.
            let mut found = vec!["lz4hc:9".to_owned(), "lz4hc:12".into(), "lz4".into()];
            found.extend(of_lz4hc().into_iter().chain(of_lz4()).filter(|text| text != "lz4hc:9" && text != "lz4hc:12"));
            found
        }
        Codec::Lzma => XZ_LEVELS.iter().map(|level| format!("lzma:{level}")).collect(),
        Codec::Deflate => {
            [9, 12, 6, 1, 11, 10, 8, 7, 5, 4, 3, 2, 0].iter().map(|level| format!("deflate:{level}")).collect()
        }
        Codec::Zstd => {
            let usual = [15, 3, 19, 22, 9, 12, 18];
            let others = (1..=22).filter(|level| !usual.contains(level));
            usual.into_iter().chain(others).map(|level| format!("zstd:{level}")).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the names of the bits that are set, joined as options have them.
fn set_names(codec: Codec, option: &str, bits: u32) -> String {
    let form = codec.info().options.iter().find(|known| known.name == option).map(|known| known.form);
    let Some(OptionForm::Set(names) | OptionForm::Filters(names)) = form else { return String::new() };
    let set: Vec<&str> = names.iter().filter(|(_, bit)| bits & u32::from(*bit) != 0).map(|(name, _)| *name).collect();
    match (set.is_empty(), option) {
        (true, "bcj") => "none".into(),
        (true, _) => "default".into(),
        _ => set.join("+"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that does not parse would never be tried.
    #[test]
    fn all_texts_are_choices() {
        let options = [
            None,
            Some(CompressorOptions::Gzip { level: 4, window: 10, strategies: 9 }),
            Some(CompressorOptions::Xz { dictionary: 131_072, filters: 65 }),
            Some(CompressorOptions::Lzo { algorithm: 4, level: 3 }),
            Some(CompressorOptions::Lzo { algorithm: 1, level: 0 }),
            Some(CompressorOptions::Lz4 { version: 1, flags: 1, level: None }),
            Some(CompressorOptions::Zstd { level: -3 }),
        ];
        let codecs = [Codec::Gzip, Codec::Xz, Codec::Lzma, Codec::Lzo, Codec::Lz4, Codec::Zstd, Codec::Deflate];
        for codec in codecs {
            let squashfs = options.iter().flat_map(|options| of_squashfs(codec, *options));
            let erofs = of_erofs(codec);
            let mut count = 0;
            for text in squashfs.chain(erofs) {
                text.parse::<Choice>().unwrap_or_else(|error| panic!("{text}: {error}"));
                count += 1;
            }
            assert!(count > 0, "{codec:?}");
        }
    }
}
