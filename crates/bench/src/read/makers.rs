//! Programs that make images to be read, packfs among them, and how each is asked.
//!
//! The options are those of the EROFS project's page: no extended attributes, all times 0, and EROFS with fragments.
//! packfs does with features what it does by default.

use std::path::{Path, PathBuf};
use std::process::Command;

use packfs_codec::{Choice, Codec, Settings};

use super::cells::Format;
use crate::program;
use crate::{Error, Result};

/// A program that makes images of one format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maker {
    kind: Kind,
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Packfs(Format),
    Mksquashfs,
    MkfsErofs,
}

impl Maker {
    /// packfs itself, in both formats.
    pub fn packfs(path: &Path) -> Vec<Self> {
        Format::ALL.map(|format| Maker { kind: Kind::Packfs(format), path: path.to_owned() }).into()
    }

    /// Other programs that are in a folder or on `PATH`, and the names of those that are not.
    pub fn peers(folder: Option<&Path>) -> (Vec<Self>, Vec<&'static str>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for kind in [Kind::Mksquashfs, Kind::MkfsErofs] {
            let maker = |path| Maker { kind, path };
            match program::find(maker(PathBuf::new()).name(), folder) {
                Some(path) => found.push(maker(path)),
                None => missing.push(maker(PathBuf::new()).name()),
            }
        }
        (found, missing)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Packfs(_) => "packfs",
            Kind::Mksquashfs => "mksquashfs",
            Kind::MkfsErofs => "mkfs.erofs",
        }
    }

    /// The format that it makes.
    pub fn format(&self) -> Format {
        match self.kind {
            Kind::Packfs(format) => format,
            Kind::Mksquashfs => Format::Squashfs,
            Kind::MkfsErofs => Format::Erofs,
        }
    }

    /// What it says of its version.
    pub fn version(&self) -> Option<String> {
        let option = match self.kind {
            Kind::Packfs(_) => "--version",
            Kind::Mksquashfs => "-version",
            Kind::MkfsErofs => "-V",
        };
        program::version(&self.path, option)
    }

    /// What is on in its images besides.
    pub fn features(&self, choice: &Choice) -> &'static str {
        if self.kind == Kind::MkfsErofs && choice.codec() != Codec::None { "fragments" } else { "" }
    }

    /// Makes an image of a directory. An error says that it cannot with this codec; nothing is said where the format
    /// does not have it.
    pub fn command(&self, source: &Path, image: &Path, choice: &Choice, block: usize) -> Option<Result<Command>> {
        let mut command = Command::new(&self.path);
        let none = choice.codec() == Codec::None;
        if !none && !self.format().has(choice.codec().info()) {
            return None;
        }
        let cannot = || Error::Usage(format!("{} does not make images with {choice}", self.name()));
        match self.kind {
            Kind::Packfs(format) => {
                command.args(["build", "-q", "--no-xattrs", "--time", "0", "--format", format.name()]);
                command.arg(format!("--codec={choice}"));
                if !none {
                    command.arg(format!("--block-size={block}"));
                }
                command.arg("-o").args([image, source]);
            }
            Kind::Mksquashfs => {
                command.args([source, image]);
                command.args(["-no-xattrs", "-all-time", "0", "-noappend", "-no-progress", "-quiet"]);
                match (none, mksquashfs(choice.settings())) {
                    (true, _) => command.args(["-noD", "-noI", "-noX", "-noF"]),
                    (false, Some(options)) => command.args(["-b", &block.to_string()]).args(options),
                    (false, None) => return Some(Err(cannot())),
                };
            }
            Kind::MkfsErofs => {
                command.args(["-T0", "-x-1", "--quiet"]);
                match (none, mkfs_erofs(choice.settings())) {
                    (true, _) => {}
                    (false, Some(codec)) => {
                        command.args([format!("-z{codec}"), format!("-C{block}"), "-Efragments".into()]);
                    }
                    (false, None) => return Some(Err(cannot())),
                }
                command.args([image, source]);
            }
        }
        Some(Ok(command))
    }
}

