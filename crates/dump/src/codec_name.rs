//! Names of codecs, as people give them for dumps.

/// Returns the name of a codec with the options that it lacks: where data arrives faster than a dense encoder works, a codec
/// without a level is the fastest one. `raw` is another name for `none`.
///
/// ```
/// use packfs_dump::fastest_form;
/// assert_eq!(["zstd", "zstd:9", "lz4", "raw"].map(fastest_form), ["zstd:1", "zstd:9", "lz4", "none"]);
/// ```
pub fn fastest_form(codec: &str) -> &str {
    match codec {
        "raw" => "none",
        "lzo" => "lzo:algorithm=lzo1x_1",
        "zstd" => "zstd:1",
        "gzip" => "gzip:1",
        "xz" => "xz:0",
        "lzma" => "lzma:0",
        other => other,
    }
}
