//! Names of compressors in help texts: callers search these for the ones that they may ask for.

use packfs_codec::{Choice, Codec};

/// Block length for which an encoder is tried.
const BLOCK_LEN: usize = 128 << 10;

/// Compressors of SquashFS, in the order of squashfs-tools.
const SQUASHFS: &[&str] = &["gzip", "lzo", "lz4", "xz", "zstd", "lzma"];
/// Compressors of EROFS, in the order of erofs-utils.
const EROFS: &[&str] = &["lz4", "lz4hc", "lzma", "deflate", "libdeflate", "zstd"];

/// Returns a list of the compressors that a program has, or nothing if its help has none.
pub(super) fn list_compressors(program: &str) -> String {
    let (heading, names, usual) = match program {
        "mksquashfs" | "sqfstar" => ("Compressors available:", SQUASHFS, "gzip"),
        "tar2sqfs" | "gensquashfs" => ("Available SquashFS block compressors:", SQUASHFS, "xz"),
        "unsquashfs" | "sqfscat" => ("Decompressors available:", SQUASHFS, ""),
        "mkfs.erofs" => ("Supported compressors are:", EROFS, ""),
        _ => return String::new(),
    };
    let reads = heading.starts_with("Decompressors");
    let lines = names.iter().filter(|name| if reads { has_decoder(name) } else { has_encoder(name) });
    let lines = lines.map(|name| format!("\t{name}{}\n", if *name == usual { " (default)" } else { "" }));
    format!("\n{heading}\n{}", lines.collect::<String>())
}

/// Returns true if images of SquashFS can be written with a compressor.
pub(super) fn has_squashfs(name: &str) -> bool {
    SQUASHFS.contains(&name) && has_encoder(name)
}

/// Returns the codec with the name of a compressor.
fn choice(name: &str) -> Option<Choice> {
    // They differ in the program that compresses.
    // Nothing else in the image tells them apart.
    let name = if name == "libdeflate" { "deflate" } else { name };
    name.parse().ok()
}

fn has_encoder(name: &str) -> bool {
    choice(name).is_some_and(|choice| choice.encoder(BLOCK_LEN).is_ok())
}

fn has_decoder(name: &str) -> bool {
    choice(name).map(|choice| choice.codec()).is_some_and(|codec: Codec| codec.decoder().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compressor_is_listed_once() {
        for (program, names, usual) in [
            ("sqfstar", SQUASHFS, "\tgzip (default)\n"),
            ("tar2sqfs", SQUASHFS, "\txz (default)\n"),
            ("mkfs.erofs", EROFS, ""),
        ] {
            let list = list_compressors(program);
            for name in names {
                let count = list.lines().filter(|line| line.trim().trim_end_matches(" (default)") == *name).count();
                assert_eq!(count, 1, "{program}: {name}");
            }
            assert!(list.contains(usual), "{list}");
        }
        assert!(!list_compressors("unsquashfs").contains("default"));
        assert_eq!(list_compressors("sqfsdiff"), "");
    }
}
