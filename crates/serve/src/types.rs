//! Media types by the ends of file names.

/// Type of bytes that no other type fits.
pub(crate) const BINARY: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";

/// Returns the media type of a file by its name. Text is taken for UTF-8; source code is text.
pub(crate) fn media_type(name: &[u8]) -> &'static str {
    let lower = name.to_ascii_lowercase();
    // Only the last ending counts: `.tar.gz` is served as gzip, which is what its bytes are.
    let end = lower.iter().rposition(|byte| *byte == b'.').map_or(&b""[..], |dot| &lower[dot + 1..]);
    match end {
        b"html" | b"htm" | b"xhtml" => "text/html; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"csv" => "text/csv; charset=utf-8",
        b"js" | b"mjs" => "text/javascript; charset=utf-8",
        b"md" => "text/markdown; charset=utf-8",
        b"xml" | b"xsl" => "text/xml; charset=utf-8",
        b"json" | b"map" => "application/json",
        b"txt" | b"text" | b"log" | b"conf" | b"cfg" | b"ini" | b"toml" | b"yaml" | b"yml" | b"sh" | b"py" | b"pl"
        | b"rb" | b"rs" | b"c" | b"h" | b"cc" | b"cpp" | b"hpp" | b"go" | b"java" | b"ts" | b"lua" | b"sql"
        | b"tex" | b"rst" | b"patch" | b"diff" | b"service" | b"desktop" | b"cmake" | b"mk" | b"list" => TEXT,
        b"svg" => "image/svg+xml",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"webp" => "image/webp",
        b"avif" => "image/avif",
        b"bmp" => "image/bmp",
        b"ico" => "image/vnd.microsoft.icon",
        b"tif" | b"tiff" => "image/tiff",
        b"mp3" => "audio/mpeg",
        b"ogg" | b"oga" | b"opus" => "audio/ogg",
        b"flac" => "audio/flac",
        b"wav" => "audio/wav",
        b"mp4" | b"m4v" => "video/mp4",
        b"webm" => "video/webm",
        b"mkv" => "video/matroska",
        b"woff" => "font/woff",
        b"woff2" => "font/woff2",
        b"ttf" => "font/ttf",
        b"otf" => "font/otf",
        b"pdf" => "application/pdf",
        b"wasm" => "application/wasm",
        b"zip" => "application/zip",
        b"gz" | b"tgz" => "application/gzip",
        b"xz" => "application/x-xz",
        b"zst" => "application/zstd",
        b"bz2" => "application/x-bzip2",
        b"tar" => TAR,
        _ => BINARY,
    }
}

/// Type of a tar archive.
pub(crate) const TAR: &str = "application/x-tar";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_last_dot() {
        let cases: [(&[u8], &str); 6] = [
            (b"a.b.HTML", "text/html; charset=utf-8"),
            (b"x.tar.gz", "application/gzip"),
            (b"Makefile", BINARY),
            (b".png", "image/png"),
            (b"png", BINARY),
            (b"\xff.", BINARY),
        ];
        for (name, expected) in cases {
            assert_eq!(media_type(name), expected, "{name:?}");
        }
    }
}
