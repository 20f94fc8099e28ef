//! Resolved settings of each codec, and how the options of the table map to them.

use crate::{Codec, Error, Result};

/// Algorithms of LZO1X, indexed by their SquashFS number.
pub(crate) const LZO_ALGORITHMS: &[&str] = &["lzo1x_1", "lzo1x_1_11", "lzo1x_1_12", "lzo1x_1_15", "lzo1x_999"];

/// A codec's level and options, resolved. Image writers store these in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settings {
    /// No compression.
    None,
    /// zlib streams.
    Gzip {
        /// 1 to 12; levels from 10 on exceed those of zlib.
        level: u8,
        /// log2 of the window, 8 to 15.
        window: u8,
        /// Bit set of strategies: default 1, filtered 2, huffman 4, rle 8, fixed 16.
        strategies: u16,
    },
    /// Raw deflate.
    Deflate {
        /// 0 to 12; levels from 10 on exceed those of zlib.
        level: u8,
    },
    /// xz streams.
    Xz {
        /// Preset 0 to 9.
        level: u8,
        /// True to search longer.
        extreme: bool,
        /// Dictionary size; by default that of the block.
        dict: Option<DictSize>,
        /// Bit set of filters to try: x86 1, powerpc 2, ia64 4, arm 8, armthumb 16, sparc 32, arm64 64, riscv 128.
        filters: u16,
        /// True to try, of `filters`, only the one that suits the bytes of the block.
        auto: bool,
        /// False to choose `lc`, `lp` and `pb` for each block by its bytes, at levels with an encoder of ours.
        fixed: bool,
        /// Literal context bits.
        lc: u8,
        /// Literal position bits.
        lp: u8,
        /// Position bits.
        pb: u8,
    },
    /// Legacy .lzma streams, and MicroLZMA in clusters.
    Lzma {
        /// Preset 0 to 9.
        level: u8,
        /// True to search longer.
        extreme: bool,
        /// Dictionary size; by default that of the block, or for clusters that of [`Choice::cluster_window`].
        ///
        /// [`Choice::cluster_window`]: crate::Choice::cluster_window
        dict: Option<DictSize>,
        /// False to choose `lc`, `lp` and `pb` for each block by its bytes, at levels with an encoder of ours.
        fixed: bool,
        /// Literal context bits.
        lc: u8,
        /// Literal position bits.
        lp: u8,
        /// Position bits.
        pb: u8,
    },
    /// LZO1X.
    Lzo {
        /// lzo1x_1 0, lzo1x_1_11 1, lzo1x_1_12 2, lzo1x_1_15 3, lzo1x_999 4.
        algorithm: u8,
        /// 1 to 9 for lzo1x_999, else 0.
        level: u8,
    },
    /// Snappy, which has no options.
    Snappy,
    /// LZ4, fast encoder.
    Lz4 {
        /// From 1 on; higher is larger and faster.
        acceleration: i32,
    },
    /// LZ4, dense encoder.
    Lz4hc {
        /// 0 to 12.
        level: u8,
    },
    /// zstd.
    Zstd {
        /// -131072 to 22.
        level: i32,
        /// True to store the content size in frames of blocks; frames of clusters never store it.
        content_size: bool,
    },
}

/// Size of an xz or lzma dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DictSize {
    /// In bytes.
    Bytes(u32),
    /// In percent of the block.
    Percent(u8),
}

impl DictSize {
    /// Smallest and largest size, in bytes.
    pub(crate) const RANGE: std::ops::RangeInclusive<u32> = 8 << 10..=64 << 20;

    /// Returns true if the kernel accepts a dictionary of this size: 2^n or 2^n + 2^(n+1).
    pub(crate) fn is_valid(bytes: u32) -> bool {
        Self::RANGE.contains(&bytes) && (bytes >> bytes.trailing_zeros() == 1 || bytes >> bytes.trailing_zeros() == 3)
    }

