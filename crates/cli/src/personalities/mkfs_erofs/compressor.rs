//! `-z`: compressors and their options become a codec.

use packfs_image::tree::parse_c_number;

use crate::args::value;

/// Largest `dictsize` of zstd.
const ZSTD_DICT_MAX: u64 = 1 << 20;
/// Largest `dictsize` of deflate: its window.
const DEFLATE_DICT_MAX: u64 = 32 << 10;

/// A version of Linux.
pub(super) type LinuxVersion = (u32, u32);

/// A codec, and the Linux that reads it if that is newer than packfs's default.
pub(super) type ImageCodec = (String, Option<LinuxVersion>);

/// Returns the codecs for the value of `-z`; the first is that of all files without a hint.
pub(super) fn parse_codecs(text: &str) -> Result<Vec<ImageCodec>, String> {
    text.split(':').map(parse_codec).collect()
}

/// Returns cluster size and codec for the value of `-m`.
pub(super) fn parse_metabox(text: &str) -> Result<(u64, Option<ImageCodec>), String> {
    let (size, compressor) = text.split_once(':').map_or((text, None), |(size, codec)| (size, Some(codec)));
    let size = parse_bytes(size).ok_or_else(|| format!("-m {text}: expected the size of a cluster in bytes"))?;
    Ok((size, compressor.map(parse_codec).transpose()?))
}

fn parse_codec(text: &str) -> Result<ImageCodec, String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let wrong = |part: &str| format!("-z {text}: {name} has no option {part}");
    let mut level = None;
    let mut options = Vec::new();
    for part in parts.filter(|part| !part.is_empty()) {
        // A bare number is the level.
        match part.split_once('=').unwrap_or(("level", part)) {
            ("level", value) if name != "lz4" => level = Some(value.parse::<u32>().map_err(|_| wrong(part))?),
            // As with 0, the program chooses.
            ("dictsize", "") if matches!(name, "lzma" | "zstd" | "deflate") => {}
            ("dictsize", value) => match (name, parse_bytes(value).ok_or_else(|| wrong(part))?) {
                ("lzma", 0) => {}
                ("lzma", len) => options.push(format!("dict={len}")),
                // The window of the others is as long as it is of use.
                ("zstd", ..=ZSTD_DICT_MAX) | ("deflate", ..=DEFLATE_DICT_MAX) => {}
                _ => return Err(wrong(part)),
            },
            ("lc" | "lp" | "pb", _) if name == "lzma" => options.push(part.to_owned()),
            _ => return Err(wrong(part)),
        }
    }
    // It has the levels above 9 as libdeflate.
    if name == "deflate" && level.is_some_and(|level| !(1..=9).contains(&level)) {
        return Err(format!("-z {text}: the levels of deflate are 1 to 9"));
    }
    let (codec, default, kernel) = match name {
        "lz4" => ("lz4", None, None),
        "lz4hc" => ("lz4hc", Some(9), None),
        "lzma" => ("lzma", Some(6), None),
        "deflate" | "libdeflate" => ("deflate", Some(1), Some((6, 6))),
        "zstd" => ("zstd", Some(3), Some((6, 10))),
        _ => return Err(format!("-z {text}: there is no compressor {name}")),
    };
    let mut level = level.or(default);
    // As xz has them: 100 and more are the levels with `-e`.
    if name == "lzma" && level.is_some_and(|level| (100..110).contains(&level)) {
        level = level.map(|level| level - 100);
        options.insert(0, "extreme".into());
    }
    let level = level.map(|level| level.to_string());
    let words = [codec.to_owned()].into_iter().chain(level).chain(options);
    Ok((words.collect::<Vec<_>>().join(":"), kernel))
}

/// Reads a number of bytes, as C does or with a unit.
fn parse_bytes(text: &str) -> Option<u64> {
    parse_c_number(text).or_else(|| value::size(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressors_become_codecs() {
        for (text, codec_of, kernel) in [
            ("lz4", "lz4", None),
            ("lz4hc", "lz4hc:9", None),
            ("lz4hc,12", "lz4hc:12", None),
            ("lz4hc,level=4", "lz4hc:4", None),
            ("lzma,109,dictsize=65536,lc=4", "lzma:9:extreme:dict=65536:lc=4", None),
            ("deflate", "deflate:1", Some((6, 6))),
            ("deflate,9,dictsize=32K", "deflate:9", Some((6, 6))),
            ("libdeflate,level=12", "deflate:12", Some((6, 6))),
            ("lz4,", "lz4", None),
            ("lzma,dictsize=,lc=3", "lzma:6:lc=3", None),
            ("lzma,dictsize=0x10000", "lzma:6:dict=65536", None),
            ("zstd,level=22,dictsize=1048576", "zstd:22", Some((6, 10))),
        ] {
            assert_eq!(parse_codec(text), Ok((codec_of.into(), kernel)), "{text}");
            assert!(codec_of.parse::<packfs_codec::Choice>().is_ok(), "{codec_of}");
        }
        let wrong =
            ["", "xz", "lz4,1", "lz4hc,x", "zstd,lc=1", "lzma,level=", "deflate,0", "deflate,10", "zstd,dictsize=x"];
        for wrong in wrong.into_iter().chain(["zstd,dictsize=2M", "deflate,dictsize=65536", "lz4,dictsize=0"]) {
            assert!(parse_codecs(wrong).is_err(), "{wrong}");
        }
        let several = parse_codecs("lz4hc,12:zstd,level=19").unwrap();
        assert_eq!(several, [("lz4hc:12".into(), None), ("zstd:19".into(), Some((6, 10)))]);
    }
}
