//! Options of `packfs build`, and what they come down to.

use std::path::PathBuf;

use clap::builder::{TypedValueParser, ValueParserFactory};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, ValueEnum, ValueHint};
use packfs_codec::Choice;
use packfs_image::source::Exclude;
use packfs_image::squashfs;
use packfs_image::tree::{ModeChange, Time, TimeChange, Transform};

use super::{Effort, OnError, Talk, value};
use crate::output::failure::Usage;

/// Pack directories, tar archives, images and pack lists into one image.
///
/// A SOURCE is a directory, a single file, a tar archive (plain or compressed with gzip, xz, zstd or
/// bzip2; `-` reads one from standard input), an image (whose contents are packed anew), or `@FILE`, a
/// pack list. Several sources are merged in order: later entries replace earlier ones of the same name.
///
/// The image appears under its name only when it is complete; until then the old file stays as it was.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs build /srv/root -o root.sqfs
  packfs build root.tar.zst overlay/ @devices.list -o root.sqfs --codec xz:9:bcj=auto --block-size 1M
  packfs build old.sqfs -o new.sqfs --codec zstd:19 --force")]
pub(crate) struct Build {
    /// What to pack: directory, file, tar archive, `-`, image or @packlist
    #[arg(value_name = "SOURCE", required = true, value_hint = ValueHint::AnyPath)]
    sources: Vec<PathBuf>,

    /// Image to write: a file or a block device
    #[arg(short, long, value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    output: PathBuf,

    /// Image format [default: erofs if IMAGE ends in .erofs, squashfs otherwise]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Codec with its level and options, as in zstd:19 or xz:6:bcj=auto; `help` lists all
    #[arg(short, long, value_name = "NAME[:LEVEL][:KEY=VALUE,...]", default_value = "zstd")]
    codec: CodecArg,

    /// Cut files into blocks of SIZE: a power of two from 4K to 1M
    #[arg(short, long, value_name = "SIZE", default_value = "128K", value_parser = value::size)]
    block_size: u64,

    /// Which file ends share blocks
    #[arg(long, value_enum, default_value_t = Fragments::Tails)]
    fragments: Fragments,

    /// Store equal files and blocks again each time
    #[arg(long)]
    no_dedup: bool,

    /// Store holes and blocks of zeros like other data
    #[arg(long)]
    no_sparse: bool,

    /// Leave out extended attributes
    #[arg(long)]
    no_xattrs: bool,

    /// Leave out the table that lets the image be exported over NFS
    #[arg(long)]
    no_export: bool,

    /// Store inodes, directories and tables without compression
    #[arg(long)]
    plain_metadata: bool,

    /// Leave SIZE bytes free before the image (a multiple of 4K if it is to be mounted)
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = value::size)]
    offset: u64,

    /// Leave out entries that match GLOB; with a `/` it is matched from the root, without one against names
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,

    /// Do not descend into other file systems
    #[arg(short = 'x', long)]
    one_file_system: bool,

    /// Place file data by the priorities in FILE: lines of `PATH PRIORITY`, higher ones first
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    sort: Option<PathBuf>,

    /// Give the image and everything in it the time T: seconds since 1970, a UTC date, or `now`
    /// [default: times of the source, none later than SOURCE_DATE_EPOCH if that is set]
    #[arg(long, value_name = "T", value_parser = value::time, allow_hyphen_values = true)]
    time: Option<Time>,

    /// Give everything this owner and group; `UID:` or `:GID` changes only one
    #[arg(long, value_name = "UID:GID", value_parser = value::owner)]
    owner: Option<(Option<u32>, Option<u32>)>,

    /// Change permissions as chmod does: octal or symbolic, with D or F in front for directories or the rest only,
    /// as in go-w or D0755,F0644
    #[arg(long, value_name = "MODE", allow_hyphen_values = true)]
    mode: Option<ModeChange>,

    #[command(flatten)]
    effort: Effort,

    /// Decode each block after encoding and compare (the default)
    #[arg(long, overrides_with = "no_verify")]
    #[allow(dead_code, reason = "it only takes back an earlier --no-verify")]
    verify: bool,

    /// Trust the encoders: do not decode each block and compare
    #[arg(long, overrides_with = "verify")]
    no_verify: bool,

    /// What to do with a file that cannot be read or changes meanwhile: stop, or leave it out, list it and exit 1
    #[arg(long, value_enum, default_value_t = OnError::Stop)]
    on_error: OnError,

    /// Replace IMAGE if it exists
    #[arg(short, long)]
    force: bool,

    /// Print the summary as JSON on standard output
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    talk: Talk,
}