    /// Returns the size in bytes for blocks of `block_len`. A percentage is rounded down to a valid
    /// size. A size in bytes that exceeds the block is an error, as it would waste memory.
    pub fn resolve(dict: Option<DictSize>, block_len: usize) -> Result<u32> {
        let min = *Self::RANGE.start();
        let max = *Self::RANGE.end();
        let block = u32::try_from(block_len).unwrap_or(max).clamp(min, max);
        match dict {
            // Rounded up: a dictionary smaller than the block would lose matches.
            None => Ok((block..=max).find(|n| Self::is_valid(*n)).unwrap_or(max)),
            Some(DictSize::Bytes(n)) if n > block && n > min => {
                let why = format!("dict={n} is larger than the block; accepted: up to {block}, or a percentage of it");
                Err(Error::option("xz", why))
            }
            Some(DictSize::Bytes(n)) => Ok(n),
            Some(DictSize::Percent(share)) => {
                let bytes = u32::try_from(u64::from(block) * u64::from(share) / 100).unwrap_or(max).max(min);
                Ok((min..=bytes).rev().find(|n| Self::is_valid(*n)).unwrap_or(min))
            }
        }
    }
}

/// Names of zlib's strategies.
pub(crate) struct GzipStrategies;

impl GzipStrategies {
    pub(crate) const DEFAULT: u16 = 1;
    pub(crate) const FILTERED: u16 = 2;
    pub(crate) const HUFFMAN: u16 = 4;
    pub(crate) const RLE: u16 = 8;
    pub(crate) const FIXED: u16 = 16;
    pub(crate) const NAMES: &'static [(&'static str, u16)] = &[
        ("default", Self::DEFAULT),
        ("filtered", Self::FILTERED),
        ("huffman", Self::HUFFMAN),
        ("rle", Self::RLE),
        ("fixed", Self::FIXED),
    ];
}

/// Names of xz's machine-code filters.
pub(crate) struct BcjFilters;

impl BcjFilters {
    pub(crate) const X86: u16 = 1;
    pub(crate) const POWERPC: u16 = 2;
    pub(crate) const IA64: u16 = 4;
    pub(crate) const ARM: u16 = 8;
    pub(crate) const ARMTHUMB: u16 = 16;
    pub(crate) const SPARC: u16 = 32;
    pub(crate) const ARM64: u16 = 64;
    pub(crate) const RISCV: u16 = 128;
    /// Filters that can be recognised by a block's bytes.
    pub(crate) const AUTO: u16 = 255 & !Self::IA64;
    pub(crate) const NAMES: &'static [(&'static str, u16)] = &[
        ("x86", Self::X86),
        ("powerpc", Self::POWERPC),
        ("ia64", Self::IA64),
        ("arm", Self::ARM),
        ("armthumb", Self::ARMTHUMB),
        ("sparc", Self::SPARC),
        ("arm64", Self::ARM64),
        ("riscv", Self::RISCV),
    ];
}

/// Position of lzo1x_999, the only algorithm with levels.
pub(crate) const LZO1X_999: u8 = 4;

/// Values of the option `bits`.
pub(crate) const BITS: &[&str] = &["auto", "fixed"];
/// The index of `fixed`.
const FIXED: u8 = 1;
/// Defaults of `lc`, `lp` and `pb`.
pub(crate) const USUAL_BITS: (u8, u8, u8) = (3, 0, 1);

/// The value of one option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionValue {
    Number(i32),
    Flag(bool),
    /// Index into [`OptionForm::Name`](crate::table::OptionForm::Name).
    Name(u8),
    Set(u16),
    Filters {
        bits: u16,
        auto: bool,
    },
    Dict(DictSize),
}

impl Settings {
    /// Returns the codec.
    pub fn codec(&self) -> Codec {
        match self {
            Settings::None => Codec::None,
            Settings::Gzip { .. } => Codec::Gzip,
            Settings::Deflate { .. } => Codec::Deflate,
            Settings::Xz { .. } => Codec::Xz,
            Settings::Lzma { .. } => Codec::Lzma,
            Settings::Lzo { .. } => Codec::Lzo,
            Settings::Snappy => Codec::Snappy,
            Settings::Lz4 { .. } => Codec::Lz4,
            Settings::Lz4hc { .. } => Codec::Lz4hc,
            Settings::Zstd { .. } => Codec::Zstd,
        }
    }