/// A codec as mksquashfs takes it. Of xz it sets the filters only; what packfs does by default stands for that.
fn mksquashfs(settings: &Settings) -> Option<Vec<String>> {
    let plain = |name: &str| vec!["-comp".to_owned(), name.to_owned()];
    let with = |name: &str, option: &str, value: i64| {
        let mut options = plain(name);
        options.extend([option.to_owned(), value.to_string()]);
        options
    };
    const LEVEL: &str = "-Xcompression-level";
    match *settings {
        Settings::Gzip { level: level @ 1..=9, window: 15, strategies: 1 } => Some(with("gzip", LEVEL, level.into())),
        Settings::Zstd { level: level @ 1..=22 } => Some(with("zstd", LEVEL, level.into())),
        Settings::Lzo { level: level @ 1..=9, .. } => Some(with("lzo", LEVEL, level.into())),
        Settings::Lz4 { acceleration: 1 } => Some(plain("lz4")),
        // The only level that it has.
        Settings::Lz4hc { level: 12 } => Some([plain("lz4"), vec!["-Xhc".into()]].concat()),
        Settings::Xz { level: 6, extreme: false, filters: 0, lc: 3, lp: 0, pb: 1, .. } => Some(plain("xz")),
        _ => None,
    }
}

/// A codec as mkfs.erofs takes it. Of lzma it sets the level; what packfs does by default stands for the rest.
fn mkfs_erofs(settings: &Settings) -> Option<String> {
    match *settings {
        Settings::Lz4 { acceleration: 1 } => Some("lz4".into()),
        Settings::Lz4hc { level: level @ 1..=12 } => Some(format!("lz4hc,{level}")),
        Settings::Deflate { level: level @ 1..=9 } => Some(format!("deflate,{level}")),
        Settings::Lzma { level, extreme: false, lc: 3, lp: 0, pb: 1, .. } => Some(format!("lzma,{level}")),
        Settings::Zstd { level: level @ 1..=22 } => Some(format!("zstd,{level}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: Kind, codec: &str) -> Option<String> {
        let path = Maker { kind, path: PathBuf::new() }.name().into();
        let maker = Maker { kind, path };
        let choice = codec.parse().unwrap();
        let made = maker.command(Path::new("root"), Path::new("a.img"), &choice, 65_536)?;
        Some(made.map_or_else(|error| error.to_string(), |command| format!("{command:?}").replace('"', "")))
    }

    #[test]
    fn every_program_is_asked_for_the_same() {
        let sqfs = "-no-xattrs -all-time 0 -noappend -no-progress -quiet";
        let packfs = "packfs build -q --no-xattrs --time 0 --format";
        let cases = [
            (
                Kind::Packfs(Format::Squashfs),
                "lz4hc:12",
                format!("{packfs} squashfs --codec=lz4hc:12 --block-size=65536 -o a.img root"),
            ),
            (Kind::Packfs(Format::Erofs), "none", format!("{packfs} erofs --codec=none -o a.img root")),
            (Kind::Mksquashfs, "lz4hc:12", format!("mksquashfs root a.img {sqfs} -b 65536 -comp lz4 -Xhc")),
            (Kind::Mksquashfs, "none", format!("mksquashfs root a.img {sqfs} -noD -noI -noX -noF")),
            (
                Kind::Mksquashfs,
                "zstd:19",
                format!("mksquashfs root a.img {sqfs} -b 65536 -comp zstd -Xcompression-level 19"),
            ),
            (
                Kind::Mksquashfs,
                "lzo:9",
                format!("mksquashfs root a.img {sqfs} -b 65536 -comp lzo -Xcompression-level 9"),
            ),
            (Kind::Mksquashfs, "xz", format!("mksquashfs root a.img {sqfs} -b 65536 -comp xz")),
            (Kind::Mksquashfs, "lz4hc:9", "mksquashfs does not make images with lz4hc:9".into()),
            (
                Kind::MkfsErofs,
                "lz4hc:12",
                "mkfs.erofs -T0 -x-1 --quiet -zlz4hc,12 -C65536 -Efragments a.img root".into(),
            ),
            (Kind::MkfsErofs, "none", "mkfs.erofs -T0 -x-1 --quiet a.img root".into()),
            (Kind::MkfsErofs, "lzma:6", "mkfs.erofs -T0 -x-1 --quiet -zlzma,6 -C65536 -Efragments a.img root".into()),
        ];
        for (kind, codec, line) in cases {
            assert_eq!(shown(kind, codec), Some(line), "{codec}");
        }
        // Formats do not have every codec.
        for (kind, codec) in
            [(Kind::MkfsErofs, "gzip"), (Kind::Mksquashfs, "deflate"), (Kind::Packfs(Format::Erofs), "lzo")]
        {
            assert_eq!(shown(kind, codec), None, "{codec}");
        }
    }
}