/// An image format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// SquashFS 4.0
    Squashfs,
    /// EROFS
    Erofs,
}

/// Whose ends are packed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Fragments {
    /// None: every file has blocks of its own
    None,
    /// Files smaller than a block
    Small,
    /// Those, and the last partial blocks of larger files
    Tails,
}

impl From<Fragments> for squashfs::Fragments {
    fn from(fragments: Fragments) -> Self {
        match fragments {
            Fragments::None => squashfs::Fragments::None,
            Fragments::Small => squashfs::Fragments::Small,
            Fragments::Tails => squashfs::Fragments::Tails,
        }
    }
}

/// A build, decided in every point.
#[derive(Debug)]
pub(crate) struct BuildPlan {
    pub(crate) sources: Vec<PathBuf>,
    pub(crate) output: PathBuf,
    pub(crate) codec: Choice,
    pub(crate) block_size: u32,
    pub(crate) fragments: squashfs::Fragments,
    pub(crate) dedup: bool,
    pub(crate) sparse: bool,
    pub(crate) export: bool,
    pub(crate) plain_metadata: bool,
    pub(crate) offset: u64,
    pub(crate) exclude: Exclude,
    pub(crate) one_file_system: bool,
    pub(crate) sort: Option<PathBuf>,
    pub(crate) transform: Transform,
    /// The image's own time; without, the newest in the tree.
    pub(crate) image_time: Option<u32>,
    pub(crate) threads: usize,
    pub(crate) memory: u64,
    pub(crate) verify: bool,
    pub(crate) on_error: OnError,
    pub(crate) force: bool,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl BuildPlan {
    /// The time of entries whose source gives them none.
    pub(crate) fn entry_time(&self) -> Time {
        Time { secs: self.image_time.map_or(0, i64::from), nanos: 0 }
    }
}

impl Build {
    /// Decides what the options leave open. `epoch` is the value of `SOURCE_DATE_EPOCH`.
    pub(crate) fn resolve(self, epoch: Option<&str>) -> Result<BuildPlan, Usage> {
        if self.format() == Format::Erofs {
            return Err(Usage("EROFS is not built yet: this version writes squashfs (--format squashfs)".into()));
        }
        if self.output.as_os_str() == "-" {
            return Err(Usage("an image cannot be written to standard output: its first bytes come last".into()));
        }
        if self.sources.iter().filter(|source| source.as_os_str() == "-").count() > 1 {
            return Err(Usage("standard input (`-`) can be read only once".into()));
        }
        let time = time_change(self.time, epoch)?;
        let (uid, gid) = self.owner.unwrap_or_default();
        Ok(BuildPlan {
            block_size: block_size(self.block_size)?,
            image_time: image_time(time)?,
            exclude: Exclude::new(&self.exclude).map_err(|error| Usage(error.to_string()))?,
            transform: Transform { uid, gid, mode: self.mode.unwrap_or_default(), time, drop_xattrs: self.no_xattrs },
            threads: self.effort.threads(),
            memory: self.effort.memory(),
            sources: self.sources,
            output: self.output,
            codec: self.codec.0,
            fragments: self.fragments.into(),
            dedup: !self.no_dedup,
            sparse: !self.no_sparse,
            export: !self.no_export,
            plain_metadata: self.plain_metadata,
            offset: self.offset,
            one_file_system: self.one_file_system,
            sort: self.sort,
            verify: !self.no_verify,
            on_error: self.on_error,
            force: self.force,
            json: self.json,
            quiet: self.talk.quiet,
        })
    }

    fn format(&self) -> Format {
        self.format.unwrap_or_else(|| match self.output.extension() {
            Some(erofs) if erofs.eq_ignore_ascii_case("erofs") => Format::Erofs,
            _ => Format::Squashfs,
        })
    }
}

fn block_size(size: u64) -> Result<u32, Usage> {
    match u32::try_from(size) {
        Ok(size) if size.is_power_of_two() && (4 << 10..=1 << 20).contains(&size) => Ok(size),
        _ => Err(Usage(format!("--block-size {size}: a SquashFS block is a power of two from 4K to 1M"))),
    }
}

fn time_change(set: Option<Time>, epoch: Option<&str>) -> Result<TimeChange, Usage> {
    match (set, epoch) {
        (Some(time), _) => Ok(TimeChange::Set(time)),
        (None, None | Some("")) => Ok(TimeChange::Keep),
        (None, Some(text)) => match text.parse() {
            Ok(secs) => Ok(TimeChange::Clamp(Time { secs, nanos: 0 })),
            Err(_) => Err(Usage(format!("SOURCE_DATE_EPOCH is `{text}`: expected seconds since 1970"))),
        },
    }
}

fn image_time(change: TimeChange) -> Result<Option<u32>, Usage> {
    let (TimeChange::Clamp(time) | TimeChange::Set(time)) = change else { return Ok(None) };
    match u32::try_from(time.secs) {
        Ok(secs) => Ok(Some(secs)),
        Err(_) => Err(Usage(format!("time {}: SquashFS holds times from 1970 to 2106-02-07T06:28:15Z", time.secs))),
    }
}

/// `--codec` as typed, checked; the word `help` prints the table of codecs instead.
#[derive(Debug, Clone)]
struct CodecArg(Choice);

impl ValueParserFactory for CodecArg {
    type Parser = CodecParser;

