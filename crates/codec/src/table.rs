//! The one table of codecs: names, options, ranges and defaults.
//!
//! The parser, its error messages, `--help` and the documentation all read it, so they cannot disagree.

use std::fmt::Write as _;

use crate::settings::{BITS, BcjFilters, GzipStrategies, LZO_ALGORITHMS};

/// A codec by its stream format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// No compression.
    None,
    /// zlib streams (what SquashFS calls gzip).
    Gzip,
    /// Raw deflate.
    Deflate,
    /// xz streams.
    Xz,
    /// Legacy .lzma streams, and MicroLZMA in clusters.
    Lzma,
    /// LZO1X.
    Lzo,
    /// Snappy.
    Snappy,
    /// LZ4, fast encoder.
    Lz4,
    /// LZ4, dense encoder.
    Lz4hc,
    /// zstd.
    Zstd,
}

/// One codec: a row of the table.
#[derive(Debug)]
#[non_exhaustive]
pub struct CodecInfo {
    /// The codec.
    pub codec: Codec,
    /// Name in a choice and in messages.
    pub name: &'static str,
    /// Strength of the codec, in one line.
    pub summary: &'static str,
    /// Options that may follow the name. The key of the option `level` may be omitted.
    pub options: &'static [CodecOption],
    /// Compressor id in a SquashFS superblock.
    pub squashfs_id: Option<u16>,
    /// Algorithm number in an EROFS image.
    pub erofs_id: Option<u8>,
}

/// One option of a codec.
#[derive(Debug)]
#[non_exhaustive]
pub struct CodecOption {
    /// Key in a choice.
    pub name: &'static str,
    /// Values the option takes.
    pub form: OptionForm,
    /// Default value, as a user would write it.
    pub default: &'static str,
    /// Effect of the option, in one line.
    pub help: &'static str,
}

/// The values an option takes.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum OptionForm {
    /// A whole number from the first to the second.
    Number(i32, i32),
    /// `yes` or `no`; the key alone means `yes`.
    Flag,
    /// One of these names; the value is its index.
    Name(&'static [&'static str]),
    /// Some of these names, joined by `+`; the value is the sum of their bits.
    Set(&'static [(&'static str, u16)]),
    /// As [`OptionForm::Set`], or `none`, or `auto`.
    Filters(&'static [(&'static str, u16)]),
    /// A size in bytes (K and M are understood) or a percentage of the block.
    Dict,
}

const fn level(min: i32, max: i32, default: &'static str, help: &'static str) -> CodecOption {
    CodecOption { name: "level", form: OptionForm::Number(min, max), default, help }
}

const fn number(name: &'static str, min: i32, max: i32, default: &'static str, help: &'static str) -> CodecOption {
    CodecOption { name, form: OptionForm::Number(min, max), default, help }
}

const EXTREME: CodecOption =
    CodecOption { name: "extreme", form: OptionForm::Flag, default: "no", help: "search longer" };
const BITS_OF_MODELS: CodecOption = CodecOption {
    name: "bits",
    form: OptionForm::Name(BITS),
    default: "auto",
    help: "auto chooses lc, lp and pb for each block from level 4 on; fixed if one of them is given",
};
const LC: CodecOption = number("lc", 0, 4, "3", "literal context bits; lc + lp is at most 4");
const LP: CodecOption = number("lp", 0, 4, "0", "literal position bits");
const PB: CodecOption =
    number("pb", 0, 4, "1", "position bits; 1 is best for blocks of code and text, xz itself takes 2");
const DICT: CodecOption = CodecOption {
    name: "dict",
    form: OptionForm::Dict,
    default: "100%",
    help: "dictionary: 2^n or 2^n + 2^(n+1) bytes, at least 8K",
};