    /// Returns the settings of a codec before any option is set; the table's defaults then overwrite them.
    pub(crate) fn blank(codec: Codec) -> Self {
        match codec {
            Codec::None => Settings::None,
            Codec::Gzip => Settings::Gzip { level: 0, window: 0, strategies: 0 },
            Codec::Deflate => Settings::Deflate { level: 0 },
            Codec::Xz => {
                let level = 0;
                let extreme = false;
                let dict = None;
                let fixed = false;
                Settings::Xz { level, extreme, dict, filters: 0, auto: false, fixed, lc: 0, lp: 0, pb: 0 }
            }
            Codec::Lzma => Settings::Lzma { level: 0, extreme: false, dict: None, fixed: false, lc: 0, lp: 0, pb: 0 },
            Codec::Lzo => Settings::Lzo { algorithm: 0, level: 0 },
            Codec::Snappy => Settings::Snappy,
            Codec::Lz4 => Settings::Lz4 { acceleration: 0 },
            Codec::Lz4hc => Settings::Lz4hc { level: 0 },
            Codec::Zstd => Settings::Zstd { level: 0, content_size: false },
        }
    }

    /// Returns the value of the option `name`, or `None` if it has no meaning with the other options.
    pub(crate) fn get(&self, name: &str) -> Option<OptionValue> {
        use Settings::{Deflate, Gzip, Lz4, Lz4hc, Lzma, Lzo, Xz, Zstd};
        Some(match (self, name) {
            (Lzo { algorithm, .. }, "level") if *algorithm != LZO1X_999 => return None,
            (
                Gzip { level, .. }
                | Deflate { level }
                | Xz { level, .. }
                | Lzma { level, .. }
                | Lzo { level, .. }
                | Lz4hc { level },
                "level",
            ) => OptionValue::Number(i32::from(*level)),
            (Zstd { level, .. }, "level") => OptionValue::Number(*level),
            (Zstd { content_size, .. }, "content-size") => OptionValue::Flag(*content_size),
            (Gzip { window, .. }, "window") => OptionValue::Number(i32::from(*window)),
            (Gzip { strategies, .. }, "strategies") => OptionValue::Set(*strategies),
            (Xz { extreme, .. } | Lzma { extreme, .. }, "extreme") => OptionValue::Flag(*extreme),
            (Xz { dict, .. } | Lzma { dict, .. }, "dict") => OptionValue::Dict((*dict)?),
            // Other bits than the default ones say it as well.
            (Xz { lc, lp, pb, .. } | Lzma { lc, lp, pb, .. }, "bits") if (*lc, *lp, *pb) != USUAL_BITS => return None,
            (Xz { fixed, .. } | Lzma { fixed, .. }, "bits") => OptionValue::Name((*fixed).into()),
            (Xz { filters, auto, .. }, "bcj") => OptionValue::Filters { bits: *filters, auto: *auto },
            (Xz { lc: bits, .. } | Lzma { lc: bits, .. }, "lc")
            | (Xz { lp: bits, .. } | Lzma { lp: bits, .. }, "lp")
            | (Xz { pb: bits, .. } | Lzma { pb: bits, .. }, "pb") => OptionValue::Number(i32::from(*bits)),
            (Lzo { algorithm, .. }, "algorithm") => OptionValue::Name(*algorithm),
            (Lz4 { acceleration }, "acceleration") => OptionValue::Number(*acceleration),
            _ => return None,
        })
    }

