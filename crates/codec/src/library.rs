//! Name and version of the library behind each codec, for records of measurements. Rust libraries
//! report no version at run time; their code is the one that this version of packfs is built with.

use crate::Codec;

impl Codec {
    /// Returns the library behind a codec, with its version if it reports one: `zstd 1.5.7`.
    pub fn library(self) -> String {
        match self {
            #[cfg(feature = "gzip")]
            Codec::Gzip | Codec::Deflate => "libdeflate".into(),
            #[cfg(all(feature = "gzip-rust", not(feature = "gzip")))]
            Codec::Gzip | Codec::Deflate => "zlib-rs (Rust)".into(),
            #[cfg(feature = "xz")]
            Codec::Xz | Codec::Lzma => format!("packfs; liblzma {}", crate::xz::version()),
            #[cfg(feature = "lz4")]
            Codec::Lz4 | Codec::Lz4hc => format!("lz4 {}", lzzzz::version_string()),
            #[cfg(feature = "snappy")]
            Codec::Snappy => "snap (Rust)".into(),
            #[cfg(feature = "zstd")]
            Codec::Zstd => format!("zstd {}", zstd_safe::version_string()),
            #[cfg(all(feature = "zstd-rust", not(feature = "zstd")))]
            Codec::Zstd => "ruzstd (Rust)".into(),
            _ => "packfs".into(),
        }
    }
}