/// All codecs, in the order they are listed to users.
pub static CODECS: &[CodecInfo] = &[
    CodecInfo {
        codec: Codec::Zstd,
        name: "zstd",
        summary: "dense and fast to read",
        options: &[
            level(-131_072, 22, "15", "higher is smaller and slower"),
            CodecOption {
                name: "content-size",
                form: OptionForm::Flag,
                default: "yes",
                help: "store the content size in each frame, which some readers need; never in EROFS",
            },
        ],
        squashfs_id: Some(6),
        erofs_id: Some(3),
    },
    CodecInfo {
        codec: Codec::Gzip,
        name: "gzip",
        summary: "zlib streams, read by every kernel",
        options: &[
            level(1, 12, "6", "higher is smaller and slower; 10 to 12 search for the best parse"),
            number("window", 8, 15, "15", "log2 of the window; below 15 with levels 1 to 9"),
            CodecOption {
                name: "strategies",
                form: OptionForm::Set(GzipStrategies::NAMES),
                default: "default",
                help: "zlib strategies to try, the smallest result is kept; levels 1 to 9",
            },
        ],
        squashfs_id: Some(1),
        erofs_id: None,
    },
    CodecInfo {
        codec: Codec::Deflate,
        name: "deflate",
        summary: "zlib's compression without its frame, for EROFS only",
        options: &[level(0, 12, "9", "higher is smaller and slower; 10 to 12 search for the best parse")],
        squashfs_id: None,
        erofs_id: Some(2),
    },
    CodecInfo {
        codec: Codec::Xz,
        name: "xz",
        summary: "densest, slow to read",
        options: &[
            level(0, 9, "6", "preset"),
            EXTREME,
            DICT,
            CodecOption {
                name: "bcj",
                form: OptionForm::Filters(BcjFilters::NAMES),
                default: "none",
                help: "machine-code filters to try, the smallest result is kept; auto picks by the bytes",
            },
            BITS_OF_MODELS,
            LC,
            LP,
            PB,
        ],
        squashfs_id: Some(4),
        erofs_id: None,
    },
    CodecInfo {
        codec: Codec::Lzma,
        name: "lzma",
        summary: "in SquashFS legacy .lzma streams, not read by stock kernels; in EROFS MicroLZMA, the densest",
        options: &[level(0, 9, "6", "preset"), EXTREME, DICT, BITS_OF_MODELS, LC, LP, PB],
        squashfs_id: Some(2),
        erofs_id: Some(1),
    },
    CodecInfo {
        codec: Codec::Lzo,
        name: "lzo",
        summary: "fast to read, for old kernels",
        options: &[
            level(1, 9, "8", "higher is smaller and slower; only with lzo1x_999"),
            CodecOption {
                name: "algorithm",
                form: OptionForm::Name(LZO_ALGORITHMS),
                default: "lzo1x_999",
                help: "lzo1x_999 is dense, the others are fast",
            },
        ],
        squashfs_id: Some(3),
        erofs_id: None,
    },
    CodecInfo {
        codec: Codec::Snappy,
        name: "snappy",
        summary: "fast, gives up early on incompressible data; for dumps only",
        options: &[],
        squashfs_id: None,
        erofs_id: None,
    },
    CodecInfo {
        codec: Codec::Lz4,
        name: "lz4",
        summary: "fastest",
        options: &[number("acceleration", 1, 65_537, "1", "higher is larger and faster")],
        squashfs_id: Some(5),
        erofs_id: Some(0),
    },
    CodecInfo {
        codec: Codec::Lz4hc,
        name: "lz4hc",
        summary: "slow to write, as fast to read as lz4",
        options: &[level(0, 12, "12", "higher is smaller and slower")],
        squashfs_id: Some(5),
        erofs_id: Some(0),
    },
    CodecInfo {
        codec: Codec::None,
        name: "none",
        summary: "uncompressed",
        options: &[],
        squashfs_id: None,
        erofs_id: None,
    },
];

impl Codec {
    /// Returns the codec's row of the table.
    pub fn info(self) -> &'static CodecInfo {
        // Every codec has a row; a test checks that.
        CODECS.iter().find(|info| info.codec == self).unwrap_or(&CODECS[CODECS.len() - 1])
    }

    /// Returns the name of the codec in a choice and in messages.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the compressor id in a SquashFS superblock.
    pub fn squashfs_id(self) -> Option<u16> {
        self.info().squashfs_id
    }

    /// Returns the codec of a SquashFS compressor id. [`Codec::Lz4`] and [`Codec::Lz4hc`] share
    /// one, as their streams are alike; this returns the former.
    pub fn from_squashfs_id(id: u16) -> Option<Self> {
        CODECS.iter().find(|info| info.squashfs_id == Some(id)).map(|info| info.codec)
    }

    /// Returns the algorithm number in an EROFS image.
    pub fn erofs_id(self) -> Option<u8> {
        self.info().erofs_id
    }

    /// Returns the codec of an EROFS algorithm number. [`Codec::Lz4`] and [`Codec::Lz4hc`] share
    /// one, as their streams are alike; this returns the former.
    pub fn from_erofs_id(id: u8) -> Option<Self> {
        CODECS.iter().find(|info| info.erofs_id == Some(id)).map(|info| info.codec)
    }
}

