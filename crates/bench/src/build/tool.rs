//! Programs that build images, and the command line that makes each of them do the same work.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use packfs_codec::{Choice, Codec, Settings};

use super::{BuildKey, ImageFeatures};
use crate::format::ImageFormat;
use crate::program;
use crate::{Error, Result};

/// An installed program that builds images.
#[derive(Debug, Clone)]
pub struct BuildTool {
    /// Which program it is.
    pub program: BuildProgram,
    /// Path of its executable.
    pub path: PathBuf,
    /// Version, as the program reports it.
    pub version: String,
}

/// A program that builds images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildProgram {
    /// packfs.
    Packfs,
    /// mksquashfs of squashfs-tools.
    Mksquashfs,
    /// tar2sqfs of squashfs-tools-ng, which reads a tar archive.
    Tar2sqfs,
    /// mkfs.erofs of erofs-utils.
    MkfsErofs,
}

/// The programs that packfs is compared with.
pub const PEERS: [BuildProgram; 3] = [BuildProgram::Mksquashfs, BuildProgram::Tar2sqfs, BuildProgram::MkfsErofs];

impl BuildProgram {
    /// Returns the name in tables, which is also that of the executable of a peer.
    pub fn name(self) -> &'static str {
        match self {
            BuildProgram::Packfs => "packfs",
            BuildProgram::Mksquashfs => "mksquashfs",
            BuildProgram::Tar2sqfs => "tar2sqfs",
            BuildProgram::MkfsErofs => "mkfs.erofs",
        }
    }

    /// Returns true if it builds images of `format`.
    pub fn makes(self, format: ImageFormat) -> bool {
        match self {
            BuildProgram::Packfs => true,
            BuildProgram::Mksquashfs | BuildProgram::Tar2sqfs => format == ImageFormat::Squashfs,
            BuildProgram::MkfsErofs => format == ImageFormat::Erofs,
        }
    }

    /// Returns the reason why it does not support a cell. Limits of single versions are not known in advance.
    pub fn refuses(self, key: &BuildKey) -> Option<String> {
        let codec = key.codec.split(':').next().unwrap_or_default();
        // tar2sqfs has no options for them, so only the cell with both is the same work.
        let has_fixed_features = self == BuildProgram::Tar2sqfs && key.features != ImageFeatures::ALL.to_string();
        let why = match self {
            BuildProgram::Packfs => return None,
            _ if key.threads == 0 => "cannot work on one thread alone",
            _ if key.features.contains("unverified") => "does not verify what it packs: `unverified` is packfs's only",
            _ if has_fixed_features => "always uses fragments and shares what is equal",
            BuildProgram::Tar2sqfs if codec == "none" => "always compresses",
            _ => return None,
        };
        Some(format!("{} {why}", self.name()))
    }

    /// Returns the option that prints the version.
    fn version_option(self) -> &'static str {
        if self == BuildProgram::Mksquashfs { "-version" } else { "--version" }
    }
}

/// Input of a program that builds images.
#[derive(Debug, Clone)]
pub struct BuildInput {
    /// The source directory.
    pub directory: PathBuf,
    /// The directory as a tar archive, for programs that only read archives.
    pub tar: Option<PathBuf>,
    /// Total size of its files.
    pub bytes: u64,
}

impl BuildTool {
    /// Finds the peers in a folder or on `PATH`. Returns them and the names of those that are missing.
    pub fn peers(folder: Option<&Path>) -> (Vec<BuildTool>, Vec<&'static str>) {
        let (found, missing) = program::find_all(PEERS, BuildProgram::name, folder);
        let tool = |(program, path): (BuildProgram, PathBuf)| {
            let version = program::version(&path, program.version_option());
            BuildTool { program, path, version }
        };
        (found.into_iter().map(tool).collect(), missing)
    }