    /// Sets the option `name` to a value of the form and range given by the table.
    pub(crate) fn set(&mut self, name: &str, value: OptionValue) {
        use Settings::{Deflate, Gzip, Lz4, Lz4hc, Lzma, Lzo, Xz, Zstd};
        let small = || match value {
            OptionValue::Number(n) => u8::try_from(n).unwrap_or(u8::MAX),
            _ => 0,
        };
        match (self, name, value) {
            (
                Gzip { level, .. }
                | Deflate { level }
                | Xz { level, .. }
                | Lzma { level, .. }
                | Lzo { level, .. }
                | Lz4hc { level },
                "level",
                _,
            ) => *level = small(),
            (Zstd { level: n, .. }, "level", OptionValue::Number(value))
            | (Lz4 { acceleration: n }, "acceleration", OptionValue::Number(value)) => *n = value,
            (Gzip { window: n, .. }, "window", _)
            | (Xz { lc: n, .. } | Lzma { lc: n, .. }, "lc", _)
            | (Xz { lp: n, .. } | Lzma { lp: n, .. }, "lp", _)
            | (Xz { pb: n, .. } | Lzma { pb: n, .. }, "pb", _) => *n = small(),
            (Gzip { strategies, .. }, "strategies", OptionValue::Set(bits)) => *strategies = bits,
            (Xz { extreme, .. } | Lzma { extreme, .. }, "extreme", OptionValue::Flag(on)) => *extreme = on,
            (Xz { fixed, .. } | Lzma { fixed, .. }, "bits", OptionValue::Name(position)) => *fixed = position == FIXED,
            (Zstd { content_size, .. }, "content-size", OptionValue::Flag(on)) => *content_size = on,
            // The whole block is the default: one way to say it.
            (Xz { dict, .. } | Lzma { dict, .. }, "dict", OptionValue::Dict(size)) => {
                *dict = (size != DictSize::Percent(100)).then_some(size);
            }
            (Xz { filters, auto, .. }, "bcj", OptionValue::Filters { bits, auto: pick }) => {
                (*filters, *auto) = (bits, pick)
            }
            (Lzo { algorithm, .. }, "algorithm", OptionValue::Name(position)) => *algorithm = position,
            _ => {}
        }
    }

    /// Checks combinations of options. `given` tells whether the user set an option.
    pub(crate) fn settle(&mut self, given: impl Fn(&str) -> bool) -> Result<()> {
        match self {
            Settings::Gzip { level: 10.., window, strategies }
                if *window < 15 || *strategies != GzipStrategies::DEFAULT =>
            {
                let why = "levels 10 to 12 need window=15 and strategies=default; accepted: 1 to 9";
                return Err(Error::option("gzip", why));
            }
            Settings::Xz { lc, lp, .. } | Settings::Lzma { lc, lp, .. } if *lc + *lp > 4 => {
                let why = format!("lc={lc} and lp={lp} add up to more than 4");
                return Err(Error::option(self.codec().name(), why));
            }
            Settings::Xz { fixed, .. } | Settings::Lzma { fixed, .. } if ["lc", "lp", "pb"].into_iter().any(&given) => {
                if given("bits") && !*fixed {
                    let why = "bits=auto chooses lc, lp and pb; accepted: bits=auto, or lc, lp and pb";
                    return Err(Error::option(self.codec().name(), why));
                }
                *fixed = true;
            }
            Settings::Lzo { algorithm, level } if *algorithm != LZO1X_999 => {
                if given("level") {
                    let name = LZO_ALGORITHMS[usize::from(*algorithm)];
                    return Err(Error::option("lzo", format!("{name} has no levels; accepted: only with lzo1x_999")));
                }
                *level = 0;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_is_of_a_size_that_the_kernel_takes() {
        let cases = [
            (None, 4096, Ok(8192)),
            (None, 8192, Ok(8192)),
            (None, 131_072, Ok(131_072)),
            (None, 1 << 20, Ok(1 << 20)),
            (None, 100_000, Ok(131_072)),
            (None, 90_000, Ok(98_304)),
            (Some(DictSize::Percent(100)), 1 << 20, Ok(1 << 20)),
            (Some(DictSize::Percent(75)), 131_072, Ok(98_304)),
            (Some(DictSize::Percent(70)), 131_072, Ok(65_536)),
            (Some(DictSize::Percent(1)), 131_072, Ok(8192)),
            (Some(DictSize::Bytes(8192)), 4096, Ok(8192)),
            (Some(DictSize::Bytes(65_536)), 131_072, Ok(65_536)),
            (Some(DictSize::Bytes(1 << 20)), 131_072, Err(())),
        ];
        for (dict, block, want) in cases {
            assert_eq!(DictSize::resolve(dict, block).map_err(|_| ()), want, "{dict:?} of {block}");
        }
        let valid: Vec<u32> = (8192..=1 << 17).filter(|n| DictSize::is_valid(*n)).collect();
        assert_eq!(valid, [8192, 12288, 16384, 24576, 32768, 49152, 65536, 98304, 131_072]);
        assert!(!DictSize::is_valid(0) && !DictSize::is_valid(4096) && !DictSize::is_valid(u32::MAX));
    }
}