    fn value_parser() -> CodecParser {
        CodecParser
    }
}

#[derive(Debug, Clone)]
struct CodecParser;

impl TypedValueParser for CodecParser {
    type Value = CodecArg;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<CodecArg, clap::Error> {
        if value == "help" {
            let mut asked = clap::Error::new(ErrorKind::DisplayHelp);
            asked.insert(ContextKind::Custom, ContextValue::String(packfs_codec::table::help()));
            return Err(asked);
        }
        let parse = |text: &str| text.parse().map(CodecArg).map_err(|e: packfs_codec::Error| e.to_string());
        TypedValueParser::parse_ref(&parse, command, arg, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn plan(args: &[&str]) -> Result<BuildPlan, Usage> {
        let typed = ["packfs", "build", "dir", "--codec", "none", "-o"];
        let cli = Cli::try_parse_from(typed.iter().chain(args)).expect("parses");
        let Command::Build(build) = cli.command else { panic!("not a build") };
        build.resolve(None)
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let plan = plan(&["x.sqfs"]).unwrap();
        assert_eq!(
            (plan.block_size, plan.fragments, plan.transform.time),
            (128 << 10, squashfs::Fragments::Tails, TimeChange::Keep)
        );
        assert!(plan.verify && plan.dedup && plan.sparse && plan.export && !plan.transform.drop_xattrs && !plan.force);
    }

    #[test]
    fn the_format_follows_the_extension_unless_it_is_given() {
        for squashfs in ["x", "x.sqfs", "x.snap", "erofs", "x.erofs.sfs"] {
            assert!(plan(&[squashfs]).is_ok(), "{squashfs}");
        }
        assert!(plan(&["x.erofs", "--format", "squashfs"]).is_ok());
        for erofs in [&["x.erofs"][..], &["x.EROFS"], &["x.sqfs", "--format", "erofs"]] {
            assert!(plan(erofs).unwrap_err().0.contains("EROFS is not built yet"), "{erofs:?}");
        }
    }

    #[test]
    fn standard_input_comes_once() {
        assert!(plan(&["x", "-"]).is_ok());
        assert!(plan(&["x", "-", "-"]).unwrap_err().0.contains("only once"));
    }

    #[test]
    fn a_pipe_is_no_target() {
        assert!(plan(&["-"]).unwrap_err().0.contains("standard output"));
        assert!(plan(&["./-"]).is_ok());
    }

    #[test]
    fn block_sizes_are_powers_of_two_in_range() {
        for (text, size) in [("4K", 4096), ("131072", 131_072), ("1M", 1 << 20)] {
            assert_eq!(plan(&["x", "-b", text]).unwrap().block_size, size);
        }
        for bad in ["0", "2K", "5000", "2M", "1T"] {
            assert!(plan(&["x", "-b", bad]).unwrap_err().0.contains("from 4K to 1M"), "{bad}");
        }
    }

    #[test]
    fn the_last_word_on_verification_counts() {
        assert!(!plan(&["x", "--no-verify"]).unwrap().verify);
        assert!(plan(&["x", "--no-verify", "--verify"]).unwrap().verify);
        assert!(!plan(&["x", "--verify", "--no-verify"]).unwrap().verify);
    }

    #[test]
    fn a_time_option_beats_the_environment() {
        let at = |secs| Time { secs, nanos: 0 };
        assert_eq!(time_change(Some(at(5)), Some("7")).unwrap(), TimeChange::Set(at(5)));
        assert_eq!(time_change(None, Some("7")).unwrap(), TimeChange::Clamp(at(7)));
        assert_eq!(time_change(None, Some("")).unwrap(), TimeChange::Keep);
        assert_eq!(image_time(TimeChange::Set(at(5))).unwrap(), Some(5));
        assert!(image_time(TimeChange::Set(at(-1))).unwrap_err().0.contains("1970 to 2106"));
        assert!(time_change(None, Some("soon")).unwrap_err().0.contains("SOURCE_DATE_EPOCH"));
    }
}