    /// Returns the command for a cell, and the file to connect to its standard input, if any.
    pub fn command<'i>(
        &self,
        key: &BuildKey,
        input: &'i BuildInput,
        image: &Path,
    ) -> Result<(Command, Option<&'i Path>)> {
        let choice: Choice = key.codec.parse()?;
        let mut command = Command::new(&self.path);
        let source = input.directory.as_path();
        match self.program {
            BuildProgram::Packfs => {
                let path = |path: &Path| path.as_os_str().to_owned();
                command.arg("build").args([path(source), "-o".into(), path(image)]).args(packfs_options(key, &choice));
            }
            BuildProgram::Mksquashfs => {
                command.args([source, image]).args(mksquashfs_options(key, &choice)?);
            }
            BuildProgram::Tar2sqfs => {
                let tar = input.tar.as_deref();
                let tar = tar.ok_or_else(|| Error::Usage("tar2sqfs needs a tar archive, and there is none".into()))?;
                command.args(tar2sqfs_options(key, &choice)?).arg(image);
                return Ok((command, Some(tar)));
            }
            BuildProgram::MkfsErofs => {
                command.args(mkfs_erofs_options(key, &choice)?).args([OsStr::new(image), source.as_os_str()]);
            }
        }
        Ok((command, None))
    }
}

fn has_feature(key: &BuildKey, feature: &str) -> bool {
    key.features.split(',').any(|one| one == feature)
}

fn packfs_options(key: &BuildKey, choice: &Choice) -> Vec<String> {
    let mut args = vec!["--quiet".to_owned(), "--json".into()];
    for (option, value) in [("--format", &key.format), ("--codec", &key.codec)] {
        args.extend([option.to_owned(), value.clone()]);
    }
    args.extend(["--block-size".into(), key.block.to_string(), "--jobs".into(), key.threads.to_string()]);
    let fragments = has_feature(key, "fragments");
    let dedupe = has_feature(key, "dedupe");
    // mkfs.erofs finds equal files among fragments even without its dedupe.
    let shares = dedupe || fragments && key.format == ImageFormat::Erofs.name();
    if !shares {
        args.push("--no-dedup".into());
    }
    if has_feature(key, "unverified") {
        args.push("--no-verify".into());
    }
    if key.format == ImageFormat::Squashfs.name() {
        args.extend(["--fragments".into(), if fragments { "tails" } else { "none" }.into()]);
    } else if choice.codec() != Codec::None {
        let word = |on: bool, name: &str| format!("{}{name}", if on { "" } else { "^" });
        args.extend(["--features".into(), format!("{},{}", word(fragments, "fragments"), word(dedupe, "dedupe"))]);
        // The oldest Linux with this codec, if the default kernel is older.
        let kernel = match choice.codec() {
            Codec::Deflate => Some("6.6"),
            Codec::Zstd => Some("6.10"),
            _ => None,
        };
        args.extend(kernel.into_iter().flat_map(|kernel| ["--target-kernel".to_owned(), kernel.into()]));
    }
    args
}

fn mksquashfs_options(key: &BuildKey, choice: &Choice) -> Result<Vec<String>> {
    let mut args: Vec<String> = ["-noappend", "-no-progress", "-quiet"].map(str::to_owned).into();
    args.extend(["-b".into(), key.block.to_string(), "-processors".into(), key.threads.to_string()]);
    args.push(if has_feature(key, "fragments") { "-always-use-fragments" } else { "-no-fragments" }.into());
    if !has_feature(key, "dedupe") {
        args.push("-no-duplicates".into());
    }
    let option = |name: &str, value: String| [format!("-X{name}"), value];
    let comp = |name: &str| ["-comp".to_owned(), name.to_owned()];
    match choice.settings() {
        Settings::None => args.push("-no-compression".into()),
        Settings::Gzip { level, window: 15, strategies: 1 } => {
            args.extend(comp("gzip"));
            args.extend(option("compression-level", level.to_string()));
        }
        Settings::Zstd { level, .. } => {
            args.extend(comp("zstd"));
            args.extend(option("compression-level", level.to_string()));
        }
        Settings::Lzo { algorithm, level } => {
            args.extend(comp("lzo"));
            args.extend(option("algorithm", lzo_algorithm(*algorithm).into()));
            // The fast algorithms have no level.
            if *level > 0 {
                args.extend(option("compression-level", level.to_string()));
            }
        }
        Settings::Lz4 { acceleration: 1 } => args.extend(comp("lz4")),
        Settings::Lz4hc { .. } => args.extend(comp("lz4").into_iter().chain(["-Xhc".into()])),
        // packfs has no levels for these, and both use the defaults of the libraries.
        Settings::Xz { level: 6, extreme: false, dict: None, filters: 0, .. } => args.extend(comp("xz")),
        Settings::Lzma { level: 6, extreme: false, dict: None, .. } => args.extend(comp("lzma")),
        _ => return Err(unsupported_codec("mksquashfs", key)),
    }
    Ok(args)
}

