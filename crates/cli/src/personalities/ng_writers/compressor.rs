//! `--compressor` and `--comp-extra`: a codec.

use crate::args::value;

/// Block size without `--block-size`.
pub(super) const BLOCK: u64 = 128 << 10;
/// Largest dictionary that these programs take.
const DICTIONARY_MAX: u64 = 1 << 20;

/// Returns the codec for a compressor and its options, a comma between them, and blocks of `block` bytes.
pub(super) fn parse_codec(name: Option<&str>, extra: &str, block: u64) -> Result<String, String> {
    let name = name.unwrap_or("xz");
    let wrong = |option: &str| format!("-X {option}: {name} has no such option");
    let mut level = match name {
        "gzip" => Some("9"),
        "lzma" => Some("5"),
        "xz" | "lzo" | "lz4" | "zstd" => None,
        _ => return Err(format!("-c {name}: there is no such compressor")),
    };
    let mut codec = name;
    let mut options = Vec::new();
    let mut tried = Vec::new();
    for option in extra.split(',').filter(|option| !option.is_empty()) {
        match (name, option.split_once('=')) {
            // packfs has the level without a name.
            ("gzip" | "xz" | "lzma" | "lzo" | "zstd", Some(("level", value))) => level = Some(value),
            ("gzip", Some(("window", _))) | ("lzo", Some(("algorithm", _))) => options.push(option.to_owned()),
            ("xz" | "lzma", Some(("dictsize", value))) => {
                options.push(format!("dict={}", dictionary_size(value, block)))
            }
            ("xz" | "lzma", Some(("lc" | "lp" | "pb", _))) => options.push(option.to_owned()),
            ("xz" | "lzma", None) if option == "extreme" => options.push(option.to_owned()),
            ("gzip", None) if ["default", "filtered", "huffman", "rle", "fixed"].contains(&option) => {
                tried.push(option)
            }
            ("xz", None) => tried.push(option),
            ("lz4", None) if option == "hc" => codec = "lz4hc",
            _ => return Err(wrong(option)),
        }
    }
    match name {
        // Otherwise the options of filters would be empty.
        _ if tried.is_empty() => {}
        "gzip" => options.push(format!("strategies={}", tried.join("+"))),
        _ => options.push(format!("bcj={}", tried.join("+"))),
    }
    let level = level.map(str::to_owned);
    Ok([codec.to_owned()].into_iter().chain(level).chain(options).collect::<Vec<_>>().join(":"))
}

/// Returns the size of a dictionary. One that is larger than a block compresses no better than one of the block's size and
/// needs more memory in each reader, so it becomes that.
fn dictionary_size(value: &str, block: u64) -> &str {
    match value::size(value) {
        // `100%` is the size of the block. A value beyond what the program takes is left to packfs to refuse.
        Ok(size) if size > block && size <= DICTIONARY_MAX => "100%",
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressors_become_codecs() {
        for (name, extra, made) in [
            (None, "", "xz"),
            (Some("gzip"), "", "gzip:9"),
            (Some("gzip"), "level=6,window=14,default,rle", "gzip:6:window=14:strategies=default+rle"),
            (Some("xz"), "level=9,dictsize=50%,extreme,x86,arm", "xz:9:dict=50%:extreme:bcj=x86+arm"),
            (Some("xz"), "dictsize=128K", "xz:dict=128K"),
            (Some("xz"), "dictsize=256K", "xz:dict=100%"),
            (Some("lzma"), "dictsize=1048576", "lzma:5:dict=100%"),
            (Some("xz"), "dictsize=2M", "xz:dict=2M"),
            (Some("lzma"), "lc=4", "lzma:5:lc=4"),
            (Some("lzo"), "algorithm=lzo1x_1", "lzo:algorithm=lzo1x_1"),
            (Some("lz4"), "hc", "lz4hc"),
            (Some("zstd"), "level=22", "zstd:22"),
        ] {
            assert_eq!(parse_codec(name, extra, BLOCK).as_deref(), Ok(made), "{name:?} {extra}");
            assert!(made.parse::<packfs_codec::Choice>().is_ok(), "{made}");
        }
        for (name, extra) in [("bzip2", ""), ("zstd", "window=1"), ("lz4", "level=1"), ("gzip", "x86")] {
            assert!(parse_codec(Some(name), extra, BLOCK).is_err(), "{name} {extra}");
        }
    }
}