impl OptionForm {
    /// Describes the accepted values, for help and errors.
    pub(crate) fn accepted(&self) -> String {
        match self {
            OptionForm::Number(min, max) => format!("{min} to {max}"),
            OptionForm::Flag => "yes or no".to_owned(),
            OptionForm::Name(names) => names.join(", "),
            OptionForm::Set(names) => format!("{} joined by +", join(names)),
            OptionForm::Filters(names) => format!("none, auto, or {} joined by +", join(names)),
            OptionForm::Dict => "8K to 64M, or 1% to 100% of the block".to_owned(),
        }
    }
}

fn join(names: &[(&str, u16)]) -> String {
    names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Returns the names of the codecs that images may have, in either format.
pub fn image_codecs() -> Vec<&'static str> {
    let stored = CODECS.iter().filter(|info| info.squashfs_id.is_some() || info.erofs_id.is_some());
    stored.map(|info| info.name).chain(["none"]).collect()
}

/// Fails if images of a format cannot have a codec; `takes` tells which ones it has. All take [`Codec::None`].
///
/// # Errors
/// A sentence that names the accepted codecs.
pub fn checked_for(format: &str, codec: Codec, takes: fn(Codec) -> bool) -> std::result::Result<(), String> {
    if takes(codec) || codec == Codec::None {
        return Ok(());
    }
    let others = CODECS.iter().map(|info| info.codec).filter(|codec| *codec != Codec::None && takes(*codec));
    let names: Vec<_> = others.map(Codec::name).collect();
    Err(format!("{format} images have no {}; accepted: {}, none", codec.name(), names.join(", ")))
}

/// Returns the table as plain text for `--help`.
pub fn help() -> String {
    let mut text = String::new();
    for info in CODECS {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<7} {}", info.name, info.summary);
        for opt in info.options {
            let _ = writeln!(text, "  {:<13} {}", opt.name, opt.help);
            let _ = writeln!(text, "  {:<13} {} [default: {}]", "", opt.form.accepted(), opt.default);
        }
    }
    text
}

/// Returns the table in Markdown for the documentation.
pub fn markdown() -> String {
    let mut text = String::from("| codec | option | values | default | meaning |\n| --- | --- | --- | --- | --- |\n");
    for info in CODECS {
        let _ = writeln!(text, "| `{}` | | | | {} |", info.name, info.summary);
        for opt in info.options {
            let values = opt.form.accepted();
            let default = opt.default;
            let _ = writeln!(text, "| | `{}` | {values} | {default} | {} |", opt.name, opt.help);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_has_its_own_row() {
        for info in CODECS {
            assert!(std::ptr::eq(info.codec.info(), info));
            assert_eq!(info.codec.name(), info.name);
        }
        let ids: Vec<_> = CODECS.iter().map(|info| info.codec.squashfs_id()).collect();
        assert_eq!(ids, [Some(6), Some(1), None, Some(4), Some(2), Some(3), None, Some(5), Some(5), None]);
        let codecs = [Codec::Gzip, Codec::Lzma, Codec::Lzo, Codec::Xz, Codec::Lz4, Codec::Zstd];
        assert_eq!((1..=6).filter_map(Codec::from_squashfs_id).collect::<Vec<_>>(), codecs);
        assert_eq!((Codec::from_squashfs_id(0), Codec::from_squashfs_id(7)), (None, None));
        let codecs = [Codec::Lz4, Codec::Lzma, Codec::Deflate, Codec::Zstd];
        assert_eq!((0..=255).filter_map(Codec::from_erofs_id).collect::<Vec<_>>(), codecs);
        assert_eq!(Codec::Lz4hc.erofs_id(), Codec::Lz4.erofs_id());
    }

    #[test]
    fn help_and_documentation_name_everything() {
        let help = help();
        let markdown = markdown();
        for info in CODECS {
            assert!(help.contains(info.summary) && markdown.contains(info.summary), "{}", info.name);
            for opt in info.options {
                let row = format!("| | `{}` | {} | {} | {} |", opt.name, opt.form.accepted(), opt.default, opt.help);
                assert!(help.contains(opt.help) && markdown.contains(&row), "{}: {}", info.name, opt.name);
            }
        }
        assert!(help.lines().all(|line| line.len() <= 120), "{help}");
        assert!(markdown.lines().all(|line| line.matches('|').count() == 6), "{markdown}");
    }
}