fn tar2sqfs_options(key: &BuildKey, choice: &Choice) -> Result<Vec<String>> {
    let (name, extra) = match choice.settings() {
        Settings::Gzip { level, window: 15, strategies: 1 } => ("gzip", format!("level={level}")),
        Settings::Zstd { level, .. } => ("zstd", format!("level={level}")),
        Settings::Lzo { algorithm, level: 0 } => ("lzo", format!("algorithm={}", lzo_algorithm(*algorithm))),
        Settings::Lzo { level, .. } => ("lzo", format!("algorithm=lzo1x_999,level={level}")),
        Settings::Lz4 { acceleration: 1 } => ("lz4", String::new()),
        Settings::Lz4hc { .. } => ("lz4", "hc".into()),
        Settings::Xz { level, extreme: false, dict: None, filters: 0, lc, lp, pb, .. } => {
            ("xz", format!("level={level},lc={lc},lp={lp},pb={pb}"))
        }
        Settings::Lzma { level, extreme: false, dict: None, lc, lp, pb, .. } => {
            ("lzma", format!("level={level},lc={lc},lp={lp},pb={pb}"))
        }
        _ => return Err(unsupported_codec("tar2sqfs", key)),
    };
    let mut args: Vec<String> = ["-q", "-f", "-c", name].map(str::to_owned).into();
    args.extend(["-b".into(), key.block.to_string(), "-j".into(), key.threads.to_string()]);
    if !extra.is_empty() {
        args.extend(["-X".into(), extra]);
    }
    Ok(args)
}

fn mkfs_erofs_options(key: &BuildKey, choice: &Choice) -> Result<Vec<String>> {
    let mut args = vec!["--quiet".to_owned(), format!("--workers={}", key.threads)];
    let codec = match choice.settings() {
        Settings::None => return Ok(args),
        Settings::Lz4 { acceleration: 1 } => "lz4".into(),
        Settings::Lz4hc { level } => format!("lz4hc,level={level}"),
        // The deflate of mkfs.erofs itself ends at level 9; libdeflate goes to 12.
        Settings::Deflate { level } if *level < 10 => format!("deflate,level={level}"),
        Settings::Deflate { level } => format!("libdeflate,level={level}"),
        Settings::Zstd { level, .. } => format!("zstd,level={level}"),
        Settings::Lzma { level, extreme: false, dict: None, .. } => format!("lzma,level={level}"),
        _ => return Err(unsupported_codec("mkfs.erofs", key)),
    };
    args.extend([format!("-z{codec}"), format!("-C{}", key.block)]);
    // The words are those of mkfs.erofs.
    if !key.features.is_empty() {
        args.push(format!("-E{}", key.features));
    }
    Ok(args)
}

/// Returns the name of an LZO algorithm, whose numbers are those of SquashFS.
fn lzo_algorithm(algorithm: u8) -> &'static str {
    ["lzo1x_1", "lzo1x_1_11", "lzo1x_1_12", "lzo1x_1_15", "lzo1x_999"].get(usize::from(algorithm)).unwrap_or(&"")
}

fn unsupported_codec(tool: &str, key: &BuildKey) -> Error {
    Error::Usage(format!("{tool} has nothing like {}", key.codec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: BuildProgram, format: ImageFormat, codec: &str, features: &str) -> String {
        let tool = BuildTool { program: kind, path: kind.name().into(), version: String::new() };
        let choice: Choice = codec.parse().unwrap();
        let key = BuildKey {
            source: "root".into(),
            digest: "0011".into(),
            tool: kind.name().into(),
            format: format.name().into(),
            codec: choice.to_string(),
            block: 131_072,
            features: features.into(),
            threads: 2,
        };
        let input = BuildInput { directory: "root".into(), tar: Some("root.tar".into()), bytes: 1 };
        match tool.command(&key, &input, Path::new("image")) {
            Ok((command, reads)) => {
                let words = std::iter::once(command.get_program()).chain(command.get_args());
                let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
                words.join(" ") + reads.map_or("", |_| " < root.tar")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn programs_are_told_to_do_the_same() {
        use ImageFormat::{Erofs, Squashfs};
        let both = "fragments,dedupe";
        let cases = [
            shown(BuildProgram::Packfs, Squashfs, "zstd", both),
            shown(BuildProgram::Packfs, Squashfs, "none", "unverified"),
            shown(BuildProgram::Packfs, Erofs, "zstd:3", "fragments"),
            shown(BuildProgram::Packfs, Erofs, "none", ""),
            shown(BuildProgram::Mksquashfs, Squashfs, "zstd", both),
            shown(BuildProgram::Mksquashfs, Squashfs, "lzo", ""),
            shown(BuildProgram::Mksquashfs, Squashfs, "xz", "dedupe"),
            shown(BuildProgram::Mksquashfs, Squashfs, "xz:9", both),
            shown(BuildProgram::Tar2sqfs, Squashfs, "gzip:9", both),
            shown(BuildProgram::Tar2sqfs, Squashfs, "lz4hc", both),
            shown(BuildProgram::Tar2sqfs, Squashfs, "lzma", both),
            shown(BuildProgram::MkfsErofs, Erofs, "lz4hc:12", both),
            shown(BuildProgram::MkfsErofs, Erofs, "deflate:12", "dedupe"),
            shown(BuildProgram::MkfsErofs, Erofs, "none", ""),
        ];
        insta::assert_snapshot!(cases.join("\n"), @r"
        packfs build root -o image --quiet --json --format squashfs --codec zstd:15 --block-size 131072 --jobs 2 --fragments tails
        packfs build root -o image --quiet --json --format squashfs --codec none --block-size 131072 --jobs 2 --no-dedup --no-verify --fragments none
        packfs build root -o image --quiet --json --format erofs --codec zstd:3 --block-size 131072 --jobs 2 --features fragments,^dedupe --target-kernel 6.10
        packfs build root -o image --quiet --json --format erofs --codec none --block-size 131072 --jobs 2 --no-dedup
        mksquashfs root image -noappend -no-progress -quiet -b 131072 -processors 2 -always-use-fragments -comp zstd -Xcompression-level 15
        mksquashfs root image -noappend -no-progress -quiet -b 131072 -processors 2 -no-fragments -no-duplicates -comp lzo -Xalgorithm lzo1x_999 -Xcompression-level 8
        mksquashfs root image -noappend -no-progress -quiet -b 131072 -processors 2 -no-fragments -comp xz
        mksquashfs has nothing like xz:9
        tar2sqfs -q -f -c gzip -b 131072 -j 2 -X level=9 image < root.tar
        tar2sqfs -q -f -c lz4 -b 131072 -j 2 -X hc image < root.tar
        tar2sqfs -q -f -c lzma -b 131072 -j 2 -X level=6,lc=3,lp=0,pb=1 image < root.tar
        mkfs.erofs --quiet --workers=2 -zlz4hc,level=12 -C131072 -Efragments,dedupe image root
        mkfs.erofs --quiet --workers=2 -zlibdeflate,level=12 -C131072 -Ededupe image root
        mkfs.erofs --quiet --workers=2 image root
        ");
    }

    #[test]
    fn peers_that_are_not_there_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("tar2sqfs");
        std::os::unix::fs::symlink("/bin/true", &program).unwrap();
        let (found, missing) = BuildTool::peers(Some(dir.path()));
        assert!(found.iter().any(|tool| tool.program == BuildProgram::Tar2sqfs && tool.path == program));
        assert_eq!(found.len() + missing.len(), PEERS.len());
    }
}
